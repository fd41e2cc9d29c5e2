// SPDX-License-Identifier: GPL-2.0-only
//! Threads of next to no share on a CPU that has more to do than it can: theirs is the turn once they have waited long. Something makes
//! it look, again and again, as if they had just come.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::standstill::Standstill;
use super::sys;

const SECOND: u64 = 1_000_000_000;
/// So often it is made to look so.
const EACH: u64 = SECOND / 2;
/// Members who are due nearly all.
const LARGE: Range<usize> = 0..2;

/// What makes it look so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// They get another nice value: the kernel takes them out of their queue and puts them in again, as it does with all threads
    /// when a CPU comes or goes.
    Reniced,
    /// Their cgroup has a limit, and another thread on another CPU uses that up as soon as a period begins.
    Limited,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overdue {
    /// The longest that one of them went without CPU time.
    pub reniced_ms: f64,
    pub limited_ms: f64,
    /// What they had of what all on their CPU had, the larger one.
    pub part: f64,
}

/// For `seconds` each, on two CPUs.
pub fn run(root: &Path, seconds: f64) -> Result<Overdue> {
    ensure!(sys::cpus() > 1, "there is to be another CPU");
    let (reniced_ms, reniced) = one(root, How::Reniced, seconds)?;
    let (limited_ms, limited) = one(root, How::Limited, seconds)?;
    Ok(Overdue {
        reniced_ms,
        limited_ms,
        part: reniced.max(limited),
    })
}

fn one(root: &Path, how: How, seconds: f64) -> Result<(f64, f64)> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(16)?;
    let mut add = |path: &str, weight: u32, max: &str, cpus: &[usize]| -> Result<()> {
        let dir = arena.add(path.as_ref(), weight)?;
        cgroups::set(&dir, "cpu.max", max)?;
        for cpu in cpus {
            let member = crew.spawn(Some(&cgroups::open(&dir)?), 0, |me| me.spin())?;
            sys::set_cpus(crew.pid(member)?, &[*cpu])?;
        }
        Ok(())
    };
    // Due all of both CPUs, and bound to one.
    add("large", 10_000, "max", &[0, 0])?;
    match how {
        How::Reniced => {
            for i in 0..5 {
                add(&format!("small{i}"), 1, "max", &[0])?;
            }
            add("other", 1, "max", &[1])?;
        }
        How::Limited => {
            add(
                "small",
                1,
                "1000 1000000",
                &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            )?;
            add("other", 1, "max", &[1])?;
        }
    }
    let small = match how {
        How::Reniced => 2..7,
        How::Limited => 2..12,
    };
    crew.muster()?;
    crew.open(0);
    let began = sys::now();
    let used =
        |crew: &Crew, who: Range<usize>| -> Result<u64> { who.map(|m| crew.cpu_ns(m)).sum() };
    let before = [used(&crew, LARGE)?, used(&crew, small.clone())?];
    let mut standstill = Standstill::default();
    let mut next = began;
    let mut nice = 0;
    while sys::now() < began + (seconds * SECOND as f64) as u64 {
        standstill.look(&crew, small.clone())?;
        // Longer than that and the kernel would end it.
        if standstill.longest > 20 * SECOND {
            break;
        }
        if how == How::Reniced {
            nice = 1 - nice;
            for member in small.clone() {
                sys::set_nice(crew.pid(member)?, nice)?;
            }
        }
        next += EACH;
        sys::sleep_until(next);
    }
    let had = [
        used(&crew, LARGE)? - before[0],
        used(&crew, small)? - before[1],
    ];
    // Else the others have next to no CPU to end in.
    for member in LARGE {
        crew.dismiss(member)?;
    }
    let part = had[1] as f64 / (had[0] + had[1]).max(1) as f64;
    Ok((standstill.longest as f64 / 1e6, part))
}

impl Table for Overdue {
    fn table(&self) -> String {
        let row = |what: &str, ms: f64| vec![what.to_owned(), format!("{ms:.0}")];
        let rows = [
            row("reniced again and again", self.reniced_ms),
            row("whose limit others use up", self.limited_ms),
        ];
        format!(
            "{}they had {:.2} % of their CPU\n",
            columns(&["threads", "longest wait ms"], &rows),
            self.part * 100.0
        )
    }
}
