// SPDX-License-Identifier: GPL-2.0-only
//! core/queue.h against its definitions: V as the mean of all tags that count, recomputed without a
//! sum; and the thread that is next, by a look at everybody, as far as slots and groups allow.

use proptest::prelude::*;
use tix_core_host as host;
use tix_core_host::{Cpu, CpuState, NONE, Pick};

const THREADS: u32 = 12;
const START: u64 = 1 << 52;
const MS: u64 = 1_000_000;
/// As types.h and queue.h have them.
const FAR: u64 = 4;
const MOMENT_LOG: u32 = 18;
const OVERDUE: u64 = 5_000 * MS;
const OVERDUE_PART: u64 = 8;
const MIN_SLICE: u64 = MS / 10;
const REFILES: u32 = 2;

fn later(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

/// What counts in a mean: weight, and where it counts from `zero` on.
struct Sum {
    weight: i128,
    moment: i128,
    /// Before what is below 2^MOMENT_LOG was cut off.
    exact: i128,
}

struct World {
    cpu: Cpu,
    running: Option<u32>,
    now: u64,
}

#[derive(Clone, Debug)]
enum Op {
    /// Thread, its tag in eighths of its period from V on, its period's log and rest, its slice.
    Wake(u32, i64, u32, u64, u64),
    Sleep(u32),
    /// Taken out and put back, as it is.
    Again(u32),
    /// It is placed anew while it waits.
    Place(u32, i64),
    /// What runs has used so many eighths of its slice, and time has passed.
    Decide(u64, u64),
    Review,
}

fn op() -> impl Strategy<Value = Op> {
    let c = || 0..THREADS;
    let off = || prop_oneof![6 => -20i64..20, 1 => -400i64..400];
    let period = (24u32..44, any::<u64>(), 100_000u64..20_000_000);
    let passes = prop_oneof![20 => 0..20 * MS, 1 => 0..2 * OVERDUE];
    prop_oneof![
        4 => (c(), off(), period).prop_map(|(c, off, (log, rest, slice))| {
            Op::Wake(c, off, log, rest, slice)
        }),
        2 => c().prop_map(Op::Sleep),
        1 => c().prop_map(Op::Again),
        1 => (c(), off()).prop_map(|(c, off)| Op::Place(c, off)),
        6 => (0u64..=9, passes).prop_map(|(used, ns)| Op::Decide(used, ns)),
        2 => Just(Op::Review),
    ]
}

impl World {
    fn linked(&self) -> impl Iterator<Item = u32> {
        (0..THREADS).filter(|c| self.cpu.is_linked(*c))
    }

    /// The sums from scratch, `running` included.
    fn sum(&self, zero: u64, running: Option<u32>) -> Sum {
        let mut sum = Sum {
            weight: 0,
            moment: 0,
            exact: 0,
        };
        let mut add = |weight: u32, counted: u64| {
            let (weight, at) = (i128::from(weight), i128::from(later(counted, zero)));
            sum.weight += weight;
            sum.moment += (at >> MOMENT_LOG) * weight;
            sum.exact += at * weight;
        };
        for c in self.linked() {
            let client = self.cpu.client(c);
            add(client.weight, client.counted);
        }
        if let Some(c) = running {
            let t = self.cpu.thread(c);
            let far = later(t.tag, zero.wrapping_add(FAR * t.period)) > 0;
            let counted = if far { zero + FAR * t.period } else { t.tag };
            let others = sum_of(self.linked().map(|c| self.cpu.client(c).weight));
            // One of little weight that is far does not count.
            if !far || u64::from(t.share) * 8 >= others + u64::from(self.cpu.state().running_share)
            {
                add(t.share, counted);
            }
        }
        sum
    }

    /// The sums are what everybody adds up to, and V is their mean.
    fn check(&self) {
        let s = self.cpu.state();
        let sum = self.sum(s.zero, None);
        assert_eq!(s.nr as usize, self.linked().count());
        assert_eq!(i128::from(s.weight), sum.weight);
        assert_eq!(i128::from(s.moment), sum.moment);
        for c in self.linked() {
            let (t, client) = (self.cpu.thread(c), self.cpu.client(c));
            assert!(client.weight == t.share || client.weight == 0);
            assert!(client.weight == t.share || later(client.tag, client.counted) > 0);
        }
        for running in [None, self.running] {
            let sum = self.sum(s.zero, running);
            let mean = self.cpu.mean(running, 0);
            if sum.weight == 0 || s.nr == 0 {
                let tag = running.map_or(s.clock, |c| self.cpu.thread(c).tag);
                assert_eq!(mean, tag, "where nothing counts");
                continue;
            }
            let off = i128::from(later(mean, s.zero)) * sum.weight - sum.exact;
            // What is cut off of each is less than 2^MOMENT_LOG, and so is what is of their mean.
            let most = sum.weight << MOMENT_LOG;
            assert!(
                off <= most && off >= -2 * most,
                "V is {} too late",
                off / sum.weight
            );
        }
    }

    fn place(&mut self, c: u32, off: i64, period: u64, slice: u64) {
        let v = self.cpu.mean(self.running, 0);
        let tag = v.wrapping_add_signed(period as i64 / 8 * off);
        self.cpu.place(c, tag, period, slice as u32);
    }

    /// Whether `c` goes before all that wait, where nobody else runs: by a look at everybody.
    fn check_first(&mut self, c: u32) {
        let (t, s, v) = (
            self.cpu.thread(c),
            self.cpu.state(),
            self.cpu.mean(Some(c), 0),
        );
        let waiting: Vec<_> = self.linked().map(|c| self.cpu.client(c)).collect();
        let is_first = self.cpu.goes_first(c, self.now);
        if waiting.is_empty() {
            assert!(is_first);
            return;
        }
        let waited = later(self.now, self.cpu.client(s.oldest).since);
        let finish = t.tag.wrapping_add(host::period(t.group));
        let is_eligible = later(t.tag, v) <= 0;
        let goes_before = |d: &host::Client| match later(d.tag, v) <= 0 {
            true => is_eligible && later(finish, d.tag + host::period(d.group.into())) < 0,
            false => is_eligible || later(t.tag, d.tag) < 0,
        };
        if is_first {
            assert!(waited <= OVERDUE as i64 && waiting.iter().all(goes_before));
        }
    }

    /// Links a thread; taken out at once, nothing is left of it.
    fn link(&mut self, c: u32) {
        self.check_first(c);
        let before = self.cpu.state();
        self.cpu.link(c, self.now);
        let linked = self.cpu.state();
        self.cpu.unlink(c);
        let after = self.cpu.state();
        let sums = |s: &CpuState| (s.nr, s.weight, s.moment, s.zero);
        if before.nr > 0 {
            assert_eq!(sums(&after), sums(&before));
        } else {
            assert_eq!((after.nr, after.weight, after.moment), (0, 0, 0));
        }
        self.cpu.link(c, self.now);
        assert_eq!(sums(&self.cpu.state()), sums(&linked));
    }

    fn decide(&mut self, used: u64, passed: u64) {
        self.now += passed;
        if let Some(c) = self.running {
            let t = self.cpu.thread(c);
            let tag = t.tag.wrapping_add(t.period / 8 * used);
            self.cpu.place(c, tag, t.period, t.slice_ns);
        }
        for at in 0.. {
            let may = at < REFILES;
            match self.pick(may) {
                Pick::Again(c) => {
                    assert!(may && self.cpu.is_linked(c));
                    self.cpu.refile(c);
                    self.check();
                }
                Pick::Stay => break,
                Pick::Next(c) => {
                    assert!(!self.cpu.is_linked(c));
                    self.cpu.begin(c);
                    if let Some(was) = self.running.replace(c) {
                        self.link(was);
                    }
                    break;
                }
            }
        }
    }

    /// Who is next is who has to be, by a look at everybody.
    fn pick(&mut self, may: bool) -> Pick {
        let before = self.cpu.state();
        let v = self.cpu.mean(self.running, 0);
        let waiting: Vec<_> = self.linked().map(|c| (c, self.cpu.client(c))).collect();
        let pick = self.cpu.pick(self.running, self.now, may);
        let after = self.cpu.state();
        let own = self.running.map(|c| self.cpu.thread(c));
        if waiting.is_empty() {
            assert_eq!(pick, Pick::Stay);
            assert_eq!(after.clock, own.map_or(v, |t| t.tag));
            return pick;
        }
        let is_overdue = later(self.now, before.overdue_ns) >= 0
            && later(self.now, self.cpu.client(before.oldest).since) > OVERDUE as i64;
        if is_overdue {
            assert_eq!(pick, Pick::Next(before.oldest));
            assert_eq!(after.clock, v);
            return pick;
        }
        let choice = after.choice;
        // By tags, whatever the slots: those that are eligible, and when the first one will be.
        let eligible = || waiting.iter().filter(|(_, c)| later(c.tag, v) <= 0);
        assert!(choice.eligible == 1 || eligible().next().is_none());
        if choice.eligible == 1 {
            assert!(later(choice.head, v) <= 0);
        } else {
            assert!(waiting.iter().all(|(_, c)| later(choice.head, c.tag) <= 0));
        }
        // A slot begins no later than its tags, and a group's period is no shorter than theirs.
        for (_, d) in eligible() {
            let finish = d.tag.wrapping_add(host::period(d.group.into()));
            assert!(later(choice.finish, finish) <= 0);
        }
        let own = own.map(|t| host::Choice {
            head: t.tag,
            finish: t.tag.wrapping_add(host::period(t.group)),
            eligible: (later(t.tag, v) <= 0).into(),
            group: t.group,
        });
        let Pick::Next(c) = pick else {
            if pick == Pick::Stay {
                let own = own.expect("a CPU idles while threads wait");
                assert!(!host::before(&choice, &own));
            }
            return pick;
        };
        assert!(own.is_none_or(|own| host::before(&choice, &own)));
        let (t, filed) = (self.cpu.thread(c), self.cpu.client(c));
        if may && u32::from(filed.group) == t.group && choice.eligible == 1 {
            // Eligible by its own tag but for less than a slot, an eighth of its period.
            assert!(later(t.tag, v) < (t.period / 8) as i64);
            // So of finish tags, too: P <= 3/2 q with two groups an octave. But one that was further
            // than the ring from the first of its group was put at the ring's end, and goes by that.
            let is_exact = later(t.tag, choice.head) < (t.period / 8) as i64;
            for (_, d) in eligible().filter(|_| is_exact) {
                let its = self.cpu.thread(d_of(&waiting, d));
                if u32::from(d.group) == its.group && d.tag == its.tag {
                    let latest = its.tag.wrapping_add(its.period * 3 / 2 + t.period / 8);
                    assert!(
                        later(t.tag.wrapping_add(t.period), latest) <= 0,
                        "{t:?} before {its:?}, V {v}; {filed:?}, {d:?}, {choice:?}"
                    );
                }
            }
        }
        // The clock stands where V is, or goes on to the first who is eligible.
        let expected = if later(t.tag, v) > 0 { t.tag } else { v };
        assert_eq!(after.clock, expected);
        pick
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Wake(c, off, log, rest, slice) => {
                if self.running != Some(c) && !self.cpu.is_linked(c) {
                    let period = 1 << log | rest & ((1 << log) - 1);
                    self.place(c, off, period, slice);
                    self.link(c);
                }
            }
            Op::Sleep(c) => {
                if self.cpu.is_linked(c) {
                    self.cpu.unlink(c);
                    self.cpu.begin(c);
                } else if self.running == Some(c) {
                    self.running = None;
                }
            }
            Op::Again(c) => {
                if self.cpu.is_linked(c) {
                    self.cpu.unlink(c);
                    self.link(c);
                }
            }
            Op::Place(c, off) => {
                if self.cpu.is_linked(c) {
                    let t = self.cpu.thread(c);
                    self.place(c, off, t.period, t.slice_ns.into());
                    self.cpu.refile(c);
                }
            }
            Op::Decide(used, passed) => self.decide(used, passed),
            Op::Review => {
                if self.cpu.state().nr > 0 {
                    let c = self.cpu.review();
                    assert!(self.cpu.is_linked(c));
                    self.cpu.refile(c);
                }
            }
        }
    }
}

