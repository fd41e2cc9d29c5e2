// SPDX-License-Identifier: GPL-2.0-only
//! The promises of model.md §6 as properties of random histories. What fails prints its history: `bench/run reality --events FILE` runs it
//! again, and `--trace FILE` shows it.

use super::history::{FOREVER, History, What};
use super::judge;
use super::kernel::KERNEL;
use super::machine::{self, Cycle, Record};
use super::scenarios::{self, Scenario};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}

/// µs after the one before: a client has so many µs more to do, or other tickets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Work { client: usize, us: u64 },
    Tickets { client: usize, tickets: u32 },
}

fn steps(most_us: u64, shares: bool) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let work = (0..16usize, 1..most_us).prop_map(|(client, us)| Step::Work { client, us });
    let tickets =
        (0..16usize, 150u32..400).prop_map(|(client, tickets)| Step::Tickets { client, tickets });
    let step = prop_oneof![4 => work, u32::from(shares) => tickets];
    proptest::collection::vec((0..3 * most_us, step), 1..400)
}

/// Principals of one thread below base, of so many tickets: hogs, and after them sleepers to whom the steps happen.
fn flat(cpus: u32, hogs: &[u32], sleepers: &[u32], steps: &[(u64, Step)]) -> History {
    let mut history = History {
        cpus,
        ..History::default()
    };
    hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
    let first = history.threads.len();
    for tickets in sleepers {
        let node = history.node(0, *tickets);
        history.thread(node);
    }
    let mut at = 0;
    for (gap, step) in steps {
        at += gap * US;
        match *step {
            Step::Work { client, us } if !sleepers.is_empty() => {
                let thread = first + client % sleepers.len();
                history.run(at, thread as u32, us * US);
            }
            Step::Work { .. } => (),
            Step::Tickets { client, tickets } => {
                let node = 1 + (client % history.nodes.len()) as u32;
                history.events.push((at, What::Share { node, tickets }));
            }
        }
    }
    history.end = at + 200 * MS;
    history
}

fn run(history: &History) -> Record {
    machine::run(history, &[], 0, KERNEL)
}

/// How far behind and ahead of the oracle the first `hogs` principals were, quanta.
fn hogs_errors(history: &History, hogs: usize) -> (f64, f64) {
    let record = run(history);
    let errors = judge::errors(&record, history);
    let low = errors[..hogs].iter().map(|e| e.low).fold(0.0, f64::min);
    let high = errors[..hogs].iter().map(|e| e.high).fold(0.0, f64::max);
    (low, high)
}

fn tickets(n: std::ops::Range<usize>, of: std::ops::Range<u32>) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(of, n)
}

/// What somebody does to get more than by always running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trick {
    /// Sleeps a little, again and again, having used so much (µs).
    Sleep { work: u64, sleep: u64 },
    /// Yields whenever it has run for so long (µs).
    Yield { each: u64 },
    /// Has a new thread for every so many µs of work, one after another or many at a time.
    Fork { work: u64, gap: u64 },
    /// Moves its tickets to and fro between two threads of its own every so many µs, `high` to one.
    Toggle { each: u64, high: u32 },
}

fn trick() -> impl Strategy<Value = Trick> {
    let us = || 10..5_000u64;
    prop_oneof![
        (prop_oneof![us(), 900..1_000u64], 1..2_000u64)
            .prop_map(|(work, sleep)| Trick::Sleep { work, sleep }),
        us().prop_map(|each| Trick::Yield { each }),
        (100..5_000u64, 1..5_000u64).prop_map(|(work, gap)| Trick::Fork { work, gap }),
        (500..300_000u64, 1..10_000u32).prop_map(|(each, high)| Trick::Toggle { each, high }),
    ]
}

