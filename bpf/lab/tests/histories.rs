// SPDX-License-Identifier: GPL-2.0-only
//! Random histories beside the ideal machine: how far a principal is from its share at any moment.
//!
//! A test that fails prints its history, which `bench/run reality --events FILE` runs again;
//! `--trace FILE` shows it. Errors are in quanta of 1 ms.

use tix_lab::adversary::Random;
use tix_lab::history::judge::{self, Error};
use tix_lab::history::replay::{self, Cycle, Record};
use tix_lab::history::scenarios::{self, Scenario};
use tix_lab::history::{FOREVER, History, US};
use tix_lab::{MS, SECOND};

/// What a principal's error may be on one CPU: a run of its own that is going on, one that it
/// waits for, and as much again for what others do meanwhile (sleep, wake, change share).
const ONE_CPU: f64 = 5.0;
/// On several CPUs: their clocks are 15 ms of the machine apart at most (APART_NS), which is 9 ms
/// of a thread that is due 0.6 of a CPU, as none of these exceeds.
const SEVERAL_CPUS: f64 = 9.0 + ONE_CPU;

/// What happens to principals of a history, drawn at random.
struct Steps {
    /// Work that arrives at once, at most, us; on average one and a half of that pass between two.
    work_us: u64,
    /// Whether one step in five changes tickets.
    has_shares: bool,
}

fn tickets(random: &mut Random, nr: u64, least: u64, most: u64) -> Vec<u32> {
    (0..nr).map(|_| random.within(least, most) as u32).collect()
}

/// Principals of one thread below base: hogs of so many tickets, and after them sleepers to which
/// the steps happen.
fn flat(cpus: u32, hogs: &[u32], sleepers: &[u32]) -> History {
    let mut history = History::new(cpus, 0);
    hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
    for tickets in sleepers {
        let node = history.node(0, *tickets);
        history.thread(node);
    }
    history
}

impl Steps {
    fn draw(&self, history: &mut History, hogs: usize, random: &mut Random) {
        let (nodes, mut at) = (history.nodes.len(), 0);
        for _ in 0..random.within(1, 400) {
            at += random.below(3 * self.work_us) * US;
            if self.has_shares && random.below(5) == 0 {
                let node = random.within(1, nodes as u64) as u32;
                history.share(at, node, random.within(150, 400) as u32);
            } else if hogs < nodes {
                let thread = hogs as u64 + random.below((nodes - hogs) as u64);
                history.run(at, thread as u32, random.within(1, self.work_us) * US);
            }
        }
        history.end = at + 200 * MS;
    }
}

fn errors(history: &History) -> Vec<Error> {
    judge::errors(&replay::run(history, &[], 0))
}

/// The least and the most of these errors.
fn range(errors: &[Error]) -> (f64, f64) {
    let low = errors.iter().map(|e| e.low).fold(0.0, f64::min);
    let high = errors.iter().map(|e| e.high).fold(0.0, f64::max);
    (low, high)
}

/// How many hogs and sleepers there are, at least and at most, and what happens to the latter.
struct Draws {
    cpus: u32,
    hogs: (u64, u64),
    sleepers: (u64, u64),
    steps: Steps,
}

impl Draws {
    /// All hogs of `seeds` histories are between these.
    #[track_caller]
    fn are_within(&self, seeds: u64, least: f64, most: f64) {
        let (mut lowest, mut highest): (f64, f64) = (0.0, 0.0);
        for seed in 0..seeds {
            let random = &mut Random(seed);
            let nr = random.within(self.hogs.0, self.hogs.1);
            let hogs = tickets(random, nr, 150, 399);
            let nr = random.within(self.sleepers.0, self.sleepers.1);
            let sleepers = tickets(random, nr, 20, 399);
            let mut history = flat(self.cpus, &hogs, &sleepers);
            self.steps.draw(&mut history, hogs.len(), random);
            let (low, high) = range(&errors(&history)[..hogs.len()]);
            assert!(
                low > least && high < most,
                "seed {seed}: {low:+} {high:+}\n{}",
                history.write()
            );
            (lowest, highest) = (lowest.min(low), highest.max(high));
        }
        println!("{} CPUs: {lowest:+.2} ... {highest:+.2}", self.cpus);
    }
}

