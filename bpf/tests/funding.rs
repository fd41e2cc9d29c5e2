// SPDX-License-Identifier: GPL-2.0-only
//! funding.h against an oracle in unbounded rationals, over random graphs and histories
//! of activity and of funding (model.md §3, invariants 1 and 8).

mod host;

use host::{Edge, FUNDERS, Funds, ONE, SELF};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::sample::Index;

fn rational(n: u64, d: u64) -> BigRational {
    BigRational::new(BigInt::from(n), BigInt::from(d))
}

/// model.md §2 and §3, read literally: nothing is kept but who is funded by whom and who
/// has runnable threads. Issuers have lower indexes than holders.
struct Oracle {
    edges: Vec<Vec<Edge>>,
    running: Vec<bool>,
}

impl Oracle {
    fn new(nodes: usize) -> Oracle {
        Oracle {
            edges: vec![Vec::new(); nodes],
            running: vec![false; nodes],
        }
    }

    /// The tickets `issuer` has issued, as (holder, amount).
    fn issued_by(&self, issuer: usize) -> impl Iterator<Item = (usize, u32)> {
        let tickets = self.edges.iter().enumerate();
        tickets.flat_map(move |(holder, edges)| {
            edges
                .iter()
                .filter(move |e| e.issuer as usize == issuer)
                .map(move |e| (holder, e.amount))
        })
    }

    /// A node is active while its own threads run or a ticket it issued is active.
    fn active(&self) -> Vec<bool> {
        let mut active = self.running.clone();
        for n in (0..active.len()).rev() {
            active[n] = active[n] || self.issued_by(n).any(|(holder, _)| active[holder]);
        }
        active
    }

    /// Sum of the active amounts of each node, `.self` included.
    fn issued(&self, active: &[bool]) -> Vec<u64> {
        (0..active.len())
            .map(|n| {
                let own = if self.running[n] { SELF.into() } else { 0 };
                let tickets = self.issued_by(n).filter(|(holder, _)| active[*holder]);
                own + tickets.map(|(_, amount)| u64::from(amount)).sum::<u64>()
            })
            .collect()
    }

    /// V / T of every active node; nothing for the others.
    fn values(&self, active: &[bool], issued: &[u64]) -> Vec<Option<BigRational>> {
        let mut values: Vec<Option<BigRational>> = vec![None; active.len()];
        for n in (0..active.len()).filter(|n| active[*n]) {
            let value = if n == 0 {
                rational(1, 1)
            } else {
                let tickets = self.edges[n].iter().map(|e| {
                    let issuer = e.issuer as usize;
                    let whole = values[issuer].clone().expect("issuer of an active ticket");
                    whole * rational(e.amount.into(), issued[issuer])
                });
                tickets.fold(rational(0, 1), |a, b| a + b)
            };
            values[n] = Some(value);
        }
        values
    }
}

/// Within 10^-6 of itself or 10^-9 of the whole.
fn close(got: u64, exact: &BigRational) -> bool {
    let error = rational(got, ONE) - exact;
    let error = if error < rational(0, 1) {
        -error
    } else {
        error
    };
    error <= rational(1, 1_000_000_000) || error <= exact * rational(1, 1_000_000)
}

/// The graph under test beside the oracle. `nodes[i]` is the index in C of the oracle's i:
/// C must not care about the order of indexes.
struct Pair {
    c: Funds,
    nodes: Vec<u32>,
    oracle: Oracle,
}

impl Pair {
    fn new(nodes: Vec<u32>) -> Pair {
        Pair {
            c: Funds::new(nodes.len() as u32),
            oracle: Oracle::new(nodes.len()),
            nodes,
        }
    }

    fn toggle(&mut self, n: usize) {
        self.oracle.running[n] = !self.oracle.running[n];
        self.c.set_self(self.nodes[n], self.oracle.running[n]);
    }

    fn back(&mut self, n: usize, edges: Vec<Edge>) {
        let mapped: Vec<_> = edges
            .iter()
            .map(|e| Edge {
                issuer: self.nodes[e.issuer as usize],
                amount: e.amount,
            })
            .collect();
        self.c.back(self.nodes[n], &mapped);
        self.oracle.edges[n] = edges;
    }

