// SPDX-License-Identifier: GPL-2.0-only
//! From schema 8, where all names were plain, to spaces.

use crate::common::{Model, contents, dir, open, raw, ticket};
use crate::upgrade::{all_new, bound, named, rows};
use crate::vfs::Disk;
use std::path::Path;
use tix_ledger::Ledger;
use tix_model::{End, Key, Resource, Row};
use tix_store::{Config, Error, Query, Record, Store};

/// A ledger of schema 8 with these rows.
fn schema_8(rows: &[(Key, Row)]) -> tempfile::TempDir {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&[], &all_new(rows)).unwrap();
    drop(store);
    let db = raw(dir.path().join("ledger.sqlite"));
    db.execute_batch("ALTER TABLE log DROP COLUMN upto; DROP TABLE space")
        .unwrap();
    db.pragma_update(None, "user_version", 8).unwrap();
    dir
}

/// Of alice's and of root's, with plain names all of them.
fn plain() -> Vec<(Key, Row)> {
    let mut of_the_disk = ticket(End::Cid(0), End::Cid(8), 300);
    if let Key::Ticket { resource, .. } = &mut of_the_disk.0 {
        *resource = Resource::Disk;
    }
    let lapsed = Key::Lapsed("gold".into(), Resource::Cpu);
    vec![
        named(7, "gold", 1000, 1000),
        named(8, "users", 0, 0),
        ticket(End::Cid(0), End::Cid(7), 300),
        of_the_disk,
        // It says itself that it withdrew the ticket of the CPU alone.
        bound("/a", 8, 0),
        (lapsed, Row::Lapsed { amount: 5 }),
    ]
}

#[test]
fn schema_8_gets_spaces_and_keeps_what_it_has() {
    let dir = schema_8(&plain());
    let (mut store, loaded) = Store::open(dir.path()).unwrap();
    assert_eq!(loaded.rows.into_iter().collect::<Model>(), rows(plain()));
    let label = "alice".to_owned();
    let space = (Key::Space(1000), Row::Space { label });
    let change = all_new(std::slice::from_ref(&space));
    store.commit(&[], &change).unwrap();
    drop(store);
    let mut expected = rows(plain());
    expected.extend([space]);
    assert_eq!(contents(dir.path()), expected);
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&[], &[(Key::Space(1000), None)]).unwrap();
    drop(store);
    assert_eq!(contents(dir.path()), rows(plain()));
}

/// What a start does to the rows: users' currencies move into their spaces.
fn start(dir: &Path) -> Result<(), Error> {
    let (mut store, model) = open(dir, Config::default())?;
    let next = store.next();
    let mut ledger = Ledger::new(next.cid, 1 << 30);
    ledger.number_from(next.cid, next.exchange);
    ledger.load(model);
    let users = [(1000, "alice".to_owned())].into();
    let moved = ledger.move_into_spaces(&users, &[]);
    let record = Record {
        kind: "rename".into(),
        ..crate::common::record(1)
    };
    let records: Vec<Record> = moved.iter().map(|_| record.clone()).collect();
    store.commit(&records, &ledger.changes())
}

#[test]
fn a_move_into_spaces_that_fails_at_any_step_is_done_by_the_next_start_and_once() {
    let label = "alice".to_owned();
    let mut expected = rows(plain());
    expected.extend([
        (Key::Space(1000), Row::Space { label }),
        named(7, "alice/gold", 1000, 1000),
        (
            Key::Lapsed("alice/gold".into(), Resource::Cpu),
            Row::Lapsed { amount: 5 },
        ),
    ]);
    expected.remove(&Key::Lapsed("gold".into(), Resource::Cpu));
    let mut step = 0;
    loop {
        let dir = schema_8(&plain());
        let disk = Disk::at(dir.path());
        disk.state().forget = true;
        disk.state().failing = Some((step..step + 1, crate::vfs::Fault::Nothing));
        let done = start(dir.path());
        let steps = disk.state().count;
        disk.state().failing = None;
        if done.is_err() {
            // Half of it is nowhere.
            let now = contents(dir.path());
            assert!(
                now == expected || now == rows(plain()),
                "step {step}: {now:?}"
            );
        }
        for _ in 0..2 {
            start(dir.path()).unwrap();
            assert_eq!(contents(dir.path()), expected, "step {step}");
        }
        let (store, _) = Store::open(dir.path()).unwrap();
        let told = store.log(&Query::default()).unwrap().records;
        assert_eq!(told.len(), 1, "step {step}");
        step += 1;
        if step > steps {
            break;
        }
    }
    assert!(step > 20, "{step}");
}
