// SPDX-License-Identifier: GPL-2.0-only
//! The kernel stops the whole machine again and again (stop_machine) while all of it is in demand: on every CPU the highest of all
//! classes runs until all of them have come to it. Changing the clock that it reads does that.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns, percent};
use super::standstill::Standstill;
use super::sys;
use crate::force::Force;

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
const WEIGHTS: [u32; 5] = [100, 200, 300, 400, 500];
/// Busy threads in each.
const THREADS: usize = 12;
/// Between two stops, ns: no multiple of a tick.
const PAUSE: u64 = 1_700_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stops {
    /// How often the machine was stopped, and how long that took on average, µs.
    pub times: usize,
    pub each_us: f64,
    /// The longest that a thread had no CPU time, ms.
    pub longest_ms: f64,
    /// share / due − 1 of the group that was furthest off: meanwhile, and right afterwards.
    pub meanwhile: f64,
    pub afterwards: f64,
}

/// For `seconds` it is stopped `times` times, and `scheduler` must stay in force; then shares are looked at for as long.
pub fn run(root: &Path, times: usize, warmup: f64, seconds: f64, scheduler: &str) -> Result<Stops> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(WEIGHTS.len() * THREADS)?;
    for weight in WEIGHTS {
        let dir = cgroups::open(&arena.add(format!("g{weight}").as_ref(), weight)?)?;
        for _ in 0..THREADS {
            crew.spawn(Some(&dir), 0, |me| me.spin())?;
        }
    }
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);

    let clocks = Clocks::find()?;
    let mut still = Standstill::default();
    let all = 0..crew.len();
    still.look(&crew, all.clone())?;
    let before = used(&crew)?;
    let mut took = 0;
    for i in 0..times {
        let began = sys::now();
        clocks.set(i % 2 == 0)?;
        took += sys::now() - began;
        sys::sleep(PAUSE);
        if i % 16 == 0 {
            still.look(&crew, all.clone())?;
        }
    }
    Force::now().require(scheduler)?;
    drop(clocks);
    let between = used(&crew)?;
    let end = sys::now() + (seconds * 1e9) as u64;
    while sys::now() < end {
        sys::sleep(100_000_000);
        still.look(&crew, all.clone())?;
    }
    let after = used(&crew)?;
    Ok(Stops {
        times,
        each_us: took as f64 / 1e3 / times as f64,
        longest_ms: still.longest as f64 / 1e6,
        meanwhile: furthest(&before, &between),
        afterwards: furthest(&between, &after),
    })
}

/// CPU time of each group, ns.
fn used(crew: &Crew) -> Result<Vec<u64>> {
    let of = |g: usize| {
        (g * THREADS..(g + 1) * THREADS)
            .map(|m| crew.cpu_ns(m))
            .sum()
    };
    (0..WEIGHTS.len()).map(of).collect()
}

fn furthest(from: &[u64], to: &[u64]) -> f64 {
    let had: Vec<f64> = to.iter().zip(from).map(|(t, f)| (t - f) as f64).collect();
    let (all, weights): (f64, u32) = (had.iter().sum(), WEIGHTS.iter().sum());
    let off = |(had, weight): (&f64, u32)| {
        (had / all * f64::from(weights) / f64::from(weight) - 1.0).abs()
    };
    had.iter().zip(WEIGHTS).map(off).fold(0.0, f64::max)
}

/// The clock that the kernel reads, and another. Dropping it brings the first back.
struct Clocks {
    first: String,
    other: String,
}

impl Clocks {
    fn find() -> Result<Clocks> {
        let read = |name: &str| {
            let file = format!("{CLOCKS}/{name}");
            fs::read_to_string(&file).context(file)
        };
        let first = read("current_clocksource")?.trim().to_owned();
        let all = read("available_clocksource")?;
        let other = all.split_whitespace().find(|name| *name != first);
        let other = other.with_context(|| format!("no other clock than {all}"))?;
        Ok(Clocks {
            other: other.to_owned(),
            first,
        })
    }

    fn set(&self, other: bool) -> Result<()> {
        let name = if other { &self.other } else { &self.first };
        let file = format!("{CLOCKS}/current_clocksource");
        fs::write(&file, name).with_context(|| format!("write {name} to {file}"))?;
        let now = fs::read_to_string(&file).context(file)?;
        ensure!(now.trim() == name, "the clock is {now}, not {name}");
        Ok(())
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        if let Err(e) = self.set(false) {
            eprintln!("tix-load: {e:#}");
        }
    }
}

impl Table for Stops {
    fn table(&self) -> String {
        let row = |what: &str, value: String| vec![what.to_owned(), value];
        let rows = [
            row("times", self.times.to_string()),
            row("each, µs", format!("{:.0}", self.each_us)),
            row(
                "longest without CPU time, ms",
                format!("{:.1}", self.longest_ms),
            ),
            row("furthest off meanwhile", percent(self.meanwhile)),
            row("and afterwards", percent(self.afterwards)),
        ];
        columns(&["the machine is stopped", ""], &rows)
    }
}
