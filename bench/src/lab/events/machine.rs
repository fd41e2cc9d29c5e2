// SPDX-License-Identifier: GPL-2.0-only
//! CPUs and threads on a virtual clock: what the kernel around tix's rules does. A context switch costs nothing, and a slice ends when it
//! is over (timer.bpf.h).

use super::history::{self, FOREVER, History, What};
use super::kernel::{Constants, Counts, Kernel, Next};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// `thread` ran on `cpu`; ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub cpu: u32,
    pub thread: u32,
    pub from: u64,
    pub to: u64,
}

/// What a thread does that reacts to what it gets, instead of having it written in the history: whenever all that it had to do is done, it
/// sleeps, and then has more to do.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    pub thread: u32,
    /// ns, at least and at most.
    pub sleep: (u64, u64),
    pub work: (u64, u64),
}

/// What happened.
#[derive(Debug, Default)]
pub struct Record {
    /// With what the cycles did, so that it can be replayed without them.
    pub history: History,
    /// By their ends.
    pub runs: Vec<Run>,
    /// (when, thread): it was asleep and has something to do.
    pub wakes: Vec<(u64, u32)>,
    /// (when, thread): it has done all of it.
    pub sleeps: Vec<(u64, u32)>,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The history's event of that number.
    Happens(usize),
    /// A cycle's thread has more to do.
    Again(usize),
    /// A CPU has to ask, unless it asked since.
    Asks { cpu: usize, turn: u64 },
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    running: Option<u32>,
    from: u64,
    began: u64,
    slice_end: u64,
    brief: bool,
    turn: u64,
}

struct Machine {
    kernel: Kernel,
    cpus: Vec<Cpu>,
    /// ns that each thread has to do yet.
    work: Vec<u64>,
    /// ns that it has run since it yielded.
    unyielded: Vec<u64>,
    due: BinaryHeap<Reverse<(u64, Event)>>,
    cycles: Vec<Cycle>,
    random: fastrand::Rng,
    record: Record,
}

/// Runs `history` and `cycles` with the kernel's rules; the same seed gives the same record.
pub fn run(history: &History, cycles: &[Cycle], seed: u64, with: Constants) -> Record {
    let mut machine = Machine::new(history, cycles, seed, with);
    while let Some(Reverse((now, event))) = machine.due.pop() {
        if now >= history.end {
            break;
        }
        match event {
            Event::Happens(i) => machine.happens(now, history.events[i].1),
            Event::Again(i) => machine.again(now, i),
            Event::Asks { cpu, turn } if machine.cpus[cpu].turn == turn => machine.asks(now, cpu),
            Event::Asks { .. } => (),
        }
    }
    machine.finish(history.end)
}

fn between((least, most): (u64, u64), random: &mut fastrand::Rng) -> u64 {
    random.u64(least..=most.max(least))
}

impl Machine {
    fn new(history: &History, cycles: &[Cycle], seed: u64, with: Constants) -> Machine {
        let tasks: Vec<_> = history.threads.iter().map(|t| (t.node, t.on)).collect();
        let nodes = history.nodes.len() as u32 + 1;
        let mut kernel = Kernel::new(with, history.cpus, nodes, &tasks);
        for (i, node) in (1..).zip(&history.nodes) {
            kernel.fund(i, *node);
        }
        let happens = |(i, (at, _)): (usize, &(u64, What))| Reverse((*at, Event::Happens(i)));
        let mut machine = Machine {
            kernel,
            cpus: vec![Cpu::default(); history.cpus as usize],
            work: vec![0; tasks.len()],
            unyielded: vec![0; tasks.len()],
            due: history.events.iter().enumerate().map(happens).collect(),
            cycles: cycles.to_vec(),
            random: fastrand::Rng::with_seed(seed),
            record: Record {
                history: History {
                    events: vec![],
                    ..history.clone()
                },
                ..Record::default()
            },
        };
        for i in 0..cycles.len() {
            machine.sleeps_until_again(0, i);
        }
        machine
    }

    fn happens(&mut self, now: u64, what: What) {
        self.record.history.events.push((now, what));
        match what {
            What::Run { thread, work } => self.has_to_do(now, thread, work),
            What::Share { node, tickets } => {
                let backed = self.record.history.nodes[node as usize - 1];
                self.kernel.fund(node, history::Node { tickets, ..backed });
            }
        }
    }