#[test]
fn who_always_wants_to_is_never_far_behind() {
    let draws = Draws {
        cpus: 1,
        hogs: (4, 6),
        sleepers: (0, 3),
        steps: Steps {
            work_us: 10_000,
            has_shares: true,
        },
    };
    draws.are_within(400, -ONE_CPU, ONE_CPU);
}

#[test]
fn nor_when_others_use_parts_of_quanta() {
    let draws = Draws {
        cpus: 1,
        hogs: (4, 6),
        sleepers: (1, 3),
        steps: Steps {
            work_us: 900,
            has_shares: false,
        },
    };
    draws.are_within(400, -ONE_CPU, ONE_CPU);
}

#[test]
fn nor_on_several_cpus() {
    for cpus in [2, 3, 4] {
        let draws = Draws {
            cpus,
            hogs: (16, 31),
            sleepers: (0, 3),
            steps: Steps {
                work_us: 5_000,
                has_shares: true,
            },
        };
        draws.are_within(200, -SEVERAL_CPUS, SEVERAL_CPUS);
    }
}

/// The bound that proportional shares give to a thread with less than a quantum's work: its own
/// period, which groups make an eighth longer, and two runs that are going on.
#[test]
fn a_sleeper_runs_within_its_period() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let (case, thread) = scenarios::sleeper(1, 0, SECOND);
        let mut history = case.history;
        let mine = random.within(20, 399) as u32;
        history.nodes[0].tickets = mine;
        let nr = random.within(4, 6);
        let hogs = tickets(&mut random, nr, 150, 399);
        hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
        let total = mine + hogs.iter().sum::<u32>();
        let period = MS * u64::from(total) / u64::from(mine);
        let record = replay::run(&history, &case.cycles, seed);
        let latencies = judge::latencies(&record, thread);
        let most = latencies.iter().max().copied().unwrap_or(0);
        assert!(latencies.len() > 5);
        assert!(
            most < period * 9 / 8 + 2 * MS,
            "seed {seed}: {most} ns of {period}"
        );
    }
}

/// A principal with more tickets than all others does a little again and again: these divide the
/// rest as if it were not there.
#[test]
fn a_large_holder_comes_and_goes() {
    for (tickets, gap, work) in [
        (217, 30 * MS, 10 * MS),
        (100, 25 * MS, 500 * US),
        (1_000, 25 * MS, 300 * US),
        (10_000, 7 * MS, 50 * US),
        (3_000, 11 * MS, 2_500 * US),
    ] {
        for hogs in [[20, 20], [15, 5]] {
            let mut history = flat(1, &hogs, &[tickets]);
            (0..100).for_each(|i| history.run(i * gap, 2, work));
            history.end = 100 * gap;
            let (low, high) = range(&errors(&history)[..2]);
            assert!(
                low > -ONE_CPU && high < ONE_CPU,
                "{tickets} tickets, {work} ns each {gap} ns, beside {hogs:?}: {low:+} {high:+}"
            );
        }
    }
}

/// All principals of these histories are between `-most` and `most`.
#[track_caller]
fn scenario(scenario: Scenario, cpus: u32, seconds: u64, seeds: u64, most: f64) {
    let (mut lowest, mut highest): (f64, f64) = (0.0, 0.0);
    for seed in 0..seeds {
        let case = scenario.case(cpus, seconds * SECOND, seed);
        let record = replay::run(&case.history, &case.cycles, seed);
        let (low, high) = range(&judge::errors(&record));
        assert!(
            low > -most && high < most,
            "{scenario:?} on {cpus} CPUs, seed {seed}: {low:+} {high:+}"
        );
        (lowest, highest) = (lowest.min(low), highest.max(high));
    }
    println!("{scenario:?} on {cpus} CPUs: {lowest:+.2} ... {highest:+.2}");
}

#[test]
fn siblings_that_sleep_cost_nobody_else() {
    scenario(Scenario::Parts, 1, 3, 30, ONE_CPU);
}

/// What could not be interrupted for 20 ms is given back, though others of its own wake up
/// meanwhile; so does nobody lose what it waited for.
#[test]
fn what_was_had_uninterrupted_is_given_back() {
    scenario(Scenario::Stuck, 1, 12, 5, 20.0 + ONE_CPU);
}

/// However long they run: on several CPUs it is a few of such stretches.
#[test]
fn nor_is_it_forgotten_on_several_cpus() {
    for cpus in [2, 4] {
        scenario(Scenario::Stuck, cpus, 30, 3, 80.0);
    }
}

