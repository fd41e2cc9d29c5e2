// SPDX-License-Identifier: GPL-2.0-only
//! Nice inside one cgroup: busy threads of several nice values, and what each got of the whole.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns, percent};
use super::sys;

/// The kernel's weight of nice 0 … 19 (`sched_prio_to_weight`).
const WEIGHTS: [u32; 20] = [
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// What a sched_ext scheduler knows of that.
pub fn hundredths(nice: i32) -> f64 {
    (f64::from(WEIGHTS[nice as usize]) * 100.0 / 1024.0).round()
}

/// The threads of one nice value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Level {
    pub nice: i32,
    pub threads: usize,
    /// Due and got, as fractions of what all threads got.
    pub ideal: f64,
    pub share: f64,
    /// share / ideal − 1.
    pub relative_error: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nice {
    pub seconds: f64,
    /// CPU time of all threads.
    pub used_ms: f64,
    pub levels: Vec<Level>,
    pub largest_relative_error: f64,
}

/// `threads` busy ones of each nice value in one cgroup.
pub fn run(root: &Path, nices: &[i32], threads: usize, warmup: f64, seconds: f64) -> Result<Nice> {
    ensure!(
        nices.iter().all(|n| (0..20).contains(n)),
        "nice values are 0 … 19 here"
    );
    let arena = Arena::new(root)?;
    let dir = cgroups::open(&arena.add("one".as_ref(), 100)?)?;
    let mut crew = Crew::new(nices.len() * threads)?;
    let mut levels = Vec::new();
    for &nice in nices {
        let mut members = Vec::new();
        for _ in 0..threads {
            let member = crew.spawn(Some(&dir), 0, |me| me.spin())?;
            sys::set_nice(crew.pid(member)?, nice)?;
            members.push(member);
        }
        levels.push((nice, members));
    }
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    let used = |crew: &Crew| -> Result<Vec<u64>> {
        let of = |m: &Vec<usize>| m.iter().map(|&m| crew.cpu_ns(m)).sum();
        levels.iter().map(|(_, m)| of(m)).collect()
    };
    let first = used(&crew)?;
    sys::sleep((seconds * 1e9) as u64);
    let last = used(&crew)?;
    let got: Vec<f64> = last
        .iter()
        .zip(&first)
        .map(|(l, f)| (l - f) as f64)
        .collect();
    let all: f64 = got.iter().sum();
    let weight = |nice: i32| f64::from(WEIGHTS[nice as usize]);
    let weights: f64 = nices.iter().map(|&n| weight(n)).sum();
    let levels: Vec<Level> = nices
        .iter()
        .zip(&got)
        .map(|(&nice, got)| {
            let (ideal, share) = (weight(nice) / weights, got / all);
            Level {
                nice,
                threads,
                ideal,
                share,
                relative_error: share / ideal - 1.0,
            }
        })
        .collect();
    let errors = levels.iter().map(|l| l.relative_error.abs());
    Ok(Nice {
        seconds,
        used_ms: all / 1e6,
        largest_relative_error: errors.fold(0.0, f64::max),
        levels,
    })
}

impl Table for Nice {
    fn table(&self) -> String {
        let row = |l: &Level| {
            vec![
                l.nice.to_string(),
                l.threads.to_string(),
                percent(l.ideal),
                percent(l.share),
                percent(l.relative_error),
            ]
        };
        let rows: Vec<_> = self.levels.iter().map(row).collect();
        columns(&["nice", "threads", "due", "got", "off"], &rows)
    }
}
