// SPDX-License-Identifier: GPL-2.0-only
//! funding.h and exchange.h against an oracle in unbounded rationals, over random graphs and
//! histories of activity, of funding and of exchanges (model.md §3, invariants 1 and 8).

mod oracle;

use num_bigint::BigInt;
use num_rational::BigRational;
use oracle::{Issued, Oracle, Values, rational};
use proptest::prelude::*;
use proptest::sample::Index;
use tix_core_host as host;
use tix_core_host::{Edge, FUNDERS, Funds, ONE, SELF};

/// Within 10^-6 of itself or 10^-9 of the whole, which is the most that is told.
fn close(got: impl Into<BigInt>, exact: &BigRational) -> bool {
    let exact = &exact.clone().min(rational(1, 1));
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
        self.oracle.edges[n] = edges;
        self.tell(n);
    }

    /// One gives the other exchange tickets: thousandths of a base ticket.
    fn exchange(&mut self, from: usize, to: usize, amount: i64) {
        self.oracle.delta[from] -= amount;
        self.tell(from);
        self.oracle.delta[to] += amount;
        self.tell(to);
    }

    /// Push what backs `n`, and the total if exchange tickets need one. It is never small: C
    /// divides what rests to 2^-16 thousandths.
    fn tell(&mut self, n: usize) {
        if self.oracle.total > 0 {
            self.oracle.total = self.oracle.all_of_base().max(10_000);
            self.c.set_total(self.oracle.total);
        }
        back(&mut self.c, &self.nodes, &self.oracle, n);
    }

    /// Compare node `n` only, so that other nodes' values stay as old as they are.
    fn check_one(&mut self, n: usize) {
        let active = self.oracle.active();
        if active[n] {
            let issued = self.oracle.issued(&active);
            let exact = self.oracle.values(&active, &issued);
            if exact.there_is() {
                self.compare(n, &exact, &issued);
            }
        }
    }

    fn compare(&mut self, n: usize, exact: &Values, issued: &[Issued]) {
        let at = self.nodes[n];
        let whole = exact.whole[n].as_ref().expect("active");
        if n > 0 {
            let got = self.c.value(at);
            assert!(
                close(got, whole),
                "node {n}: {} instead of {whole}",
                rational(got, ONE)
            );
            assert_eq!(self.c.value(at), got, "a second look at node {n}");
        }
        if self.oracle.running[n] {
            let own = &exact.pool[n] * rational(SELF, issued[n].soft);
            let got = self.c.self_value(at);
            assert!(
                close(got, &own),
                "threads of node {n}: {} instead of {own}",
                rational(got, ONE)
            );
        }
    }

    /// Compare all active nodes in the given order, and conservation.
    fn check(&mut self, order: impl Iterator<Item = usize>) {
        let active = self.oracle.active();
        let issued = self.oracle.issued(&active);
        let exact = self.oracle.values(&active, &issued);
        for n in 0..active.len() {
            let state = self.c.state(self.nodes[n]);
            assert_eq!(state.nr_active > 0, active[n], "activity of node {n}");
            assert_eq!(state.issued, issued[n].soft, "active tickets of node {n}");
            assert_eq!(state.hard_active, issued[n].hard, "hard ones of node {n}");
        }
        for n in order.filter(|_| exact.there_is()) {
            if exact.whole[n].is_some() {
                self.compare(n, &exact, &issued);
            }
        }
        let running = (0..active.len()).filter(|n| self.oracle.running[*n]);
        let sum: u128 = (running.map(|n| u128::from(self.c.self_value(self.nodes[n])))).sum();
        if active[0] && !exact.bounded {
            assert!(close(sum, &rational(1, 1)), "{sum} of {ONE} given away");
        } else if active.iter().all(|active| !active) {
            assert_eq!(sum, 0, "value without anybody");
        }
    }

    /// What the C code keeps follows from the present state, not from how it came about: what is
    /// given and taken back for a while leaves no trace.
    fn check_history(&self) {
        let mut fresh = Funds::new(self.nodes.len() as u32);
        fresh.set_total(self.oracle.total);
        for n in (1..self.nodes.len()).rev() {
            back(&mut fresh, &self.nodes, &self.oracle, n);
        }
        for n in (0..self.nodes.len()).filter(|n| self.oracle.running[*n]) {
            fresh.set_self(self.nodes[n], true);
        }
        for (n, at) in self.nodes.iter().enumerate() {
            assert_eq!(self.c.state(*at), fresh.state(*at), "node {n}");
        }
    }
}

/// Hand what backs node `n` of the oracle to C.
fn back(c: &mut Funds, nodes: &[u32], oracle: &Oracle, n: usize) {
    let edges: Vec<_> = oracle.edges[n]
        .iter()
        .map(|e| Edge {
            issuer: nodes[e.issuer as usize],
            ..*e
        })
        .collect();
    c.back(nodes[n], &edges, oracle.delta[n]);
}

