// SPDX-License-Identifier: GPL-2.0-only
//! A history on the simulated machine, under the scheduler.

use super::{FOREVER, History, Node, What};
use crate::adversary::Random;
use crate::{ANY, Action, BASE, Event, MS, Machine, NICE_0, Program};
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};

/// A program that reacts to what it gets: whenever all that it had to do is done, it
/// sleeps, and then has more to do.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    pub thread: u32,
    /// ns, at least and at most.
    pub sleep: (u64, u64),
    pub work: (u64, u64),
}

/// `thread` ran on `cpu`; ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub cpu: u32,
    pub thread: u32,
    pub from: u64,
    pub to: u64,
}

/// What happened, in ns from the beginning of the history.
#[derive(Debug, Default)]
pub struct Record {
    /// With what the cycles did, so that it can be replayed without them.
    pub history: History,
    /// By their ends.
    pub runs: Vec<Run>,
    /// (when, thread): it slept and has something to do.
    pub wakes: Vec<(u64, u32)>,
    /// (when, thread): it has done all of it.
    pub sleeps: Vec<(u64, u32)>,
    /// Threads that CPUs took over from others.
    pub stolen: u64,
}

impl Record {
    /// CPU time that the threads of these nodes have had, ns.
    pub fn used(&self, is_counted: impl Fn(u32) -> bool) -> u64 {
        let node = |run: &&Run| self.history.threads[run.thread as usize].node;
        let runs = self.runs.iter().filter(|run| is_counted(node(run)));
        runs.map(|run| run.to - run.from).sum()
    }
}

/// The program of a thread of a history.
struct Worker {
    thread: u32,
    /// When the history begins, by the machine's clock.
    start: u64,
    /// What it will have to do, and when.
    arrivals: VecDeque<(u64, u64)>,
    cycle: Option<(Cycle, Random)>,
    holds: bool,
    yields: Option<u64>,
    /// Of its work, ns.
    left: u64,
    /// What it has run since it yielded or slept, ns.
    unyielded: u64,
    /// Where it tells what its cycle does.
    made: Sender<(u64, What)>,
}

impl Worker {
    fn sleep(&mut self, now: u64) -> Action {
        self.unyielded = 0;
        if let Some((cycle, random)) = &mut self.cycle {
            let mut within = |(least, most)| random.within(least, most).max(1);
            let (at, work) = (now + within(cycle.sleep), within(cycle.work));
            let thread = self.thread;
            self.arrivals.push_back((at, work));
            // The receiver lives for as long as the machine.
            let _ = self.made.send((at, What::Run { thread, work }));
        }
        match self.arrivals.front() {
            Some((at, _)) => Action::Sleep(at - now),
            None => Action::Wait,
        }
    }
}

impl Program for Worker {
    fn next(&mut self, now: u64) -> Action {
        // Threads are made before the history begins, and sleep until something happens to them.
        let Some(now) = now.checked_sub(self.start) else {
            return match self.sleep(0) {
                Action::Sleep(ns) => Action::Sleep(self.start - now + ns),
                other => other,
            };
        };
        while let Some((_, work)) = self.arrivals.front().filter(|(at, _)| *at <= now) {
            self.left = self.left.saturating_add(*work).min(FOREVER);
            self.arrivals.pop_front();
        }
        if self.left == 0 {
            return self.sleep(now);
        }
        let mut run = self.left;
        if let Some(yields) = self.yields {
            if self.unyielded >= yields {
                self.unyielded = 0;
                return Action::Yield;
            }
            run = run.min(yields - self.unyielded);
        }
        self.unyielded += run;
        if self.left < FOREVER {
            self.left -= run;
        }
        match self.holds {
            true => Action::Hold(run),
            false => Action::Run(run),
        }
    }
}

/// The most that cpu.weight can be; a node of more tickets is funded as tixd does.
const WEIGHT_MAX: u32 = 10_000;

/// Runs `history` and `cycles` under the scheduler; the same seed gives the same record.
pub fn run(history: &History, cycles: &[Cycle], seed: u64) -> Record {
    crate::run(history.cpus, |m| replay(m, history, cycles, seed))
}

