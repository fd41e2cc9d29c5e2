// SPDX-License-Identifier: GPL-2.0-only
//! Ledgers of rows, as schemas from 3 on wrote them, are taken over. The tables here are those of
//! that time, word for word: do not change them.

use crate::common::{Model, contents, currency, dir, open, raw, record, ticket};
use crate::upgrade::{all_new, bound, rows};
use tix_model::{End, Key, Resource, Row, Withdrawn};
use tix_model::{File, Written};
use tix_store::{Config, Query, Store};

/// What schema 3 had: rows, without offers and exchanges that are over.
const SCHEMA_3: &str = "
CREATE TABLE currency (
    cid INTEGER PRIMARY KEY, name TEXT NOT NULL, owner INTEGER NOT NULL, grp INTEGER NOT NULL, mode INTEGER NOT NULL,
    transient TEXT, by INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT;
CREATE TABLE broker (
    path TEXT PRIMARY KEY, owner INTEGER, grp INTEGER, mode INTEGER, by INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE ticket (
    issuer ANY, holder ANY, resource INTEGER, kind INTEGER,
    amount INTEGER NOT NULL, bytes INTEGER NOT NULL, by INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (issuer, holder, resource, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE binding (path TEXT PRIMARY KEY, cid INTEGER NOT NULL, by INTEGER NOT NULL, withdrawn INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE exchange (id INTEGER PRIMARY KEY, legs TEXT NOT NULL, by INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;
CREATE TABLE lapsed (
    holder TEXT, resource INTEGER, amount INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (holder, resource)
) STRICT, WITHOUT ROWID;
CREATE TABLE log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time_usec INTEGER NOT NULL, uid INTEGER NOT NULL, owner INTEGER,
    kind TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL, op TEXT NOT NULL
) STRICT;
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 0), next_cid INTEGER NOT NULL, next_exchange INTEGER NOT NULL,
    rows INTEGER NOT NULL, sum INTEGER NOT NULL, voided INTEGER NOT NULL
) STRICT;
CREATE TABLE usage (cid INTEGER PRIMARY KEY, usec INTEGER NOT NULL) STRICT;
CREATE TABLE weight (path TEXT PRIMARY KEY, written INTEGER NOT NULL, funding INTEGER NOT NULL) STRICT;
";

#[test]
fn schema_3_gets_a_book_and_keeps_what_it_has() {
    // The rows and their sums are those of today: what is written of them has not changed since.
    let now = dir();
    let (mut store, _) = Store::open(now.path()).unwrap();
    let legs = vec![];
    let exchange = (Key::Exchange(3), Row::Exchange { legs, by: 0 });
    let kept = [
        ticket(End::Cid(0), End::Cid(7), 300),
        exchange,
        (Key::Currency(7), currency("alice")),
    ];
    store.commit(&[record(1)], &all_new(&kept)).unwrap();
    drop(store);
    let old = dir();
    let db = raw(old.path().join("ledger.sqlite"));
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(SCHEMA_3).unwrap();
    let from = now.path().join("ledger.sqlite");
    db.execute("ATTACH ? AS now", [from.to_str().unwrap()])
        .unwrap();
    db.execute_batch("ALTER TABLE now.log DROP COLUMN upto")
        .unwrap();
    for table in ["currency", "ticket", "exchange", "log", "state"] {
        let copy = format!("INSERT INTO main.{table} SELECT * FROM now.{table}");
        db.execute_batch(&copy).unwrap();
    }
    db.execute_batch("DETACH now; INSERT INTO weight VALUES ('/w', 75, 100)")
        .unwrap();
    db.pragma_update(None, "user_version", 3).unwrap();
    drop(db);
    let expected = rows(kept);
    let (mut store, loaded) = Store::open(old.path()).unwrap();
    assert_eq!(loaded.rows.into_iter().collect::<Model>(), expected);
    assert_eq!((loaded.next_cid, loaded.next_exchange), (8, 4));
    assert_eq!(store.log(&Query::default()).unwrap().records.len(), 1);
    let weight = Written {
        number: 75,
        funding: 100,
        before: None,
    };
    let marks = [((File::CpuWeight, "/w".to_owned()), weight)];
    assert_eq!(store.marks().unwrap(), marks);
    let offer = Row::Offer {
        party: End::Cid(7),
        by: 1000,
        turn: 4,
        gives: Resource::Cpu,
        give: 1,
        wants: Resource::Disk,
        want: 1,
        left: 1,
        least: 1,
        expires: None,
    };
    store.commit(&[], &[(Key::Offer(4), Some(offer))]).unwrap();
    drop(store);
    assert_eq!(contents(old.path()).len(), 4);
    let copies = std::fs::read_dir(old.path()).unwrap();
    let copies = copies.filter(|e| {
        e.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains(".schema-3-")
    });
    assert_eq!(copies.count(), 1);
}

#[test]
fn schema_5_gets_limits_and_keeps_what_it_has() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let alice = (Key::Currency(7), currency("alice"));
    let kept = [(alice.0.clone(), Some(alice.1.clone()))];
    store.commit(&[], &kept).unwrap();
    drop(store);
    // That was all that was added, and what schemas 7, 9 and 10 add.
    let db = raw(dir.path().join("ledger.sqlite"));
    db.execute_batch(
        "ALTER TABLE log DROP COLUMN upto; DROP TABLE limits; DROP TABLE told; DROP TABLE space",
    )
    .unwrap();
    db.pragma_update(None, "user_version", 5).unwrap();
    drop(db);
    let (mut store, loaded) = Store::open(dir.path()).unwrap();
    let key = Key::Limit(End::Cid(7), Resource::Cpu);
    assert_eq!(
        loaded.rows.into_iter().collect::<Model>(),
        rows([alice.clone()])
    );
    let limit = Row::Limit { milli: 300, by: 0 };
    store
        .commit(&[], &[(key.clone(), Some(limit.clone()))])
        .unwrap();
    drop(store);
    assert_eq!(contents(dir.path()), rows([alice, (key, limit)]));
}

#[test]
fn schema_6_gets_what_systemd_is_told_and_keeps_what_it_has() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let alice = (Key::Currency(7), currency("alice"));
    let kept = [(alice.0.clone(), Some(alice.1.clone()))];
    store.commit(&[], &kept).unwrap();
    let file = (File::IoWeight, "/user.slice".to_owned());
    let written = Written {
        number: 434,
        funding: 100,
        before: None,
    };
    store
        .set_marks(&[(file.clone(), Some(written))], &[])
        .unwrap();
    drop(store);
    let db = raw(dir.path().join("ledger.sqlite"));
    db.execute_batch("ALTER TABLE log DROP COLUMN upto; DROP TABLE told; DROP TABLE space")
        .unwrap();
    db.pragma_update(None, "user_version", 6).unwrap();
    drop(db);
    let (mut store, _) = Store::open(dir.path()).unwrap();
    assert_eq!(store.marks().unwrap(), [(file.clone(), written)]);
    assert!(store.told().unwrap().is_empty());
    let told = [(file, vec![434, 500])];
    store.set_marks(&[], &told).unwrap();
    drop(store);
    assert_eq!(contents(dir.path()), rows([alice]));
    assert_eq!(Store::open(dir.path()).unwrap().0.told().unwrap(), told);
}

#[test]
fn schema_7_withdrew_the_disks_ticket_where_the_currency_had_tickets_for_the_disk() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let mut funded = ticket(End::Cid(0), End::Cid(7), 300);
    if let Key::Ticket { resource, .. } = &mut funded.0 {
        *resource = Resource::Disk;
    }
    let of_the_cpu = ticket(End::Cid(0), End::Cid(8), 300);
    let now = [
        (Key::Currency(7), currency("alice")),
        (Key::Currency(8), currency("bob")),
        funded,
        of_the_cpu,
        bound("/a", 7, 0),
        bound("/a/hers", 7, 1000),
        bound("/b", 8, 0),
    ];
    store.commit(&[], &all_new(&now)).unwrap();
    drop(store);
    // What was written for "withdrawn" then is what is written for "of the CPU" since.
    let db = raw(dir.path().join("ledger.sqlite"));
    db.execute_batch("ALTER TABLE log DROP COLUMN upto; DROP TABLE space")
        .unwrap();
    db.pragma_update(None, "user_version", 7).unwrap();
    drop(db);
    let mut expected = rows(now);
    let both = Row::Binding {
        cid: 7,
        by: 0,
        withdrawn: Withdrawn::Both,
    };
    expected.insert(Key::Binding("/a".into()), both);
    assert_eq!(contents(dir.path()), expected);
    // It is not done again.
    assert_eq!(contents(dir.path()), expected);
}

#[test]
fn schema_9_did_not_say_how_many_bytes_the_log_has() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let records: Vec<_> = (1..=300).map(record).collect();
    store.commit(&records, &[]).unwrap();
    drop(store);
    let db = raw(dir.path().join("ledger.sqlite"));
    db.execute_batch("ALTER TABLE log DROP COLUMN upto")
        .unwrap();
    db.pragma_update(None, "user_version", 9).unwrap();
    drop(db);
    // Record by record as if each had been written since.
    let last = &records[200..];
    let config = Config {
        keep_bytes: last.iter().map(|r| r.bytes()).sum(),
        ..Config::default()
    };
    let (mut store, _) = open(dir.path(), config).unwrap();
    assert_eq!(store.prune(0).unwrap(), 200);
    let left = store.log(&Query::default()).unwrap().records;
    assert_eq!(left.into_iter().map(|(_, r)| r).collect::<Vec<_>>(), last);
}
