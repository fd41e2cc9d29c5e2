// SPDX-License-Identifier: GPL-2.0-only
//! Random histories of one kind each.

use super::replay::Cycle;
use super::{FOREVER, History};
use crate::MS;
use crate::adversary::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// Three users with six principals a CPU, of one thread that computes, none of which is due
    /// more than a CPU.
    Steady,
    /// Users of few principals of any size, with a thread or two for each CPU.
    Threads,
    /// As steady, but half of the principals sleep 1 ... 20 ms and work 1 ... 20 ms.
    Blocking,
    /// As steady, but half of the principals use parts of quanta.
    Parts,
    /// As steady, but tickets of one node change every 1 ... 30 ms.
    Changes,
    /// Principals of one thread that are due more than a CPU.
    Infeasible,
    /// Five principals that could use the machine, and one of far more tickets that works for
    /// 20 ... 100 us now and then, and for 1 ... 2 ms on one CPU, as the kernel's own threads do.
    Seldom,
    /// Principals of a thread that computes, a reader that works for 50 ... 300 us and sleeps for
    /// 1 ... 10 ms, and one that has the CPU for 2 ... 20 ms at a time and cannot be interrupted.
    Stuck,
}

/// A history, and the threads in it that react to what they get.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub history: History,
    pub cycles: Vec<Cycle>,
}

impl Case {
    pub fn new(cpus: u32, end: u64) -> Case {
        Case {
            history: History::new(cpus, end),
            cycles: vec![],
        }
    }
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
        let mut random = Random(seed);
        let mut case = Case::new(cpus, end);
        match self {
            Scenario::Seldom => seldom(&mut case, &mut random),
            Scenario::Stuck => stuck(&mut case, &mut random),
            _ => self.by_user(&mut case, &mut random),
        }
        case
    }

    fn by_user(self, case: &mut Case, random: &mut Random) {
        let cpus = case.history.cpus;
        let users: Vec<u32> = (0..3)
            .map(|_| case.history.node(0, random.within(50, 150) as u32))
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

    fn principal(self, case: &mut Case, user: u32, random: &mut Random) {
        let node = case.history.node(user, random.within(50, 150) as u32);
        let thread = case.history.thread(node);
        let (sleep, work) = match self {
            Scenario::Blocking => ((MS, 20 * MS), (MS, 20 * MS)),
            Scenario::Parts => ((MS / 20, MS / 2), (MS / 20, MS * 9 / 10)),
            _ => ((0, 0), (0, 0)),
        };
        if sleep.1 > 0 && random.below(2) == 0 {
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

fn threads(case: &mut Case, user: u32, random: &mut Random) {
    let history = &mut case.history;
    for _ in 0..2 {
        let node = history.node(user, 1 << random.below(10));
        for _ in 0..history.cpus * random.within(1, 2) as u32 {
            let thread = history.thread(node);
            history.run(0, thread, FOREVER);
        }
    }
}

fn infeasible(case: &mut Case, user: u32, random: &mut Random) {
    let history = &mut case.history;
    history.hog(user, random.within(300, 900) as u32);
    for _ in 0..history.cpus {
        history.hog(user, random.within(10, 100) as u32);
    }
}

fn seldom(case: &mut Case, random: &mut Random) {
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
    let sleep = MS * random.within(1, 20);
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

fn stuck(case: &mut Case, random: &mut Random) {
    for _ in 0..2 * case.history.cpus {
        let node = case.history.hog(0, random.within(50, 150) as u32);
        let reader = case.history.thread(node);
        case.cycles.push(Cycle {
            thread: reader,
            sleep: (MS, 10 * MS),
            work: (MS / 20, MS * 3 / 10),
        });
        let thread = case.history.thread(node);
        case.history.threads[thread as usize].holds = true;
        case.cycles.push(Cycle {
            thread,
            sleep: (5 * MS, 100 * MS),
            work: (2 * MS, 20 * MS),
        });
    }
}

fn changes(history: &mut History, random: &mut Random) {
    let mut at = 0;
    while at < history.end {
        at += random.within(MS, 30 * MS);
        let node = random.within(1, history.nodes.len() as u64) as u32;
        let tickets = random.within(50, 150) as u32;
        history.share(at, node, tickets);
    }
}

/// A thread that works for 0.1 ms and sleeps for 5 ... 50 ms, among `hogs` that compute and have
/// ten times its tickets each; and its number.
pub fn sleeper(cpus: u32, hogs: u32, end: u64) -> (Case, u32) {
    let mut case = Case::new(cpus, end);
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
