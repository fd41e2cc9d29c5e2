// SPDX-License-Identifier: GPL-2.0-only
//! The invariants of model.md §3 over random graphs and histories, against an oracle that is written independently.

#![allow(clippy::unwrap_used)]

mod oracle;

use num_bigint::BigInt;
use num_rational::BigRational;
use oracle::{Oracle, Ticket, q};
use proptest::prelude::*;
use std::collections::BTreeSet;
use tixd::ledger::{BASE, Cid, Ledger, Op, Refusal, Resource};

#[derive(Debug, Clone)]
enum Do {
    Create(usize),
    Destroy(usize),
    Fund(usize, usize, i64),
    Unfund(usize, usize, Option<i64>),
    Bind(usize, usize),
    Unbind(usize),
    Mkdir(usize, u64),
    Rmdir(usize),
    Weight(usize, u64),
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const PATHS: [&str; 7] = ["/x", "/y", "/x/p", "/x/q", "/y/p", "/x/p/k", "/x/p/l"];

fn any_ref(i: usize) -> String {
    let all: Vec<&str> = std::iter::once("base").chain(NAMES).chain(PATHS).collect();
    all[i % all.len()].to_owned()
}

fn any_do() -> impl Strategy<Value = Do> {
    let amount = prop_oneof![
        1i64..500,
        Just(1i64 << 31),
        Just(0),
        Just(-5),
        Just(i64::MAX)
    ];
    prop_oneof![
        3 => (0usize..6).prop_map(Do::Create),
        1 => (0usize..6).prop_map(Do::Destroy),
        6 => (0usize..14, 0usize..14, amount.clone()).prop_map(|(h, i, a)| Do::Fund(h, i, a)),
        2 => (0usize..14, 0usize..14, proptest::option::of(amount)).prop_map(|(h, i, a)| Do::Unfund(h, i, a)),
        3 => (0usize..6, 0usize..7).prop_map(|(n, p)| Do::Bind(n, p)),
        1 => (0usize..6).prop_map(Do::Unbind),
        4 => (0usize..7, 1u64..=10_000).prop_map(|(p, w)| Do::Mkdir(p, w)),
        1 => (0usize..7).prop_map(Do::Rmdir),
        1 => (0usize..7, 1u64..=10_000).prop_map(|(p, w)| Do::Weight(p, w)),
    ]
}

/// Does it to both; the oracle follows what the ledger accepted.
fn step(l: &mut Ledger, o: &mut Oracle, d: &Do, next_id: &mut u64) -> Result<(), Refusal> {
    match d {
        Do::Create(n) => {
            l.apply(
                &Op::Create {
                    cid: l.next_cid(),
                    name: NAMES[*n].into(),
                    owner: 0,
                },
                0,
            )?;
            o.nodes.insert(NAMES[*n].into());
        }
        Do::Destroy(n) => {
            let name = NAMES[*n].to_owned();
            l.apply(&Op::Destroy { name: name.clone() }, 0)?;
            o.nodes.remove(&name);
            o.grants.retain(|(i, h), _| *i != name && *h != name);
            o.bound.retain(|_, b| *b != name);
        }
        Do::Fund(h, i, a) => {
            let (h, i) = (any_ref(*h), any_ref(*i));
            l.apply(
                &Op::Fund {
                    holder: h.clone(),
                    issuer: i.clone(),
                    resource: Resource::Cpu,
                    amount: *a,
                },
                0,
            )?;
            *o.grants.entry((i, h)).or_insert(0) += a.unsigned_abs();
        }
        Do::Unfund(h, i, a) => {
            let (h, i) = (any_ref(*h), any_ref(*i));
            l.apply(
                &Op::Unfund {
                    holder: h.clone(),
                    issuer: i.clone(),
                    resource: Resource::Cpu,
                    amount: *a,
                },
                0,
            )?;
            let left = a.map_or(0, |a| o.grants[&(i.clone(), h.clone())] - a.unsigned_abs());
            o.grants.insert((i, h), left);
            o.grants.retain(|_, a| *a > 0);
        }
        Do::Bind(n, p) => {
            l.apply(
                &Op::Bind {
                    name: NAMES[*n].into(),
                    path: PATHS[*p].into(),
                },
                0,
            )?;
            o.bound.insert(PATHS[*p].into(), NAMES[*n].into());
        }
        Do::Unbind(n) => {
            l.apply(
                &Op::Unbind {
                    name: NAMES[*n].into(),
                    path: None,
                },
                0,
            )?;
            o.bound.retain(|_, b| b != NAMES[*n]);
        }
        Do::Mkdir(p, w) => {
            let path = PATHS[*p].to_owned();
            let parent = Oracle::parent(&path);
            if !o.nodes.contains(&path) && o.nodes.contains(&parent) {
                *next_id += 1;
                l.cgroup_created(&path, *next_id, *w, 0, false);
                o.nodes.insert(path.clone());
                o.cgroups.insert(path, *w);
            }
        }
        Do::Rmdir(p) => {
            // What waits for its cgroup is tested beside the ledger; here nothing may wait.
            let path = PATHS[*p].to_owned();
            let busy = o.bound.contains_key(&path)
                || o.grants.keys().any(|(i, h)| *i == path || *h == path)
                || o.cgroups.keys().any(|c| Oracle::parent(c) == path);
            if !busy {
                l.cgroup_removed(&path);
                o.nodes.remove(&path);
                o.cgroups.remove(&path);
            }
        }
        Do::Weight(p, w) => {
            if o.cgroups.contains_key(PATHS[*p]) {
                l.cgroup_changed(PATHS[*p], *w, 0, false);
                o.cgroups.insert(PATHS[*p].into(), *w);
            }
        }
    }
    Ok(())
}

fn build(dos: &[Do]) -> (Ledger, Oracle) {
    let (mut l, mut o, mut id) = (Ledger::new(1), Oracle::default(), 10);
    o.nodes.insert("base".into());
    for d in dos {
        // A refusal is as good an answer as any: both stay as they were.
        let _ = step(&mut l, &mut o, d, &mut id);
    }
    (l, o)
}

/// Does every path down to `to` pass through `x`?
fn only_through(t: &[Ticket], to: &str, x: &str) -> bool {
    let mut funders = t.iter().filter(|i| i.1 == to).peekable();
    to == x || (funders.peek().is_some() && funders.all(|i| only_through(t, &i.0, x)))
}

fn exact(v: u128) -> BigRational {
    BigRational::new(BigInt::from(v), BigInt::from(1u128 << 64))
}

fn name(l: &Ledger, c: Cid) -> String {
    l.get(c).unwrap().name.clone()
}

fn running_set(o: &Oracle, mask: u32) -> BTreeSet<String> {
    // Principals: cgroups without children, and the root's own threads.
    let leaf = |n: &&String| {
        *n == "base" || (n.starts_with('/') && !o.cgroups.keys().any(|c| Oracle::parent(c) == **n))
    };
    o.nodes
        .iter()
        .filter(leaf)
        .enumerate()
        .filter(|(i, _)| mask >> i & 1 == 1)
        .map(|(_, n)| n.clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_are_the_oracles(dos in prop::collection::vec(any_do(), 1..60), mask in any::<u32>()) {
        let (l, o) = build(&dos);
        let t = o.tickets();
        let running = running_set(&o, mask);
        let v = l.values(Resource::Cpu, &|c| running.contains(&name(&l, c)));
        let tolerance = |n: u64| BigRational::new(BigInt::from(n), BigInt::from(1u128 << 40));
        for (c, x) in l.iter() {
            let want = o.entitlement(&x.name, &t);
            let got = exact(v.entitlement[&c]);
            prop_assert!(got <= want && &want - &got < tolerance(1), "entitlement of {}: {got} for {want}", x.name);
            let want = o.value(&x.name, &t, &running);
            let got = exact(v.value[&c]);
            if c != BASE {
                prop_assert!(got <= want && &want - &got < tolerance(1), "value of {}: {got} for {want}", x.name);
                prop_assert_eq!(v.active.contains(&c), o.active(&x.name, &t, &running));
            }
        }
    }

    #[test]
    fn conserved_bounded_and_never_below_the_entitlement(dos in prop::collection::vec(any_do(), 1..60), mask in any::<u32>()) {
        let (l, o) = build(&dos);
        let running = running_set(&o, mask);
        let v = l.values(Resource::Cpu, &|c| running.contains(&name(&l, c)));
        let total = u128::from(v.total) << 64;
        let sum: u128 = v.own_value.values().sum();
        prop_assert!(sum <= total);
        if v.active.contains(&BASE) {
            // Rounded down once per ticket on each path.
            prop_assert!(total - sum < 1u128 << 40, "lost {}", total - sum);
        }
        for (c, x) in l.iter() {
            let of_c: u128 = l.issued_by(c, Resource::Cpu)
                .filter(|(h, t)| !t.kept && v.active.contains(h))
                .map(|(_, t)| v.value[&c] / u128::from(v.issued[&c].0.max(1)) * u128::from(t.amount))
                .sum();
            prop_assert!(of_c <= v.value[&c], "{} gives more than it has", x.name);
            if v.active.contains(&c) && c != BASE {
                prop_assert!(v.value[&c] + (1 << 40) >= v.entitlement[&c], "{} below its entitlement", x.name);
            }
        }
    }

    #[test]
    fn who_wakes_and_sleeps_behind_a_currency_is_nobody_elses_business(
        dos in prop::collection::vec(any_do(), 1..60),
        mask in any::<u32>(),
        pick in any::<prop::sample::Index>(),
    ) {
        // Locality (model.md §3, 3): toggle each principal; for each X that all its funding passes through and that stays active,
        // nothing outside X's subgraph moves, not by a bit.
        let (l, o) = build(&dos);
        let running = running_set(&o, mask);
        let principals: Vec<String> = running_set(&o, u32::MAX).into_iter().collect();
        let toggled = pick.get(&principals).clone();
        let mut other = running.clone();
        if !other.remove(&toggled) {
            other.insert(toggled.clone());
        }
        let before = l.values(Resource::Cpu, &|c| running.contains(&name(&l, c)));
        let after = l.values(Resource::Cpu, &|c| other.contains(&name(&l, c)));
        let t = o.tickets();
        for (x, _) in l.iter().filter(|(x, _)| before.active.contains(x) && after.active.contains(x)) {
            if !only_through(&t, &toggled, &name(&l, x)) {
                continue;
            }
            let inside: BTreeSet<Cid> = l.below(x, Resource::Cpu).into_iter().collect();
            for (c, it) in l.iter().filter(|(c, _)| !inside.contains(c) || *c == x) {
                prop_assert_eq!(before.value[&c], after.value[&c], "{} moved with {} behind {}", it.name, &toggled, name(&l, x));
                prop_assert_eq!(before.active.contains(&c), after.active.contains(&c));
            }
        }
    }

    #[test]
    fn acyclic_even_after_everything_is_unbound(dos in prop::collection::vec(any_do(), 1..80)) {
        let (mut l, _) = build(&dos);
        for n in NAMES {
            // Not bound is fine.
            let _ = l.apply(&Op::Unbind { name: n.into(), path: None }, 0);
        }
        for (c, _) in l.iter() {
            for h in l.funded(c, Resource::Cpu) {
                prop_assert!(!l.reaches(h, c, Resource::Cpu), "{} and {} fund each other", name(&l, c), name(&l, h));
            }
        }
    }

    #[test]
    fn nothing_a_user_does_lowers_what_others_are_entitled_to(
        dos in prop::collection::vec(any_do(), 1..40),
        mine in prop::collection::vec(any_do(), 1..20),
        reach in 0usize..7,
    ) {
        let all: Vec<Do> = (0..PATHS.len()).map(|p| Do::Mkdir(p, 100)).chain(dos).collect();
        let (mut l, _) = build(&all);
        // The user owns one cgroup and what is below it, and what the user makes.
        let (user, home) = (1000u32, PATHS[reach]);
        if l.find(home).is_none() {
            return Ok(());
        }
        for p in PATHS.iter().filter(|p| p.starts_with(home)) {
            if let Some(w) = l.find(p).and_then(|c| l.get(c)?.mirror.as_ref().map(|m| m.weight)) {
                l.cgroup_changed(p, w, user, false);
            }
        }
        let mine: Vec<Do> = (3..NAMES.len()).map(Do::Create).chain(mine).collect();
        for d in &mine {
            let op = match d {
                Do::Create(n) => Op::Create { cid: l.next_cid(), name: NAMES[*n].into(), owner: user },
                Do::Destroy(n) => Op::Destroy { name: NAMES[*n].into() },
                Do::Fund(h, i, a) => Op::Fund { holder: any_ref(*h), issuer: any_ref(*i), resource: Resource::Cpu, amount: *a },
                Do::Unfund(h, i, a) => Op::Unfund { holder: any_ref(*h), issuer: any_ref(*i), resource: Resource::Cpu, amount: *a },
                Do::Bind(n, p) => Op::Bind { name: NAMES[*n].into(), path: PATHS[*p].into() },
                Do::Unbind(n) => Op::Unbind { name: NAMES[*n].into(), path: None },
                _ => continue,
            };
            let before = l.values(Resource::Cpu, &|_| true);
            let mut reachable: BTreeSet<Cid> = BTreeSet::new();
            for (c, x) in l.iter().filter(|(_, x)| x.owner == user) {
                let _ = x;
                reachable.extend(l.below(c, Resource::Cpu));
            }
            if l.apply(&op, user).is_ok() {
                let after = l.values(Resource::Cpu, &|_| true);
                for (c, x) in l.iter().filter(|(c, _)| !reachable.contains(c)) {
                    let Some(was) = before.entitlement.get(&c) else { continue };
                    let lost = exact(*was) / q(before.total) - exact(after.entitlement[&c]) / q(after.total);
                    prop_assert!(lost < BigRational::new(BigInt::from(1), BigInt::from(1u128 << 40)), "{op:?} took {lost} from {}", x.name);
                }
            }
        }
    }

    #[test]
    fn replaying_gives_the_same_ledger(dos in prop::collection::vec(any_do(), 1..60)) {
        let (mut l, mut o, mut id) = (Ledger::new(1), Oracle::default(), 10);
        o.nodes.insert("base".into());
        for p in PATHS {
            step(&mut l, &mut o, &Do::Mkdir(PATHS.iter().position(|x| *x == p).unwrap(), 100), &mut id).unwrap();
        }
        let fresh = l.clone();
        let mut journal = Vec::new();
        for d in &dos {
            let op = match d {
                Do::Create(n) => Op::Create { cid: l.next_cid(), name: NAMES[*n].into(), owner: 0 },
                Do::Destroy(n) => Op::Destroy { name: NAMES[*n].into() },
                Do::Fund(h, i, a) => Op::Fund { holder: any_ref(*h), issuer: any_ref(*i), resource: Resource::Cpu, amount: *a },
                Do::Unfund(h, i, a) => Op::Unfund { holder: any_ref(*h), issuer: any_ref(*i), resource: Resource::Cpu, amount: *a },
                Do::Bind(n, p) => Op::Bind { name: NAMES[*n].into(), path: PATHS[*p].into() },
                Do::Unbind(n) => Op::Unbind { name: NAMES[*n].into(), path: None },
                _ => continue,
            };
            if l.apply(&op, 0).is_ok() {
                journal.push(op);
            }
        }
        let mut again = fresh;
        for op in &journal {
            again.replay(op, 0);
        }
        prop_assert_eq!(again.durable(), l.durable());
    }
}
