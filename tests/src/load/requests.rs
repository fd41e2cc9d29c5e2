// SPDX-License-Identifier: GPL-2.0-only
//! A server at its limit, after schbench: a thread hands out work, workers wake up for each request, wait a little as for a disk, and
//! compute. How many requests were done, and how late workers ran after they had been woken up.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::Table;
use super::sys;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Run {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Requests {
    pub workers: usize,
    /// Of each number, that of the run in the middle.
    #[serde(flatten)]
    pub median: Run,
    pub runs: Vec<Run>,
}

/// What a worker waits for before it computes.
const WAIT: Duration = Duration::from_micros(100);

/// Each request multiplies two matrices of so many rows twice: three of them are 16 KiB.
const ROWS: usize = 26;

/// `runs` times, each with a server of its own.
pub fn run(
    root: &Path,
    workers: usize,
    runs: usize,
    warmup: f64,
    seconds: f64,
) -> Result<Requests> {
    ensure!(workers > 0 && runs > 0, "there must be a worker, and a run");
    let arena = Arena::new(root)?;
    let dir = cgroups::open(&arena.add("server".as_ref(), 100)?)?;
    let runs: Vec<Run> = (0..runs)
        .map(|_| one(&dir, workers, warmup, seconds))
        .collect::<Result<_>>()?;
    let middle = |of: fn(&Run) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok(Requests {
        workers,
        median: Run {
            per_second: middle(|r| r.per_second),
            p50_us: middle(|r| r.p50_us),
            p99_us: middle(|r| r.p99_us),
        },
        runs,
    })
}

fn one(dir: &File, workers: usize, warmup: f64, seconds: f64) -> Result<Run> {
    let (results, sender) = sys::pipe()?;
    let mut sender = File::from(sender);
    let mut crew = Crew::new(1)?;
    crew.spawn(Some(dir), 0, |_| {
        let begin = sys::now() + (warmup * 1e9) as u64;
        let late = serve(workers, begin, begin + (seconds * 1e9) as u64);
        let bytes: Vec<u8> = late.iter().flat_map(|ns| ns.to_ne_bytes()).collect();
        let _ = sender.write_all(&bytes);
    })?;
    drop(sender);
    crew.muster()?;
    crew.open(0);
    let mut bytes = Vec::new();
    File::from(results)
        .read_to_end(&mut bytes)
        .context("the server's results")?;
    let words = bytes.as_chunks().0.iter();
    let mut late: Vec<u64> = words.map(|c| u64::from_ne_bytes(*c)).collect();
    ensure!(!late.is_empty(), "no request was done");
    late.sort_unstable();
    let at = |q: f64| late[((late.len() - 1) as f64 * q).round() as usize] as f64 / 1e3;
    Ok(Run {
        per_second: late.len() as f64 / seconds,
        p50_us: at(0.5),
        p99_us: at(0.99),
    })
}

/// A worker, as the one who wakes it up sees it.
#[derive(Default)]
struct Worker {
    /// 0, or when it was woken up.
    woken: AtomicU64,
    thread: Mutex<Option<Thread>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until `end`; how late each request from `begin` on was begun, in ns.
fn serve(workers: usize, begin: u64, end: u64) -> Vec<u64> {
    let crowd: Vec<Worker> = (0..workers).map(|_| Worker::default()).collect();
    let (waiting, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let messenger = thread::current();
    thread::scope(|scope| {
        let work = |me: usize| {
            *lock(&crowd[me].thread) = Some(thread::current());
            let mut late = Vec::new();
            let mut matrices = [[[1u64; ROWS]; ROWS]; 3];
            loop {
                lock(&waiting).push(me);
                messenger.unpark();
                let at = loop {
                    match crowd[me].woken.swap(0, Ordering::AcqRel) {
                        0 if over.load(Ordering::Acquire) => return late,
                        0 => thread::park(),
                        at => break at,
                    }
                };
                let now = sys::now();
                if at >= begin {
                    late.push(now.saturating_sub(at));
                }
                thread::sleep(WAIT);
                multiply(&mut matrices);
                multiply(&mut matrices);
            }
        };
        let threads: Vec<_> = (0..workers)
            .map(|me| scope.spawn(move || work(me)))
            .collect();
        while sys::now() < end {
            let ready = std::mem::take(&mut *lock(&waiting));
            if ready.is_empty() {
                thread::park();
            }
            for worker in ready {
                crowd[worker].woken.store(sys::now(), Ordering::Release);
                if let Some(thread) = &*lock(&crowd[worker].thread) {
                    thread.unpark();
                }
            }
        }
        over.store(true, Ordering::Release);
        for worker in &crowd {
            if let Some(thread) = &*lock(&worker.thread) {
                thread.unpark();
            }
        }
        let late = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap_or_default());
        late.collect()
    })
}

fn multiply([a, b, c]: &mut [[[u64; ROWS]; ROWS]; 3]) {
    for i in 0..ROWS {
        for j in 0..ROWS {
            let sum = (0..ROWS).map(|k| a[i][k].wrapping_mul(b[k][j]));
            c[i][j] = std::hint::black_box(sum.fold(0, u64::wrapping_add));
        }
    }
}

impl Table for Requests {
    fn table(&self) -> String {
        let Run {
            per_second,
            p50_us,
            p99_us,
        } = self.median;
        format!(
            "{} workers: {per_second:.0} requests/s; woken up, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs; medians of {}\n",
            self.workers,
            self.runs.len()
        )
    }
}