/// Principal 1, who is up to a trick or (none) always runs, among hogs.
fn tricky(
    trick: Option<Trick>,
    cpus: u32,
    mine: u32,
    hogs: &[u32],
    end: u64,
) -> (History, Vec<Cycle>) {
    let mut history = History {
        cpus,
        end,
        ..History::default()
    };
    let me = history.node(0, mine);
    let mut cycles = vec![];
    let two: [u32; 2] = std::array::from_fn(|_| history.node(me, 100));
    match trick {
        None => {
            let thread = history.thread(me);
            history.run(0, thread, FOREVER);
        }
        Some(Trick::Sleep { work, sleep }) => cycles.push(Cycle {
            thread: history.thread(me),
            sleep: (sleep * US, sleep * US),
            work: (work * US, work * US),
        }),
        Some(Trick::Yield { each }) => {
            let thread = history.thread(me);
            history.threads[thread as usize].yields = Some(each * US);
            history.run(0, thread, FOREVER);
        }
        Some(Trick::Fork { work, gap }) => {
            for i in 0..(end / (gap * US)).min(200) {
                let thread = history.thread(me);
                history.run(i * gap * US, thread, work * US);
            }
        }
        Some(Trick::Toggle { each, high }) => {
            for node in two {
                let thread = history.thread(node);
                history.run(0, thread, FOREVER);
            }
            for i in 0..end / (each * US) {
                for (j, node) in two.into_iter().enumerate() {
                    let tickets = if i as usize % 2 == j { high } else { 1 };
                    let share = What::Share { node, tickets };
                    history.events.push((i * each * US, share));
                }
            }
        }
    }
    hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
    (history, cycles)
}

/// Quanta that principal 1 and those below it have had.
fn had(record: &Record) -> f64 {
    let mine = |t: u32| record.history.threads[t as usize].node <= 3;
    let runs = record.runs.iter().filter(|r| mine(r.thread));
    runs.map(|r| r.to - r.from).sum::<u64>() as f64 / KERNEL.slice as f64
}

fn hogs() -> impl Strategy<Value = Vec<u32>> {
    tickets(4..7, 150..400)
}

/// What a share may be off by when nothing but this machine's grain is in the way: quanta on one CPU.
const ONE_CPU: f64 = 5.0;
/// On several CPUs nothing moves for less than STEAL_NS, nor more often than each CATCH_UP_NS.
pub(super) const SEVERAL_CPUS: f64 = 10.0;
/// How far a hog falls behind among others that come and go; set by what is seen, -11.7 in 400 histories.
const BEHIND: f64 = 13.0;

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn who_always_wants_to_is_never_far_behind(
        hogs in hogs(),
        sleepers in tickets(0..4, 20..400),
        long in steps(10_000, true),
    ) {
        let history = flat(1, &hogs, &sleepers, &long);
        let (low, high) = hogs_errors(&history, hogs.len());
        let text = history.write();
        prop_assert!(low > -ONE_CPU && high < ONE_CPU, "{low:+} {high:+}\n{text}");
    }

    #[test]
    fn nor_when_others_use_parts_of_quanta(
        hogs in hogs(),
        sleepers in tickets(1..4, 20..400),
        parts in steps(900, false),
    ) {
        let history = flat(1, &hogs, &sleepers, &parts);
        let (low, high) = hogs_errors(&history, hogs.len());
        let text = history.write();
        prop_assert!(low > -ONE_CPU && high < ONE_CPU, "{low:+} {high:+}\n{text}");
    }

    #[test]
    fn no_trick_pays(trick in trick(), cpus in 1u32..3, mine in 100u32..400, hogs in hogs()) {
        let total = mine + hogs.iter().sum::<u32>();
        let share = f64::from(mine * cpus) / f64::from(total);
        let bound = if cpus == 1 { ONE_CPU } else { SEVERAL_CPUS };
        // Were there a gain each time, it would be twice as much in the end.
        for ms in [1_000, 2_000] {
            let (history, cycles) = tricky(Some(trick), cpus, mine, &hogs, ms * MS);
            let gain = had(&machine::run(&history, &cycles, 1, KERNEL)) - share * ms as f64;
            prop_assert!(gain < bound, "{trick:?}: {gain:+} after {ms} ms\n{}", history.write());
        }
    }

    /// The bound that proportional shares give to who has one quantum's work: its own period, of which groups make up to an eighth more.
    #[test]
    fn a_sleeper_runs_within_its_period(mine in 20u32..400, hogs in hogs(), seed: u64) {
        let (case, thread) = scenarios::sleeper(1, 0, 1_000 * MS);
        let mut history = case.history;
        history.nodes[0].tickets = mine;
        hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
        let total = mine + hogs.iter().sum::<u32>();
        let period = KERNEL.slice * u64::from(total) / u64::from(mine);
        let record = machine::run(&history, &case.cycles, seed, KERNEL);
        let latencies = judge::latencies(&record, thread);
        let most = latencies.iter().max().copied().unwrap_or(0);
        prop_assert!(latencies.len() > 5);
        prop_assert!(most < period * 9 / 8 + 2 * KERNEL.slice, "{most} ns of {period}");
    }
}

