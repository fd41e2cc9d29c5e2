// SPDX-License-Identifier: GPL-2.0-only
//! Invariants 1, 3, 4, 5 and 8 of model.md §3.

use crate::model::{Model, above, below, only_through};
use crate::oracle::{Q, q, ratio};
use crate::random::{Do, PATHS, any_do, any_start};
use crate::world::World;
use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use tix_ledger::{Cid, Ledger, Resource};

pub fn exact(v: u128) -> Q {
    Q::new(BigInt::from(v), BigInt::from(1u128 << 64))
}

/// What rounding may cost: a bit per ticket on each path; of exchanges and of bytes, which are
/// scaled, the last of 62 bits.
fn tolerance(r: Resource, m: &Model) -> Q {
    match r {
        Resource::Memory => ratio(1, 1 << 10),
        _ if !m.exchanges.is_empty() => ratio(1, 1 << 20),
        _ => ratio(1, 1 << 44),
    }
}

fn near(a: &Q, b: &Q, t: &Q) -> bool {
    let d = a - b;
    &d <= t && -d <= *t
}

/// Every value and entitlement is the oracle's (8), they are conserved (1), bounded (4), and never
/// below what is guaranteed.
pub fn check_values(w: &World, r: Resource) -> Result<(), TestCaseError> {
    let (l, m) = (&w.l, &w.m);
    let g = m.graph(r);
    let mut s = g.solve();
    let eps = tolerance(r, m);
    let total = q(l.total(r));
    prop_assert_eq!(&total, &g.total(), "T of {}", r.name());
    let mut sum = q(0);
    for (c, x) in l.iter() {
        let n = x.name.as_str();
        let n = if n == "/" { "base" } else { n };
        let (e, v) = (exact(l.entitlement(c, r)), exact(l.value(c, r)));
        prop_assert!(
            near(&e, &s.entitlement[n], &eps),
            "{} entitlement of {n}: {e} for {}",
            r.name(),
            s.entitlement[n]
        );
        prop_assert!(
            near(&v, &s.value[n], &eps),
            "{} value of {n}: {v} for {}",
            r.name(),
            s.value[n]
        );
        prop_assert_eq!(l.active(c, r), s.active(n), "{} of {}", r.name(), n);
        prop_assert!(s.least[n] >= -&eps, "E- of {n} is {}", s.least[n]);
        if s.active(n) {
            prop_assert!(
                s.value[n] >= &s.entitlement[n] - &eps,
                "{} of {n} is {}, guaranteed {}",
                r.name(),
                s.value[n],
                s.entitlement[n]
            );
        }
        let p = s.divisible(n);
        prop_assert!(p >= -&eps, "{n} has {p} to divide");
        let live = |h: Cid| l.active(h, r);
        let issued = l.issued_by(c, r).filter(|(h, t)| !t.kept && live(*h));
        let mut of_c: Q = issued.fold(q(0), |a, (_, t)| a + exact(l.ticket_value(&t, r, false)));
        let own = exact(l.own_value(c, r));
        if let Some(leaf) = s.value.get(&format!("{n}/.self")) {
            prop_assert!(
                near(&own, leaf, &eps),
                "{} {n}/.self: {own} for {leaf}",
                r.name()
            );
            of_c += &own;
        }
        prop_assert!(of_c <= &p + &eps, "{n} gives {of_c} and has {p}");
        sum += own;
    }
    if r == Resource::Cpu && s.active("base") {
        let n = q(u64::try_from(g.tickets.len()).unwrap_or(0));
        prop_assert!(
            near(&sum, &total, &(eps * n)),
            "principals sum to {sum} of {total}"
        );
    }
    Ok(())
}

fn locality(w: &mut World, path: &str, r: Resource) -> Result<(), TestCaseError> {
    let on = w.m.running.contains(&(path.to_owned(), r));
    let (a, g) = (w.l.clone(), w.m.graph(r));
    w.set(path, r, !on);
    let b = w.l.clone();
    w.set(path, r, on);
    let leaf = format!("{path}/.self");
    let p = if g.nodes.contains(&leaf) {
        leaf
    } else {
        path.to_owned()
    };
    let on_paths = above(&g, &p);
    // Who has what it has by exchange alone: what of it rests goes to base.
    let s = g.solve();
    let alone = |n: &String| {
        g.exchanged.contains_key(n)
            && (g.tickets.iter())
                .filter(|t| t.live && t.holder == *n)
                .all(|t| s.entitlement[&t.issuer] == q(0))
    };
    let both = |l: &Ledger, n: &str| l.find(n).map(|c| l.active(c, r));
    for (_, x) in a.iter() {
        let active = both(&a, &x.name) == Some(true) && both(&b, &x.name) == Some(true);
        if !active || !on_paths.contains(&x.name) || !only_through(&g, &p, &x.name) {
            continue;
        }
        let inside = below(&g, &x.name);
        if on_paths
            .iter()
            .any(|n| inside.contains(n) && *n != x.name && alone(n))
        {
            continue;
        }
        for (c, it) in a
            .iter()
            .filter(|(_, it)| !inside.contains(&it.name) || it.name == x.name)
        {
            prop_assert_eq!(
                a.value(c, r),
                b.value(c, r),
                "{} moved with {} behind {}",
                it.name,
                p,
                x.name
            );
            prop_assert_eq!(a.active(c, r), b.active(c, r));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn who_wakes_and_sleeps_behind_a_currency_is_nobody_elses_business(
        start in any_start(),
        dos in prop::collection::vec(any_do(), 1..80),
        awake in any::<u16>(),
    ) {
        let mut w = World::built(&start, &dos);
        for p in 0..PATHS.len() {
            if awake >> p & 1 == 1 {
                w.step(&Do::Flip(p, 0));
            }
        }
        for path in PATHS {
            let may = w.m.dirs.get(path).is_some_and(|d| d.inner || w.m.children(path).is_empty());
            if may {
                locality(&mut w, path, Resource::Cpu)?;
                locality(&mut w, path, Resource::Disk)?;
            }
        }
    }

    #[test]
    fn conserved_whoever_wakes(
        start in any_start(),
        dos in prop::collection::vec(any_do(), 1..60),
        masks in prop::collection::vec(any::<u16>(), 1..4),
    ) {
        let mut w = World::built(&start, &dos);
        for awake in masks {
            for p in 0..=PATHS.len() {
                if awake >> p & 1 == 1 {
                    w.step(&Do::Flip(p, 0));
                }
            }
            check_values(&w, Resource::Cpu)?;
        }
    }

    #[test]
    fn acyclic_even_after_everything_is_unbound(start in any_start(), dos in prop::collection::vec(any_do(), 1..80)) {
        let mut w = World::built(&start, &dos);
        let paths: Vec<String> = w.l.bindings().map(|(p, _)| p.to_owned()).collect();
        for path in paths {
            let name = w.l.name(w.l.bindings().find(|(p, _)| *p == path).unwrap().1.name);
            w.step(&Do::Op(0, tix_ledger::Op::Unbind { name, path: Some(path) }));
        }
        prop_assert_eq!(w.l.verify(), Vec::<String>::new());
        for (c, x) in w.l.iter() {
            for r in Resource::ALL {
                for h in w.l.funded(c, r) {
                    prop_assert!(!w.l.reaches(h, c, r), "{} and {} fund each other", x.name, w.l.name(h));
                }
            }
        }
    }
}
