// SPDX-License-Identifier: GPL-2.0-only
//! `cpu.max`: busy threads in cgroups that may have so much of a CPU and no more, beside others that
//! may have all, below each other, in crowds; and what each got of the machine.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me, busy};
use super::lacks;
use super::report::{Table, columns, percent};
use super::sys;

/// A cgroup of a case, and what its threads are due of the machine.
struct Group {
    path: &'static str,
    weight: u32,
    /// As in the file; empty: as the kernel made it.
    max: &'static str,
    /// Busy threads directly in it.
    threads: usize,
    due: f64,
}

const fn group(
    path: &'static str,
    weight: u32,
    max: &'static str,
    threads: usize,
    due: f64,
) -> Group {
    Group {
        path,
        weight,
        max,
        threads,
        due,
    }
}

/// For one CPU.
const CASES: [(&str, &[Group]); 8] = [
    ("alone", &[group("a", 100, "30000 100000", 1, 0.3)]),
    (
        "beside others",
        &[
            group("a", 300, "20000 100000", 2, 0.2),
            group("b", 300, "", 1, 0.6),
            group("c", 100, "", 1, 0.2),
        ],
    ),
    (
        "a limit that is not reached",
        &[
            group("a", 100, "60000 100000", 2, 0.5),
            group("b", 100, "", 1, 0.5),
        ],
    ),
    (
        "less than its weight says",
        &[
            group("a", 300, "50000 100000", 1, 0.5),
            group("b", 100, "", 1, 0.5),
        ],
    ),
    (
        "below each other",
        &[
            group("a", 100, "40000 100000", 0, 0.0),
            // Less than half of what `a` is due at any moment: what it gets does not hang on when the periods begin.
            group("a/x", 100, "5000 50000", 1, 0.1),
            group("a/y", 100, "", 1, 0.3),
            group("b", 100, "", 1, 0.6),
        ],
    ),
    (
        "the outer one is the narrower",
        &[
            group("a", 100, "10000 100000", 0, 0.0),
            group("a/x", 300, "50000 100000", 1, 0.075),
            group("a/y", 100, "", 1, 0.025),
        ],
    ),
    (
        "a crowd",
        &[
            group("a", 100, "5000 100000", 50, 0.05),
            group("b", 100, "", 1, 0.95),
        ],
    ),
    (
        NEXT_TO_NOTHING,
        &[
            group("a", 100, "1000 1000000", 4, 0.001),
            group("b", 100, "", 1, 0.999),
        ],
    ),
];

/// For several CPUs, parts of one: a thread that has a limit runs wherever there is room.
const WIDE: [(&str, &[Group]); 3] = [
    (
        "a crowd on several CPUs",
        &[group("a", 100, "50000 100000", 8, 0.5)],
    ),
    (
        "more than a CPU",
        &[group("a", 100, "130000 100000", 8, 1.3)],
    ),
    (
        BESIDE_A_CROWD,
        &[
            group("a", 300, "30000 100000", 4, 0.3),
            group("b", 100, "", 8, WHAT_IS_LEFT),
        ],
    ),
];
/// Of [`bursts`]; the kernel takes no more than the quota.
const BURST_US: u64 = 30_000;
/// What they are called.
pub const KEPT: &str = "bursts, from what was kept";
pub const NOT_KEPT: &str = "bursts";
/// Each of its threads waits for seconds, so it is looked at for longer.
const NEXT_TO_NOTHING: &str = "next to nothing";
/// Who comes back each period may come back late, now and then.
const BESIDE_A_CROWD: &str = "beside a crowd";
/// What [`comes_together`] is called.
const COME_TOGETHER: &str = "come together";
/// The most that a thread has at a time, ms: a slice of the kernel's own scheduler. With tix it is less.
const AT_A_TIME: f64 = 3.0;
/// All of the machine that the case's other groups leave.
const WHAT_IS_LEFT: f64 = 0.0;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Got {
    pub case: String,
    pub path: String,
    pub threads: usize,
    /// Parts of a CPU.
    pub due: f64,
    /// What it is due is what the others leave, before what switches and interrupts cost.
    pub rest: bool,
    pub share: f64,
    /// How far from what is due that may be.
    pub near: f64,
    /// The longest that a thread of it waited, ms.
    pub longest_wait_ms: f64,
    /// The longest that one may: from a turn at the beginning of a round, in which each of its
    /// threads has one, to one at the end of the next. One period more, because what a turn took too
    /// much comes off the next, and another, because a turn may be late in its period as the one
    /// before was early.
    pub may_wait_ms: f64,
}

/// Of who has no limit, or what a limit leaves: what interrupts and switches cost beside it.
const NEAR: f64 = 0.01;