#[test]
fn a_few_quanta_on_several_cpus() {
    for cpus in [2, 4] {
        scenario(Scenario::Steady, cpus, 3, 30, SEVERAL_CPUS);
    }
}

/// Clocks are 15 ms apart at most, and a principal of five threads is on all CPUs.
#[test]
fn a_large_holder_does_not_matter_there() {
    for cpus in [2, 4] {
        scenario(Scenario::Seldom, cpus, 3, 30, 15.0 + ONE_CPU);
    }
}

/// A thread that is due most of a CPU is moved when its CPU is 15 ms behind.
#[test]
fn a_surplus_stays_with_the_siblings() {
    scenario(Scenario::Infeasible, 2, 20, 10, 15.0 + ONE_CPU);
}

/// A thread of `node` works up to 5 ms and sleeps up to 3, again and again.
fn with_a_sleeper(history: &mut History, node: u32) -> Record {
    let cycle = Cycle {
        thread: history.thread(node),
        sleep: (MS / 10, 3 * MS),
        work: (MS / 10, 5 * MS),
    };
    replay::run(history, &[cycle], 1)
}

/// alice has 300 tickets of base; of bob's 100 a cgroup has 100, with a hog in it, and a node that
/// sleeps has some of the cgroup's and `also` of bob's own. What alice has too much, ms of 15,000.
fn beside_a_hog_of_bobs(also: u32) -> f64 {
    let mut history = History::new(1, 20 * SECOND);
    let alice = history.hog(0, 300);
    let bob = history.node(0, 100);
    let cgroup = history.node(bob, 100);
    history.hog(cgroup, 100);
    let main = history.node(cgroup, 100);
    history.also(main, bob, also);
    let record = with_a_sleeper(&mut history, main);
    let had = record.used(|node| node == alice) as f64;
    (had - 0.75 * history.end as f64) / MS as f64
}

const ALSO: [u32; 8] = [1, 10, 30, 100, 300, 1_000, 3_000, 1 << 20];

/// bob's share pays for what a node of his has that sleeps and wakes up, though two currencies
/// back it.
#[test]
fn who_is_backed_by_several_costs_nobody_else() {
    for also in ALSO {
        let off = beside_a_hog_of_bobs(also);
        assert!(off > -ONE_CPU, "{also}: {off:+}");
    }
}

/// A principal has a quarter of the machine while a sibling of many tickets sleeps, and next to
/// nothing while that works. What it was due meanwhile it has afterwards.
#[test]
fn what_was_due_to_who_waited_long_is_not_lost() {
    for tickets in [1_000, 10_000, 100_000, 300_000] {
        let mut history = History::new(1, 20 * SECOND);
        history.hog(0, 300);
        let bob = history.node(0, 100);
        history.hog(bob, 100);
        let main = history.node(bob, tickets);
        let (low, high) = range(&judge::errors(&with_a_sleeper(&mut history, main)));
        assert!(
            low > -ONE_CPU && high < ONE_CPU,
            "{tickets} beside 100: {low:+} {high:+}"
        );
    }
}

/// Hogs of 10,000 tickets and a crowd that has one.
fn crowd(cpus: u32, threads: u32, seconds: u64) -> History {
    let mut history = History::new(cpus, seconds * SECOND);
    for _ in 0..2 * cpus {
        history.hog(0, 10_000);
    }
    let node = history.node(0, 1);
    for _ in 0..threads {
        let thread = history.thread(node);
        history.run(0, thread, FOREVER);
    }
    history
}

#[test]
fn each_thread_of_a_crowd_runs_within_ten_seconds() {
    for (cpus, threads) in [(1, 1), (1, 100), (2, 400), (2, 3_000)] {
        let record = replay::run(&crowd(cpus, threads, 30), &[], 0);
        let (wait, thread) = judge::longest_wait(&record);
        assert!(
            wait < 10 * SECOND,
            "{cpus} CPUs, thread {thread} of {threads}: {} ms",
            wait / MS
        );
    }
}

/// A thread that has waited for 5 s has 0.1 ms (OVERDUE_NS, MIN_SLICE_NS), whatever its tickets,
/// and no more: 2,000 of them have 40 ms a second at most.
#[test]
fn a_crowd_has_what_its_turns_take() {
    let (threads, seconds) = (2_000, 12);
    let record = replay::run(&crowd(1, threads, seconds), &[], 0);
    let had = record.used(|node| node == 3);
    let turns = (seconds / 5 + 1) * u64::from(threads);
    assert!(had < turns * 100 * US, "{} ms", had / MS);
}