fn sum_of(weights: impl Iterator<Item = u32>) -> u64 {
    weights.map(u64::from).sum()
}

fn d_of(waiting: &[(u32, host::Client)], d: &host::Client) -> u32 {
    let at = waiting.iter().find(|(_, c)| std::ptr::eq(c, d));
    at.map_or(0, |(c, _)| *c)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn sums_and_choices_are_those_of_a_look_at_everybody(
        ops in prop::collection::vec(op(), 1..120), alone in any::<bool>(),
    ) {
        let mut w = World { cpu: Cpu::new(THREADS, START), running: None, now: 1 << 40 };
        for op in ops {
            w.step(op);
            w.check();
            if alone && w.running.is_none() {
                w.decide(0, 0);
                w.check();
            }
        }
        for c in 0..THREADS {
            w.step(Op::Sleep(c));
            w.check();
        }
        let s = w.cpu.state();
        prop_assert_eq!((s.nr, s.weight, s.moment, s.oldest), (0, 0, 0, NONE));
    }

    /// Everybody comes up for review before anybody does twice.
    #[test]
    fn a_review_looks_at_each_in_turn(nr in 1u32..THREADS) {
        let mut cpu = Cpu::new(THREADS, START);
        for c in 0..nr {
            cpu.place(c, START, 1 << 30, 1_000_000);
            cpu.link(c, 1);
        }
        let seen: Vec<u32> = (0..2 * nr).map(|_| cpu.review()).collect();
        let turn: Vec<u32> = (0..nr).collect();
        prop_assert_eq!(seen, [turn.clone(), turn].concat());
    }

    /// Some wait on while the rest take turns, and each decision looks at one.
    #[test]
    fn a_review_comes_round_while_others_take_turns(stuck in 1u32..8, turns in 1u32..24) {
        let nr = stuck + turns;
        let mut cpu = Cpu::new(nr, START);
        for c in 0..nr {
            cpu.place(c, START, 1 << 30, 1_000_000);
            cpu.link(c, 1);
        }
        let mut runs = stuck;
        cpu.unlink(runs);
        let mut seen = Vec::new();
        for _ in 0..8 * nr {
            let next = stuck + (runs - stuck + 1) % turns;
            seen.push(cpu.review());
            cpu.link(runs, 1);
            cpu.unlink(next);
            runs = next;
        }
        for looks in seen.chunks(2 * nr as usize) {
            for c in 0..stuck {
                prop_assert!(looks.contains(&c), "{c} not among {looks:?}");
            }
        }
    }

    #[test]
    fn a_weight_is_the_part_of_the_cpu(
        log in 17u32..50, rest in any::<u64>(), slice in 100_000u32..20_000_000,
    ) {
        let period = 1u64 << log | rest & ((1 << log) - 1);
        let exact = (u128::from(slice) << 36) / u128::from(period);
        let expected = exact.clamp(1, u32::MAX.into());
        prop_assert_eq!(u128::from(host::queue_weight(period, slice)), expected);
    }
}

