// SPDX-License-Identifier: GPL-2.0-only
//! Grace periods beside a crowd one of which reads by RCU: it changes the nice value of all of a user's threads, and while it does so for
//! longer than a slice nobody's grace period ends. Whoever moves a process between cgroups waits for one.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

/// Whose all of the crowd is, a user that nobody else is.
const USER: u32 = 54_321;
/// Between two grace periods, ns.
const PAUSE: u64 = 5_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Readers {
    pub crowd: usize,
    /// How often all of the crowd had its nice value changed, and how long that took at most, ms: most of it is waiting for a CPU.
    pub changes: u64,
    pub change_ms: f64,
    /// What each took of a CPU, ms, on average.
    pub change_cpu_ms: f64,
    /// Grace periods that were waited for, and how long at most, ms.
    pub graces: u64,
    pub longest_ms: f64,
}

/// For `seconds` somebody outside the crowd waits for one grace period after the other.
pub fn run(root: &Path, crowd: usize, warmup: f64, seconds: f64) -> Result<Readers> {
    let arena = Arena::new(root)?;
    let dir = cgroups::open(&arena.add(Path::new("crowd"), 100)?)?;
    let mut crew = Crew::new(crowd + 1)?;
    let parent = sys::own_pid();
    for _ in 0..crowd {
        crew.spawn(Some(&dir), 0, |me| {
            if sys::become_user(USER).is_ok() {
                sys::die_with(parent); // a new user is told of nobody's death
                me.spin();
            }
        })?;
    }
    let reader = crew.spawn(Some(&dir), 0, |me| {
        for nice in [1, 0].into_iter().cycle() {
            me.look();
            if sys::set_nice_of_all(USER, nice).is_err() {
                return;
            }
            me.look();
            me.count.fetch_add(1, Ordering::Relaxed);
        }
    })?;
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    crew.forget_waits();
    let changed = || crew.slot(reader).count.load(Ordering::Relaxed);
    let used = || crew.cpu_ns(reader);
    let ((before, from), end) = ((changed(), used()?), sys::now() + (seconds * 1e9) as u64);
    let (mut graces, mut longest) = (0, 0);
    while sys::now() < end {
        let began = sys::now();
        sys::wait_for_grace_period()?;
        longest = longest.max(sys::now() - began);
        graces += 1;
        sys::sleep(PAUSE);
    }
    let changes = changed() - before;
    Ok(Readers {
        crowd,
        changes,
        change_cpu_ms: (used()? - from) as f64 / 1e6 / changes.max(1) as f64,
        change_ms: crew.longest_wait(reader) as f64 / 1e6,
        graces,
        longest_ms: longest as f64 / 1e6,
    })
}

impl Table for Readers {
    fn table(&self) -> String {
        let row = |what: &str, value: String| vec![what.to_owned(), value];
        let rows = [
            row("changes of all nice values", self.changes.to_string()),
            row("longest of them, ms", format!("{:.1}", self.change_ms)),
            row("CPU time of each, ms", format!("{:.2}", self.change_cpu_ms)),
            row("grace periods", self.graces.to_string()),
            row("longest of them, ms", format!("{:.1}", self.longest_ms)),
        ];
        columns(&[&format!("beside a crowd of {}", self.crowd), ""], &rows)
    }
}
