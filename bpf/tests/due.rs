// SPDX-License-Identifier: GPL-2.0-only
//! due.h against floating point: what holders were due, whatever siblings did meanwhile, and whenever somebody looked.

use proptest::prelude::*;
use tix_core_host::{Edge, Funds};

/// Three users below base, who back two principals each: (issuer, tickets), from node 1 on.
const NODES: [(u32, u32); 9] = [
    (0, 300),
    (0, 100),
    (0, 7),
    (1, 1),
    (1, 2),
    (2, 100),
    (2, 10_000),
    (3, 50),
    (3, 60),
];

fn back(f: &mut Funds, n: u32, issuer: u32, amount: u32) {
    let edge = Edge {
        issuer,
        amount,
        hard: false,
        part: u16::MAX,
    };
    f.back(n, &[edge], 0);
}

struct World {
    f: Funds,
    v: u64,
    tickets: Vec<(usize, f64)>,
    running: Vec<bool>,
    /// By node: ns that it was due while it ran.
    due: Vec<f64>,
    /// And as C has it: up to the last look, ns / 2^16.
    told: Vec<u64>,
    since: Vec<u64>,
}

impl World {
    fn new() -> World {
        let n = NODES.len() + 1;
        let mut f = Funds::new(n as u32);
        f.set_now(1 << 40);
        let mut tickets = vec![(0, 0.0)];
        for (i, (issuer, amount)) in (1..).zip(NODES) {
            back(&mut f, i, issuer, amount);
            tickets.push((issuer as usize, f64::from(amount)));
        }
        World {
            f,
            v: 1 << 40,
            tickets,
            running: vec![false; n],
            due: vec![0.0; n],
            told: vec![0; n],
            since: vec![0; n],
        }
    }

    fn active(&self, n: usize) -> bool {
        self.running[n] || (1..self.tickets.len()).any(|i| self.tickets[i].0 == n && self.active(i))
    }

    /// The part of the CPU of what `n` holds.
    fn part(&self, n: usize) -> f64 {
        let Some((issuer, amount)) = (n > 0).then(|| self.tickets[n]) else {
            return 1.0;
        };
        let all = (1..self.tickets.len()).filter(|i| self.tickets[*i].0 == issuer);
        let active: f64 = all
            .filter(|i| self.active(*i))
            .map(|i| self.tickets[i].1)
            .sum();
        self.part(issuer) * amount / active
    }

    /// The CPU was busy for `ns`.
    fn pass(&mut self, ns: u64) {
        if !self.active(0) {
            return;
        }
        self.v += ((u128::from(ns) * u128::from(self.f.rate())) >> 32) as u64;
        self.f.set_now(self.v);
        for n in 1..self.tickets.len() {
            if self.running[n] {
                self.due[n] += ns as f64 * self.part(n);
            }
        }
    }

    fn look(&mut self, n: usize) {
        let due = self.f.self_due(n as u32);
        if self.running[n] {
            self.told[n] += due.wrapping_sub(self.since[n]);
        }
        self.since[n] = due;
    }

