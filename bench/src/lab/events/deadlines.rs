// SPDX-License-Identifier: GPL-2.0-only
//! A thread that is far below its due is served at once when it wakes up, on several CPUs as on one: it works a little each period beside
//! a crowd of another principal that has as many tickets, and ends each round before the next one begins.

use super::history::{FOREVER, History};
use super::kernel::KERNEL;
use super::machine;

const MS: u64 = 1_000_000;
const WORK: u64 = MS;
const PERIOD: u64 = 5_300_000;
const ROUNDS: u64 = 400;
/// Until the crowd is spread over all CPUs.
const FIRST: u64 = 300 * MS;

/// How long after its beginning each round's work was begun, and done, ns.
fn rounds(cpus: u32, crowd: u32, first: u64) -> Vec<(u64, u64)> {
    let mut history = History {
        cpus,
        end: first + ROUNDS * PERIOD + 100 * MS,
        ..History::default()
    };
    let node = history.node(0, 100);
    for _ in 0..crowd {
        let hog = history.thread(node);
        history.run(0, hog, FOREVER);
    }
    let node = history.node(0, 100);
    let thread = history.thread(node);
    for i in 0..ROUNDS {
        history.run(first + i * PERIOD, thread, WORK);
    }
    let record = machine::run(&history, &[], 0, KERNEL);
    let (mut all, mut had, mut began) = (Vec::new(), 0, None);
    for run in record.runs.iter().filter(|run| run.thread == thread) {
        let at = first + all.len() as u64 * PERIOD;
        let begun = *began.get_or_insert(run.from - at);
        had += run.to - run.from;
        if had == WORK {
            all.push((begun, run.to - at));
            (had, began) = (0, None);
        }
    }
    all
}

#[test]
fn who_is_far_below_its_due_is_served_at_once() {
    for (cpus, crowd) in [(1, 16), (2, 4), (2, 15), (2, 16), (4, 16), (4, 32)] {
        for first in [FIRST, FIRST + 333_000] {
            let all = rounds(cpus, crowd, first);
            assert_eq!(all.len() as u64, ROUNDS, "{cpus} CPUs, {crowd} others");
            for (i, (began, done)) in all.iter().enumerate() {
                // A run of MIN_SLICE_NS is not interrupted; nor does a round that is late begin before it.
                assert!(
                    *began <= KERNEL.min_slice && *done < PERIOD,
                    "{cpus} CPUs, {crowd} others: round {i} begins after {began} ns, and ends after {done}"
                );
            }
        }
    }
}