/// As at base with its first scale: what a slice costs one of `share` tickets.
fn period(share: u64) -> u64 {
    host::mul_q32(MS, host::account::inverse(share << (62 - 23)))
}

/// The errors are those of vtrr.h with V exact (tests/vtrr.rs): P <= 3/2 q, w <= q/8.
#[test]
fn service_error_is_bounded_where_v_is_the_mean() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..Default::default()
    });
    let worst = std::cell::Cell::new((0.0f64, 0.0f64));
    let log = (0.0f64..4.0).prop_map(|e| 10f64.powf(e) as u64);
    let shares = prop_oneof![
        prop::collection::vec(1u64..=10_000, 2..=100),
        prop::collection::vec(log, 2..=100),
    ];
    let run = |shares: Vec<u64>| {
        let total: u64 = shares.iter().sum();
        let mut cpu = Cpu::new(shares.len() as u32, START);
        for (c, share) in (0..).zip(&shares) {
            cpu.place(c, START, period(*share), MS as u32);
            cpu.link(c, 0);
        }
        let (mut running, mut runs) = (None, vec![0u64; shares.len()]);
        for given in 0..20_000u64 {
            running = cpu.run(running, 0, 1);
            let i = running.expect("somebody runs") as usize;
            let part = shares[i] as f64 / total as f64;
            let low = runs[i] as f64 - given as f64 * part;
            runs[i] += 1;
            let high = runs[i] as f64 - (given + 1) as f64 * part;
            let (a, b) = worst.get();
            worst.set((a.min(low), b.max(high)));
            prop_assert!(
                high < 1.0 + 1.0 / 8.0 - part + 0.01,
                "{i} of {shares:?}: {high}"
            );
            prop_assert!(
                low > -1.5 - 1.0 / 8.0 - part - 0.01,
                "{i} of {shares:?}: {low}"
            );
        }
        Ok(())
    };
    let found = runner.run(&shares, run);
    println!("worst service error, V the mean: {:?} quanta", worst.get());
    found.unwrap_or_else(|e| panic!("{e}"));
}

