// SPDX-License-Identifier: GPL-2.0-only
//! core/account.h and the pure functions of core/exchange.h against exact arithmetic.

use proptest::prelude::*;
use tix_core_host as host;
use tix_core_host::ONE;
use tix_core_host::account::{self, Mean, Sleeper};

/// As types.h and account.h have them.
const DEBT: i128 = 1_000_000_000;
const MEMBER_OFF: i128 = 100_000_000;
const MIN_SLICE: u64 = 100_000;
const PERIOD_MOST: u64 = 1 << 54;
const INVERSE_MAX: u64 = 1 << 62;
const FORGOTTEN: u64 = 60_000_000_000;
const SLICE: u64 = 1_000_000;

/// Numbers of up to `bits`, short ones as often as long ones.
fn up_to(bits: u32) -> impl Strategy<Value = u64> {
    (any::<u64>(), 64 - bits..64).prop_map(|(x, by)| x >> by)
}

fn signed(bits: u32) -> impl Strategy<Value = i64> {
    (up_to(bits), any::<bool>()).prop_map(|(x, minus)| match minus {
        true => -x.cast_signed(),
        false => x.cast_signed(),
    })
}

fn tickets() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1u64..=10_000, 1 => up_to(32).prop_map(|x| x.max(1))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_each_ticket_has_had(ns in up_to(40), tickets in tickets()) {
        let exact = (u128::from(ns) << 24) / u128::from(tickets);
        prop_assert_eq!(u128::from(account::served_by(ns, tickets)), exact);
        prop_assert_eq!(account::served_by(ns, 0), 0);
    }

    #[test]
    fn how_far_one_is_ahead(mean in any::<u64>(), off in signed(62), tickets in tickets()) {
        let served = mean.wrapping_add_signed(off);
        let size = (i128::from(off.unsigned_abs()) * i128::from(tickets)) >> 24;
        let exact = size.min(DEBT) * i128::from(off.signum());
        prop_assert_eq!(i128::from(account::ahead_ns(served, mean, tickets)), exact);
    }

    #[test]
    fn part_of_a_number(x in signed(31), a in up_to(32), b in tickets()) {
        let exact = i128::from(x) * i128::from(a) / i128::from(b);
        prop_assert_eq!(i128::from(account::scaled(x, a, b)), exact);
    }

    /// To 30 bits, and no more than there is room for.
    #[test]
    fn inverse_of_a_value(value in up_to(63)) {
        let got = u128::from(account::inverse(value));
        if value <= 1 << 32 {
            prop_assert_eq!(got, u128::from(INVERSE_MAX));
            return Ok(());
        }
        let exact = (1u128 << 94) / u128::from(value);
        let off = got.abs_diff(exact);
        prop_assert!(off <= (exact >> 29) + 1, "{} instead of {}", got, exact);
        prop_assert!(got <= u128::from(INVERSE_MAX) + (1 << 33));
    }

    /// Virtual time and back, to 2^-16 and a ns: what the daemon of the next build is told.
    #[test]
    fn virtual_time_and_back(ns in signed(36), value in 33u32..63, rest in any::<u64>()) {
        let inverse = account::inverse(1 << value | rest & ((1 << value) - 1));
        prop_assume!((i128::from(ns.unsigned_abs()) * i128::from(inverse)) >> 32 < 1 << 62);
        let v = account::in_vtime(ns, inverse);
        let exact = (i128::from(ns.unsigned_abs()) * i128::from(inverse)) >> 32;
        prop_assert_eq!(i128::from(v), exact * i128::from(ns.signum()));
        prop_assume!(inverse >> 32 > 0);
        let back = account::unweighed(v, inverse);
        let most = (ns.unsigned_abs() >> 15) + 2;
        prop_assert!(back.abs_diff(ns) <= most, "{} instead of {}", back, ns);
    }

    #[test]
    fn virtual_time_that_passes(
        ns in up_to(36), rate in 32u32..50, rest in any::<u64>(), cpus in 1u32..1025,
    ) {
        let rate = 1 << rate | rest & ((1 << rate) - 1);
        let each = (u128::from(ns) * u128::from(rate)) >> 32;
        prop_assume!(each * u128::from(cpus) < 1 << 64);
        prop_assert_eq!(u128::from(account::vtime(ns, rate, cpus)), each * u128::from(cpus));
    }

    /// One that comes back is owed no more than the credit, and what moving the clock costs it; it
    /// owes no more than the credit and the most. Within that it is where it was.
    #[test]
    fn an_account_comes_back(
        clock in any::<u64>(), lag in signed(62), credit in up_to(50), most in up_to(50),
        slept in 0..2 * FORGOTTEN, join in 256u32..=2048, before in up_to(61),
    ) {
        let (vtime, slept_ns) = (clock.wrapping_add_signed(lag), 1 << 50);
        let early = clock.wrapping_sub(before);
        let at = Sleeper { vtime, slept_ns, clock, early, now: slept_ns + slept };
        let got = at.comes_back(credit, most, join).wrapping_sub(clock).cast_signed();
        let owed = -i128::from(before) - i128::from(credit) - i128::from(credit >> 8) * i128::from(join - 256);
        let owes = i128::from(credit) + i128::from(most);
        let was = if lag > 0 && slept > FORGOTTEN { 0 } else { lag };
        prop_assert_eq!(i128::from(got), i128::from(was).clamp(owed, owes));
    }

    /// A thread's slice is a part of the one it may have, and costs it the same for each ns; one of
    /// several has a slice as often as its weight says, and each has one in a round unless that
    /// would be shorter than the shortest.
    #[test]
    fn a_slice_and_its_period(
        value in 40u32..62, rest in any::<u64>(),
        load in 1u32..2_000_000, part in 1u32..=10_000, is_one_of in any::<bool>(),
        slice_ns in MIN_SLICE..=20_000_000, gap in 0u32..=16, cpus in 1u32..=256,
    ) {
        let weight = part.min(load);
        let inverse = account::inverse(1 << value | rest & ((1 << value) - 1));
        let round = account::vtime(1_500_000_000, 1 << (32 + gap), cpus);
        let t = account::slice(inverse, load, weight, is_one_of, slice_ns, round);
        let own = (u128::from(slice_ns) * u128::from(inverse)) >> 32;
        let exact = match is_one_of && load > weight {
            true => (own * u128::from(load) / u128::from(weight)).min(PERIOD_MOST.into()),
            false => own,
        };
        let slice = u128::from(t.slice_ns);
        prop_assert!((u128::from(MIN_SLICE)..=u128::from(slice_ns)).contains(&slice));
        // Of the period of a whole slice: the ratio has 8 bits beyond the point, the rest 16.
        let whole = u128::from(t.period) * u128::from(slice_ns) / slice;
        let rounded = exact / 255 + exact / u128::from(slice_ns) + 256;
        let is_near = whole <= exact + 256 && whole + rounded >= exact;
        prop_assert!(is_near, "{} instead of {}", whole, exact);
        let is_in_round = u128::from(t.period) <= u128::from(round) + u128::from(round >> 14);
        prop_assert!(is_in_round || slice == u128::from(MIN_SLICE));
        prop_assert!(slice == u128::from(slice_ns) || exact > u128::from(round));
        prop_assert_eq!(t.share, host::queue_weight(t.period, t.slice_ns));
        prop_assert_eq!(t.group, host::group_of(t.period));
    }

    /// x = m * 2^e, to 48 bits.
    #[test]
    fn a_number_of_48_bits(x in up_to(64).prop_filter("0 has none", |x| *x > 0)) {
        let (m, e) = host::normal(x);
        prop_assert_eq!(m >> 47, 1);
        let x = u128::from(x) << 64;
        let got = u128::from(m) << (64 + e);
        prop_assert!(got <= x && x - got <= x >> 47);
    }

    /// Base's soft tickets keep 2^-7 of what is theirs, whatever of it is given away.
    #[test]
    fn what_rests_with_the_pool(pool in up_to(62), rest in up_to(62), x in signed(40)) {
        let moved = if x < 0 { -i128::from(rest) } else { i128::from(rest) };
        let exact = (i128::from(pool) + moved).max(i128::from(pool >> 7));
        prop_assert_eq!(i128::from(host::pool(pool, rest, x)), exact);
        prop_assert!(pool < 128 || host::pool(pool.min(ONE), ONE, -1) > 0);
    }
}

