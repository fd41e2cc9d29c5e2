// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling: the two siblings of a core run threads of one cookie at a time, or none. Who goes without for that, and who has how
//! much all the same.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns, percent};
use super::sys;

/// Groups of busy threads, their `cpu.weight`s, and whether theirs is a cookie of their own. Nobody else has one.
const GROUPS: [(&str, u32, bool); 3] = [("a", 100, true), ("b", 200, true), ("plain", 100, false)];

/// One group's service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub weight: u32,
    /// What it is due of what all had, and what it had.
    pub ideal: f64,
    pub share: f64,
    /// The least that one of its threads had, ms, and the longest that one waited.
    pub least_ms: f64,
    pub longest_wait_ms: f64,
}

/// So many threads in each group, all on one core.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    pub threads: usize,
    pub groups: Vec<Group>,
    /// CPU time that all had, in CPUs.
    pub used: f64,
    /// For how long a sibling was idle beside one of them that nobody was there for, in CPUs, as the kernel counts it.
    pub forced_idle: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cores {
    pub siblings: Vec<usize>,
    /// Whether this kernel has cookies. Without them it is shares on two siblings.
    pub cookies: bool,
    /// One thread in each group with a cookie: only one of the two at a time.
    pub one: Round,
    /// As many in each as the core has siblings.
    pub full: Round,
    /// Three times as many.
    pub crowd: Round,
}

/// CPUs on the core of CPU 0.
fn siblings() -> Result<Vec<usize>> {
    let file = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let text = fs::read_to_string(file).context(file)?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |n: &str| {
            n.parse::<usize>()
                .with_context(|| format!("{file}: {text}"))
        };
        cpus.extend(number(first)?..=number(last)?);
    }
    Ok(cpus)
}

/// For `seconds` each.
pub fn run(root: &Path, warmup: f64, seconds: f64) -> Result<Cores> {
    let siblings = siblings()?;
    ensure!(
        siblings.len() == 2,
        "CPU 0 is to have one sibling: {siblings:?}"
    );
    let cookies = sys::has_cookies()?;
    // What was idle by force is counted then.
    let file = "/proc/sys/kernel/sched_schedstats";
    fs::write(file, "1").context(file)?;
    let round = |groups: &[(&str, u32, bool)], threads: usize| {
        let with = |&(name, weight, cookie)| (name, weight, cookie && cookies);
        let groups: Vec<_> = groups.iter().map(with).collect();
        let what = format!("{threads} threads each");
        let lasts = (warmup, seconds);
        self::round(root, &siblings, &groups, threads, lasts).context(what)
    };
    Ok(Cores {
        one: round(&GROUPS[..2], 1)?,
        full: round(&GROUPS, siblings.len())?,
        crowd: round(&GROUPS, 3 * siblings.len())?,
        cookies,
        siblings,
    })
}

fn round(
    root: &Path,
    siblings: &[usize],
    groups: &[(&str, u32, bool)],
    threads: usize,
    (warmup, seconds): (f64, f64),
) -> Result<Round> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(groups.len() * threads)?;
    for &(name, weight, cookie) in groups {
        let dir = cgroups::open(&arena.add(name.as_ref(), weight)?)?;
        let mut first = None;
        for _ in 0..threads {
            let of = first.filter(|_| cookie);
            let member = crew.spawn(Some(&dir), 0, move |me| {
                // What is the first one's is all the group's.
                if of.is_none_or(|of| sys::share_cookie(of).is_ok()) {
                    me.spin();
                }
            })?;
            let pid = crew.pid(member)?;
            if cookie && first.is_none() {
                sys::new_cookie(pid)?;
            }
            first = first.or(Some(pid));
            if siblings.len() < sys::cpus() {
                sys::set_cpus(pid, siblings)?;
            }
        }
    }
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    crew.forget_waits();
    let all = 0..crew.len();
    let used = || -> Result<Vec<u64>> { all.clone().map(|m| crew.cpu_ns(m)).collect() };
    let idle = || -> Result<u64> {
        let with = groups.iter().filter(|g| g.2);
        with.map(|g| forced_idle(&root.join(g.0))).sum()
    };
    let (before, idle_before, began) = (used()?, idle()?, sys::now());
    sys::sleep((seconds * 1e9) as u64);
    let (after, idle_after) = (used()?, idle()?);
    let took = (sys::now() - began) as f64;
    let had: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let all: u64 = had.iter().sum();
    let weights: u32 = groups.iter().map(|g| g.1).sum();
    let group = |(i, &(name, weight, _)): (usize, &(&str, u32, bool))| {
        let members = i * threads..(i + 1) * threads;
        let least = had[members.clone()].iter().min().copied();
        let waits = members.clone().map(|m| crew.longest_wait(m));
        Group {
            name: name.to_owned(),
            weight,
            ideal: f64::from(weight) / f64::from(weights),
            share: had[members.clone()].iter().sum::<u64>() as f64 / all as f64,
            least_ms: least.unwrap_or(0) as f64 / 1e6,
            longest_wait_ms: waits.max().unwrap_or(0) as f64 / 1e6,
        }
    };
    Ok(Round {
        threads,
        groups: groups.iter().enumerate().map(group).collect(),
        used: all as f64 / took,
        forced_idle: (idle_after - idle_before) as f64 * 1e3 / took,
    })
}

/// µs for which siblings of threads of this cgroup were idle by force.
fn forced_idle(dir: &Path) -> Result<u64> {
    let file = dir.join("cpu.stat");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let line = (text.lines()).find_map(|l| l.strip_prefix("core_sched.force_idle_usec "));
    let line = line.with_context(|| format!("no core_sched.force_idle_usec in {text}"))?;
    Ok(line.parse()?)
}

impl Round {
    /// share / ideal - 1 of the group that is furthest off.
    pub fn largest_relative_error(&self) -> f64 {
        let off = |g: &Group| (g.share / g.ideal - 1.0).abs();
        self.groups.iter().map(off).fold(0.0, f64::max)
    }
}

impl Table for Cores {
    fn table(&self) -> String {
        let head = ["group", "weight", "due", "got", "least ms", "wait ms"];
        let mut out = match self.cookies {
            true => String::new(),
            false => "this kernel has no core scheduling: nobody has a cookie\n".to_owned(),
        };
        for round in [&self.one, &self.full, &self.crowd] {
            let row = |g: &Group| {
                vec![
                    g.name.clone(),
                    g.weight.to_string(),
                    percent(g.ideal),
                    percent(g.share),
                    format!("{:.1}", g.least_ms),
                    format!("{:.1}", g.longest_wait_ms),
                ]
            };
            let rows: Vec<_> = round.groups.iter().map(row).collect();
            out += &format!(
                "{}{} threads each: {:.3} CPUs used, {:.3} idle by force\n",
                columns(&head, &rows),
                round.threads,
                round.used,
                round.forced_idle
            );
        }
        out
    }
}