    fn sleeps_until_again(&mut self, now: u64, cycle: usize) {
        let at = now + between(self.cycles[cycle].sleep, &mut self.random).max(1);
        self.due.push(Reverse((at, Event::Again(cycle))));
    }

    fn again(&mut self, now: u64, cycle: usize) {
        let Cycle { thread, work, .. } = self.cycles[cycle];
        let work = between(work, &mut self.random).max(1);
        self.happens(now, What::Run { thread, work });
    }

    fn has_to_do(&mut self, now: u64, thread: u32, work: u64) {
        let had = &mut self.work[thread as usize];
        let asleep = *had == 0;
        *had = had.saturating_add(work).min(FOREVER);
        if work == 0 {
            return;
        }
        if asleep {
            self.wakes(now, thread);
        } else if let Some(cpu) = self.runs_on(thread) {
            self.account(now, cpu);
            self.sets_out(now, cpu);
        }
    }

    fn runs_on(&self, thread: u32) -> Option<usize> {
        self.cpus.iter().position(|c| c.running == Some(thread))
    }

    /// try_to_wake_up(): scx_bpf_select_cpu_dfl(), and straight to an idle CPU if there is one (tix_select_cpu, tix_enqueue).
    fn wakes(&mut self, now: u64, thread: u32) {
        self.record.wakes.push((now, thread));
        self.kernel.runnable(thread);
        let task = &self.kernel.tasks[thread as usize];
        let last = task.cpu as usize;
        let idle = |cpu: &usize| self.cpus[*cpu].running.is_none();
        let to = match task.bound {
            Some(_) => Some(last).filter(idle),
            None => (Some(last).filter(idle)).or_else(|| (0..self.cpus.len()).find(idle)),
        };
        match to {
            Some(cpu) => {
                self.kernel.tasks[thread as usize].cpu = cpu as u32;
                let slice = self.kernel.slice();
                let next = Next {
                    thread,
                    slice,
                    brief: false,
                };
                self.starts(now, cpu, next);
            }
            None if self.goes_first(now, thread, last) => (),
            None => {
                let lets_go = |t: u32| !self.record.history.threads[t as usize].stuck;
                let lets_go = self.cpus[last].running.is_some_and(lets_go);
                if self.kernel.enqueue(thread, last as u32, true, lets_go, now) {
                    self.hurry(now, last);
                }
            }
        }
    }

    /// goes_first() of kernel.bpf.h: whoever runs on its CPU is put back, and nobody is asked.
    fn goes_first(&mut self, now: u64, thread: u32, cpu: usize) -> bool {
        let first = |t: u32| self.record.history.threads[t as usize].first;
        let Some(prev) = self.cpus[cpu]
            .running
            .filter(|prev| first(thread) && !first(*prev))
        else {
            return false;
        };
        self.account(now, cpu);
        self.kernel.put_back(prev, cpu as u32, now);
        let next = Next {
            thread,
            slice: FOREVER,
            brief: false,
        };
        self.starts(now, cpu, next);
        true
    }

    /// hurry(): who runs makes room, unless it was in a hurry, too, a moment ago.
    fn hurry(&mut self, now: u64, cpu: usize) {
        let c = &self.cpus[cpu];
        let lets_go = |t: u32| !self.record.history.threads[t as usize].stuck;
        if c.running.is_some_and(lets_go) && (!c.brief || now - c.began >= self.kernel.min_slice())
        {
            self.asks(now, cpu);
        }
    }

    fn starts(&mut self, now: u64, cpu: usize, next: Next) {
        let c = &mut self.cpus[cpu];
        c.running = Some(next.thread);
        (c.from, c.began) = (now, now);
        c.slice_end = now + next.slice;
        c.brief = next.brief;
        self.sets_out(now, cpu);
    }

    /// When this CPU will have to ask.
    fn sets_out(&mut self, now: u64, cpu: usize) {
        let c = &mut self.cpus[cpu];
        let Some(thread) = c.running else { return };
        c.turn += 1;
        let done = now + self.work[thread as usize];
        let t = &self.record.history.threads[thread as usize];
        let mut end = match t.stuck {
            true => done,
            false => c.slice_end.min(done),
        };
        if let Some(ns) = t.yields {
            end = end.min(now + ns - self.unyielded[thread as usize]);
        }
        let asks = Event::Asks { cpu, turn: c.turn };
        self.due.push(Reverse((end, asks)));
    }