/// A thousand that all wait on one CPU, as those do that one program has started, are spread over
/// all within 3 s: none has more than half as many again as its part.
#[test]
fn a_thousand_on_one_cpu_spread() {
    let cpus = 4;
    let mut history = History::new(cpus, 3 * SECOND);
    for _ in 0..1_000 {
        let node = history.node(0, 100);
        let thread = history.thread(node);
        history.run(0, thread, FOREVER);
        // Threads are made on one CPU after the other: those on the others never do anything.
        (1..cpus).for_each(|_| _ = history.thread(node));
    }
    let record = replay::run(&history, &[], 0);
    let mut on = vec![0; history.threads.len()];
    for run in &record.runs {
        on[run.thread as usize] = run.cpu;
    }
    let busy = || on.iter().step_by(cpus as usize);
    for cpu in 0..cpus {
        let nr = busy().filter(|on| **on == cpu).count();
        assert!(nr < 375, "{nr} on CPU {cpu}");
    }
}

/// How long a thread waits that works for 1 ms each 5.3 ms, beside a crowd of another principal
/// that has as many tickets, once that is spread over all CPUs; ns.
fn waits_beside_a_crowd(cpus: u32, crowd: u32, first: u64) -> Vec<u64> {
    const PERIOD: u64 = 5_300 * US;
    let mut history = History::new(cpus, first + 400 * PERIOD);
    let node = history.node(0, 100);
    for _ in 0..crowd {
        let thread = history.thread(node);
        history.run(0, thread, FOREVER);
    }
    let node = history.node(0, 100);
    let thread = history.thread(node);
    (0..400).for_each(|i| history.run(first + i * PERIOD, thread, MS));
    judge::latencies(&replay::run(&history, &[], 0), thread)
}

/// Its wake-up interrupts whoever runs, but for a run of MIN_SLICE_NS; on two CPUs, where the crowd's
/// threads move, it waits for the end of a slice at times.
#[test]
fn who_is_far_below_its_due_is_served_at_once() {
    for (cpus, crowd, most, often) in [(1, 16, 100 * US, 0), (2, 4, MS, 40)] {
        for first in [300 * MS, 300 * MS + 333 * US] {
            let waits = waits_beside_a_crowd(cpus, crowd, first);
            assert_eq!(waits.len(), 400, "{cpus} CPUs, {crowd} others");
            assert!(waits.iter().all(|ns| *ns <= most), "{waits:?}");
            let late = waits.iter().filter(|ns| **ns > 100 * US).count();
            assert!(late <= often, "{late}: {waits:?}");
        }
    }
}

/// Promises that do not hold yet, each with what was seen.
mod not_kept {
    use super::*;

    #[test]
    #[ignore = "not kept yet: a principal that sleeps is 7 quanta behind on one CPU (5 allowed)"]
    fn nor_do_those_that_sleep_for_longer() {
        scenario(Scenario::Blocking, 1, 20, 10, ONE_CPU);
    }

    #[test]
    #[ignore = "not kept yet: a principal is 700 quanta behind after 20 s (seed 7: 15 % of its \
                due; another user's have 17 % more than theirs), and it grows with time"]
    fn nor_does_it_go_to_other_users_on_four_cpus() {
        scenario(Scenario::Infeasible, 4, 20, 10, 15.0 + ONE_CPU);
    }

    #[test]
    #[ignore = "not kept yet: alice has 8 to 133 ms of 15,000 too much, which bob has too little"]
    fn nor_is_it_lost_what_bob_is_due() {
        for also in ALSO {
            let off = beside_a_hog_of_bobs(also);
            assert!(off.abs() < ONE_CPU, "{also}: {off:+}");
        }
    }

    #[test]
    #[ignore = "not kept yet: 3 to 17 of 400 rounds begin 0.1 to 1.6 ms late; all end in time"]
    fn nor_is_it_late_beside_more_on_several_cpus() {
        for (cpus, crowd) in [(2, 15), (2, 16), (4, 16), (4, 32)] {
            let waits = waits_beside_a_crowd(cpus, crowd, 300 * MS);
            let late = waits.iter().filter(|ns| **ns > 100 * US).count();
            assert_eq!(late, 0, "{cpus} CPUs, {crowd} others");
        }
    }
}