/// However many have waited too long, all of them together get an eighth of the CPU by that.
#[test]
fn those_that_waited_too_long_leave_others_their_shares() {
    let crowd = 200;
    let mut cpu = Cpu::new(crowd + 1, START);
    // Far from their turn, and their turn far from that of the one that has nearly all.
    for c in 0..crowd {
        cpu.place(c, START + (1 << 47), 1 << 47, MS as u32);
        cpu.link(c, 1);
    }
    cpu.place(crowd, START, 1 << 24, MS as u32);
    let (mut running, mut late) = (Some(crowd), 0);
    let begin = 2 * OVERDUE;
    // A thread that has waited too long has the shortest slice.
    for at in (0..1_000).map(|step| begin + step * MIN_SLICE) {
        let c = running.expect("somebody runs");
        let t = cpu.thread(c);
        cpu.place(c, t.tag + t.period, t.period, t.slice_ns);
        if let Pick::Next(next) = cpu.pick(running, at, false) {
            late += u64::from(next != crowd);
            cpu.begin(next);
            cpu.link(c, at);
            running = Some(next);
        }
    }
    // At first a quantum of them run in a row.
    assert!(late >= 1_000 / OVERDUE_PART, "{late}");
    assert!(late <= 1_000 / OVERDUE_PART + MS / MIN_SLICE + 2, "{late}");
}
