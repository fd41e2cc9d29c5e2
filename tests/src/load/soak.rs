// SPDX-License-Identifier: GPL-2.0-only
//! For long: a crowd of busy threads whose cgroups get other weights and limits all the time, beside thousands of cgroups that come and
//! go, each with a process that does a little, and CPUs that go and come back every second.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::aftermath::{Aftermath, Before};
use super::cgroups::{self, Arena};
use super::crew::{self, Crew, Me};
use super::report::Table;
use super::standstill::Standstill;
use super::sys;
use crate::force::Force;

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Soak {
    /// For so many seconds.
    pub seconds: f64,
    /// Busy threads, ten in a cgroup.
    pub threads: usize,
    /// Cgroups that come, and go, per minute.
    pub per_minute: u64,
    pub seed: u64,
    /// Where the scheduler's maps are pinned; counted before and after.
    pub pins: Option<PathBuf>,
    /// The scheduler that must stay in force.
    pub scheduler: String,
    /// Length of the share experiment at the end.
    pub aftermath: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub seconds: f64,
    pub threads: usize,
    /// Cgroups that were made, had a process, and were removed.
    pub cgroups: u64,
    pub cgroups_per_minute: f64,
    pub weights: u64,
    pub limits: u64,
    pub unplugged: u64,
    /// The longest that one of the busy threads went without CPU time.
    pub longest_wait_ms: f64,
    pub after: Aftermath,
}

const TEN: usize = 10;
/// Cgroups that come and go live so long: until so many others have come.
const ALIVE: usize = 20;
const SECOND: u64 = 1_000_000_000;

#[derive(Default)]
struct Counts {
    weights: u64,
    limits: u64,
    unplugged: u64,
    cgroups: u64,
}

impl Soak {
    pub fn run(&self, root: &Path) -> Result<Outcome> {
        let before = Before::look(self.pins.as_deref(), &self.scheduler)?;
        let (counts, longest, took) = self.history(root)?;
        Ok(Outcome {
            seconds: took,
            threads: self.threads,
            cgroups: counts.cgroups,
            cgroups_per_minute: counts.cgroups as f64 * 60.0 / took,
            weights: counts.weights,
            limits: counts.limits,
            unplugged: counts.unplugged,
            longest_wait_ms: longest as f64 / 1e6,
            after: before.over(root, self.aftermath)?,
        })
    }

    fn history(&self, root: &Path) -> Result<(Counts, u64, f64)> {
        let arena = Arena::new(root)?;
        let mut crew = Crew::new(self.threads + 1)?;
        // Those that come and go are beside all of the busy ones, and so is who makes and removes them.
        let busy = arena.add("busy".as_ref(), 100)?;
        cgroups::enable_cpu(&busy)?;
        let mut groups = Vec::new();
        for i in 0..self.threads.div_ceil(TEN) {
            let dir = arena.add(format!("busy/{i}").as_ref(), 100)?;
            let into = cgroups::open(&dir)?;
            for _ in 0..TEN.min(self.threads - i * TEN) {
                crew.spawn(Some(&into), 0, |me| me.spin())?;
            }
            groups.push(dir);
        }
        let maker = cgroups::open(&arena.add("maker".as_ref(), 300)?)?;
        let pace = 60 * SECOND / self.per_minute.max(1);
        let maker = crew.spawn(Some(&maker), 0, |me| {
            if let Err(e) = come_and_go(me, root, pace) {
                eprintln!("tix-load: {e:#}");
            }
        })?;
        crew.muster()?;
        crew.open(0);
        let began = sys::now();
        let until = began + (self.seconds * SECOND as f64) as u64;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut counts = Counts::default();
        let mut standstill = Standstill::default();
        let mut next = began;
        while sys::now() < until {
            change(&mut random, &groups, &mut counts)?;
            if counts.weights % 10 == 0 {
                unplug(&mut random, &mut counts)?;
                Force::now().require(&self.scheduler)?;
                let made = crew.slot(maker).count.load(Ordering::Relaxed);
                ensure!(made > counts.cgroups, "no more cgroups come and go");
                counts.cgroups = made;
            }
            standstill.look(&crew, 0..maker)?;
            next += SECOND / 10;
            sys::sleep_until(next);
        }
        let took = (sys::now() - began) as f64 / SECOND as f64;
        counts.cgroups = crew.slot(maker).count.load(Ordering::Relaxed);
        crew.dismiss(maker)?;
        // Dying takes CPU time as well.
        for dir in &groups {
            cgroups::set(dir, "cpu.max", "max")?;
            cgroups::set(dir, "cpu.weight", 100)?;
        }
        Ok((counts, standstill.longest, took))
    }
}

/// Every `pace` ns a new cgroup below `root`, with a process that works for a moment and ends; the oldest goes.
fn come_and_go(me: &Me, root: &Path, pace: u64) -> Result<()> {
    let mut alive = VecDeque::new();
    let mut next = sys::now();
    for number in 0.. {
        let dir = root.join(format!("c{number}"));
        fs::create_dir(&dir).with_context(|| format!("mkdir {}", dir.display()))?;
        let pid = sys::fork(Some(&cgroups::open(&dir)?))?;
        if pid == 0 {
            crew::busy(20_000);
            sys::leave();
        }
        alive.push_back((dir, pid));
        if alive.len() > ALIVE
            && let Some((dir, pid)) = alive.pop_front()
        {
            sys::reap(pid)?;
            cgroups::remove(&dir)?;
            me.count.fetch_add(1, Ordering::Relaxed);
        }
        next += pace;
        sys::sleep_until(next);
    }
    Ok(())
}

/// Another weight for one of the busy cgroups, and another limit, or none, for one.
fn change(random: &mut fastrand::Rng, groups: &[PathBuf], counts: &mut Counts) -> Result<()> {
    let weight = [1, 10, 100, 1_000, 10_000][random.usize(..5)];
    cgroups::set(&groups[random.usize(..groups.len())], "cpu.weight", weight)?;
    counts.weights += 1;
    let limit = ["max", "5000 100000", "2000 10000", "300000 1000000"][random.usize(..4)];
    cgroups::set(&groups[random.usize(..groups.len())], "cpu.max", limit)?;
    counts.limits += 1;
    Ok(())
}

fn unplug(random: &mut fastrand::Rng, counts: &mut Counts) -> Result<()> {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/present").context("CPUs")?;
    let last = cpus.trim().rsplit('-').next().and_then(|n| n.parse().ok());
    let Some(last) = last.filter(|&n: &usize| n > 0) else {
        return Ok(());
    };
    let cpu = random.usize(1..=last);
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    for state in ["0", "1"] {
        fs::write(&file, state).with_context(|| format!("{file}: {state}"))?;
    }
    counts.unplugged += 1;
    Ok(())
}

impl Table for Outcome {
    fn table(&self) -> String {
        format!(
            "{:.0} s with {} busy threads: {} cgroups came and went ({:.0} a minute), {} weights and {} limits changed, \
             CPUs unplugged {} times; longest wait {:.0} ms\n{}",
            self.seconds,
            self.threads,
            self.cgroups,
            self.cgroups_per_minute,
            self.weights,
            self.limits,
            self.unplugged,
            self.longest_wait_ms,
            self.after.table()
        )
    }
}
