// SPDX-License-Identifier: GPL-2.0-only
//! What a context switch costs, in instructions, with many cgroups: threads that yield for ever,
//! and pairs that play ping-pong over pipes. Everything counts: the system calls, the kernel's
//! scheduler core, the scheduler's own decision, the change of address space.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::pairs::pair;
use super::report::{Table, columns};
use super::sys;

/// How long the machine is left idle between the preparation and the start, in ns: for each cgroup, and at most.
const SETTLE_EACH: u64 = 20_000_000;
const SETTLE: u64 = 20_000_000_000;

/// Into so many parts the time is divided that is measured, and the one in the middle counts: every two seconds the kernel adds
/// up the statistics of all cgroups, for 40 ms where there are ten thousand, and that is no switch.
const PARTS: u64 = 10;

/// The groups to make and how long to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cgroups, each with a yielding thread or a pair.
    pub n: usize,
    /// How deep the cgroups lie below the experiment's; 1 is directly in it.
    pub depth: usize,
    /// Every cgroup with a weight of its own, spread over 1 … 10,000; or all 100.
    pub distinct: bool,
    pub warmup: f64,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Yield,
    Pipe,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    pub kind: Kind,
    pub n: usize,
    pub depth: usize,
    pub distinct_weights: bool,
    pub seconds: f64,
    pub switches: u64,
    /// In the median of the parts of that time.
    pub ns_per_switch: f64,
    /// Only on the instruction-counting clock. It counts what all CPUs execute, one after the other,
    /// so that on several of them this is what a switch costs all together, as long as one is busy.
    pub instructions_per_switch: Option<f64>,
    /// Switches per thread: with few, the number says little.
    pub rounds: f64,
}

impl Plan {
    /// Run it below the cgroup `root`; one instruction is 2^shift ns.
    pub fn run(&self, root: &Path, kind: Kind, shift: Option<u32>) -> Result<Cost> {
        ensure!(self.depth > 0 && self.n > 0, "depth and number start at 1");
        let arena = Arena::new(root)?;
        let mut at = PathBuf::new();
        for level in 1..self.depth {
            at.push(format!("d{level}"));
            let dir = arena.add(&at, 100)?;
            cgroups::enable_cpu(&dir)?;
        }
        let threads = match kind {
            Kind::Yield => self.n,
            Kind::Pipe => 2 * self.n,
        };
        let mut crew = Crew::new(threads)?;
        for i in 0..self.n {
            let dir = arena.add(&at.join(format!("g{i}")), self.weight(i))?;
            let dir = cgroups::open(&dir)?;
            match kind {
                Kind::Yield => yielder(&mut crew, &dir)?,
                Kind::Pipe => drop(pair(&mut crew, &dir, 0)?),
            }
        }
        crew.muster()?;
        // Making thousands of cgroups leaves work behind that the kernel does later. Idle time costs
        // little on the instruction-counting clock: let it be done before anything is counted.
        sys::sleep(SETTLE.min(SETTLE_EACH * self.n as u64));
        crew.open(0);
        sys::sleep((self.warmup * 1e9) as u64);
        let (switches, began) = (sys::switches()?, sys::now());
        let mut parts = vec![];
        for _ in 0..PARTS {
            let (switches, began) = (sys::switches()?, sys::now());
            sys::sleep((self.seconds * 1e9) as u64 / PARTS);
            let (ended, switches) = (sys::now(), sys::switches()? - switches);
            parts.push((ended - began) as f64 / switches as f64);
        }
        let (ended, switches) = (sys::now(), sys::switches()? - switches);
        parts.sort_by(f64::total_cmp);
        let ns = parts[parts.len() / 2];
        Ok(Cost {
            kind,
            n: self.n,
            depth: self.depth,
            distinct_weights: self.distinct,
            seconds: (ended - began) as f64 / 1e9,
            switches,
            ns_per_switch: ns,
            instructions_per_switch: shift.map(|s| ns / f64::from(1u32 << s)),
            rounds: switches as f64 / threads as f64,
        })
    }

    fn weight(&self, i: usize) -> u32 {
        if self.distinct {
            1 + (i * 9_999 / self.n.max(2).saturating_sub(1)) as u32
        } else {
            100
        }
    }
}

fn yielder(crew: &mut Crew, dir: &File) -> Result<()> {
    crew.spawn(Some(dir), 0, |_| {
        loop {
            std::thread::yield_now();
        }
    })?;
    Ok(())
}

impl Table for Cost {
    fn table(&self) -> String {
        let cost = match self.instructions_per_switch {
            Some(i) => format!("{i:.0} instructions"),
            None => format!("{:.0} ns", self.ns_per_switch),
        };
        let row = vec![
            format!("{:?}", self.kind).to_lowercase(),
            self.n.to_string(),
            self.depth.to_string(),
            if self.distinct_weights {
                "distinct"
            } else {
                "equal"
            }
            .into(),
            cost,
            format!("{:.1}", self.rounds),
        ];
        let head = ["", "groups", "depth", "weights", "per switch", "rounds"];
        columns(&head, &[row])
    }
}
