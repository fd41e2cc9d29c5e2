// SPDX-License-Identifier: GPL-2.0-only
//! How soon a thread that sleeps most of the time runs after its timer went off, among hogs in
//! cgroups of their own.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::pairs::pair;
use super::report::Table;
use super::sys;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub hogs: usize,
    pub wakeups: usize,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// Between two wake-ups of a sleeper, ns.
const PERIOD: u64 = 10_000_000;

/// How long after its timer went off a sleeper ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Waits {
    pub wakeups: usize,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// A member of a crew that wakes up every 10 ms and works for 100 µs.
pub struct Sleeper {
    results: File,
    count: u64,
}

impl Sleeper {
    /// One in the cgroup `dir`, which waits at gate 0, and ends so many seconds after that has been opened.
    pub fn spawn(crew: &mut Crew, dir: &File, warmup: f64, seconds: f64) -> Result<Sleeper> {
        let (results, sender) = sys::pipe()?;
        let mut sender = File::from(sender);
        let count = (seconds * 1e9) as u64 / PERIOD;
        crew.spawn(Some(dir), 0, |me| {
            let warm = (warmup * 1e9) as u64 / PERIOD;
            let mut late = Vec::with_capacity(8 * count as usize);
            let mut at = sys::now();
            for i in 0..warm + count {
                at = (at + PERIOD).max(sys::now());
                sys::sleep_until(at);
                if i >= warm {
                    late.extend((sys::now() - at).to_ne_bytes());
                }
                me.spin_for(100_000);
            }
            let _ = sender.write_all(&late);
        })?;
        Ok(Sleeper {
            results: File::from(results),
            count,
        })
    }

    /// Once it has ended.
    pub fn waits(mut self) -> Result<Waits> {
        let mut bytes = Vec::new();
        self.results
            .read_to_end(&mut bytes)
            .context("the sleeper's results")?;
        let words = bytes.chunks_exact(8).map(|c| {
            let mut word = [0; 8];
            word.copy_from_slice(c);
            u64::from_ne_bytes(word)
        });
        let mut late: Vec<u64> = words.collect();
        ensure!(late.len() as u64 == self.count, "the sleeper ended early");
        late.sort_unstable();
        let at = |q: f64| late[((late.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
        Ok(Waits {
            wakeups: late.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
        })
    }
}

/// A sleeper of weight 100 (`Sleeper`) among `hogs` groups of weight 100 with one hog each, or a pair that wakes
/// each other, or one that yields, after working for up to so many ns.
pub fn run(
    root: &Path,
    hogs: usize,
    pairs: Option<u64>,
    yields: Option<u64>,
    warmup: f64,
    seconds: f64,
) -> Result<Latency> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(2 * hogs + 1)?;
    for i in 0..hogs {
        let dir = cgroups::open(&arena.add(format!("hog{i}").as_ref(), 100)?)?;
        match (pairs, yields) {
            (Some(most), _) => pair(&mut crew, &dir, most).map(drop)?,
            (None, Some(most)) => crew
                .spawn(Some(&dir), 0, move |me| me.spin_and_yield(most, i as u64))
                .map(drop)?,
            (None, None) => crew.spawn(Some(&dir), 0, |me| me.spin()).map(drop)?,
        }
    }
    let dir = cgroups::open(&arena.add("sleeper".as_ref(), 100)?)?;
    let sleeper = Sleeper::spawn(&mut crew, &dir, warmup, seconds)?;
    crew.muster()?;
    crew.open(0);
    let waits = sleeper.waits()?;
    Ok(Latency {
        hogs,
        wakeups: waits.wakeups,
        p50_us: waits.p50_us,
        p99_us: waits.p99_us,
        max_us: waits.max_us,
    })
}

impl Table for Latency {
    fn table(&self) -> String {
        format!(
            "{} wake-ups among {} hogs: p50 {:.0} µs, p99 {:.0} µs, longest {:.0} µs\n",
            self.wakeups, self.hogs, self.p50_us, self.p99_us, self.max_us
        )
    }
}
