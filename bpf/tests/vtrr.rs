// SPDX-License-Identifier: GPL-2.0-only
//! vtrr.h: its structure against lists that are searched, and its service error by
//! simulation (model.md §7; Nieh eq. 4-6).

use proptest::prelude::*;
use tix_core_host as host;
use tix_core_host::{Choice, GROUPS, NONE, Queue, SLOTS};

/// What a client is filed as, in the order of filing within a slot.
#[derive(Clone, Copy, Debug)]
struct Filed {
    client: u32,
    tag: u64,
    group: u32,
    /// The slot's number, not reduced; not tag >> shift where that is beyond the ring.
    no: u64,
    since: u64,
    /// The smaller the older.
    age: i64,
}

impl Filed {
    fn head(&self) -> u64 {
        self.no << host::shift(self.group)
    }
}

/// vtrr.h without rings and bitmaps.
#[derive(Default)]
struct Naive {
    filed: Vec<Filed>,
    first_age: i64,
    last_age: i64,
}

impl Naive {
    /// Earliest and latest slot of a group.
    fn span(&self, group: u32) -> Option<(u64, u64)> {
        let of = || self.filed.iter().filter(|f| f.group == group);
        Some((of().map(|f| f.no).min()?, of().map(|f| f.no).max()?))
    }

    /// The group and the slot of a tag: in its own group as far as the ring reaches.
    fn place(&self, tag: u64, group: u32) -> (u32, u64) {
        let last = u64::from(SLOTS) - 1;
        let no = tag >> host::shift(group);
        let Some((lo, hi)) = self.span(group) else {
            return (group, no);
        };
        if no + last >= hi {
            return (group, no.min(lo + last));
        }
        match (0..group).rev().find(|g| self.span(*g).is_none()) {
            Some(shorter) => (shorter, tag >> host::shift(shorter)),
            None => (group, hi - last),
        }
    }

    fn link(&mut self, client: u32, tag: u64, group: u32, since: u64, is_oldest: bool) {
        let (group, no) = self.place(tag, group);
        let age = if is_oldest {
            self.first_age -= 1;
            self.first_age
        } else {
            self.last_age += 1;
            self.last_age
        };
        self.filed.push(Filed {
            client,
            tag,
            group,
            no,
            since,
            age,
        });
    }

    /// Elsewhere, and as old as before.
    fn refile(&mut self, client: u32, tag: u64, group: u32) {
        let at = self.filed.iter().position(|f| f.client == client);
        let was = self.filed.remove(at.expect("it is filed"));
        let (group, no) = self.place(tag, group);
        self.filed.push(Filed {
            tag,
            group,
            no,
            ..was
        });
    }

    fn unlink(&mut self, client: u32) {
        self.filed.retain(|f| f.client != client);
    }

    fn has(&self, client: u32) -> bool {
        self.filed.iter().any(|f| f.client == client)
    }

    /// Eligible group heads by finish; if there is none, all by head, then finish.
    fn peek(&self, now: u64) -> Option<(Choice, u32)> {
        let heads = || {
            (0..GROUPS).filter_map(|g| {
                let (lo, _) = self.span(g)?;
                let head = lo << host::shift(g);
                Some((head, head + host::period(g), g))
            })
        };
        let eligible = heads().filter(|h| h.0 <= now).min_by_key(|h| (h.1, h.2));
        let (head, finish, group) = eligible.or_else(|| heads().min())?;
        let first = self
            .filed
            .iter()
            .find(|f| f.group == group && f.head() == head)?;
        let choice = Choice {
            head,
            finish,
            eligible: eligible.is_some().into(),
            group,
        };
        Some((choice, first.client))
    }

    /// The overdue one is the oldest, and the others follow it by age.
    fn check_ages(&self, q: &Queue) {
        let mut by_age: Vec<_> = self.filed.iter().collect();
        by_age.sort_by_key(|f| f.age);
        let Some(oldest) = by_age.first() else {
            assert_eq!(q.overdue(u64::MAX >> 1, 0), NONE);
            return;
        };
        assert_eq!(q.overdue(oldest.since + 8, 7), oldest.client);
        assert_eq!(q.overdue(oldest.since + 7, 7), NONE);
        let at = |i: usize| by_age.get(i).map_or(NONE, |f| f.client);
        for (i, f) in by_age.iter().enumerate() {
            let c = q.client(f.client);
            assert_eq!((c.since, c.newer), (f.since, at(i + 1)));
            assert_eq!(c.older, if i == 0 { NONE } else { at(i - 1) });
        }
    }

