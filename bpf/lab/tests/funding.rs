// SPDX-License-Identifier: GPL-2.0-only
//! Tickets that come and go, of nodes that have accounts of their own at times and are members of a currency at others:
//! whoever funds them pays for all that they use.

use tix_lab::{MS, Machine, Node, SECOND, periodic, run};

/// What bob can do to tickets: alice has three times his weight, he two cgroups and two currencies.
struct Bob {
    at: u32,
    other: u32,
    own: Node,
    own_at: Node,
    /// Funded by his own, and by that and the first.
    currencies: [Node; 2],
    threads: Vec<u32>,
}

/// alice's share while bob, every `every_us`, does the next thing; his threads in one cgroup compute, or are `periodic`.
fn alice(
    cpus: u32,
    every_us: u64,
    is_periodic: bool,
    begin: fn(&mut Machine, &Bob),
    step: fn(&mut Machine, &Bob, bool),
) -> f64 {
    run(cpus, |m| {
        let alice = m.cgroup(0, 300);
        let bob = m.cgroup(0, 100);
        let (at, other) = (m.cgroup(bob, 100), m.cgroup(bob, 100));
        let hogs = m.hogs(alice, cpus as usize);
        m.hogs(other, cpus as usize);
        let own = m.node(bob);
        let currencies = [m.currency(), m.currency()];
        m.fund(currencies[0], &[(own, 100, false)], 0);
        let both = [(own, 100, false), (currencies[0], 100, false)];
        m.fund(currencies[1], &both, 0);
        m.set_total(1_000_000);
        let ns = every_us * 1000;
        let threads = match is_periodic {
            true => (0..cpus)
                .map(|_| m.thread(at, periodic(ns, ns * 17 / 10)))
                .collect(),
            false => m.hogs(at, cpus as usize),
        };
        let own_at = m.node(at);
        let bob = Bob {
            at,
            other,
            own,
            own_at,
            currencies,
            threads,
        };
        begin(m, &bob);
        m.run(SECOND);
        let (before, began) = (m.used_by(&hogs), m.now());
        let mut is_odd = false;
        while m.now() - began < 5 * SECOND {
            is_odd = !is_odd;
            step(m, &bob, is_odd);
            m.run(ns);
        }
        let all = (m.now() - began) * u64::from(cpus);
        (m.used_by(&hogs) - before) as f64 / all as f64
    })
}

const EVERY_US: [u64; 6] = [300, 700, 1500, 3000, 10_000, 50_000];

/// alice loses nothing worth the trouble, whatever the pace. What bob loses by that is his.
fn keeps(is_periodic: bool, begin: fn(&mut Machine, &Bob), step: fn(&mut Machine, &Bob, bool)) {
    for cpus in [1, 2, 4] {
        for every in EVERY_US {
            let alice = alice(cpus, every, is_periodic, begin, step);
            assert!(alice > 0.735, "{cpus} CPUs, every {every} us: {alice}");
        }
    }
}

fn nothing(_: &mut Machine, _: &Bob) {}

fn both(b: &Bob) -> [(Node, u32, bool); 2] {
    [(b.own, 100, false), (b.currencies[0], 100, false)]
}

#[test]
fn a_second_ticket_that_comes_and_goes() {
    keeps(false, nothing, |m, b, is_odd| match is_odd {
        true => m.fund(b.own_at, &both(b), 0),
        false => m.fund(b.own_at, &both(b)[..1], 0),
    });
}

#[test]
fn a_member_of_one_currency_or_of_two() {
    keeps(false, nothing, |m, b, is_odd| match is_odd {
        true => m.fund(b.own_at, &both(b), 0),
        false => m.fund(b.own_at, &both(b)[1..], 0),
    });
}

#[test]
fn a_ticket_that_is_hard_and_soft() {
    keeps(false, nothing, |m, b, is_odd| {
        m.fund(b.own_at, &[(b.own, 100, is_odd)], 0)
    });
}

#[test]
fn a_ticket_whose_amount_changes() {
    keeps(false, nothing, |m, b, is_odd| {
        m.fund(
            b.own_at,
            &[(b.own, if is_odd { 10_000 } else { 1 }, false)],
            0,
        )
    });
}

#[test]
fn who_has_an_account_of_its_own_and_sleeps() {
    keeps(true, |m, b| m.fund(b.own_at, &both(b), 0), |_, _, _| ());
}

#[test]
fn who_has_one_two_currencies_below() {
    keeps(
        true,
        |m, b| {
            let tickets = b.currencies.map(|c| (c, 100, false));
            m.fund(b.own_at, &tickets, 0);
        },
        |_, _, _| (),
    );
}

#[test]
fn threads_that_move_between_an_account_and_a_member() {
    keeps(
        false,
        |m, b| m.fund(b.own_at, &both(b), 0),
        |m, b, is_odd| {
            for thread in &b.threads {
                m.move_to(*thread, if is_odd { b.other } else { b.at });
            }
        },
    );
}

/// A currency that nobody uses is owed nothing, and hands on nothing, wherever its tickets are.
#[test]
fn a_currency_that_sleeps() {
    keeps(false, nothing, |m, b, is_odd| match is_odd {
        true => m.fund(b.currencies[1], &both(b)[..1], 0),
        false => m.fund(b.currencies[1], &both(b), 0),
    });
}

