// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons in guests on the instruction-counting clock. What else this machine does changes nothing there, so as many guests run at
//! once as it has CPUs, those of several comparisons together.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use tix_tests::guest::{Guest, Reports};

use crate::progress::Progress;

/// One guest.
pub struct Job {
    /// In words, for who waits.
    pub what: String,
    pub guest: Guest,
    pub script: String,
    /// How long it takes beside others: the longest begin first.
    pub long: usize,
}

/// Guests, and what is made of what they said, in their order.
pub struct Comparison {
    pub jobs: Vec<Job>,
    pub report: Report,
}

type Report = Box<dyn FnOnce(Vec<Reports>) -> Result<()>>;

/// Runs all of them. Those are reported whose guests all did their work; the first failure is handed back.
pub fn run(comparisons: Vec<Comparison>) -> Result<()> {
    let (mut jobs, mut reports) = (Vec::new(), Vec::new());
    for (c, comparison) in comparisons.into_iter().enumerate() {
        jobs.extend((0..).zip(comparison.jobs).map(|(j, job)| ((c, j), job)));
        reports.push(comparison.report);
    }
    jobs.sort_by_key(|(_, job)| Reverse(job.long));
    let progress = Progress::of(jobs.len());
    let (jobs, said) = (Mutex::new(jobs.into_iter()), Mutex::new(Vec::new()));
    let next = || jobs.lock().ok().and_then(|mut jobs| jobs.next());
    let work = || {
        while let Some((at, job)) = next() {
            let began = Instant::now();
            let reports = job.guest.run(&job.script).context(job.what.clone());
            progress.line(&job.what, began);
            if let Ok(mut said) = said.lock() {
                said.push((at, reports));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut said = said
        .into_inner()
        .map_err(|_| anyhow!("a guest's thread panicked"))?;
    said.sort_by_key(|(at, _)| *at);
    let (mut said, mut result) = (said.into_iter().peekable(), Ok(()));
    for (c, report) in reports.into_iter().enumerate() {
        let mut of = Vec::new();
        while let Some((_, reports)) = said.next_if(|s| s.0.0 == c) {
            of.push(reports);
        }
        let of: Result<Vec<_>> = of.into_iter().collect();
        result = result.and(of.and_then(report));
    }
    result
}
