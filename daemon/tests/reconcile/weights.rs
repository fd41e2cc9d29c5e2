// SPDX-License-Identifier: GPL-2.0-only
//! The weights of a tree of cgroups (model.md §4) against the oracle's values.

use crate::model::Model;
use crate::oracle::{Q, Solved, q, ratio};
use crate::random::{Do, PATHS, any_do, any_start};
use crate::world::World;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use std::collections::BTreeMap;
use tix_ledger::Resource;
use tixd::reconcile::weight::{MOST, Terms, weights};

/// What each cgroup is worth: the values of all threads in it. One that only its parent funds, with
/// all in it, is worth what it has, of which tickets for a cgroup that is away are a part.
fn worth(m: &Model, r: Resource, values: &BTreeMap<String, Q>) -> BTreeMap<String, Q> {
    let mut worth: BTreeMap<String, Q> = BTreeMap::new();
    let g = m.graph(r);
    // Children are told after their parents.
    for path in m.dirs.keys().rev() {
        let leaf = format!("{path}/.self");
        let own = match g.nodes.contains(&leaf) {
            true => values.get(&leaf),
            false if m.children(path).is_empty() => values.get(path),
            false => None,
        };
        let children = m.children(path);
        let all = children.iter().filter_map(|c| worth.get(c)).chain(own);
        let mut sum = all.fold(q(0), |sum, v| sum + v);
        if sum > q(0) && !special(m, path, r) {
            sum = values[path].clone();
        }
        worth.insert(path.clone(), sum);
    }
    worth
}

/// Nobody consumes what the tree does not give him.
fn plain(m: &Model, r: Resource) -> bool {
    !(m.bound.iter()).any(|(p, b)| m.there(p) && m.replaces(b, r))
        && !m.grants.keys().any(|(issuer, holder, of, _)| {
            *of == r && m.there(issuer) && m.dirs.contains_key(holder)
        })
        && (r != Resource::Cpu || m.exchanges.is_empty())
}

/// Whose number is not the parent's doing alone: own, or of something below.
fn special(m: &Model, path: &str, r: Resource) -> bool {
    let inside = |p: &str| p == path || p.starts_with(&format!("{path}/"));
    let party = m
        .exchanges
        .iter()
        .any(|x| inside(&x.giver) || inside(&x.taker));
    m.bound
        .iter()
        .any(|(p, b)| inside(p) && m.there(p) && m.replaces(b, r))
        || r == Resource::Cpu && party
        || m.grants.keys().any(|(issuer, holder, of, _)| {
            let away = inside(issuer)
                && !(m.dirs.contains_key(holder) && Model::parent(holder) == *issuer);
            *of == r && m.there(issuer) && m.there(holder) && (inside(holder) || away)
        })
}

/// Among these siblings there is one scale by which every weight is its value, rounded: to at most
/// half, and to no less than 1.
fn proportional(siblings: &[(String, u64, Q)], most: u64) -> Result<(), TestCaseError> {
    let (mut low, mut high) = (q(0), None::<Q>);
    let half = ratio(1, 2);
    for (path, w, v) in siblings {
        prop_assert!((1..=MOST).contains(w), "{path} gets {w}");
        // Twice rounded: in 32 bits, and by the ledger.
        let slack = ratio(1, 1 << 16);
        let up = (q(*w) + &half + &slack) / v;
        let down = (q(*w) - &half - &slack) / v;
        if *w > 1 && down > low {
            low = down;
        }
        if *w < most && high.as_ref().is_none_or(|h| up < *h) {
            high = Some(up);
        }
    }
    prop_assert!(high.is_none_or(|h| low <= h), "{siblings:?}");
    Ok(())
}

fn check(w: &World, terms: &Terms) -> Result<(), TestCaseError> {
    let r = terms.resource;
    let out = weights(&w.l, terms);
    let g = w.m.graph(r);
    let s: Solved<'_> = g.solve();
    let values = if terms.live { &s.value } else { &s.entitlement };
    let sums = worth(&w.m, r, values);
    for parent in std::iter::once("base").chain(w.m.dirs.keys().map(String::as_str)) {
        let children = w.m.children(parent);
        let own = |p: &str| match r {
            Resource::Cpu => w.m.dirs[p].weight,
            _ => w.m.dirs[p].disk(),
        };
        if plain(&w.m, r) || !children.iter().any(|p| special(&w.m, p, r)) {
            for p in &children {
                prop_assert!(!out.contains_key(p), "{p} is written among plain ones");
            }
            continue;
        }
        let weight = |p: &str| out.get(p).copied().unwrap_or_else(|| own(p));
        // So little that rounding may have made it nothing does not count.
        let least = ratio(1, 1 << 20);
        let active: Vec<(String, u64, Q)> = children
            .iter()
            .filter_map(|p| {
                let v = sums.get(p).filter(|v| **v > least)?;
                Some((p.clone(), weight(p), v.clone()))
            })
            .collect();
        proportional(&active, terms.most)?;
        let values = || {
            active
                .iter()
                .filter(|(p, _, _)| special(&w.m, p, r))
                .map(|(_, _, v)| v)
        };
        let (Some(most), Some(least)) = (active.iter().map(|(_, _, v)| v).max(), values().min())
        else {
            continue;
        };
        let all_active = active.len() == children.len();
        if all_active && most <= &(least * q(terms.most / 26)) {
            for (p, w, _) in active.iter().filter(|(p, _, _)| special(&w.m, p, r)) {
                prop_assert!(*w >= 25, "{p} gets {w}: {active:?}");
            }
        }
    }
    for (path, w) in &out {
        prop_assert!((1..=terms.most).contains(w), "{path} gets {w}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn weights_are_as_the_values_below(
        start in any_start(),
        dos in prop::collection::vec(any_do(), 1..80),
        asleep in any::<u16>(),
        few in any::<bool>(),
    ) {
        let mut w = World::built(&start, &dos);
        let most = if few { 1_000 } else { MOST };
        check(&w, &Terms { resource: Resource::Disk, whole: None, live: true, most })?;
        check(&w, &Terms { resource: Resource::Cpu, whole: None, live: false, most })?;
        for p in (0..PATHS.len()).filter(|p| asleep >> p & 1 == 1) {
            w.step(&Do::Flip(p, 1));
        }
        check(&w, &Terms { resource: Resource::Disk, whole: None, live: true, most })?;
    }
}