/// The same of a node that is used now and then.
#[test]
fn who_sleeps_while_its_tickets_change() {
    keeps(true, nothing, |m, b, is_odd| match is_odd {
        true => m.fund(b.own_at, &both(b), 0),
        false => m.fund(b.own_at, &both(b)[..1], 0),
    });
}

/// It had an account of its own once, and has not been used since.
#[test]
fn who_sleeps_for_ever_while_its_tickets_change() {
    keeps(
        false,
        |m, b| {
            m.fund(b.own_at, &both(b), 0);
            m.run(50 * MS);
            b.threads.iter().for_each(|t| m.end(*t));
            m.run(SECOND);
        },
        |m, b, is_odd| match is_odd {
            true => m.fund(b.own_at, &both(b)[..1], 0),
            false => m.fund(b.own_at, &both(b), 0),
        },
    );
}

/// A currency that funds a node with two tickets is worth to its other members what is left.
#[test]
fn what_a_currency_gives_to_others_its_members_have_not() {
    let shares = run(1, |m| {
        let alice = m.cgroup(0, 300);
        let bob = m.cgroup(0, 100);
        let (at, other, third) = (m.cgroup(bob, 100), m.cgroup(bob, 100), m.cgroup(bob, 100));
        let groups = [alice, at, other, third].map(|g| m.hogs(g, 1));
        let own = m.node(bob);
        let currency = m.currency();
        m.fund(currency, &[(own, 100, false)], 0);
        // Half of the currency is `third`'s, half goes into what bob's own funds, too.
        m.fund(m.node(third), &[(currency, 100, false)], 0);
        m.fund(m.node(at), &[(own, 100, false), (currency, 100, false)], 0);
        m.run(SECOND);
        let groups = groups.each_ref().map(Vec::as_slice);
        m.shares(&groups, 5 * SECOND)
    });
    for (share, due) in shares.iter().zip([0.75, 0.125, 0.25 / 3.0, 0.125 / 3.0]) {
        assert!((share - due).abs() < 0.002, "{shares:?}");
    }
}

/// alice's share of the CPUs, of 0.75, beside three cgroups of bob's: a node that two of his
/// currencies fund, a hog of that `weight` (0: none), and one of the weight `sleeper` that runs and
/// sleeps for so many ns in turn. `every`: how often the node becomes a member of one currency, and
/// back, ns.
fn beside_one_that_sleeps(
    cpus: u32,
    (weight, sleeper): (u32, u32),
    (runs, sleeps): (u64, u64),
    every: Option<u64>,
) -> f64 {
    run(cpus, |m| {
        let alice = m.cgroup(0, 300);
        let bob = m.cgroup(0, 100);
        let hogs = m.hogs(alice, cpus as usize);
        let (funded, other) = (m.cgroup(bob, 20), m.cgroup(bob, sleeper));
        m.hogs(funded, cpus as usize);
        if weight > 0 {
            let small = m.cgroup(bob, weight);
            m.hogs(small, 1);
        }
        m.thread(other, periodic(runs, runs + sleeps));
        let (own, currency, node) = (m.node(bob), m.currency(), m.node(funded));
        m.fund(currency, &[(own, 100, false)], 0);
        let both = [(own, 100, false), (currency, 10, false)];
        m.fund(node, &both, 0);
        m.run(SECOND);
        let (before, began) = (m.used_by(&hogs), m.now());
        let mut is_member = false;
        while m.now() - began < 10 * SECOND {
            m.run(every.unwrap_or(SECOND));
            if every.is_some() {
                is_member = !is_member;
                let member = [(currency, 50, false)];
                m.fund(node, if is_member { &member } else { &both }, 0);
            }
        }
        (m.used_by(&hogs) - before) as f64 / ((m.now() - began) * u64::from(cpus)) as f64
    })
}

const TURNS: [(u64, u64); 4] = [
    (417_453, 1_605_584),
    (MS, 5 * MS),
    (5 * MS, 5 * MS),
    (20 * MS, 20 * MS),
];

const WEIGHTS: [(u32, u32); 4] = [(20, 10_000), (100, 10_000), (100, 1000), (100, 100)];
const EVERY: [Option<u64>; 4] = [None, Some(5 * MS), Some(20 * MS), Some(300 * MS)];

fn keeps_beside_sleepers(cpus: u32, weights: &[(u32, u32)], every: &[Option<u64>]) {
    for turns in TURNS {
        for weights in weights {
            for every in every {
                let share = beside_one_that_sleeps(cpus, *weights, turns, *every);
                assert!(
                    share > 0.735,
                    "{cpus} CPUs, {weights:?}, {turns:?}, {every:?}: {share:.4}"
                );
            }
        }
    }
}

/// The value of a node changes a hundredfold as a sibling sleeps and wakes up, and its lag does not.
/// (bob had all.)
#[test]
fn a_lag_does_not_grow_with_the_value() {
    keeps_beside_sleepers(1, &WEIGHTS, &EVERY);
}

/// Promises that do not hold yet, each with what was seen.
mod not_kept {
    use super::*;

    #[test]
    #[ignore = "not kept yet: 0.61 and 0.71; bob's node has too much"]
    fn nor_where_nobody_else_is_active() {
        keeps_beside_sleepers(1, &[(0, 10_000)], &[None]);
    }

    #[test]
    #[ignore = "not kept yet: 0.50 to 0.55 at times, as alice's threads share a CPU"]
    fn nor_on_two_cpus() {
        keeps_beside_sleepers(2, &WEIGHTS, &EVERY);
    }
}
