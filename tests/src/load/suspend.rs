// SPDX-License-Identifier: GPL-2.0-only
//! A machine that sleeps and wakes up, with busy threads in weighted cgroups and one that has a limit: who gets what before, and right after.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns, percent};
use super::sys;
use crate::force::Force;

/// Weights of those that have no limit.
const WEIGHTS: [u32; 3] = [100, 200, 300];
/// `cpu.max` of the one that has, and what it is of a CPU: less than its weight says.
const LIMIT: (&str, f64) = ("5000 100000", 0.05);
/// What one period of it allows, and the most that a thread has at a time, s.
const QUOTA: f64 = 0.005;
const AT_A_TIME: f64 = 0.003;
const THREADS: usize = 2;

#[derive(Clone, Debug)]
pub struct Suspend {
    /// How often the machine sleeps.
    pub times: usize,
    pub warmup: f64,
    /// Each look at shares.
    pub seconds: f64,
    /// The scheduler that must stay in force.
    pub scheduler: String,
    /// What is run whenever the machine has woken up, with its arguments.
    pub awake: Vec<String>,
}

/// What was had over a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Had {
    /// 0: before the machine slept, 1: after it did for the first time, and so on.
    pub after: usize,
    /// How far the furthest of those without a limit is from its due, of its due.
    pub off: f64,
    /// What the one with the limit had, of a CPU.
    pub limited: f64,
    /// The most that it owes where this begins, of a CPU over this look: all that it had since the look before. Around a
    /// sleep the kernel does without any scheduler that is loaded, and heeds no limit.
    pub owes: f64,
    /// Of the machine, by all.
    pub used: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// What the one with the limit may have, of a CPU.
    pub limit: f64,
    /// And how much more or less, by the looks' ends: one period's part, and what one turn of each
    /// thread takes too much, which comes off the next.
    pub near: f64,
    pub had: Vec<Had>,
    /// CPUs online at the end.
    pub cpus: usize,
    /// The longest that a thread waited for a CPU, without the times in which the machine fell asleep, slept and woke up.
    pub longest_wait_ms: f64,
}

impl Suspend {
    pub fn run(&self, root: &Path) -> Result<Outcome> {
        let arena = Arena::new(root)?;
        let groups = WEIGHTS.len() + 1;
        let mut crew = Crew::new(groups * THREADS)?;
        for i in 0..groups {
            let weight = WEIGHTS.get(i).copied().unwrap_or(100);
            let dir = arena.add(format!("g{i}").as_ref(), weight)?;
            if i == WEIGHTS.len() {
                cgroups::set(&dir, "cpu.max", LIMIT.0)?;
            }
            let into = cgroups::open(&dir)?;
            for _ in 0..THREADS {
                crew.spawn(Some(&into), 0, |me| me.spin())?;
            }
        }
        crew.muster()?;
        crew.open(0);
        sys::sleep((self.warmup * 1e9) as u64);
        crew.forget_waits();
        let mut longest = 0;
        let mut waits = |crew: &Crew| {
            let waits = (0..crew.len()).map(|member| crew.longest_wait(member));
            longest = waits.fold(longest, u64::max);
            crew.forget_waits();
            longest
        };
        let mut seen = limited(&crew)?;
        let mut had = vec![self.look(&crew, 0, &mut seen)?];
        for after in 1..=self.times {
            waits(&crew);
            sleep()?;
            if let Some((program, arguments)) = self.awake.split_first() {
                let status = Command::new(program).args(arguments).status();
                ensure!(status.context(program.clone())?.success(), "{program}");
            }
            Force::now().require(&self.scheduler)?;
            crew.forget_waits();
            had.push(self.look(&crew, after, &mut seen)?);
        }
        Ok(Outcome {
            limit: LIMIT.1,
            near: (QUOTA + THREADS.min(sys::cpus()) as f64 * AT_A_TIME) / self.seconds,
            had,
            cpus: sys::cpus(),
            longest_wait_ms: waits(&crew) as f64 / 1e6,
        })
    }

    /// What each had from now on. `seen`: what the one with the limit had at the end of the look before, ns.
    fn look(&self, crew: &Crew, after: usize, seen: &mut u64) -> Result<Had> {
        let read = || -> Result<Vec<u64>> {
            let members: Vec<usize> = (0..crew.len()).collect();
            let group = |m: &[usize]| m.iter().map(|&m| crew.cpu_ns(m)).sum();
            members.chunks(THREADS).map(group).collect()
        };
        let (from, began) = (read()?, sys::now());
        let owes = (from[WEIGHTS.len()] - *seen) as f64 / (self.seconds * 1e9);
        sys::sleep((self.seconds * 1e9) as u64);
        let (to, took) = (read()?, (sys::now() - began) as f64);
        let got: Vec<f64> = to.iter().zip(&from).map(|(t, f)| (t - f) as f64).collect();
        *seen = to[WEIGHTS.len()];
        let (free, limited) = got.split_at(WEIGHTS.len());
        let (all, weights) = (free.iter().sum::<f64>(), WEIGHTS.iter().sum::<u32>());
        let off = free.iter().zip(WEIGHTS).map(|(got, weight)| {
            let due = all * f64::from(weight) / f64::from(weights);
            (got / due - 1.0).abs()
        });
        Ok(Had {
            after,
            off: off.fold(0.0, f64::max),
            limited: limited.iter().sum::<f64>() / took,
            owes,
            used: got.iter().sum::<f64>() / took / sys::cpus() as f64,
        })
    }
}

/// CPU time of the one with the limit, ns.
fn limited(crew: &Crew) -> Result<u64> {
    let first = WEIGHTS.len() * THREADS;
    (first..first + THREADS).map(|m| crew.cpu_ns(m)).sum()
}

/// To RAM, until somebody wakes the machine up: the kernel freezes all threads, unplugs all CPUs but one, and stops its clocks.
fn sleep() -> Result<()> {
    let write = |file: &str, what: &str| {
        fs::write(file, what).with_context(|| format!("write {what} to {file}"))
    };
    write("/sys/power/mem_sleep", "deep")?;
    let before = slept()?;
    write("/sys/power/state", "mem")?;
    ensure!(slept()? == before + 1, "the machine did not sleep");
    Ok(())
}

/// How often the machine has slept since it was started.
fn slept() -> Result<u64> {
    let file = "/sys/power/suspend_stats/success";
    let text = fs::read_to_string(file).context(file)?;
    text.trim()
        .parse()
        .with_context(|| format!("{file}: {text}"))
}

impl Table for Outcome {
    fn table(&self) -> String {
        let row = |h: &Had| {
            vec![
                h.after.to_string(),
                percent(h.off),
                percent(h.limited),
                percent(h.owes),
                percent(h.used),
            ]
        };
        let rows: Vec<_> = self.had.iter().map(row).collect();
        format!(
            "{}{} CPUs; longest wait {:.0} ms\n",
            columns(
                &[
                    "slept so often",
                    "furthest off",
                    "limited, of a CPU",
                    "owed",
                    "used of the machine"
                ],
                &rows
            ),
            self.cpus,
            self.longest_wait_ms
        )
    }
}
