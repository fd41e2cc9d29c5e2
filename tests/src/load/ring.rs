// SPDX-License-Identifier: GPL-2.0-only
//! A token that goes round over pipes, as requests go from service to service: each of the ring is
//! a process in a cgroup of its own, and one of them runs at any time.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ring {
    /// Processes, each in a cgroup of weight 100.
    pub n: usize,
    /// One more computes all the time, in such a cgroup.
    pub hog: bool,
    pub laps: usize,
    /// From one process to the next, the hog's part included.
    pub ns_per_hop: f64,
    /// Only on the instruction-counting clock.
    pub instructions_per_hop: Option<f64>,
    /// Of laps, at process 0.
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// Laps are told by process 0 when it ends, so many at most.
const LAPS: usize = 1 << 20;

/// Below the cgroup `root`; one instruction is 2^shift ns.
pub fn run(
    root: &Path,
    n: usize,
    hog: bool,
    (warmup, seconds): (f64, f64),
    shift: Option<u32>,
) -> Result<Ring> {
    ensure!(n > 1, "a ring has two processes at least");
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(n + 1)?;
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..n).map(|_| sys::pipe()).collect::<Result<_>>()?;
    let group = |i: usize| cgroups::open(&arena.add(format!("g{i}").as_ref(), 100)?);
    let ends = |i: usize| (pipes[i].0.as_raw_fd(), pipes[(i + 1) % n].1.as_raw_fd());
    for i in 1..n {
        let (from, to) = ends(i);
        let passes_on = move || sys::take(from) && sys::give(to);
        crew.spawn(Some(&group(i)?), 0, move |_| while passes_on() {})?;
    }
    if hog {
        crew.spawn(Some(&group(n)?), 0, |me| me.spin())?;
    }
    // The last to start: nobody else has an end of this pipe.
    let (results, sender) = sys::pipe()?;
    let (mut results, mut sender) = (File::from(results), File::from(sender));
    let (from, to) = ends(0);
    crew.spawn(Some(&group(0)?), 0, move |_| {
        let mut laps: Vec<u64> = Vec::with_capacity(LAPS);
        let start = sys::now() + (warmup * 1e9) as u64;
        let end = start + (seconds * 1e9) as u64;
        let mut at = sys::now();
        while at < end && laps.len() < LAPS && sys::give(to) && sys::take(from) {
            let now = sys::now();
            if at >= start {
                laps.push(now - at);
            }
            at = now;
        }
        let bytes: Vec<u8> = laps.iter().flat_map(|lap| lap.to_ne_bytes()).collect();
        let _ = sender.write_all(&bytes);
    })?;
    crew.muster()?;
    crew.open(0);
    let mut bytes = Vec::new();
    results.read_to_end(&mut bytes).context("the laps")?;
    let words = bytes.as_chunks::<8>().0.iter();
    let mut laps: Vec<u64> = words.map(|word| u64::from_ne_bytes(*word)).collect();
    ensure!(laps.len() >= 100, "{} laps", laps.len());
    let ns = laps.iter().sum::<u64>() as f64 / (laps.len() * n) as f64;
    laps.sort_unstable();
    let at = |q: f64| laps[((laps.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
    Ok(Ring {
        n,
        hog,
        laps: laps.len(),
        ns_per_hop: ns,
        instructions_per_hop: shift.map(|s| ns / f64::from(1u32 << s)),
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
    })
}

impl Table for Ring {
    fn table(&self) -> String {
        let cost = match self.instructions_per_hop {
            Some(i) => format!("{i:.0} instructions"),
            None => format!("{:.0} ns", self.ns_per_hop),
        };
        let us = |us: f64| format!("{us:.0}");
        let row = vec![
            self.n.to_string(),
            if self.hog { "one" } else { "none" }.into(),
            cost,
            us(self.p50_us),
            us(self.p99_us),
            us(self.max_us),
        ];
        let head = ["ring", "hogs", "per hop", "lap p50 µs", "p99 µs", "max µs"];
        columns(&head, &[row])
    }
}
