// SPDX-License-Identifier: GPL-2.0-only
//! Random histories of one kind each: three users, who have issued tickets to principals.

use super::history::{FOREVER, History, What};
use super::machine::Cycle;
use clap::ValueEnum;
use serde::Serialize;

const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// Principals of one thread that always wants the CPU, six a CPU, none with more than one CPU's worth.
    Steady,
    /// Few principals of any size, with as many threads as there are CPUs, or twice as many.
    Threads,
    /// As steady, but half of them sleep 1 … 20 ms and work 1 … 20 ms.
    Blocking,
    /// As steady, but half of them use parts of quanta.
    Parts,
    /// As steady, but somebody's tickets change every 1 … 30 ms.
    Changes,
    /// Principals of one thread with more than one CPU's worth.
    Infeasible,
    /// Five principals that could use the machine, and one of far more tickets that works 20 … 100 µs now and then, and 1 … 2 ms on one CPU,
    /// as the kernel's own threads do.
    Seldom,
    /// Principals of a hog, a reader that works 50 … 300 µs and sleeps 1 … 10 ms, and one that has the CPU for 2 … 20 ms at a time and
    /// cannot be interrupted, as where the kernel looks for memory to take back.
    Stuck,
}

/// A history, and those in it who react to what they get.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub history: History,
    pub cycles: Vec<Cycle>,
}

impl Scenario {
    pub const ALL: [Scenario; 8] = [
        Scenario::Steady,
        Scenario::Threads,
        Scenario::Blocking,
        Scenario::Parts,
        Scenario::Changes,
        Scenario::Infeasible,
        Scenario::Seldom,
        Scenario::Stuck,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scenario::Steady => "steady",
            Scenario::Threads => "threads",
            Scenario::Blocking => "blocking",
            Scenario::Parts => "parts",
            Scenario::Changes => "changes",
            Scenario::Infeasible => "infeasible",
            Scenario::Seldom => "seldom",
            Scenario::Stuck => "stuck",
        }
    }

    /// `end` in ns.
    pub fn case(self, cpus: u32, end: u64, seed: u64) -> Case {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut case = Case::default();
        (case.history.cpus, case.history.end) = (cpus, end);
        match self {
            Scenario::Seldom => seldom(&mut case, &mut random),
            Scenario::Stuck => stuck(&mut case, &mut random),
            _ => self.by_user(&mut case, &mut random),
        }
        case
    }

    fn by_user(self, case: &mut Case, random: &mut fastrand::Rng) {
        let cpus = case.history.cpus;
        let users: Vec<u32> = (0..3)
            .map(|_| case.history.node(0, random.u32(50..=150)))
            .collect();
        for user in users {
            match self {
                Scenario::Threads => threads(case, user, random),
                Scenario::Infeasible => infeasible(case, user, random),
                _ => (0..2 * cpus).for_each(|_| self.principal(case, user, random)),
            }
        }
        if self == Scenario::Changes {
            changes(&mut case.history, random);
        }
    }

    fn principal(self, case: &mut Case, user: u32, random: &mut fastrand::Rng) {
        let node = case.history.node(user, random.u32(50..=150));
        let thread = case.history.thread(node);
        let (sleep, work) = match self {
            Scenario::Blocking => ((MS, 20 * MS), (MS, 20 * MS)),
            Scenario::Parts => ((MS / 20, MS / 2), (MS / 20, MS * 9 / 10)),
            _ => ((0, 0), (0, 0)),
        };
        if sleep.1 > 0 && random.bool() {
            case.cycles.push(Cycle {
                thread,
                sleep,
                work,
            });
            return;
        }
        case.history.run(0, thread, FOREVER);
    }
}

fn threads(case: &mut Case, user: u32, random: &mut fastrand::Rng) {
    let history = &mut case.history;
    for _ in 0..2 {
        let node = history.node(user, 1 << random.u32(0..10));
        for _ in 0..history.cpus * random.u32(1..=2) {
            let thread = history.thread(node);
            history.run(0, thread, FOREVER);
        }
    }
}

fn infeasible(case: &mut Case, user: u32, random: &mut fastrand::Rng) {
    let history = &mut case.history;
    history.hog(user, random.u32(300..=900));
    for _ in 0..history.cpus {
        history.hog(user, random.u32(10..=100));
    }
}

fn seldom(case: &mut Case, random: &mut fastrand::Rng) {
    let cpus = case.history.cpus;
    for tickets in 1..=5 {
        let node = case.history.node(0, tickets);
        for _ in 0..cpus {
            let thread = case.history.thread(node);
            case.history.run(0, thread, FOREVER);
        }
    }
    let node = case.history.node(0, 100);
    let thread = case.history.thread(node);
    let sleep = MS * random.u64(1..=20);
    case.cycles.push(Cycle {
        thread,
        sleep: (sleep / 2, sleep * 2),
        work: (MS / 50, MS / 10),
    });
    let thread = case.history.thread(node);
    case.history.threads[thread as usize].on = Some(0);
    case.cycles.push(Cycle {
        thread,
        sleep: (8 * MS, 8 * MS),
        work: (MS, 2 * MS),
    });
}

fn stuck(case: &mut Case, random: &mut fastrand::Rng) {
    for _ in 0..2 * case.history.cpus {
        let node = case.history.hog(0, random.u32(50..=150));
        let reader = case.history.thread(node);
        case.cycles.push(Cycle {
            thread: reader,
            sleep: (MS, 10 * MS),
            work: (MS / 20, MS * 3 / 10),
        });
        let thread = case.history.thread(node);
        case.history.threads[thread as usize].stuck = true;
        case.cycles.push(Cycle {
            thread,
            sleep: (5 * MS, 100 * MS),
            work: (2 * MS, 20 * MS),
        });
    }
}

fn changes(history: &mut History, random: &mut fastrand::Rng) {
    let mut at = 0;
    while at < history.end {
        at += random.u64(MS..=30 * MS);
        let node = random.u32(1..=history.nodes.len() as u32);
        let tickets = random.u32(50..=150);
        history.events.push((at, What::Share { node, tickets }));
    }
}

/// One thread that works 0.1 ms and sleeps 5 … 50 ms, among `hogs` of ten times its tickets that are never idle; and the thread.
pub fn sleeper(cpus: u32, hogs: u32, end: u64) -> (Case, u32) {
    let mut case = Case::default();
    (case.history.cpus, case.history.end) = (cpus, end);
    let node = case.history.node(0, 100);
    let thread = case.history.thread(node);
    for _ in 0..hogs {
        case.history.hog(0, 1_000);
    }
    case.cycles.push(Cycle {
        thread,
        sleep: (5 * MS, 50 * MS),
        work: (MS / 10, MS / 10),
    });
    (case, thread)
}