// Rare ones are the worst: one in a hundred is beyond SEVERAL_CPUS.
proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn nor_on_several_cpus(
        cpus in 2u32..5,
        hogs in tickets(16..32, 150..400),
        sleepers in tickets(0..4, 20..400),
        steps in steps(5_000, true),
    ) {
        let history = flat(cpus, &hogs, &sleepers, &steps);
        let (low, _) = hogs_errors(&history, hogs.len());
        prop_assert!(low > -BEHIND, "{low:+}\n{}", history.write());
    }
}

#[test]
fn who_always_runs_has_its_share() {
    let (history, _) = tricky(None, 1, 100, &[300], 1_000 * MS);
    assert!((had(&run(&history)) - 250.0).abs() < 2.0);
    let sleeps = Trick::Sleep {
        work: 100,
        sleep: 900,
    };
    let (history, cycles) = tricky(Some(sleeps), 1, 400, &[100], 1_000 * MS);
    let had = had(&machine::run(&history, &cycles, 1, KERNEL));
    assert!((20.0..100.0).contains(&had), "{had}");
}

/// Hogs of 10,000 tickets and a crowd that has one; its threads.
fn crowd(cpus: u32, threads: u32, seconds: u64) -> History {
    let mut history = History {
        cpus,
        end: seconds * 1_000 * MS,
        ..History::default()
    };
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
fn everybody_runs_every_ten_seconds() {
    for (cpus, threads) in [(1, 1), (1, 100), (2, 400), (2, 3_000)] {
        let (wait, thread) = judge::longest_wait(&run(&crowd(cpus, threads, 15)));
        let seconds = wait as f64 / 1e9;
        assert!(
            seconds < 10.0,
            "{cpus} CPUs, thread {thread} of {threads}: {seconds} s"
        );
    }
}

#[test]
fn a_decision_costs_the_same_for_many() {
    let looks = |clients: u32, cpus| {
        let mut history = History {
            cpus,
            end: 300 * MS,
            ..History::default()
        };
        for i in 0..clients {
            history.hog(0, 1 << (i % 5));
        }
        run(&history).counts.most_looks
    };
    // There are five shares; while the first come, periods change and a few groups more are in use.
    for (clients, cpus) in [(25, 1), (1_000, 1), (10_000, 1), (50, 2), (1_000, 2)] {
        // A CPU looks into its own queues and one other's.
        let (most, queues) = (looks(clients, cpus), 2 * cpus - 1);
        assert!(
            (5..=24 * queues).contains(&most),
            "{clients} on {cpus}: {most} looks"
        );
    }
}

/// Somebody with more tickets than all the others does a little again and again: those divide the rest as if it were not there.
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
            let mut history = flat(1, &hogs, &[tickets], &[]);
            for i in 0..100 {
                history.run(i * gap, 2, work);
            }
            history.end = 100 * gap;
            let (low, high) = hogs_errors(&history, 2);
            assert!(
                low > -ONE_CPU && high < ONE_CPU,
                "{tickets} tickets, {work} ns each {gap} ns, beside {hogs:?}: {low:+} {high:+}"
            );
        }
    }
}

