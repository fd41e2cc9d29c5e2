// SPDX-License-Identifier: GPL-2.0-only
//! Threads that are bound to several CPUs of which one has gone: what may still run them does. Others below a limit were bound to that one
//! alone, and waited for the limit's next period when it went: the kernel waits until they are elsewhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

/// Bound to the last two CPUs.
const BOUND: usize = 4;
/// To the last one, below a limit.
const HELD: usize = 8;
/// Before that there are two CPUs for them, and one may have one alone:
const BEFORE_NS: u64 = 1_000_000_000;
/// its siblings, three on the other, have as much as it has had after twice that.
const SETTLE_NS: u64 = 2 * BEFORE_NS;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Away {
    /// Until the CPU had gone.
    pub took_ms: f64,
    /// What each of those had that are bound to two, while one was away: parts of the other.
    pub parts: Vec<f64>,
    /// The least that one of those had whose only CPU went, ms.
    pub least_held_ms: f64,
}

/// For `seconds`, on three CPUs or more.
pub fn run(root: &Path, seconds: f64) -> Result<Away> {
    let cpus = sys::cpus();
    ensure!(cpus > 2, "there are to be other CPUs");
    let last = cpus - 1;
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(BOUND + HELD)?;
    let limited = arena.add("limited".as_ref(), 100)?;
    cgroups::set(&limited, "cpu.max", "5000 200000")?;
    let limited = cgroups::open(&limited)?;
    let bound = cgroups::open(&arena.add("bound".as_ref(), 100)?)?;
    for member in 0..BOUND + HELD {
        let (dir, its): (_, &[usize]) = match member {
            m if m < BOUND => (&bound, &[last - 1, last]),
            _ => (&limited, &[last]),
        };
        let member = crew.spawn(Some(dir), 0, |me| me.spin())?;
        sys::set_cpus(crew.pid(member)?, its)?;
    }
    crew.muster()?;
    crew.open(0);
    sys::sleep(BEFORE_NS);
    let left = sys::now();
    online(last, false)?;
    let gone = sys::now();
    let used = |crew: &Crew| -> Result<Vec<u64>> {
        let all = 0..BOUND + HELD;
        all.map(|m| sys::cpu_ns(crew.pid(m)?)).collect()
    };
    sys::sleep(SETTLE_NS);
    let (before, began) = (used(&crew)?, sys::now());
    sys::sleep((seconds * 1e9) as u64);
    let had: Vec<f64> = (used(&crew)?.iter().zip(&before))
        .map(|(now, before)| (now - before) as f64)
        .collect();
    let took = (sys::now() - began) as f64;
    online(last, true)?;
    let least = had[BOUND..].iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Away {
        took_ms: (gone - left) as f64 / 1e6,
        parts: had[..BOUND].iter().map(|ns| ns / took).collect(),
        least_held_ms: least / 1e6,
    })
}

fn online(cpu: usize, there: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&file, if there { "1" } else { "0" }).context(file)
}

impl Table for Away {
    fn table(&self) -> String {
        let parts = self.parts.iter().map(|p| format!("{:.1}", p * 100.0));
        let row = |what: &str, value: String| vec![what.to_owned(), value];
        let rows = [
            row("until the CPU had gone, ms", format!("{:.0}", self.took_ms)),
            row(
                "each of those bound to it and another, %",
                parts.collect::<Vec<_>>().join(" "),
            ),
            row(
                "the least of those bound to it, ms",
                format!("{:.1}", self.least_held_ms),
            ),
        ];
        columns(&["a CPU is away", ""], &rows)
    }
}
