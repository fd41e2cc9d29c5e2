// SPDX-License-Identifier: GPL-2.0-only
//! How late a thread begins and ends what it does each period: a sleeper beside a thread that has found its CPU idle, work with a
//! deadline beside hogs.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::Table;
use super::sys;

/// Who is beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    /// Busy threads of one cgroup.
    pub hogs: usize,
    /// A thread of another one that works so many ns and sleeps as many, in turns.
    pub worker: Option<[u64; 2]>,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub period_ns: u64,
    /// CPU time of each round.
    pub work_ns: u64,
    pub others: Others,
    /// The CPU that all are bound to.
    pub cpu: Option<usize>,
    pub warmup: f64,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rounds {
    pub rounds: usize,
    /// How late they began.
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Rounds that ended after the next one was to begin, and by how much at worst.
    pub late: usize,
    pub latest_ms: f64,
}

/// Each in a cgroup of weight 100.
pub fn run(root: &Path, plan: &Plan) -> Result<Rounds> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(plan.others.hogs + 2)?;
    let group = |name: &str| cgroups::open(&arena.add(name.as_ref(), 100)?);
    let hogs = group("hogs")?;
    for _ in 0..plan.others.hogs {
        crew.spawn(Some(&hogs), 0, |me| me.spin())?;
    }
    if let Some([work, sleep]) = plan.others.worker {
        crew.spawn(Some(&group("worker")?), 0, move |me| {
            loop {
                me.spin_for(work);
                sys::sleep(sleep);
            }
        })?;
    }
    let (results, sender) = sys::pipe()?;
    let mut sender = std::fs::File::from(sender);
    let rounds = |seconds: f64| (seconds * 1e9) as u64 / plan.period_ns;
    let (warm, count) = (rounds(plan.warmup), rounds(plan.seconds));
    crew.spawn(Some(&group("rounds")?), 0, |me| {
        let mut told = Vec::new();
        let mut at = sys::now() + plan.period_ns;
        for i in 0..warm + count {
            sys::sleep_until(at);
            let began = sys::now();
            me.use_cpu(plan.work_ns);
            if i >= warm {
                told.extend((began.saturating_sub(at)).to_ne_bytes());
                told.extend((sys::now() - at).to_ne_bytes());
            }
            at += plan.period_ns;
            // Who is late by several rounds begins with the next one.
            while at < sys::now() {
                at += plan.period_ns;
            }
        }
        let _ = sender.write_all(&told);
    })?;
    drop(sender);
    if let Some(cpu) = plan.cpu {
        for i in 0..crew.len() {
            sys::set_cpus(crew.pid(i)?, &[cpu])?;
        }
    }
    crew.muster()?;
    crew.open(0);
    let mut bytes = Vec::new();
    std::fs::File::from(results)
        .read_to_end(&mut bytes)
        .context("what the rounds came to")?;
    let words = bytes.as_chunks().0.iter();
    let words: Vec<u64> = words.map(|c| u64::from_ne_bytes(*c)).collect();
    ensure!(words.len() as u64 == 2 * count, "the rounds ended early");
    let (mut began, ended): (Vec<u64>, Vec<u64>) =
        words.as_chunks().0.iter().map(|[b, e]| (*b, *e)).unzip();
    began.sort_unstable();
    let at = |q: f64| began[((began.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
    let late = ended.iter().filter_map(|e| e.checked_sub(plan.period_ns));
    Ok(Rounds {
        rounds: began.len(),
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
        late: late.clone().count(),
        latest_ms: late.max().unwrap_or_default() as f64 / 1e6,
    })
}

impl Table for Rounds {
    fn table(&self) -> String {
        format!(
            "{} rounds: begun after p50 {:.0} µs, p99 {:.0} µs, at worst {:.0} µs; {} ended late, by {:.1} ms at worst\n",
            self.rounds, self.p50_us, self.p99_us, self.max_us, self.late, self.latest_ms
        )
    }
}