#[test]
fn siblings_that_sleep_cost_nobody_else() {
    for seed in [1, 3, 16] {
        let case = Scenario::Parts.case(1, 3_000 * MS, seed);
        let record = machine::run(&case.history, &case.cycles, seed, KERNEL);
        for e in judge::errors(&record, &record.history) {
            assert!(e.low > -ONE_CPU && e.high < ONE_CPU, "seed {seed}: {e:?}");
        }
    }
}

/// bob's share pays for what a principal of his had that sleeps and wakes up, though a cgroup and bob himself back it; alice does not gain by
/// it, nor lose.
#[test]
fn nor_does_who_is_backed_by_several() {
    for also in [1, 10, 30, 100, 300, 1_000, 3_000] {
        beside_a_hog_of_bobs(also);
    }
}

/// alice has 300 tickets of base; of bob's 100 a cgroup has 100, with a hog in it, and one that sleeps has some of the cgroup's and `also` of
/// bob's own.
#[track_caller]
fn beside_a_hog_of_bobs(also: u32) {
    let mut history = History {
        cpus: 1,
        end: 20_000 * MS,
        ..History::default()
    };
    let alice = history.hog(0, 300);
    let bob = history.node(0, 100);
    let cgroup = history.node(bob, 100);
    history.hog(cgroup, 100);
    let main = history.node(cgroup, 100);
    history.also(main, bob, also);
    let record = with_a_sleeper(&mut history, main);
    let hers = |t: u32| record.history.threads[t as usize].node == alice;
    let had = record.runs.iter().filter(|r| hers(r.thread));
    let had = had.map(|r| r.to - r.from).sum::<u64>() as f64 / KERNEL.slice as f64;
    let due = 0.75 * history.end as f64 / KERNEL.slice as f64;
    assert!((had - due).abs() < ONE_CPU, "{also}: {had} of {due}");
}

/// A thread of `node` works up to 5 ms and sleeps up to 3, again and again.
fn with_a_sleeper(history: &mut History, node: u32) -> Record {
    let cycle = Cycle {
        thread: history.thread(node),
        sleep: (MS / 10, 3 * MS),
        work: (MS / 10, 5 * MS),
    };
    machine::run(history, &[cycle], 1, KERNEL)
}

/// Who has a quarter of the machine while a sibling of many tickets sleeps, and next to nothing while that works, is not looked at for up to 4 s
/// then. What it was due meanwhile it has afterwards.
#[test]
fn nor_is_what_was_due_to_who_had_to_wait_long() {
    for tickets in [1_000, 10_000, 100_000, 300_000] {
        let mut history = History {
            cpus: 1,
            end: 20_000 * MS,
            ..History::default()
        };
        history.hog(0, 300);
        let bob = history.node(0, 100);
        history.hog(bob, 100);
        let main = history.node(bob, tickets);
        let record = with_a_sleeper(&mut history, main);
        for e in judge::errors(&record, &record.history) {
            assert!(
                e.low > -60.0 && e.high < 60.0,
                "{tickets} beside 100: {e:?}"
            );
        }
    }
}

/// Who could not be interrupted for 20 ms gives that back, though others of its own wake up meanwhile; so does nobody lose what it waited for.
#[test]
fn what_was_had_uninterrupted_is_given_back() {
    for seed in 0..3 {
        let case = Scenario::Stuck.case(1, 12_000 * MS, seed);
        let record = machine::run(&case.history, &case.cycles, seed, KERNEL);
        for e in judge::errors(&record, &record.history) {
            let most = 20.0 + ONE_CPU;
            assert!(e.low > -most && e.high < most, "seed {seed}: {e:?}");
        }
    }
}

