// SPDX-License-Identifier: GPL-2.0-only
//! Loads that starve somebody under a careless scheduler: a weight of 1 beside 10,000, thousands of
//! hogs in one group, thousands of threads bound to one CPU. The first two are share experiments
//! whose threads' longest waits matter; the third is about the other CPUs' cost.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, busy};
use super::perf::{Counter, Event};
use super::report::{Table, columns};
use super::shares;
use super::sys;
use super::tickets::Mechanism;
use super::tree::Tree;

/// Two or more groups with exactly these `cpu.weight`s, one hog each.
pub fn weights(weights: &[u32], warmup: f64, seconds: f64) -> shares::Plan {
    shares::Plan {
        tree: Tree::flat(weights),
        threads: 1,
        crowds: BTreeMap::new(),
        warmup,
        seconds,
        sample_ms: 10,
        scale: 1,
        mechanism: Mechanism::Weight,
        quarrels: 0,
        readers: 0,
        pairs: 0,
        yields: None,
    }
}

/// `shares` is `NAME=WEIGHT,…`: one hog in the first group, `n` in each of the others.
pub fn hogs(n: usize, shares: &str, warmup: f64, seconds: f64) -> Result<shares::Plan> {
    let tree = Tree::parse(&shares.replace('=', ":"))?;
    let others = tree.0.iter().skip(1);
    let crowds = others.map(|node| (node.name.clone().into(), n)).collect();
    Ok(shares::Plan {
        tree,
        threads: 1,
        crowds,
        warmup,
        seconds,
        sample_ms: 0,
        scale: 1,
        mechanism: Mechanism::Weight,
        quarrels: 0,
        readers: 0,
        pairs: 0,
        yields: None,
    })
}

/// What a pick costs on the CPU beside the crowded one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pinned {
    pub n: usize,
    /// The CPU the crowd is bound to, and the one looked at.
    pub crowded: usize,
    pub observed: usize,
    /// ns of the machine's clock per context switch on the observed CPU with one bound thread, and
    /// with n.
    pub alone_ns: f64,
    pub crowded_ns: f64,
    /// ns that a fixed loop takes there. An emulator's instruction-counting clock counts what all
    /// CPUs execute, and how much of it one CPU gets depends on the others' interrupts.
    pub alone_loop_ns: f64,
    pub crowded_loop_ns: f64,
    /// By how much a switch costs more loops when it is crowded: as a part, minus 1.
    pub growth: f64,
}

/// Threads that yield, free to run anywhere, while 1 and then `n` hogs of another group are bound
/// to CPU `cpu`; counted on the next CPU.
pub fn pinned(root: &Path, n: usize, cpu: usize, warmup: f64, seconds: f64) -> Result<Pinned> {
    // So many that several are on each CPU: a lone one would yield without a switch.
    const YIELDERS: usize = 32;
    const LOOPS: u64 = 150;
    ensure!(
        sys::cpus() > 1,
        "pinning is about the other CPUs: one is not enough"
    );
    let observed = (cpu + 1) % sys::cpus();
    let arena = Arena::new(root)?;
    let crowd = cgroups::open(&arena.add(Path::new("bob"), 100)?)?;
    let mut crew = Crew::new(n + YIELDERS)?;
    for i in 0..YIELDERS {
        let dir = cgroups::open(&arena.add(format!("alice{i}").as_ref(), 100)?)?;
        crew.spawn(Some(&dir), 0, |_| {
            loop {
                std::thread::yield_now();
            }
        })?;
    }
    for i in 0..n {
        let gate = usize::from(i > 0);
        let member = crew.spawn(Some(&crowd), gate, |me| me.spin())?;
        sys::set_cpus(crew.pid(member)?, &[cpu])?;
    }
    crew.muster()?;
    let mut counter = Counter::new(Event::Switches, [observed])?;
    // This thread is of a higher class than all of them: its loop is not preempted.
    sys::set_cpus(0, &[observed])?;
    let mut cost = || -> Result<(f64, f64)> {
        sys::sleep((warmup * 1e9) as u64);
        let (switches, mut looped) = (counter.read()?, 0);
        let began = sys::now();
        for _ in 0..LOOPS {
            sys::sleep((seconds * 1e9) as u64 / LOOPS);
            let start = sys::now();
            busy(200_000);
            looped += sys::now() - start;
        }
        let (took, switches) = (sys::now() - began, counter.read()? - switches);
        ensure!(
            switches > 10 * LOOPS,
            "CPU {observed} switched {switches} times only"
        );
        let per_switch = (took - looped) as f64 / switches as f64;
        Ok((per_switch, looped as f64 / LOOPS as f64))
    };
    crew.open(0);
    let (alone_ns, alone_loop_ns) = cost().context("with one bound thread")?;
    crew.open(1);
    let (crowded_ns, crowded_loop_ns) = cost().context("with all bound threads")?;
    Ok(Pinned {
        n,
        crowded: cpu,
        observed,
        alone_ns,
        crowded_ns,
        alone_loop_ns,
        crowded_loop_ns,
        growth: (crowded_ns / crowded_loop_ns) / (alone_ns / alone_loop_ns) - 1.0,
    })
}

impl Table for Pinned {
    fn table(&self) -> String {
        let row = |n: usize, ns: f64, loop_ns: f64| {
            vec![n.to_string(), format!("{ns:.0}"), format!("{loop_ns:.0}")]
        };
        let cpu = format!("ns per switch on CPU {}", self.observed);
        let bound = format!("bound to CPU {}", self.crowded);
        let rows = [
            row(1, self.alone_ns, self.alone_loop_ns),
            row(self.n, self.crowded_ns, self.crowded_loop_ns),
        ];
        format!(
            "{}growth {:.1} %\n",
            columns(&[&bound, &cpu, "ns per loop"], &rows),
            self.growth * 100.0
        )
    }
}