/// A ticket to be issued: soft, or of that much of what the issuer's hard tickets leave.
#[derive(Clone, Debug)]
struct Ticket {
    issuer: Index,
    amount: u32,
    hard: Option<Index>,
    part: u16,
}

#[derive(Clone, Debug)]
enum Op {
    Toggle(Index),
    /// Replace what backs a node: the issuers are among those before it.
    Back(Index, Vec<Ticket>),
    /// Change one amount only.
    Amount(Index, Index, u32),
    /// Exchange tickets from one node to another, in 2^-32 of T.
    Exchange(Index, Index, u32),
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

fn ticket(hard: bool) -> impl Strategy<Value = Ticket> {
    let hard = (any::<Index>(), 0..10).prop_map(move |(of, x)| (hard && x < 3).then_some(of));
    let part = prop_oneof![1 => Just(0), 1 => Just(u16::MAX), 2 => any::<u16>()];
    (any::<Index>(), amount(), hard, part).prop_map(|(issuer, amount, hard, part)| Ticket {
        issuer,
        amount,
        hard,
        part,
    })
}

fn tickets(hard: bool) -> impl Strategy<Value = Vec<Ticket>> {
    let some = move |most| prop::collection::vec(ticket(hard), 0..=most);
    prop_oneof![3 => some(1), 4 => some(3), 1 => some(FUNDERS)]
}

/// `parts`: with what counts in thousandths of an issuer or of the machine.
fn op(parts: bool) -> impl Strategy<Value = Op> {
    let node = any::<Index>;
    let share = (0u32..32, any::<u32>()).prop_map(|(by, x)| x >> by);
    prop_oneof![
        6 => node().prop_map(Op::Toggle),
        2 => (node(), tickets(parts)).prop_map(|(n, t)| Op::Back(n, t)),
        1 => (node(), node(), amount()).prop_map(|(n, e, a)| Op::Amount(n, e, a)),
        2 => (node(), node(), share).prop_map(move |(a, b, x)| match parts {
            true => Op::Exchange(a, b, x),
            false => Op::Look(a),
        }),
        1 => node().prop_map(Op::Look),
    ]
}

/// What `n` is to hold: at most one ticket of each kind of each issuer, and an issuer's hard
/// ones leave something to the soft ones (model.md §3). Issuers come before `n`.
fn edges(oracle: &Oracle, n: usize, tickets: &[Ticket]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for t in tickets {
        let issuer = t.issuer.index(n);
        let most = if issuer == 0 { 950 } else { 999 };
        let left = most - oracle.hard_of(issuer, n) as usize;
        let hard = t.hard.filter(|_| left > 0);
        let same = |e: &Edge| e.issuer as usize == issuer && e.hard == hard.is_some();
        if edges.len() < FUNDERS && !edges.iter().any(same) {
            edges.push(Edge {
                issuer: issuer as u32,
                amount: hard.map_or(t.amount, |of| 1 + of.index(left) as u32),
                hard: hard.is_some(),
                part: t.part,
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

fn replay(nodes: Vec<u32>, graph: &[Vec<Ticket>], ops: &[Op], every_time: bool) {
    let len = nodes.len();
    let mut pair = Pair::new(nodes);
    pair.oracle.total = ops.iter().any(|op| matches!(op, Op::Exchange(..))).into();
    for (n, tickets) in graph.iter().enumerate().take(len).skip(1) {
        pair.back(n, edges(&pair.oracle, n, tickets));
    }
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Toggle(n) => pair.toggle(n.index(len)),
            Op::Back(n, tickets) => {
                let n = 1 + n.index(len - 1);
                pair.back(n, edges(&pair.oracle, n, tickets));
            }
            Op::Amount(n, e, amount) => {
                let n = 1 + n.index(len - 1);
                let mut edges = pair.oracle.edges[n].clone();
                if !edges.is_empty() {
                    let e = e.index(edges.len());
                    edges[e].hard = false;
                    edges[e].amount = *amount;
                    pair.back(n, edges);
                }
            }
            Op::Exchange(from, to, share) => {
                let (from, to) = (1 + from.index(len - 1), 1 + to.index(len - 1));
                let all = u128::from(pair.oracle.total) * 500;
                pair.exchange(from, to, ((all * u128::from(*share)) >> 32) as i64);
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
    pair.check_history();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..Default::default() })]

    #[test]
    fn values_are_exact_after_every_change(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(false), 20),
        ops in prop::collection::vec(op(false), 1..40),
    ) {
        replay(nodes, &graph, &ops, true);
    }

    /// Most nodes are not looked at for a long time: nothing kept from before may show.
    #[test]
    fn values_are_exact_after_many_changes_unseen(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(false), 20),
        ops in prop::collection::vec(op(false), 20..120),
    ) {
        replay(nodes, &graph, &ops, false);
    }

    /// The same with hard tickets and exchanges.
    #[test]
    fn parts_are_exact_after_every_change(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(true), 20),
        ops in prop::collection::vec(op(true), 1..40),
    ) {
        replay(nodes, &graph, &ops, true);
    }

    #[test]
    fn parts_are_exact_after_many_changes_unseen(
        nodes in indexes(),
        graph in prop::collection::vec(tickets(true), 20),
        ops in prop::collection::vec(op(true), 20..120),
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn quotient(
        (a, b) in (any::<u64>(), 15u32..64)
            .prop_map(|(x, by)| (x >> by).max(1))
            .prop_flat_map(|b| (0..4 * b, Just(b)))
    ) {
        prop_assert_eq!(u128::from(host::quotient(a, b)), (u128::from(a) << 62) / u128::from(b));
    }
}

fn soft(issuer: u32, amount: u32) -> Edge {
    Edge {
        issuer,
        amount,
        hard: false,
        part: 1,
    }
}

fn hard(issuer: u32, amount: u32) -> Edge {
    Edge {
        hard: true,
        ..soft(issuer, amount)
    }
}

/// Near `due` thousandths of the machine; the rate is exact to 2^-32.
fn near(got: u64, due: u64) -> bool {
    got.abs_diff((u128::from(ONE) * u128::from(due) / 1000) as u64) <= 1 << 33
}

/// The header's own example, and what a look costs nothing for when nothing changed.
#[test]
fn who_sleeps_leaves_its_value_to_the_others() {
    let (alice, bob, job1, job2) = (1, 2, 3, 4);
    let mut f = Funds::new(5);
    f.back(alice, &[soft(0, 300)], 0);
    f.back(bob, &[soft(0, 100)], 0);
    f.back(job1, &[soft(alice, 1)], 0);
    f.back(job2, &[soft(alice, 2)], 0);
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
    f.back(alice, &[], 0);
    assert_eq!((f.value(alice), f.value(job1)), (0, 0));
}

/// A chain as deep as a graph may be, with weights that make every level matter.
#[test]
fn depth_does_not_cost_exactness() {
    let depth = 32;
    let mut pair = Pair::new((0..=2 * depth as u32).collect());
    for level in 0..depth {
        let issuer = if level == 0 { 0 } else { 2 * level as u32 - 1 };
        let edge = |amount| vec![soft(issuer, amount)];
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

/// A hard share is a part of its issuer, lent out while its holder is idle, back when it is not.
#[test]
fn a_hard_share_is_lent_out_and_comes_back() {
    let (alice, bob, carol) = (1, 2, 3);
    let mut f = Funds::new(4);
    f.back(alice, &[soft(0, 300)], 0);
    f.back(bob, &[soft(0, 100)], 0);
    f.back(carol, &[hard(0, 250)], 0);
    for n in [alice, bob, carol] {
        f.set_self(n, true);
    }
    assert!(near(f.value(carol), 250));
    assert!(near(f.value(alice) / 9, 62) || near(f.value(bob) * 16, 3000));
    f.set_self(carol, false);
    assert!(near(f.value(alice), 750) && near(f.value(bob), 250));
    f.set_self(carol, true);
    assert!(near(f.value(carol), 250));
    f.set_self(bob, false);
    assert!(near(f.value(carol), 250) && near(f.value(alice), 750));
    f.set_self(alice, false);
    assert!(near(f.value(carol), 1000));
    // More is issued than there is, for the moment in which somebody moves it.
    f.back(bob, &[hard(0, 999)], 0);
    f.set_self(bob, true);
    assert!(f.value(bob) < ONE && f.value(carol) < f.value(bob));
    f.back(bob, &[hard(0, 250)], 0);
    assert!(near(f.value(carol), 500));
}

/// The example of exchange.h, and a party that only an exchange funds.
#[test]
fn what_is_exchanged_rests_while_its_party_sleeps() {
    let (alice, bob, carol, job) = (1, 2, 3, 4);
    let mut f = Funds::new(5);
    f.set_total(400);
    f.back(alice, &[soft(0, 300)], -100_000);
    f.back(bob, &[soft(0, 100)], 100_000);
    f.set_self(alice, true);
    f.set_self(bob, true);
    assert!(near(f.value(alice), 500) && near(f.value(bob), 500));
    f.set_self(bob, false);
    assert!(near(f.value(alice), 1000));
    f.set_self(bob, true);
    // Carol, whose job has 40 tickets of alice's 200 as its own.
    f.back(carol, &[soft(alice, 100)], 0);
    f.back(job, &[], 40_000);
    f.back(alice, &[soft(0, 300)], -140_000);
    f.set_self(carol, true);
    f.set_self(job, true);
    assert!(near(f.value(job), 100) && near(f.value(alice), 400) && near(f.value(bob), 500));
    assert!(near(f.value(carol), 200));
    f.back(job, &[], 0);
    f.back(alice, &[soft(0, 300)], 0);
    f.back(bob, &[soft(0, 100)], 0);
    assert!(near(f.value(alice), 750) && near(f.value(bob), 250));
    for n in 0..5 {
        let state = f.state(n);
        assert_eq!(
            (state.deltas, state.rest, state.soft_rest, state.gave),
            (0, 0, 0, 0)
        );
    }
}
