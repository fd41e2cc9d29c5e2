// SPDX-License-Identifier: GPL-2.0-only
//! Records beside the ideal machine: service time errors (Nieh eq. 2) in quanta, and waits.

use super::fluid::Fluid;
use super::replay::{Record, Run};
use crate::MS;
use std::collections::HashMap;

/// What errors are counted in, ns.
pub const QUANTUM: u64 = MS;

/// The error of a principal: what it has had minus what the ideal machine would have given it by
/// then, quanta; the lowest, the highest, and when that was, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Error {
    pub node: u32,
    pub low: f64,
    pub low_at: u64,
    pub high: f64,
    pub high_at: u64,
    /// At the end.
    pub last: f64,
    /// The mean over time of its size.
    pub mean: f64,
}

/// The service of each principal as time goes by.
struct Service<'a> {
    record: &'a Record,
    /// Starts (+1) and ends (-1) of runs: (when, node, change of the CPUs that it has).
    steps: Vec<(u64, usize, i32)>,
}

impl Service<'_> {
    fn new(record: &Record) -> Service<'_> {
        let node = |thread: u32| record.history.threads[thread as usize].node as usize;
        let both = |r: &Run| [(r.from, node(r.thread), 1), (r.to, node(r.thread), -1)];
        let mut steps: Vec<_> = record.runs.iter().flat_map(both).collect();
        steps.sort_unstable_by_key(|(at, ..)| *at);
        Service { record, steps }
    }

    /// Call `look` whenever a run starts or ends, and at the end, with what each node has had by
    /// then, ns.
    fn watch(&self, mut look: impl FnMut(u64, &[f64])) {
        let nodes = self.record.history.nodes.len() + 1;
        let (mut had, mut cpus) = (vec![0.0; nodes], vec![0i32; nodes]);
        let mut last = 0;
        let end = [(self.record.history.end, 0, 0)];
        for (at, node, by) in self.steps.iter().chain(&end) {
            if *at > last {
                let passed = (at - last) as f64;
                let running = had.iter_mut().zip(&cpus);
                running.for_each(|(had, cpus)| *had += passed * f64::from(*cpus));
                last = *at;
                look(last, &had);
            }
            cpus[*node] += by;
        }
    }
}

/// The errors of all principals.
pub fn errors(record: &Record) -> Vec<Error> {
    let history = &record.history;
    let mut fluid = Fluid::new(history);
    let mut events = history.events.iter().peekable();
    let error = |node| Error {
        node,
        ..Error::default()
    };
    let mut errors: Vec<Error> = history.principals().into_iter().map(error).collect();
    let mut before = 0;
    Service::new(record).watch(|at, had| {
        while let Some((when, what)) = events.next_if(|(when, _)| *when <= at) {
            fluid.happens(*when, *what);
        }
        fluid.advance(at);
        for e in &mut errors {
            let node = e.node as usize;
            let quanta = (had[node] - fluid.served[node]) / QUANTUM as f64;
            if quanta < e.low {
                (e.low, e.low_at) = (quanta, at);
            }
            if quanta > e.high {
                (e.high, e.high_at) = (quanta, at);
            }
            e.mean += quanta.abs() * (at - before) as f64;
            e.last = quanta;
        }
        before = at;
    });
    for e in &mut errors {
        e.mean /= record.history.end as f64;
    }
    errors
}

/// How long `thread` waited for a CPU each time that it woke up, ns.
pub fn latencies(record: &Record, thread: u32) -> Vec<u64> {
    let mut starts = (record.runs.iter().filter(|r| r.thread == thread)).map(|r| r.from);
    let mut start = starts.next();
    let mut all = Vec::new();
    for (woke, _) in record.wakes.iter().filter(|(_, t)| *t == thread) {
        while start.is_some_and(|s| s < *woke) {
            start = starts.next();
        }
        all.extend(start.map(|s| s - woke));
    }
    all
}

/// The longest that a thread was runnable without a CPU: (ns, thread).
pub fn longest_wait(record: &Record) -> (u64, u32) {
    // Since when each waits.
    let mut waits: HashMap<u32, u64> = HashMap::new();
    let mut longest = (0, 0);
    let wakes = record.wakes.iter().map(|(at, t)| (*at, 2, *t));
    let starts = record.runs.iter().map(|r| (r.from, 3, r.thread));
    let ends = record.runs.iter().map(|r| (r.to, 0, r.thread));
    let sleeps = record.sleeps.iter().map(|(at, t)| (*at, 1, *t));
    let mut all: Vec<(u64, u8, u32)> = wakes.chain(starts).chain(ends).chain(sleeps).collect();
    all.sort_unstable();
    for (at, what, thread) in all {
        match what {
            0 | 2 => _ = waits.insert(thread, at),
            1 => _ = waits.remove(&thread),
            _ => longest = longest.max((waits.remove(&thread).map_or(0, |s| at - s), thread)),
        }
    }
    let still = waits.iter().map(|(t, s)| (record.history.end - s, *t));
    still.fold(longest, Ord::max)
}
