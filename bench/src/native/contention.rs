// SPDX-License-Identifier: GPL-2.0-only
//! What CPUs that decide at the same time do to each other: one queue under a lock for all of them, or one each. They do nothing else,
//! so this is the worst case. And how much memory a decision takes away from other CPUs' caches.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use spin::mutex::TicketMutex;

use super::queues::Weights;
use crate::lab::rules::grouped::Grouped;

/// Kept off the lines of its neighbours.
#[repr(align(128))]
struct Shared(TicketMutex<Grouped>);

/// Decisions per second of `threads` together, for as long as that. The lock is fair, as the kernel's is.
pub fn rate(threads: usize, shared: bool, clients: usize, length: Duration) -> Result<f64> {
    let all = Weights::Uniform.clients(clients, 1);
    let count = if shared { 1 } else { threads };
    let queues: Vec<Shared> = (0..count)
        .map(|_| Shared(TicketMutex::new(Grouped::filed(&all))))
        .collect();
    let (stop, start) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let work = &|i: usize| {
        let queue = &queues[i % count].0;
        start.wait();
        let mut decisions = 0u64;
        // One at least, also of a thread that this machine lets run only when the time is over.
        loop {
            queue.lock().run(1);
            decisions += 1;
            if stop.load(Ordering::Relaxed) {
                return decisions;
            }
        }
    };
    thread::scope(|scope| {
        let of: Vec<_> = (0..threads).map(|i| scope.spawn(move || work(i))).collect();
        start.wait();
        let began = Instant::now();
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let took = began.elapsed();
        let mut sum = 0;
        for one in of {
            sum += one.join().map_err(|_| anyhow!("a thread panicked"))?;
        }
        Ok(sum as f64 / took.as_secs_f64())
    })
}

/// Cache lines of 64 bytes of vtrr.h's memory that a decision changes: mean, and most.
pub fn lines(weights: Weights, clients: usize, decisions: usize) -> (f64, usize) {
    let mut queue = Grouped::filed(&weights.clients(clients, 1));
    queue.run(4 * clients as u64);
    let mut before = queue.lines().to_vec();
    let (mut sum, mut most) = (0, 0);
    for _ in 0..decisions {
        queue.run(1);
        let mut changed = 0;
        for (old, new) in before.iter_mut().zip(queue.lines()) {
            if old != new {
                *old = *new;
                changed += 1;
            }
        }
        sum += changed;
        most = most.max(changed);
    }
    (sum as f64 / decisions as f64, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_decide() {
        for shared in [true, false] {
            let rate = rate(2, shared, 10, Duration::from_millis(5)).expect("threads");
            assert!(rate > 0.0);
        }
    }

    #[test]
    fn few_lines_however_many_clients() {
        for clients in [2, 100, 3_000] {
            let (mean, most) = lines(Weights::Log, clients, 200);
            assert!(mean >= 1.0 && most <= 20, "{clients}: {mean} {most}");
        }
    }
}