    fn toggle(&mut self, n: usize) {
        self.look(n);
        self.running[n] = !self.running[n];
        self.f.set_self(n as u32, self.running[n]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_due_is_told_whenever_one_looks(
        steps in proptest::collection::vec((4..10usize, 0..3u32, 1..3_000_000u64, 1..500u32), 1..300)
    ) {
        let mut w = World::new();
        for (n, what, ns, amount) in steps {
            match what {
                0 => w.look(n),
                1 if n == 9 => {
                    let (issuer, _) = w.tickets[n];
                    w.look(n);
                    back(&mut w.f, n as u32, issuer as u32, amount);
                    w.tickets[n].1 = f64::from(amount);
                    w.look(n);
                }
                _ => w.toggle(n),
            }
            w.pass(ns);
        }
        for n in 4..10 {
            w.look(n);
            let told = w.told[n] as f64 / 65536.0;
            // The rate has 32 bits, and what is due to the last ticket of 2^17 is known to 2^-16 ns.
            prop_assert!((told - w.due[n]).abs() < 100.0, "{n}: told {told}, due {}", w.due[n]);
        }
    }
}

/// Who goes having had more than its due leaves that to its siblings, and comes back with what is left of it.
#[test]
fn who_is_ahead_is_borne_by_siblings() {
    let mut w = World::new();
    for n in [4, 5, 6] {
        w.toggle(n);
    }
    let v = w.v;
    w.toggle(4);
    assert_eq!(
        w.f.bear(4, 1_000, false, 1 << 40),
        v,
        "its sibling bears it"
    );
    w.look(5);
    assert_eq!(w.told[5].cast_signed() >> 16, -1_000);
    w.toggle(5);
    let moved = w.f.bear(5, 300, false, 1 << 40);
    assert!(moved < v, "the last one leaves it to base's holders");
    w.v = moved;
    w.f.set_now(w.v);
    // 300 tickets of 400 are due 300 ns in 400.
    w.pass(200);
    for n in [4, 5] {
        let owes = w.f.owes(n);
        assert!((149..=151).contains(&owes), "whoever comes back: {owes}");
    }
}

/// What a principal owes does not come back to it where it holds tickets of an issuer and of that one's issuer: all of it is for the others, and none
/// forgiven meanwhile.
#[test]
fn what_others_bear_does_not_come_back_by_another_ticket() {
    for also in [100, 3_000] {
        let (bob, cgroup, hog, main, alice) = (1, 2, 3, 4, 5);
        let mut f = Funds::new(6);
        f.set_now(1 << 40);
        back(&mut f, bob, 0, 100);
        back(&mut f, cgroup, bob, 100);
        back(&mut f, hog, cgroup, 100);
        let edges = [(cgroup, 100), (bob, also)].map(|(issuer, amount)| Edge {
            issuer,
            amount,
            hard: false,
            part: u16::MAX,
        });
        f.back(main, &edges, 0);
        back(&mut f, alice, 0, 300);
        for n in [hog, main, alice] {
            f.set_self(n, true);
            f.value(n);
        }
        let due = |f: &mut Funds, n| f.self_due(n).cast_signed() >> 16;
        let before = [hog, main, alice].map(|n| due(&mut f, n));
        let since = |f: &mut Funds| {
            let now = [hog, main, alice].map(|n| due(f, n));
            [0, 1, 2].map(|i| now[i] - before[i])
        };
        f.set_self(main, false);
        let v = f.bear(main, 1_000_000, false, 1 << 40);
        assert_eq!(v, 1 << 40, "alice loses nothing");
        let about = |x: i64, y: i64| (x - y).abs() <= 20;
        assert!(about(f.owes(main), 1_000_000), "{also}: {}", f.owes(main));
        let now = since(&mut f);
        assert!(about(now[0], -1_000_000) && now[2] == 0, "{also}: {now:?}");
        f.set_self(main, true);
        assert_eq!(f.bear(main, 1_000_000, true, 1 << 40), v);
        let now = since(&mut f);
        assert!(now.iter().all(|x| about(*x, 0)), "{also}: {now:?}");
    }
}

/// Who is away and pays for another has had that when it comes back, and until then it is taken from its siblings, not from everybody.
#[test]
fn who_pays_while_it_is_away_pays_within_its_currency() {
    let mut w = World::new();
    for n in [4, 5, 6] {
        w.toggle(n);
    }
    w.toggle(4);
    assert_eq!(w.f.bear(4, 0, false, 1 << 40), w.v);
    w.look(5);
    let before = w.told[5];
    assert_eq!(
        w.f.late(4, 1_000, 1 << 40),
        w.v,
        "base's holders lose nothing"
    );
    w.look(5);
    let told = w.told[5].wrapping_sub(before).cast_signed() >> 16;
    assert_eq!(told, -1_000, "its sibling bears it");
    assert_eq!(w.f.late(4, 500, 1 << 40), w.v);
    assert_eq!(w.f.owes(4), 1_500, "and it comes back with all of it");
}

/// V goes back where less was used than it had passed for: what somebody with exchange tickets was due is the same, however often one looks
/// meanwhile.
#[test]
fn what_v_takes_back_was_not_due() {
    const EXCHANGED: i64 = 40_000; // thousandths
    const MS: i64 = 1 << 30;
    let looked = |steps: &[i64]| {
        let mut f = Funds::new(3);
        let mut v: u64 = 1 << 40;
        f.set_now(v);
        for (n, delta) in [(1, EXCHANGED), (2, -EXCHANGED)] {
            let edge = Edge {
                issuer: 0,
                amount: 100,
                hard: false,
                part: u16::MAX,
            };
            f.back(n, &[edge], delta);
        }
        f.set_total(200);
        for n in [1, 2] {
            f.set_self(n, true);
        }
        for n in [1, 2] {
            f.value(n);
        }
        let from = [1, 2].map(|n| f.self_due(n));
        for step in steps {
            v = v.wrapping_add_signed(*step);
            f.set_now(v);
            f.self_due(1);
            f.self_due(2);
        }
        let mut due = |n: u32, from: u64| f.self_due(n).wrapping_sub(from).cast_signed();
        [due(1, from[0]), due(2, from[1])]
    };
    let once = looked(&[MS]);
    let to_and_fro = looked(&[2 * MS, -MS, MS, -2 * MS, MS]);
    assert!(once[0] > once[1] && once[1] > 0, "{once:?}");
    for (once, often) in once.iter().zip(to_and_fro) {
        assert!((once - often).abs() <= once >> 20, "{often}, not {once}");
    }
}
