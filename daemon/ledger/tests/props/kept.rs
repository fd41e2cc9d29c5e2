// SPDX-License-Identifier: GPL-2.0-only
//! Histories: after every operation the ledger checks itself, its rows are those that there must
//! be, the changes it told are the changes there were; it can be loaded from its rows, and an
//! operation undone.

use crate::invariants::{check_values, exact};
use crate::limits::check_limits;
use crate::model::{MEMORY, Model};
use crate::oracle::ratio;
use crate::random::{Do, any_do, any_start, caller};
use crate::world::World;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tix_ledger::{BASE, Cid, Key, Ledger, Op, Resource, Row};

type Rows = BTreeMap<Key, Row>;

/// All that a ledger says of values, by name.
fn values(l: &Ledger) -> BTreeMap<(String, Resource), (u128, u128, u128)> {
    let all = l.iter().flat_map(|(c, x)| {
        Resource::ALL.map(|r| {
            let v = (l.value(c, r), l.entitlement(c, r), l.own_value(c, r));
            ((x.name.clone(), r), v)
        })
    });
    all.collect()
}

/// The rows are loaded into a ledger that knows the same tree.
fn reloaded(w: &World) -> Ledger {
    let mut l = Ledger::new(w.l.next_cid(), MEMORY);
    for (path, d) in &w.m.dirs {
        l.cgroup_here(&World::cgroup(path, d));
    }
    l.settle();
    l.load(w.l.rows());
    let swept = l.sweep();
    assert!(swept.is_empty(), "{swept:?}");
    let names: BTreeMap<Cid, String> = l.iter().map(|(c, x)| (c, x.name.clone())).collect();
    for r in Resource::ALL {
        l.set_all_running(r, &|c| {
            let name = if c == BASE { "base" } else { &names[&c] };
            w.m.running.contains(&(name.to_owned(), r))
        });
    }
    l
}

fn undone(w: &World, who: usize, op: &Op) -> Result<(), TestCaseError> {
    let mut l = w.l.clone();
    let mark = l.mark();
    let _ = l.apply(op, &caller(who));
    l.undo(mark);
    prop_assert_eq!(l.rows(), w.l.rows(), "undone: {:?}", op);
    prop_assert_eq!(values(&l), values(&w.l), "undone: {:?}", op);
    prop_assert_eq!(l.verify(), Vec::<String>::new(), "undone: {:?}", op);
    Ok(())
}

fn history(start: &[Do], dos: &[Do]) -> Result<(), TestCaseError> {
    let mut w = World::new();
    let mut store = Rows::new();
    let all = start.iter().chain(dos);
    for (n, d) in all.enumerate() {
        if let (Do::Op(who, op), 3) = (d, n % 7) {
            let mut op = op.clone();
            if let Op::Create { cid, .. } | Op::Run { cid, .. } | Op::Nice { cid, .. } = &mut op {
                *cid = w.l.next_cid();
            }
            undone(&w, *who, &op)?;
        }
        let done = w.step(d);
        for (key, row) in w.l.changes() {
            prop_assert_ne!(store.get(&key), row.as_ref(), "no change by {:?}", d);
            match row {
                Some(row) => store.insert(key, row),
                None => store.remove(&key),
            };
        }
        w.l.settle();
        if done.as_ref().is_some_and(Vec::is_empty) && n % 4 != 0 {
            continue;
        }
        let wrong = w.l.verify();
        prop_assert!(wrong.is_empty(), "after {d:?}: {wrong:#?}");
        let rows = w.l.rows();
        prop_assert!(
            rows.iter().map(|(k, r)| (k, r)).eq(&store),
            "what was kept after {:?} is {:?}, the rows are {:?}",
            d,
            store,
            rows
        );
        if done.is_none() || n % 4 == 0 {
            prop_assert_eq!(rows, w.rows(), "after {:?}", d);
        }
        if n % 29 == 11 {
            check_values(&w, Resource::ALL[n % 4])?;
            check_limits(&w)?;
        }
        if n % 17 == 5 {
            let again = reloaded(&w);
            prop_assert_eq!(again.rows(), w.l.rows());
            prop_assert_eq!(again.verify(), Vec::<String>::new());
            prop_assert!(again.changes().is_empty());
            prop_assert_eq!(values(&again), values(&w.l));
        }
    }
    for r in Resource::ALL {
        check_values(&w, r)?;
    }
    Ok(())
}

/// How many operations that was.
fn many(cases: u32) -> u64 {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let histories = (any_start(), prop::collection::vec(any_do(), 1..120));
    let operations = Cell::new(0);
    let done = TestRunner::new(config).run(&histories, |(start, dos)| {
        operations.set(operations.get() + dos.len() as u64);
        history(&start, &dos)
    });
    if let Err(e) = done {
        panic!("{e}");
    }
    operations.get()
}

#[test]
fn histories() {
    many(450);
}

#[test]
#[ignore = "takes minutes: make soak"]
fn soak_a_million_operations() {
    let ops = std::env::var("TIX_OPS").ok().and_then(|n| n.parse().ok());
    let cases = ops.unwrap_or(1_000_000u32) / 60;
    let operations = many(cases);
    // For bench/soaked.
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/soak");
    fs::create_dir_all(&dir).unwrap();
    let came_to = json!({ "histories": cases, "operations": operations });
    fs::write(dir.join("ledger.json"), format!("{came_to:#}\n")).unwrap();
}

/// An exchange and its end restore every entitlement bit for bit (invariant 7).
fn exchanged_and_cancelled(start: &[Do], dos: &[Do], nice: &[Op]) -> Result<(), TestCaseError> {
    let mut w = World::built(start, dos);
    let before = values(&w.l);
    let rows = w.l.rows();
    let mut l = w.l.clone();
    let cpu = ("base".to_owned(), Resource::Cpu);
    let mut ends: Vec<String> = Vec::new();
    for op in nice {
        let mut op = op.clone();
        if let Op::Nice { cid, .. } = &mut op {
            *cid = l.next_cid();
        }
        if let Ok(events) = l.apply(&op, &caller(0))
            && !events.iter().any(|e| e.removed().is_some())
        {
            ends.push(op.subject().to_owned());
            w.l = l.clone();
            // T does not change (§5), unless root has taken a top cgroup's ticket back by binding
            // it.
            if w.l.bindings().all(|(p, _)| p.rfind('/') != Some(0)) {
                prop_assert_eq!(values(&l)[&cpu].1, before[&cpu].1);
            }
        }
    }
    for name in ends {
        l.apply(&Op::Destroy { name }, &caller(0)).unwrap();
    }
    let after = values(&l);
    for (key, v) in &before {
        prop_assert_eq!(after[key].1, v.1, "{:?}", key);
    }
    prop_assert_eq!(l.rows(), rows);
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 150, failure_persistence: None, ..Config::default() })]

    #[test]
    fn an_exchange_and_its_end_change_nothing(
        start in any_start(),
        dos in prop::collection::vec(any_do(), 1..60),
        nice in prop::collection::vec(crate::random::any_op(), 1..20),
    ) {
        let nice: Vec<Op> = nice.into_iter().filter(|o| matches!(o, Op::Nice { .. })).collect();
        exchanged_and_cancelled(&start, &dos, &nice)?;
    }
}

#[test]
fn exact_is() {
    assert_eq!(exact(1 << 63), ratio(1, 2));
    assert_eq!(Model::parent("/a/b"), "/a");
}