    /// Compare node `n` only, so that other nodes' values stay as old as they are.
    fn check_one(&mut self, n: usize) {
        let active = self.oracle.active();
        if active[n] {
            let issued = self.oracle.issued(&active);
            let exact = self.oracle.values(&active, &issued);
            self.compare(n, exact[n].as_ref().expect("active"), &issued);
        }
    }

    fn compare(&mut self, n: usize, exact: &BigRational, issued: &[u64]) {
        let at = self.nodes[n];
        let got = self.c.value(at);
        assert!(
            close(got, exact),
            "node {n}: {} instead of {exact}",
            rational(got, ONE)
        );
        assert_eq!(self.c.value(at), got, "a second look at node {n}");
        if self.oracle.running[n] {
            let own = exact * rational(SELF.into(), issued[n]);
            let got = self.c.self_value(at);
            assert!(close(got, &own), "threads of node {n}");
        }
    }

    /// Compare all active nodes in the given order, and conservation.
    fn check(&mut self, order: impl Iterator<Item = usize>) {
        let active = self.oracle.active();
        let issued = self.oracle.issued(&active);
        let exact = self.oracle.values(&active, &issued);
        for n in 0..active.len() {
            let at = self.nodes[n];
            assert_eq!(self.c.nr_active(at) > 0, active[n], "activity of node {n}");
            assert_eq!(self.c.issued(at), issued[n], "active tickets of node {n}");
        }
        for n in order {
            if let Some(value) = &exact[n] {
                self.compare(n, value, &issued);
            }
        }
        let running = (0..active.len()).filter(|n| self.oracle.running[*n]);
        let sum: u64 = running.map(|n| self.c.self_value(self.nodes[n])).sum();
        if active[0] {
            assert!(close(sum, &rational(1, 1)), "{sum} of {ONE} given away");
            assert!(sum <= ONE, "more than everything: {sum}");
        } else {
            assert_eq!(sum, 0, "value without base");
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Toggle(Index),
    /// Replace what backs a node: (issuer among those before it, amount).
    Back(Index, Vec<(Index, u32)>),
    /// Change one amount only.
    Amount(Index, Index, u32),
    /// Look at one node only.
    Look(Index),
}

/// cpu.weight, and tickets up to the largest.
fn amount() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 1u32..=10_000,
        1 => (0u32..31, any::<u32>()).prop_map(|(bits, x)| (1 << bits) | (x & ((1 << bits) - 1))),
        1 => Just(1u32 << 31),
    ]
}

fn tickets() -> impl Strategy<Value = Vec<(Index, u32)>> {
    let some = |most| prop::collection::vec((any::<Index>(), amount()), 0..=most);
    prop_oneof![3 => some(1), 4 => some(3), 1 => some(FUNDERS)]
}

fn op() -> impl Strategy<Value = Op> {
    let node = any::<Index>;
    prop_oneof![
        6 => node().prop_map(Op::Toggle),
        2 => (node(), tickets()).prop_map(|(n, t)| Op::Back(n, t)),
        1 => (node(), node(), amount()).prop_map(|(n, e, a)| Op::Amount(n, e, a)),
        1 => node().prop_map(Op::Look),
    ]
}

/// At most one ticket of each issuer; issuers come before `n`.
fn edges(n: usize, tickets: &[(Index, u32)]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for (issuer, amount) in tickets {
        let issuer = issuer.index(n) as u32;
        if edges.iter().all(|e| e.issuer != issuer) {
            edges.push(Edge {
                issuer,
                amount: *amount,
            });
        }
    }
    edges
}

/// Base first, the others' indexes in C in any order.
fn indexes() -> impl Strategy<Value = Vec<u32>> {
    (2u32..=20)
        .prop_flat_map(|nodes| Just((1..nodes).collect::<Vec<_>>()).prop_shuffle())
        .prop_map(|rest| std::iter::once(0).chain(rest).collect())
}

