// SPDX-License-Identifier: GPL-2.0-only
//! Which limits count for whom, told again from what they are to mean; and by the way that the
//! kernel side goes.

use crate::invariants::exact;
use crate::model::Model;
use crate::oracle::{Graph, Q, Ticket, q};
use crate::world::World;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};
use tix_ledger::{BASE, Caps, Cid, Resource};

/// What is above `n`: of the funders of a named currency the one that most comes from.
fn up(w: &World, g: &Graph, n: &str) -> Option<String> {
    let m = &w.m;
    if m.dirs.contains_key(n) {
        let bound = m.bound.get(n).map(|b| b.name.clone());
        return Some(bound.unwrap_or_else(|| Model::parent(n)));
    }
    let mut worth: BTreeMap<Cid, Q> = BTreeMap::new();
    let mine = |t: &&Ticket| t.live && t.holder == n;
    let funders = g.tickets.iter().filter(mine).map(|t| t.issuer.as_str());
    for funder in funders.collect::<BTreeSet<&str>>() {
        let issuer = w.l.find(funder).unwrap();
        let its =
            w.l.tickets(w.l.get(w.l.find(n).unwrap()).unwrap(), Resource::Cpu);
        let its = its.filter(|t| t.issuer == issuer);
        let sum = its.fold(q(0), |sum, t| {
            sum + exact(w.l.ticket_value(&t, Resource::Cpu, true))
        });
        worth.insert(issuer, sum);
    }
    let most = worth.values().max()?.clone();
    let first = worth.into_iter().find(|(_, v)| *v == most)?;
    Some(match first.0 {
        BASE => "base".to_owned(),
        cid => w.l.name(cid),
    })
}

/// The limits of `n`, and of what is above it.
fn above(w: &World, g: &Graph, n: &str) -> BTreeSet<String> {
    let mut all = match up(w, g, n) {
        Some(up) if up != "base" => above(w, g, &up),
        _ => BTreeSet::new(),
    };
    if w.m.limits.contains_key(n) {
        all.insert(n.to_owned());
    }
    all
}

/// And, of a cgroup, of those above it.
fn over(w: &World, g: &Graph, n: &str) -> BTreeSet<String> {
    let mut all = above(w, g, n);
    if w.m.dirs.contains_key(n) && Model::parent(n) != "base" {
        all.extend(over(w, g, &Model::parent(n)));
    }
    all
}

/// As `bpf/limit.bpf.h` finds them: a cgroup's cap and those that follow it, then those of the
/// cgroups above.
fn walked(w: &World, caps: &Caps, n: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut cgroup = n.to_owned();
    while cgroup != "base" {
        let mut next = caps.cgroups.get(&w.l.find(&cgroup).unwrap()).copied();
        while let Some(limit) = next {
            all.insert(w.l.name(limit));
            next = caps.limits[&limit].1;
        }
        cgroup = Model::parent(&cgroup);
    }
    all
}

pub fn check_limits(w: &World) -> Result<(), TestCaseError> {
    let m = &w.m;
    let caps = w.l.caps();
    let there = m.limits.iter().filter(|(n, _)| m.there(n));
    let mut set = 0;
    for (n, (milli, _)) in there {
        let cid = w.l.find(n).unwrap();
        prop_assert_eq!(caps.limits.get(&cid).map(|l| l.0), Some(*milli), "{}", n);
        set += 1;
    }
    prop_assert_eq!(caps.limits.len(), set);
    if set == 0 {
        return Ok(());
    }
    let g = m.graph(Resource::Cpu);
    for n in m.named.keys().chain(m.dirs.keys()) {
        let told = w.l.limits_over(w.l.find(n).unwrap());
        let told: BTreeSet<String> = told.into_iter().map(|c| w.l.name(c)).collect();
        prop_assert_eq!(&told, &over(w, &g, n), "limits over {}", n);
        if m.dirs.contains_key(n) {
            prop_assert_eq!(&walked(w, &caps, n), &told, "the kernel side's of {}", n);
        }
    }
    Ok(())
}