/// Members and their mean.
struct Members {
    mean: Mean,
    /// Tickets, what each has had, and whether it is one now.
    all: Vec<(u64, u64, bool)>,
    /// By how much rounding may have moved the mean away from them, unit times tickets.
    rounded: i128,
}

impl Members {
    fn tickets(&self) -> u64 {
        self.all.iter().filter(|m| m.2).map(|m| m.0).sum()
    }

    fn off(&self, i: usize) -> i128 {
        i128::from(self.all[i].1.wrapping_sub(self.mean.0).cast_signed())
    }

    /// By how much the distances from the mean do not add up to nothing, unit times tickets.
    fn sum(&self) -> i128 {
        let active = (0..self.all.len()).filter(|i| self.all[*i].2);
        active
            .map(|i| self.off(i) * i128::from(self.all[i].0))
            .sum()
    }

    fn check(&mut self, moved: i128) {
        self.rounded = match self.tickets() {
            0 => 0,
            all => self.rounded + moved * i128::from(all),
        };
        assert!(
            self.sum().abs() <= self.rounded,
            "{} > {}",
            self.sum(),
            self.rounded
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Toggle(usize, u64),
    Charge(usize, u64),
    Forgive(usize),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// Whoever joins, leaves, is charged or forgiven: the mean is that of those who are there.
    #[test]
    fn distances_from_the_mean_add_up_to_nothing(
        start in any::<u64>(),
        of in prop::collection::vec(1u64..=10_000, 1..8),
        steps in prop::collection::vec((0usize..8, 0u32..4, up_to(27)), 1..200),
    ) {
        let all = of.iter().map(|t| (*t, start, false)).collect();
        let mut w = Members { mean: Mean(start), all, rounded: 0 };
        for (i, what, ns) in steps {
            let i = i % w.all.len();
            let (tickets, served, is_active) = w.all[i];
            let step = match what {
                0 | 1 => Step::Toggle(i, ns),
                2 => Step::Charge(i, ns),
                _ => Step::Forgive(i),
            };
            match step {
                Step::Toggle(i, _) if is_active => {
                    w.all[i].2 = false;
                    let (others, mean) = (w.tickets(), w.mean);
                    w.mean.leave(served, others, tickets);
                    // Back at once it finds all as it was, unless it is further away than counts.
                    let size = w.off(i).abs() * i128::from(tickets);
                    if others > 0 && size < DEBT << 24 {
                        let mut again = w.mean;
                        let back = again.join(served, others, tickets, 1 << 30);
                        prop_assert!(again.0.wrapping_sub(mean.0).cast_signed().abs() <= 2);
                        prop_assert_eq!(back, served);
                    }
                }
                Step::Toggle(i, credit) => {
                    let others = w.tickets();
                    w.all[i].1 = w.mean.join(served, others, tickets, credit);
                    w.all[i].2 = true;
                    if others > 0 {
                        // Each of its tickets is rounded, and so is where the mean goes.
                        let least = -(i128::from(credit) << 24) - 4 * i128::from(tickets);
                        prop_assert!(w.off(i) * i128::from(tickets) >= least);
                        prop_assert!(w.off(i) * i128::from(tickets) <= DEBT << 24);
                    }
                }
                Step::Charge(i, ns) => {
                    w.all[i].1 = served.wrapping_add(account::served_by(ns, tickets));
                    if is_active {
                        w.mean.0 = w.mean.0.wrapping_add(account::served_by(ns, w.tickets()));
                    }
                }
                Step::Forgive(i) if is_active => {
                    let (all, off) = (w.tickets(), (w.off(i) * i128::from(tickets)) >> 24);
                    let mut served = served;
                    let got = i128::from(w.mean.forgive(&mut served, tickets, all, SLICE as i64));
                    w.all[i].1 = served;
                    prop_assert!((-i128::from(SLICE)..=MEMBER_OFF).contains(&got));
                    if (-i128::from(SLICE)..MEMBER_OFF).contains(&off) {
                        prop_assert!((got - off).abs() <= 1, "{} was {}", got, off);
                    } else if all > tickets && off.abs() < DEBT {
                        // The mean has moved meanwhile, and that is how far it is from it now.
                        let now = (w.off(i) * i128::from(tickets)) >> 24;
                        prop_assert!((got - now).abs() <= 2, "{} is {}", got, now);
                    }
                }
                Step::Forgive(_) => {}
            }
            // What is cut off of a part is less than a unit, and a charge cuts off two.
            w.check(2);
        }
    }
}
