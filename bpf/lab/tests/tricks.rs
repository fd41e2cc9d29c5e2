// SPDX-License-Identifier: GPL-2.0-only
//! What a principal does to get more than by computing all the time, drawn at random: it pays
//! nothing.

use tix_lab::adversary::Random;
use tix_lab::history::replay::{self, Cycle};
use tix_lab::history::{FOREVER, History, US};
use tix_lab::{MS, SECOND};

#[derive(Clone, Copy, Debug)]
enum Trick {
    /// Sleeps a little, again and again, having used so much; us.
    Sleep { work: u64, sleep: u64 },
    /// Yields whenever it has run for so long, us.
    Yield { each: u64 },
    /// Moves its tickets to and fro between two threads of its own every so many us, `high` to one.
    Toggle { each: u64, high: u32 },
}

fn trick(random: &mut Random) -> Trick {
    match random.below(4) {
        0 => Trick::Sleep {
            work: random.within(10, 5_000),
            sleep: random.within(1, 2_000),
        },
        // It sleeps shortly before its slice is over.
        1 => Trick::Sleep {
            work: random.within(900, 999),
            sleep: random.within(1, 2_000),
        },
        2 => Trick::Yield {
            each: random.within(10, 5_000),
        },
        _ => Trick::Toggle {
            each: random.within(500, 300_000),
            high: random.within(1, 10_000) as u32,
        },
    }
}

/// The trickster's nodes: its own and two below that.
const ITS_NODES: u32 = 3;

fn history(trick: Trick, cpus: u32, mine: u32, hogs: &[u32], end: u64) -> (History, Vec<Cycle>) {
    let mut history = History::new(cpus, end);
    let me = history.node(0, mine);
    let two: [u32; 2] = std::array::from_fn(|_| history.node(me, 100));
    let mut cycles = vec![];
    match trick {
        Trick::Sleep { work, sleep } => cycles.push(Cycle {
            thread: history.thread(me),
            sleep: (sleep * US, sleep * US),
            work: (work * US, work * US),
        }),
        Trick::Yield { each } => {
            let thread = history.thread(me);
            history.threads[thread as usize].yields = Some(each * US);
            history.run(0, thread, FOREVER);
        }
        Trick::Toggle { each, high } => {
            for node in two {
                let thread = history.thread(node);
                history.run(0, thread, FOREVER);
            }
            for i in 0..end / (each * US) {
                for (j, node) in two.into_iter().enumerate() {
                    let tickets = if i as usize % 2 == j { high } else { 1 };
                    history.share(i * each * US, node, tickets);
                }
            }
        }
    }
    hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
    (history, cycles)
}

/// What a principal of `mine` tickets beside these hogs has had beyond its share, ms.
fn gain(history: &History, cycles: &[Cycle], mine: u32, hogs: &[u32], seed: u64) -> f64 {
    let total = mine + hogs.iter().sum::<u32>();
    let share = f64::from(mine * history.cpus) / f64::from(total);
    let record = replay::run(history, cycles, seed);
    let had = record.used(|node| (1..=ITS_NODES).contains(&node)) as f64;
    (had - share * history.end as f64) / MS as f64
}

/// Beside hogs, of which there are more than CPUs, its share is all that it can have. At a moment
/// it may be ahead by a few of its runs, of 1 ms; on two CPUs by these of both. A gain each time
/// would be twice as much in twice the time.
#[test]
fn no_trick_pays() {
    let mut most: [f64; 2] = [0.0; 2];
    for seed in 0..300 {
        let mut random = Random(seed);
        let trick = trick(&mut random);
        let cpus = random.within(1, 2) as u32;
        let mine = random.within(100, 399) as u32;
        let hogs: Vec<u32> = (0..random.within(4, 6))
            .map(|_| random.within(150, 399) as u32)
            .collect();
        for seconds in [1, 2] {
            let (history, cycles) = history(trick, cpus, mine, &hogs, seconds * SECOND);
            let gain = gain(&history, &cycles, mine, &hogs, seed);
            most[cpus as usize - 1] = most[cpus as usize - 1].max(gain);
            assert!(
                gain < 5.0 * f64::from(cpus),
                "{seed}: {trick:?}: {gain:+} ms after {seconds} s"
            );
        }
    }
    println!("at most {most:.2?} ms more than its share, on one CPU and on two");
}

/// Tickets of one that forks, and of the hogs beside it.
const MINE: u32 = 201;
const HOGS: [u32; 4] = [398, 315, 317, 233];

/// What it gains in so many seconds by a new thread each 4.6 ms, which works for half of that: they
/// become ever more.
fn forks(seconds: u64) -> f64 {
    const GAP: u64 = 4_639 * US;
    let mut history = History::new(1, seconds * SECOND);
    let me = history.node(0, MINE);
    (0..2).for_each(|_| _ = history.node(me, 100));
    for i in 0..seconds * SECOND / GAP {
        let thread = history.thread(me);
        history.run(i * GAP, thread, 2_318 * US);
    }
    HOGS.iter().for_each(|tickets| _ = history.hog(0, *tickets));
    gain(&history, &[], MINE, &HOGS, 0)
}

/// A principal that is ahead is forgiven what is more than AHEAD_NS, 0.3 s, once.
#[test]
fn forks_gain_a_fraction_of_a_second_once() {
    for seconds in [2, 8, 16] {
        let gain = forks(seconds);
        println!("{gain:+.1} ms after {seconds} s");
        assert!(gain < 300.0, "{gain:+} ms after {seconds} s");
    }
}

/// Promises that do not hold yet, each with what was seen.
mod not_kept {
    use super::*;

    #[test]
    #[ignore = "not kept yet: 134 ms are gained in the first 2 s, and kept (134 ms after 16 s)"]
    fn forks_gain_nothing() {
        for seconds in [1, 2, 16] {
            let gain = forks(seconds);
            assert!(gain < 5.0, "{gain:+} ms after {seconds} s");
        }
    }
}