    /// Compare all of the structure's state.
    fn check(&self, q: &Queue) {
        assert_eq!(q.nr() as usize, self.filed.len());
        self.check_ages(q);
        for group in 0..GROUPS {
            let span = self.span(group);
            assert_eq!(q.map() >> group & 1 == 1, span.is_some(), "{group}");
            let Some((lo, hi)) = span else {
                assert_eq!(q.group_map(group), 0);
                continue;
            };
            assert!(hi - lo < SLOTS.into());
            assert_eq!(q.group_lo(group), lo, "earliest slot of group {group}");
            let mut map = 0;
            for no in lo..=hi {
                let slot = (no % u64::from(SLOTS)) as u32;
                let list: Vec<_> = self
                    .filed
                    .iter()
                    .filter(|f| f.group == group && f.no == no)
                    .collect();
                if !list.is_empty() {
                    map |= 1 << slot;
                    check_list(q, group, slot, &list);
                }
            }
            assert_eq!(q.group_map(group), map, "slots of group {group}");
        }
    }
}

/// One slot's queue, forwards and backwards, in order of filing.
fn check_list(q: &Queue, group: u32, slot: u32, list: &[&Filed]) {
    let (head, tail) = q.slot(group, slot);
    let mut at = head;
    let mut prev = NONE;
    for f in list {
        assert_eq!(at, f.client, "order in slot {slot} of group {group}");
        let c = q.client(at);
        assert_eq!((c.tag, c.linked), (f.tag, 1));
        assert_eq!((u32::from(c.group), u32::from(c.slot)), (group, slot));
        assert_eq!(c.prev, prev);
        prev = at;
        at = c.next;
    }
    assert_eq!((at, tail), (NONE, prev));
}

#[derive(Clone, Debug)]
enum Op {
    /// Link the client if it is not linked, else unlink it.
    Toggle {
        client: u32,
        tag: u64,
        group: u32,
        /// It has waited for so long elsewhere.
        waited: u64,
    },
    /// Unlink whoever is next, as a pick does, and file it later by this much.
    Pick {
        now: u64,
        later: u64,
    },
    Peek {
        now: u64,
    },
    /// File the client, if it is linked, anew.
    Refile {
        client: u32,
        tag: u64,
        group: u32,
    },
}

const CLIENTS: u32 = 40;
/// Steps after which whoever is put back has waited too long.
const OVERDUE: u64 = 20;

/// Times near each other, relative to the ring of group `group`, and anywhere.
fn tag(start: u64, group: u32) -> impl Strategy<Value = u64> {
    let width = 1u64 << host::shift(group);
    prop_oneof![
        4 => (0..SLOTS as u64 * width).prop_map(move |t| start + t),
        2 => (0..4 * SLOTS as u64 * width).prop_map(move |t| start + t),
        1 => start..start + (1 << 44),
    ]
}

fn op(start: u64, groups: u32) -> impl Strategy<Value = Op> {
    let base = if groups < GROUPS { 22 } else { 0 };
    let place = move || {
        (base..base + groups)
            .prop_flat_map(move |group| (0..CLIENTS, tag(start, group), Just(group)))
    };
    let waited = prop_oneof![2 => Just(0), 1 => 1..OVERDUE * 3];
    let toggle = (place(), waited).prop_map(|((client, tag, group), waited)| Op::Toggle {
        client,
        tag,
        group,
        waited,
    });
    let now = tag(start, base + groups - 1);
    prop_oneof![
        6 => toggle,
        3 => (now, 0u64..1 << 30).prop_map(|(now, later)| Op::Pick { now, later }),
        1 => tag(start, base).prop_map(|now| Op::Peek { now }),
        1 => place().prop_map(|(client, tag, group)| Op::Refile { client, tag, group }),
    ]
}

fn history() -> impl Strategy<Value = Vec<Op>> {
    let start = prop_oneof![Just(0), 0u64..1 << 50];
    let groups = prop_oneof![Just(1), Just(3), Just(GROUPS)];
    (start, groups)
        .prop_flat_map(|(start, groups)| prop::collection::vec(op(start, groups), 1..200))
}

fn compare_peek(q: &mut Queue, naive: &Naive, now: u64) -> u32 {
    let (choice, client) = q.peek(now);
    match naive.peek(now) {
        Some(expected) => assert_eq!((choice, client), expected, "at {now}"),
        None => assert_eq!((choice.group, client), (NONE, NONE)),
    }
    client
}