impl Group {
    /// Over whole periods a group has its quota once each; at the ends one of them, and what one
    /// turn of each CPU takes too much, which comes off the next, may be in or out.
    fn near(&self, seconds: f64) -> f64 {
        let quota = self.max.split(' ').next().and_then(|q| q.parse().ok());
        // What is left of several CPUs has what each of them costs.
        let other = match self.due == WHAT_IS_LEFT {
            true => sys::cpus() as f64 * NEAR,
            false => NEAR,
        };
        quota.map_or(other, |quota: f64| {
            let turns = self.threads.min(sys::cpus()) as f64 * AT_A_TIME;
            NEAR.min((quota / 1000.0 + turns) / 1000.0 / seconds)
        })
    }

    fn may_wait_ms(&self, due: f64) -> f64 {
        // Who has no limit waits for those that have one.
        let period = self.max.split(' ').nth(1).and_then(|p| p.parse().ok());
        let period = period.unwrap_or(0.0_f64).max(100_000.0) / 1000.0;
        let quota = due * period;
        let turns = 2.0 * self.threads as f64 - 1.0;
        (2.0 + (turns * AT_A_TIME.min(quota) / quota).ceil()) * period
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Limits {
    pub seconds: f64,
    pub groups: Vec<Got>,
    /// Why there are none: this kernel lets no sched_ext scheduler keep limits.
    pub left_out: Option<String>,
    /// Of `share - due`.
    pub largest_error: f64,
}

pub fn run(root: &Path, warmup: f64, seconds: f64) -> Result<Limits> {
    let mut groups = Vec::new();
    if let Some(why) = lacks::why("cpu.max", lacks::LIMIT)? {
        return Ok(Limits {
            seconds,
            groups,
            left_out: Some(why),
            largest_error: 0.0,
        });
    }
    let cases: &[(&str, &[Group])] = if sys::cpus() == 1 { &CASES } else { &WIDE };
    for (name, case) in cases {
        let longer = [NEXT_TO_NOTHING, BESIDE_A_CROWD].contains(name);
        let times = if longer { 3.0 } else { 1.0 };
        groups.extend(one(root, name, case, warmup, times * seconds).context(*name)?);
    }
    if sys::cpus() > 1 {
        groups.extend(comes_together(root, warmup, seconds).context(COME_TOGETHER)?);
    }
    for burst in [0, BURST_US] {
        groups.push(bursts(root, burst, warmup, seconds).context("bursts")?);
    }
    // What is set while threads run holds from then on.
    groups.extend(changes(root, warmup, seconds).context("changes")?);
    let errors = groups.iter().map(|g| (g.share - g.due).abs());
    Ok(Limits {
        seconds,
        largest_error: errors.fold(0.0, f64::max),
        left_out: None,
        groups,
    })
}

/// The groups of `case` and their threads, all waiting at gate 0; who is in which.
fn fill(arena: &Arena, crew: &mut Crew, case: &[Group]) -> Result<Vec<Vec<usize>>> {
    let mut members = Vec::new();
    for g in case {
        let dir = arena.add(g.path.as_ref(), g.weight)?;
        if g.threads == 0 {
            cgroups::enable_cpu(&dir)?;
        }
        if !g.max.is_empty() {
            cgroups::set(&dir, "cpu.max", g.max)?;
        }
        let dir = cgroups::open(&dir)?;
        let threads = (0..g.threads).map(|_| crew.spawn(Some(&dir), 0, |me| me.spin()));
        members.push(threads.collect::<Result<Vec<usize>>>()?);
    }
    crew.muster()?;
    Ok(members)
}

fn one(root: &Path, name: &str, case: &[Group], warmup: f64, seconds: f64) -> Result<Vec<Got>> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(case.iter().map(|g| g.threads).sum())?;
    let members = fill(&arena, &mut crew, case)?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    measure(&crew, name, case, &members, seconds)
}

fn measure(
    crew: &Crew,
    name: &str,
    case: &[Group],
    members: &[Vec<usize>],
    seconds: f64,
) -> Result<Vec<Got>> {
    let used = || -> Result<Vec<u64>> {
        let of = |m: &Vec<usize>| m.iter().map(|&m| crew.cpu_ns(m)).sum();
        members.iter().map(of).collect()
    };
    crew.forget_waits();
    let (first, began) = (used()?, sys::now());
    sys::sleep((seconds * 1e9) as u64);
    let (last, took) = (used()?, (sys::now() - began) as f64);
    let claimed: f64 = case.iter().map(|g| g.due).sum();
    let left = sys::cpus() as f64 - claimed;
    let with_threads = (case.iter().zip(members))
        .zip(first.iter().zip(&last))
        .filter(|((g, _), _)| g.threads > 0);
    let got = with_threads.map(|((g, members), (first, last))| {
        let rest = g.due == WHAT_IS_LEFT;
        let due = if rest { left } else { g.due };
        let waits = members.iter().map(|&m| crew.longest_wait(m) as f64 / 1e6);
        Got {
            case: name.into(),
            path: g.path.into(),
            threads: g.threads,
            due,
            rest,
            share: (last - first) as f64 / took,
            near: g.near(seconds),
            longest_wait_ms: waits.fold(0.0, f64::max),
            may_wait_ms: g.may_wait_ms(due),
        }
    });
    Ok(got.collect())
}

/// One of a group's threads has a CPU for itself, beside a crowd, and is ahead of the others of its group, who share one. What it had
/// then is soon forgotten when one of those comes to where it is.
fn comes_together(root: &Path, warmup: f64, seconds: f64) -> Result<Vec<Got>> {
    let arena = Arena::new(root)?;
    let case = [
        group("a", 300, "30000 100000", 4, 0.3),
        group("b", 100, "", 8, WHAT_IS_LEFT),
    ];
    let mut crew = Crew::new(12)?;
    let members = fill(&arena, &mut crew, &case)?;
    for (i, &member) in members.iter().flatten().enumerate() {
        // Of the group's all but the first are on CPU 1, of the crowd's each other one.
        let cpu = if i < 4 { usize::from(i > 0) } else { i % 2 };
        sys::set_cpus(crew.pid(member)?, &[cpu])?;
    }
    crew.open(0);
    sys::sleep(((warmup + seconds) * 1e9) as u64);
    sys::set_cpus(crew.pid(members[0][1])?, &[0])?;
    measure(&crew, COME_TOGETHER, &case, &members, seconds)
}

fn changes(root: &Path, warmup: f64, seconds: f64) -> Result<Vec<Got>> {
    let arena = Arena::new(root)?;
    let path = arena.add("a".as_ref(), 100)?;
    let dir = cgroups::open(&path)?;
    let mut crew = Crew::new(1)?;
    let members = [vec![crew.spawn(Some(&dir), 0, |me| me.spin())?]];
    crew.muster()?;
    crew.open(0);
    let mut all = Vec::new();
    for (max, due) in [
        ("50000 100000", 0.5),
        ("2000 1000000", 0.002),
        ("max 100000", 1.0),
        ("25000 50000", 0.5),
    ] {
        cgroups::set(&path, "cpu.max", max)?;
        sys::sleep((warmup * 1e9) as u64);
        let case = [group("a", 100, max, 1, due)];
        all.extend(measure(
            &crew,
            &format!("then {max}"),
            &case,
            &members,
            seconds,
        )?);
    }
    Ok(all)
}

/// What a thread that works now and then has kept of earlier periods it need not wait for: `cpu.max.burst`.
fn bursts(root: &Path, burst_us: u64, warmup: f64, seconds: f64) -> Result<Got> {
    let arena = Arena::new(root)?;
    let path = arena.add("a".as_ref(), 100)?;
    cgroups::set(&path, "cpu.max", "30000 100000")?;
    cgroups::set(&path, "cpu.max.burst", burst_us)?;
    let dir = cgroups::open(&path)?;
    let mut crew = Crew::new(1)?;
    let members = [vec![crew.spawn(Some(&dir), 0, work_now_and_then)?]];
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    let name = match burst_us {
        0 => NOT_KEPT,
        _ => KEPT,
    };
    let case = [group("a", 100, "", 1, 50.0 / 250.0)];
    let got = measure(&crew, name, &case, &members, seconds)?;
    got.into_iter().next().context("nobody was measured")
}

/// More than a period allows, and less than it does with what was left of those before.
fn work_now_and_then(me: &Me) {
    let pid = sys::own_pid();
    let mut next = me.look();
    loop {
        let used = || sys::cpu_ns(pid).unwrap_or(u64::MAX);
        let enough = used() + 50_000_000;
        while used() < enough {
            busy(512);
            me.look();
        }
        // Every other time in the other half of a period: without a burst one of the two waits for 40 ms and more.
        next += 250_000_000;
        // It does not want a CPU until then.
        me.seen.store(next, Ordering::Relaxed);
        sys::sleep_until(next);
    }
}

impl Table for Limits {
    fn table(&self) -> String {
        let row = |g: &Got| {
            vec![
                g.case.clone(),
                g.path.clone(),
                g.threads.to_string(),
                percent(g.due),
                percent(g.share),
                format!("{:.0} ms", g.longest_wait_ms),
                format!("{:.0} ms", g.may_wait_ms),
            ]
        };
        if let Some(why) = &self.left_out {
            return format!("left out: {why}\n");
        }
        let rows: Vec<_> = self.groups.iter().map(row).collect();
        columns(
            &[
                "",
                "cgroup",
                "threads",
                "due",
                "got",
                "longest wait",
                "at most",
            ],
            &rows,
        )
    }
}