/// However long they run: on several CPUs it is a few of such stretches.
#[test]
fn nor_is_it_forgotten_on_several_cpus() {
    for (seed, cpus) in [(0, 2), (1, 2), (2, 2), (3, 4)] {
        let case = Scenario::Stuck.case(cpus, 30_000 * MS, seed);
        let record = machine::run(&case.history, &case.cycles, seed, KERNEL);
        for e in judge::errors(&record, &record.history) {
            assert!(e.low > -80.0 && e.high < 80.0, "seed {seed}: {e:?}");
        }
    }
}

#[test]
fn a_few_quanta_on_several_cpus() {
    several_cpus(Scenario::Steady, SEVERAL_CPUS);
}

/// Its tickets make V slow while it works: what others are ahead or behind is neither forgotten for that nor taken for a CPU's being late. With
/// STEAL_NS of 16 ms it is no more than SEVERAL_CPUS, but threads move twice as often as under the kernel's own scheduler.
#[test]
fn nor_does_a_large_holder_matter_there() {
    several_cpus(Scenario::Seldom, 13.0);
}

/// Of threads that are due most of a CPU each one must be moved again and again, and is only when its CPU is 20 ms behind (STEAL_NS).
#[test]
fn a_surplus_stays_with_the_siblings() {
    several_cpus(Scenario::Infeasible, 35.0);
}

/// Of a thousand that all wait on one CPU, as those do that one program has started, the others have theirs after 3 s. Taken over one each
/// CATCH_UP_NS, nine in ten would be where they were.
#[test]
fn a_thousand_on_one_cpu_spread() {
    let (cpus, threads) = (4, 1_000);
    let mut history = History {
        cpus,
        end: 3_000 * MS,
        ..History::default()
    };
    for _ in 0..threads {
        let node = history.node(0, 100);
        let thread = history.thread(node);
        history.run(0, thread, FOREVER);
        // Threads are born on one CPU after the other: those on the others never do anything.
        for _ in 1..cpus {
            history.thread(node);
        }
    }
    let record = run(&history);
    let mut on = vec![0; history.threads.len()];
    for run in &record.runs {
        on[run.thread as usize] = run.cpu;
    }
    let busy: Vec<u32> = on.into_iter().step_by(cpus as usize).collect();
    let stayed = busy.iter().filter(|cpu| **cpu == 0).count();
    assert!(stayed < 2 * busy.len() / cpus as usize, "{stayed}");
}

#[track_caller]
fn several_cpus(scenario: Scenario, most: f64) {
    for seed in 0..5 {
        let case = scenario.case(2, 3_000 * MS, seed);
        let record = machine::run(&case.history, &case.cycles, seed, KERNEL);
        for e in judge::errors(&record, &record.history) {
            assert!(e.low > -most && e.high < most, "seed {seed}: {e:?}");
        }
    }
}

/// Each has MIN_SLICE_NS of every ROUND_NS, whatever their share, so that all run within 10 s; and no more.
#[test]
fn a_crowd_has_what_its_turns_take() {
    let (threads, seconds) = (2_000, 6);
    let history = crowd(1, threads, seconds);
    let record = run(&history);
    let errors = judge::errors(&record, &history);
    let crowd = errors.last().expect("principals");
    let turns = (seconds * 1_000 * MS / KERNEL.round + 1) * u64::from(threads);
    let most = (turns * KERNEL.min_slice) as f64 / KERNEL.slice as f64;
    assert!(crowd.high < most, "{crowd:?}, {most} for turns");
}

// What does not hold yet.

#[test]
#[ignore = "alice has 240 quanta too many in 15,000, as she has where her sibling is backed by bob alone: what a hog is due less of than MIN_SLICE_NS in ROUND_NS it has no account of"]
fn what_is_left_to_a_tiny_sibling_is_not_lost() {
    beside_a_hog_of_bobs(1 << 20);
}