    /// What ran here has run until now.
    fn account(&mut self, now: u64, cpu: usize) {
        let c = &mut self.cpus[cpu];
        let Some(thread) = c.running else { return };
        let used = now - c.from;
        let run = Run {
            cpu: cpu as u32,
            thread,
            from: c.from,
            to: now,
        };
        c.from = now;
        if used == 0 {
            return;
        }
        match self.record.runs.last_mut() {
            Some(last) if last.cpu == run.cpu && last.thread == thread && last.to == run.from => {
                last.to = now;
            }
            _ => self.record.runs.push(run),
        }
        self.kernel.tasks[thread as usize].uncharged += used;
        if self.work[thread as usize] < FOREVER {
            self.work[thread as usize] -= used;
        }
        self.unyielded[thread as usize] += used;
    }

    /// A slice is over, or who ran sleeps or yields, or somebody is to be taken from a CPU that has too many.
    fn asks(&mut self, now: u64, cpu: usize) {
        self.account(now, cpu);
        let prev = self.cpus[cpu].running.take();
        let mut runnable = false;
        if let Some(thread) = prev {
            runnable = self.work[thread as usize] > 0;
            let yields = self.record.history.threads[thread as usize].yields;
            let yielded = yields.is_some_and(|ns| self.unyielded[thread as usize] >= ns);
            if yielded || !runnable {
                self.unyielded[thread as usize] = 0;
            }
            self.kernel.tasks[thread as usize].yielded = yielded && runnable;
            if !runnable {
                self.sleeps(now, thread);
            }
        }
        if let Some(next) = self.kernel.dispatch(cpu as u32, prev, runnable, now) {
            self.starts(now, cpu, next);
        }
        self.calls_for_help(now, cpu);
    }

    fn sleeps(&mut self, now: u64, thread: u32) {
        self.record.sleeps.push((now, thread));
        self.kernel.quiescent(thread);
        if let Some(cycle) = self.cycles.iter().position(|c| c.thread == thread) {
            self.sleeps_until_again(now, cycle);
        }
    }

    /// call_for_help() of timer.bpf.h.
    fn calls_for_help(&mut self, now: u64, cpu: usize) {
        if !self.kernel.waits_at_home(cpu as u32) {
            return;
        }
        let idle = (0..self.cpus.len()).find(|c| self.cpus[*c].running.is_none());
        if let Some(other) = idle
            && let Some(next) = self.kernel.dispatch(other as u32, None, false, now)
        {
            self.starts(now, other, next);
        }
    }

    fn finish(mut self, end: u64) -> Record {
        for cpu in 0..self.cpus.len() {
            self.account(end, cpu);
        }
        self.record.runs.sort_by_key(|r| (r.to, r.from, r.cpu));
        self.record.counts = self.kernel.counts;
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::KERNEL;
    use super::super::scenarios::Scenario;
    use super::*;

    #[test]
    fn what_is_saved_happens_again() {
        for scenario in Scenario::ALL {
            let case = scenario.case(2, 200_000_000, 7);
            let record = run(&case.history, &case.cycles, 7, KERNEL);
            let saved = History::read(&record.history.write()).expect("read");
            let again = run(&saved, &[], 0, KERNEL);
            assert_eq!(again.runs, record.runs, "{scenario:?}");
        }
    }

    #[test]
    fn no_cpu_idles_while_somebody_waits_for_it() {
        for seed in 0..20 {
            let case = Scenario::Steady.case(4, 100_000_000, seed);
            let record = run(&case.history, &case.cycles, seed, KERNEL);
            let busy: u64 = record.runs.iter().map(|r| r.to - r.from).sum();
            assert_eq!(busy, 4 * case.history.end, "seed {seed}");
            for runs in (0..4).map(|c| record.runs.iter().filter(move |r| r.cpu == c)) {
                let runs: Vec<_> = runs.collect();
                assert!(runs.windows(2).all(|w| w[0].to <= w[1].from));
            }
        }
    }
}
