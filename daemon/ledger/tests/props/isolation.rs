// SPDX-License-Identifier: GPL-2.0-only
//! Invariants 2 and 6 of model.md §3: nothing that a user can do lowers what anybody else is
//! entitled to.

use crate::invariants::exact;
use crate::model::{Model, below};
use crate::oracle::{Q, q, ratio};
use crate::random::{ALICE, Do, PATHS, any_do, any_do_of, any_start, caller, gifts};
use crate::world::World;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use std::collections::{BTreeMap, BTreeSet};
use tix_ledger::{Caller, Resource};

/// What each may rely on, as a part of the whole.
fn guaranteed(w: &World) -> BTreeMap<(String, Resource), Q> {
    let all = w.l.iter().flat_map(|(c, x)| {
        Resource::ALL.map(|r| {
            let part = exact(w.l.entitlement(c, r)) / q(w.l.total(r));
            ((x.name.clone(), r), part)
        })
    });
    all.collect()
}

/// The same among directories by their owners.
pub fn in_hand_of(owners: &BTreeMap<String, u32>, path: &str, user: u32) -> bool {
    owners.get(&Model::parent(path)) == Some(&user)
}

/// The user may make, remove and weigh this directory: its parent is the user's.
fn in_hand(m: &Model, path: &str, user: u32) -> bool {
    path.starts_with('/')
        && m.dirs
            .get(&Model::parent(path))
            .is_some_and(|d| d.owner == user)
}

/// Whatever the user may change or issue, or root has let depend on the user's cgroups; all that is
/// funded by it, and all that is party to an exchange with it.
fn reachable(m: &Model, who: &Caller) -> BTreeMap<Resource, BTreeSet<String>> {
    let owned = |n: &str| m.broker(n).is_some_and(|b| b.0 == who.uid);
    // Whoever may fund a cgroup chooses what backs it.
    let holds = |n: &str| {
        owned(n) || m.may(who, n, 2) || m.may(who, n, 1) || n.starts_with('/') && m.may(who, n, 4)
    };
    let mut from: BTreeSet<String> = (m.named.keys().chain(m.dirs.keys()))
        .filter(|n| holds(n) || in_hand(m, n, who.uid))
        .cloned()
        .collect();
    let theirs = |p: &String| in_hand(m, p, who.uid);
    from.extend(
        m.bound
            .iter()
            .filter(|(p, _)| theirs(p))
            .map(|(_, b)| b.name.clone()),
    );
    let with = |c: &crate::model::Named| c.with.as_ref().is_some_and(theirs);
    from.extend(
        m.named
            .iter()
            .filter(|(_, c)| with(c))
            .map(|(n, _)| n.clone()),
    );
    let mut all = BTreeMap::new();
    for r in Resource::ALL {
        let g = m.graph(r);
        let mut seen: BTreeSet<String> = from.iter().flat_map(|n| below(&g, n)).collect();
        loop {
            let more: Vec<String> = (m.exchanges.iter())
                .filter(|x| seen.contains(&x.giver) != seen.contains(&x.taker))
                .flat_map(|x| below(&g, &x.giver).into_iter().chain(below(&g, &x.taker)))
                .collect();
            let before = seen.len();
            seen.extend(more);
            if seen.len() == before {
                break;
            }
        }
        all.insert(r, seen);
    }
    all
}

fn theirs_alone(start: &[Do], dos: &[Do], mine: &[Do]) -> Result<(), TestCaseError> {
    let mut w = World::built(start, dos);
    let who = caller(2);
    assert_eq!(who.uid, ALICE);
    for d in mine {
        let d = match d {
            Do::Op(_, op) => Do::Op(2, op.clone()),
            Do::Mkdir(p, weight, _, inner) if in_hand(&w.m, PATHS[*p], ALICE) => {
                Do::Mkdir(*p, *weight, 2, *inner)
            }
            Do::Rmdir(p) if in_hand(&w.m, PATHS[*p], ALICE) => Do::Rmdir(*p),
            Do::Change(p, weight, _) if in_hand(&w.m, PATHS[*p], ALICE) => {
                let same = w.m.dirs.get(PATHS[*p]).is_some_and(|d| d.owner == ALICE);
                if !same {
                    continue;
                }
                Do::Change(*p, *weight, 2)
            }
            _ => continue,
        };
        let before = guaranteed(&w);
        let reach = reachable(&w.m, &who);
        let t = Resource::ALL.map(|r| w.l.total(r));
        if w.step(&d).is_none() {
            continue;
        }
        let after = guaranteed(&w);
        for r in Resource::ALL {
            // What root runs is gone with its cgroup, whoever removes that; nothing else changes T.
            let same = w.l.total(r) == t[r.index()];
            prop_assert!(
                same || matches!(d, Do::Rmdir(_)) && w.l.total(r) < t[r.index()],
                "{d:?} changed T of {}",
                r.name()
            );
        }
        for ((n, r), was) in &before {
            let Some(is) = after.get(&(n.clone(), *r)) else {
                continue;
            };
            let lost = was - is;
            prop_assert!(
                reach[r].contains(n) || lost < ratio(1, 1 << 40),
                "{d:?} took {lost} of the {} from {n}, who had {was}",
                r.name()
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn nothing_a_user_does_lowers_what_others_are_entitled_to(
        start in any_start(),
        dos in prop::collection::vec(any_do(), 1..60),
        mine in prop::collection::vec(any_do(), 1..50),
    ) {
        theirs_alone(&start, &dos, &mine)?;
    }

    #[test]
    fn nor_do_tickets_for_the_disk_of_what_is_bound(
        start in gifts(Resource::Disk),
        dos in prop::collection::vec(any_do_of(Resource::Disk), 0..20),
        mine in prop::collection::vec(any_do_of(Resource::Disk), 1..50),
    ) {
        theirs_alone(&start, &dos, &mine)?;
    }

    #[test]
    fn nor_do_tickets_for_memory_of_what_is_bound(
        start in gifts(Resource::Memory),
        dos in prop::collection::vec(any_do_of(Resource::Memory), 0..20),
        mine in prop::collection::vec(any_do_of(Resource::Memory), 1..50),
    ) {
        theirs_alone(&start, &dos, &mine)?;
    }

    #[test]
    fn nor_do_tickets_for_the_cpu_of_what_is_bound(
        start in gifts(Resource::Cpu),
        dos in prop::collection::vec(any_do_of(Resource::Cpu), 0..20),
        mine in prop::collection::vec(any_do_of(Resource::Cpu), 1..50),
    ) {
        theirs_alone(&start, &dos, &mine)?;
    }
}