fn replay(ops: Vec<Op>) {
    let mut q = Queue::new(CLIENTS);
    let mut naive = Naive::default();
    for (at, op) in (1000..).zip(ops) {
        match op {
            Op::Toggle { client, .. } if naive.has(client) => {
                q.unlink(client);
                naive.unlink(client);
            }
            Op::Toggle {
                client,
                tag,
                group,
                waited,
            } => {
                // As queue_link() has it.
                let (since, is_oldest) = (at - waited, waited > OVERDUE);
                q.link(client, tag, group, since, is_oldest);
                naive.link(client, tag, group, since, is_oldest);
            }
            Op::Refile { client, tag, group } if naive.has(client) => {
                q.refile(client, tag, group);
                naive.refile(client, tag, group);
            }
            Op::Refile { .. } => {}
            Op::Pick { now, later } => {
                let client = compare_peek(&mut q, &naive, now);
                if client != NONE {
                    let c = q.client(client);
                    let (tag, group) = (c.tag + later, c.group.into());
                    q.unlink(client);
                    naive.unlink(client);
                    naive.check(&q);
                    q.link(client, tag, group, at, false);
                    naive.link(client, tag, group, at, false);
                }
            }
            Op::Peek { now } => {
                compare_peek(&mut q, &naive, now);
            }
        }
        naive.check(&q);
    }
    while let Some(last) = naive.filed.last().copied() {
        compare_peek(&mut q, &naive, last.tag);
        q.unlink(last.client);
        naive.unlink(last.client);
        naive.check(&q);
    }
    assert_eq!(q.map(), 0);
}

