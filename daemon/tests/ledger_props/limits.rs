// SPDX-License-Identifier: GPL-2.0-only
//! Which limits count for whom, told again from what they are to mean; and by the way that the kernel side goes.

use crate::model::Model;
use crate::oracle::Graph;
use crate::world::World;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;
use tixd::ledger::{Caps, Resource};

/// Those of `n`, and of what is above it. Of a named currency's funders that have anything, what is above all of them is.
fn above(w: &World, g: &Graph, n: &str) -> BTreeSet<String> {
    let m = &w.m;
    let mut ups: BTreeSet<&str> = match (m.dirs.contains_key(n), m.bound.get(n)) {
        (true, Some(bound)) => BTreeSet::from([bound.name.as_str()]),
        _ => (g.tickets.iter())
            .filter(|t| t.live && t.holder == n)
            .map(|t| t.issuer.as_str())
            .collect(),
    };
    let parent = Model::parent;
    let up;
    if m.dirs.contains_key(n) && !m.bound.contains_key(n) {
        up = parent(n);
        ups = BTreeSet::from([up.as_str()]);
    }
    let worth = |f: &&str| w.l.entitlement(w.l.find(f).unwrap(), Resource::Cpu) > 0;
    if ups.iter().any(worth) {
        ups.retain(|f| worth(f));
    }
    let mut lines = ups.iter().map(|up| above(w, g, up));
    let first = lines.next().unwrap_or_default();
    let mut all = lines.fold(first, |all, line| &all & &line);
    if m.limits.contains_key(n) {
        all.insert(n.to_owned());
    }
    all
}

/// And, of a cgroup, of those above it.
fn over(w: &World, g: &Graph, n: &str) -> BTreeSet<String> {
    let mut all = above(w, g, n);
    if w.m.dirs.contains_key(n) {
        all.extend(over(w, g, &Model::parent(n)));
    }
    all
}

/// As `bpf/limit.bpf.h` finds them: a cgroup's cap and those that follow it, then those of the cgroups above.
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