fn replay(m: &mut Machine, history: &History, cycles: &[Cycle], seed: u64) -> Record {
    let mut cgroups = vec![0];
    for (i, node) in (1..).zip(&history.nodes) {
        let weight = node.tickets.min(WEIGHT_MAX);
        cgroups.push(m.cgroup(cgroups[node.issuer as usize], weight));
        if node.also.is_some() || node.tickets > WEIGHT_MAX {
            fund(m, &cgroups, i, *node);
        }
    }
    let start = m.now() + MS;
    let (made, makes) = channel();
    for (i, thread) in (0..).zip(&history.threads) {
        let arrival = |(at, what): &(u64, What)| match what {
            What::Run { thread, work } if *thread == i => Some((*at, *work)),
            _ => None,
        };
        let cycle = cycles.iter().find(|c| c.thread == i);
        let worker = Box::new(Worker {
            thread: i,
            start,
            arrivals: history.events.iter().filter_map(arrival).collect(),
            cycle: cycle.map(|c| (*c, Random(seed ^ u64::from(i) << 32))),
            holds: thread.holds,
            yields: thread.yields,
            left: 0,
            unyielded: 0,
            made: made.clone(),
        });
        let cpus = thread.on.map_or(ANY, |cpu| 1 << cpu);
        match thread.on {
            Some(cpu) if thread.kernel => m.kernel_thread(cpu, worker),
            _ => m.thread_on(cgroups[thread.node as usize], cpus, NICE_0, worker),
        };
    }
    m.run(start - m.now() - 1);
    m.record();
    let mut nodes = history.nodes.clone();
    for (at, what) in &history.events {
        if let What::Share { node, tickets } = *what
            && *at < history.end
        {
            m.run(start + at - m.now());
            nodes[node as usize - 1].tickets = tickets;
            fund(m, &cgroups, node, nodes[node as usize - 1]);
        }
    }
    m.run(start + history.end - m.now());
    let mut record = record(m, history, start);
    record.history.events.extend(makes.try_iter());
    record.history.events.sort_by_key(|(at, _)| *at);
    record
}

/// Have the tickets of `node` be its only ones.
fn fund(m: &mut Machine, cgroups: &[u32], i: u32, node: Node) {
    let node_of = |i: u32| match i {
        0 => BASE,
        i => m.node(cgroups[i as usize]),
    };
    let mut tickets = vec![(node_of(node.issuer), node.tickets, false)];
    if let Some((issuer, amount)) = node.also {
        tickets.push((node_of(issuer), amount, false));
    }
    m.fund(node_of(i), &tickets, 0);
}

/// What the machine has recorded since `start`.
fn record(m: &Machine, history: &History, start: u64) -> Record {
    let mut record = Record {
        history: history.clone(),
        stolen: m.counts().taken_over,
        ..Record::default()
    };
    // By CPU: the thread that runs there, and since when.
    let mut running: Vec<Option<(u32, u64)>> = vec![None; history.cpus as usize];
    let mut switch = |cpu: u32, to: Option<u32>, at: u64, runs: &mut Vec<Run>| {
        let next = to.map(|thread| (thread, at));
        if let Some((thread, from)) = std::mem::replace(&mut running[cpu as usize], next)
            && at > from
        {
            let to = at;
            runs.push(Run {
                cpu,
                thread,
                from,
                to,
            });
        }
    };
    for (at, event) in m.events() {
        let at = at - start;
        match *event {
            Event::Wake { thread } => record.wakes.push((at, thread - 1)),
            Event::Sleep { thread } => record.sleeps.push((at, thread - 1)),
            Event::Switch { cpu, thread } => {
                switch(cpu, thread.checked_sub(1), at, &mut record.runs);
            }
        }
    }
    for cpu in 0..history.cpus {
        switch(cpu, None, history.end, &mut record.runs);
    }
    record.runs.sort_by_key(|r| (r.to, r.from, r.cpu));
    record
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::Scenario;
    use super::*;

    #[test]
    fn what_is_saved_happens_again() {
        for scenario in Scenario::ALL {
            let case = scenario.case(2, 200 * MS, 7);
            let record = run(&case.history, &case.cycles, 7);
            let saved = History::read(&record.history.write()).expect("read");
            let again = run(&saved, &[], 0);
            assert_eq!(again.runs, record.runs, "{scenario:?}");
        }
    }

    #[test]
    fn no_cpu_idles_while_somebody_waits_for_it() {
        for seed in 0..20 {
            let case = Scenario::Steady.case(4, 100 * MS, seed);
            let record = run(&case.history, &case.cycles, seed);
            assert_eq!(record.used(|_| true), 4 * case.history.end, "seed {seed}");
            for runs in (0..4).map(|c| record.runs.iter().filter(move |r| r.cpu == c)) {
                let runs: Vec<_> = runs.collect();
                assert!(runs.windows(2).all(|w| w[0].to <= w[1].from));
            }
        }
    }
}