fn choice() -> impl Strategy<Value = Choice> {
    (0u64..4, 0u64..4, 0u32..2).prop_map(|(head, finish, eligible)| Choice {
        head,
        finish,
        eligible,
        group: 0,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn structure_and_choice_are_those_of_searched_lists(ops in history()) {
        replay(ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn choices_of_several_queues_are_ordered_as_within_one(a in choice(), b in choice()) {
        let key = |c: &Choice| (c.eligible == 0, if c.eligible == 1 { c.finish } else { c.head });
        prop_assert_eq!(host::before(&a, &b), key(&a) < key(&b));
    }

    /// A group holds the periods of half an octave, and its own period is their bound.
    #[test]
    fn group_of_a_period((bits, by) in (any::<u64>(), 0u32..64)) {
        let p = bits >> by;
        let g = host::group_of(p);
        prop_assert!(g < GROUPS);
        if g < GROUPS - 1 {
            prop_assert!(p < host::period(g));
        }
        if g > 0 {
            prop_assert!(p >= host::period(g - 1));
        }
        prop_assert!(host::group_of(p.saturating_add(p / 2)) <= g + 2);
        // P <= 3/2 q.
        if (1 << 17..1 << 49).contains(&p) {
            prop_assert!(2 * host::period(g) <= 3 * p);
        }
    }
}

#[test]
fn groups_follow_each_other_without_gap() {
    assert_eq!(host::period(0), 3 << 16);
    for g in 0..GROUPS {
        assert_eq!(host::group_of(host::period(g) - 1), g);
        let width = 1u64 << host::shift(g);
        assert!((8..=16).contains(&(host::period(g) / width)), "group {g}");
    }
    assert_eq!(host::group_of(u64::MAX), GROUPS - 1);
}

/// Where the periods of the simulation come from.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// Tags exact: n * quantum * T / S, rounded down.
    Exact,
    /// core/account.h: the inverse of a Q62 share in Q32.32, tags summed up.
    Kernel,
}

/// The machine with one CPU and clients that always want it.
struct Sim {
    q: Queue,
    shares: Vec<u64>,
    total: u64,
    periods: Vec<u64>,
    tags: Vec<u64>,
    runs: Vec<u64>,
    start: u64,
    now: u64,
    quantum: u64,
    given: u64,
    clock: Clock,
    /// Lowest and highest service error so far, in quanta.
    worst: (f64, f64),
}

impl Sim {
    fn new(shares: &[u64], quantum: u64, start: u64, clock: Clock) -> Sim {
        let total = shares.iter().sum();
        let period = |s: &u64| match clock {
            Clock::Exact => quantum * total / s,
            Clock::Kernel => {
                let inverse = host::account::inverse(host::ratio(*s, total));
                host::mul_q32(quantum, inverse)
            }
        };
        let mut sim = Sim {
            q: Queue::new(shares.len() as u32),
            shares: shares.to_vec(),
            total,
            periods: shares.iter().map(period).collect(),
            tags: vec![start; shares.len()],
            runs: vec![0; shares.len()],
            start,
            now: start,
            quantum,
            given: 0,
            clock,
            worst: (0.0, 0.0),
        };
        (0..shares.len()).for_each(|i| sim.file(i));
        sim
    }

    fn file(&mut self, i: usize) {
        let group = host::group_of(self.periods[i]);
        self.q
            .link(i as u32, self.tags[i], group, self.given, false);
    }

    /// Quanta that client `i` has had more than its due.
    fn error(&mut self, i: usize) -> f64 {
        let due = i128::from(self.given) * i128::from(self.shares[i]);
        let had = i128::from(self.runs[i]) * i128::from(self.total);
        let error = (had - due) as f64 / self.total as f64;
        let part = self.shares[i] as f64 / self.total as f64;
        // Periods are rounded down to ns, tags as often as they are summed up.
        let times = match self.clock {
            Clock::Exact => 1,
            Clock::Kernel => self.given,
        };
        let rounded = times as f64 / self.quantum as f64;
        assert!(
            error < AHEAD - part + rounded && error > -BEHIND - part - rounded,
            "client {i} of {:?} is {error} quanta ahead",
            self.shares
        );
        self.worst = (self.worst.0.min(error), self.worst.1.max(error));
        error
    }

    /// A pick and, when the quantum is over, a link. A client's error falls until it is picked and
    /// is highest when it has run, so it is looked at then.
    fn step(&mut self) -> usize {
        let (choice, c) = self.q.peek(self.now);
        assert_ne!(c, NONE, "a CPU idles while clients wait");
        if choice.eligible == 0 {
            self.now = choice.head;
        }
        let i = c as usize;
        self.error(i);
        self.q.unlink(c);
        self.now += self.quantum;
        self.given += 1;
        self.runs[i] += 1;
        self.tags[i] = match self.clock {
            Clock::Exact => {
                let had = u128::from(self.runs[i]) * u128::from(self.quantum * self.total);
                self.start + (had / u128::from(self.shares[i])) as u64
            }
            Clock::Kernel => self.tags[i] + self.periods[i],
        };
        self.error(i);
        self.file(i);
        i
    }

    fn run(&mut self, quanta: u64) {
        for _ in 0..quanta {
            self.step();
        }
        for i in 0..self.shares.len() {
            self.error(i);
        }
    }
}

/// A client of share S of T is ahead by less than AHEAD - S/T: it runs from the beginning of its
/// slot on, which is w <= q/8 before its tag, and V moves by S/T of its quantum meanwhile.
const AHEAD: f64 = 1.0 + 1.0 / 8.0;
/// And behind by BEHIND + S/T at most. With two groups an octave P <= 3/2 q: served by earliest end
/// a run is over by its slot + P and the quantum that was running; where q + w > P others delay it
/// by an eighth of their own (docs/scheduler.md, "The bound").
const BEHIND: f64 = 3.0 / 2.0 + 1.0 / 8.0;
/// The shortest period there is, so that T / S up to 2^24 is within the groups' range.
const SHORT: u64 = 1 << 17;

fn shares() -> impl Strategy<Value = Vec<u64>> {
    let uniform = || (1u64..=10_000).boxed();
    let log = || (0.0f64..4.0).prop_map(|e| 10f64.powf(e) as u64).boxed();
    let skewed = || prop_oneof![9 => 1u64..10, 1 => 5_000u64..=10_000].boxed();
    prop_oneof![
        prop::collection::vec(uniform(), 2..=200),
        prop::collection::vec(log(), 2..=200),
        prop::collection::vec(skewed(), 2..=200),
        prop::collection::vec(log(), 2..=8),
    ]
}

/// Over `cases` random sets of shares, the worst service error; each is within its bound.
fn service_error(clock: Clock, cases: u32) -> (f64, f64) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..Default::default()
    });
    let worst = std::cell::Cell::new((0.0f64, 0.0f64));
    runner
        .run(&(shares(), 0u64..1 << 40), |(shares, start)| {
            let mut sim = Sim::new(&shares, SHORT, start, clock);
            sim.run(20_000);
            let (low, high) = worst.get();
            worst.set((low.min(sim.worst.0), high.max(sim.worst.1)));
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    worst.get()
}

#[test]
fn service_error_is_bounded() {
    let worst = service_error(Clock::Exact, 300);
    println!("worst service error, exact tags: {worst:?} quanta");
}

#[test]
fn service_error_is_bounded_in_the_kernels_arithmetic() {
    let worst = service_error(Clock::Kernel, 300);
    println!("worst service error, the kernel's arithmetic: {worst:?} quanta");
}

#[test]
fn shares_3_2_1_get_exactly_that_in_every_round() {
    for clock in [Clock::Exact, Clock::Kernel] {
        let mut sim = Sim::new(&[3, 2, 1], 4_000_000, 0, clock);
        for round in 1..=20_000 {
            let order: String = (0..6)
                .map(|_| char::from(b'A' + sim.step() as u8))
                .collect();
            assert_eq!(
                sim.runs,
                [3 * round, 2 * round, round],
                "{clock:?}, round {round}: {order}"
            );
        }
    }
}