fn replay(nodes: Vec<u32>, graph: &[Vec<(Index, u32)>], ops: &[Op], every_time: bool) {
    let len = nodes.len();
    let mut pair = Pair::new(nodes);
    for (n, tickets) in graph.iter().enumerate().take(len).skip(1) {
        pair.back(n, edges(n, tickets));
    }
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Toggle(n) => pair.toggle(n.index(len)),
            Op::Back(n, tickets) => {
                let n = 1 + n.index(len - 1);
                pair.back(n, edges(n, tickets));
            }
            Op::Amount(n, e, amount) => {
                let n = 1 + n.index(len - 1);
                let mut edges = pair.oracle.edges[n].clone();
                if !edges.is_empty() {
                    let e = e.index(edges.len());
                    edges[e].amount = *amount;
                    pair.back(n, edges);
                }
            }
            Op::Look(n) => pair.check_one(n.index(len)),
        }
        if every_time && at % 2 == 0 {
            pair.check(0..len);
        } else if every_time {
            pair.check((0..len).rev());
        }
    }
    pair.check((0..len).rev());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..Default::default() })]

    #[test]
    fn values_are_exact_after_every_change(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(), 20),
        ops in prop::collection::vec(op(), 1..40),
    ) {
        replay(nodes, &graph, &ops, true);
    }

    /// Most nodes are not looked at for a long time: nothing kept from before may show.
    #[test]
    fn values_are_exact_after_many_changes_unseen(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(), 20),
        ops in prop::collection::vec(op(), 20..120),
    ) {
        replay(nodes, &graph, &ops, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    /// Exact, rounded down, for sums below 2^32; beyond, within 2^-30 of the whole.
    #[test]
    fn ratio(
        (amount, sum) in (any::<u64>(), 24u32..63)
            .prop_map(|(x, by)| (x >> by).max(1))
            .prop_flat_map(|sum| (0..=sum, Just(sum)))
    ) {
        let got = host::ratio(amount, sum);
        let exact = (u128::from(amount) << 62) / u128::from(sum);
        prop_assert!(got <= ONE);
        if sum < 1 << 32 {
            prop_assert_eq!(u128::from(got), exact);
        } else {
            prop_assert!(u128::from(got).abs_diff(exact) <= 1 << 32, "{} {}", got, exact);
        }
    }
}

/// The header's own example, and what a look costs nothing for when nothing changed.
#[test]
fn who_sleeps_leaves_its_value_to_the_others() {
    let (alice, bob, job1, job2) = (1, 2, 3, 4);
    let ticket = |issuer, amount| [Edge { issuer, amount }];
    let mut f = Funds::new(5);
    f.back(alice, &ticket(0, 300));
    f.back(bob, &ticket(0, 100));
    f.back(job1, &ticket(alice, 1));
    f.back(job2, &ticket(alice, 2));
    for n in [bob, job1, job2] {
        f.set_self(n, true);
    }
    // The rate is exact to 2^-32.
    let near = |got: u64, due: u64| got <= due && due - got <= 1 << 31;
    assert!(near(f.value(alice), ONE / 4 * 3));
    assert!(near(f.value(job1), ONE / 4));
    assert!(near(f.value(job2), ONE / 2));
    let seen = f.ver(job1);
    f.set_self(bob, false);
    assert!(near(f.value(alice), ONE));
    assert!(near(f.value(job1), ONE / 3));
    assert_eq!(
        f.ver(job1),
        seen,
        "who comes and goes at base moves the rate only"
    );
    f.set_self(bob, true);
    f.set_self(job2, false);
    assert!(near(f.value(job1), ONE / 4 * 3));
    assert_ne!(f.ver(job1), seen);
    f.back(alice, &[]);
    assert_eq!((f.value(alice), f.value(job1)), (0, 0));
}

/// A chain as deep as a graph may be, with weights that make every level matter.
#[test]
fn depth_does_not_cost_exactness() {
    let depth = 32;
    let mut pair = Pair::new((0..=2 * depth as u32).collect());
    for level in 0..depth {
        let issuer = if level == 0 { 0 } else { 2 * level as u32 - 1 };
        let edge = |amount| vec![Edge { issuer, amount }];
        pair.back(2 * level + 1, edge(9_999));
        pair.back(2 * level + 2, edge(1 + level as u32));
        pair.toggle(2 * level + 2);
    }
    pair.toggle(2 * depth - 1);
    pair.check((0..=2 * depth).rev());
    for n in [2, 2 * depth, 31, 2 * depth - 1] {
        pair.toggle(n);
        pair.check(0..=2 * depth);
    }
}
