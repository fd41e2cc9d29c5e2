// SPDX-License-Identifier: GPL-2.0-only
//! What earlier versions wrote is taken over. The tables and operations here are those of that
//! time, word for word: do not change them.

use crate::common::{Model, contents, currency, dir, open, raw, ticket};
use crate::vfs::Disk;
use rusqlite::Connection;
use std::path::Path;
use tix_model::{End, Key, Row, Withdrawn};
use tix_model::{File, Written};
use tix_store::{Config, Error, Query, Store};

const SCHEMA_1: &str = "
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    time_usec INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    op TEXT NOT NULL
) STRICT;
CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
CREATE TRIGGER event_is_not_deleted BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
-- Which node of the kernel's tables a named currency has; only worth something while that scheduler is in force.
CREATE TABLE node (cid INTEGER PRIMARY KEY, node INTEGER NOT NULL) STRICT;
-- CPU time of cgroups that are gone, per named currency.
CREATE TABLE usage (cid INTEGER PRIMARY KEY, usec INTEGER NOT NULL) STRICT;
";

const SINCE_2: &str = "
-- cpu.weight files that tixd wrote while the scheduler was not in force, and the funding that each covers.
CREATE TABLE weight (path TEXT PRIMARY KEY, written INTEGER NOT NULL, funding INTEGER NOT NULL) STRICT;
";

/// A ledger of that time with these operations, as it is after a clean end.
pub fn old(dir: &Path, schema: i64, ops: &[(u32, &str)]) -> Connection {
    let db = raw(dir.join("ledger.sqlite"));
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(SCHEMA_1).unwrap();
    if schema > 1 {
        db.execute_batch(SINCE_2).unwrap();
    }
    db.pragma_update(None, "user_version", schema).unwrap();
    let mut insert = db
        .prepare("INSERT INTO event (time_usec, uid, op) VALUES (?, ?, ?)")
        .unwrap();
    for (n, (uid, op)) in ops.iter().enumerate() {
        insert
            .execute(rusqlite::params![i64::try_from(n).unwrap() * 1000, uid, op])
            .unwrap();
    }
    drop(insert);
    db
}

/// The rows that these operations come to.
pub fn reduced(ops: &[(u32, &str)]) -> Model {
    let dir = dir();
    drop(old(dir.path(), 2, ops));
    contents(dir.path())
}

pub fn named(cid: u64, name: &str, owner: u32, by: u32) -> (Key, Row) {
    let row = Row::Currency {
        name: name.into(),
        owner,
        group: owner,
        mode: 0o700,
        transient: None,
        by,
    };
    (Key::Currency(cid), row)
}

fn by(mut entry: (Key, Row), uid: u32) -> (Key, Row) {
    match &mut entry.1 {
        Row::Ticket { by, .. } => *by = uid,
        other => panic!("{other:?} is no ticket"),
    }
    entry
}

pub fn bound(path: &str, cid: u64, by: u32) -> (Key, Row) {
    (
        Key::Binding(path.into()),
        Row::Binding {
            cid,
            by,
            withdrawn: match by {
                0 => Withdrawn::Cpu,
                _ => Withdrawn::Nothing,
            },
        },
    )
}

pub fn all_new(rows: &[(Key, Row)]) -> Vec<(Key, Option<Row>)> {
    let row = |(k, row): &(Key, Row)| (k.clone(), Some(row.clone()));
    rows.iter().map(row).collect()
}

pub fn rows(all: impl IntoIterator<Item = (Key, Row)>) -> Model {
    all.into_iter().collect()
}

const ALICE: (u32, &str) = (0, r#"{"create":{"cid":1,"name":"alice","owner":1000}}"#);
const BOB: (u32, &str) = (1001, r#"{"create":{"cid":2,"name":"bob","owner":1001}}"#);
const FUND_ALICE: (u32, &str) = (
    0,
    r#"{"fund":{"holder":"alice","issuer":"base","resource":"cpu","amount":300}}"#,
);
const BIND_ALICE: (u32, &str) = (1000, r#"{"bind":{"name":"alice","path":"/a"}}"#);
const RUN: (u32, &str) = (
    1000,
    r#"{"run":{"cid":5,"name":"run-5","owner":1000,"issuer":"alice","amount":50,"path":"/r.scope"}}"#,
);

#[test]
fn schema_1_and_2_are_taken_over_with_a_copy_beside_and_their_events_as_the_log() {
    for schema in [1, 2] {
        let dir = dir();
        let db = old(dir.path(), schema, &[ALICE, FUND_ALICE, BIND_ALICE]);
        db.execute_batch(
            "INSERT INTO node VALUES (1, 17); INSERT INTO usage VALUES (1, 5000), (9, 1);",
        )
        .unwrap();
        if schema == 2 {
            db.execute_batch("INSERT INTO weight VALUES ('/w', 75, 100)")
                .unwrap();
        }
        drop(db);
        let (store, loaded) = Store::open(dir.path()).unwrap();
        let expected = rows([
            named(1, "alice", 1000, 0),
            ticket(End::Cid(0), End::Cid(1), 300),
            bound("/a", 1, 1000),
        ]);
        assert_eq!(loaded.rows.into_iter().collect::<Model>(), expected);
        assert_eq!((loaded.next_cid, loaded.next_exchange), (2, 1));
        assert_eq!(store.usage().unwrap(), [(1, 5000)]);
        let weight = Written {
            number: 75,
            funding: 100,
            before: None,
        };
        let weights = if schema == 2 {
            vec![((File::CpuWeight, "/w".to_owned()), weight)]
        } else {
            vec![]
        };
        assert_eq!(store.marks().unwrap(), weights);
        let page = store.log(&Query::default()).unwrap();
        let told: Vec<_> = page
            .records
            .iter()
            .map(|(seq, r)| (*seq, r.time_usec, r.uid, &*r.kind, &*r.subject, r.owner))
            .collect();
        assert_eq!(
            told,
            [
                (1, 0, 0, "create", "alice", Some(1000)),
                (2, 1000, 0, "fund", "alice", Some(1000)),
                (3, 2000, 1000, "bind", "alice", Some(1000))
            ]
        );
        assert_eq!(page.records[1].1.op, FUND_ALICE.1);
        assert_eq!(
            page.records[1].1.text,
            "funded alice with 300 cpu tickets of base"
        );
        drop(store);
        assert_eq!(contents(dir.path()), expected);

        // The copy is what that version of tixd reads.
        let copies: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.to_string_lossy().contains(&format!(".schema-{schema}-")))
            .collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        let copy = raw(&copies[0]);
        let version: i64 = copy
            .pragma_query_value(None, "user_version", |r| r.get(0))
            .unwrap();
        let events: i64 = copy
            .query_row("SELECT count(*) FROM event", [], |r| r.get(0))
            .unwrap();
        assert_eq!((version, events), (schema, 3));
    }
}

#[test]
fn what_was_only_in_the_wal_of_a_killed_tixd_is_taken_over_too() {
    let (dir, killed) = (dir(), dir());
    let db = old(killed.path(), 2, &[ALICE]);
    for file in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::copy(killed.path().join(file), dir.path().join(file)).unwrap();
    }
    drop(db);
    assert!(
        dir.path()
            .join("ledger.sqlite-wal")
            .metadata()
            .unwrap()
            .len()
            > 0
    );
    assert_eq!(contents(dir.path()), rows([named(1, "alice", 1000, 0)]));
}

#[test]
fn tickets_add_up_and_are_withdrawn() {
    let again = (
        1001,
        r#"{"fund":{"holder":"/x","issuer":"bob","resource":"cpu","amount":20}}"#,
    );
    let held = |amount| {
        rows([
            named(2, "bob", 1001, 1001),
            by(ticket(End::Cid(2), End::Path("/x".into()), amount), 1001),
        ])
    };
    assert_eq!(reduced(&[BOB, again, again]), held(40));
    let less = (
        1001,
        r#"{"unfund":{"holder":"/x","issuer":"bob","resource":"cpu","amount":5}}"#,
    );
    assert_eq!(reduced(&[BOB, again, less]), held(15));
    let too_much = (
        1001,
        r#"{"unfund":{"holder":"/x","issuer":"bob","resource":"cpu","amount":500}}"#,
    );
    let all = (
        0,
        r#"{"unfund":{"holder":"/x","issuer":"bob","resource":"cpu","amount":null}}"#,
    );
    let none = rows([named(2, "bob", 1001, 1001)]);
    assert_eq!(reduced(&[BOB, again, too_much]), none);
    assert_eq!(reduced(&[BOB, again, all, all]), none);
    let most = (
        1001,
        r#"{"fund":{"holder":"/x","issuer":"bob","resource":"cpu","amount":2147483648}}"#,
    );
    assert_eq!(reduced(&[BOB, again, most]), held(1 << 31));
    // Root had a hand in it: it is root's from then on.
    let roots = (0, again.1);
    let mut expected = held(60);
    expected.extend([ticket(End::Cid(2), End::Path("/x".into()), 60)]);
    assert_eq!(reduced(&[BOB, again, roots, again]), expected);
}

#[test]
fn a_currency_takes_with_it_what_hangs_on_it_and_its_name_may_be_used_again() {
    let to_bob = (
        1000,
        r#"{"fund":{"holder":"bob","issuer":"alice","resource":"cpu","amount":1}}"#,
    );
    let gone = (0, r#"{"destroy":{"name":"alice"}}"#);
    let anew = (1001, r#"{"create":{"cid":7,"name":"alice","owner":1001}}"#);
    let all = [ALICE, BOB, FUND_ALICE, BIND_ALICE, to_bob, gone, anew];
    let dir = dir();
    drop(old(dir.path(), 2, &all));
    let (_, loaded) = Store::open(dir.path()).unwrap();
    let expected = rows([named(2, "bob", 1001, 1001), named(7, "alice", 1001, 1001)]);
    assert_eq!(loaded.rows.into_iter().collect::<Model>(), expected);
    assert_eq!(loaded.next_cid, 8);
    // The highest number stays used though what had it is gone.
    let (dir, gone) = (crate::common::dir(), (0, r#"{"destroy":{"name":"bob"}}"#));
    drop(old(dir.path(), 2, &[ALICE, BOB, gone]));
    assert_eq!(Store::open(dir.path()).unwrap().1.next_cid, 3);
}

#[test]
fn bindings_go_one_by_one_or_all_and_a_later_one_replaces_one_that_was_over() {
    let b = (1000, r#"{"bind":{"name":"alice","path":"/b"}}"#);
    let one = (1000, r#"{"unbind":{"name":"alice","path":"/a"}}"#);
    let every = (1000, r#"{"unbind":{"name":"alice","path":null}}"#);
    let alice = named(1, "alice", 1000, 0);
    assert_eq!(
        reduced(&[ALICE, BIND_ALICE, b, one]),
        rows([alice.clone(), bound("/b", 1, 1000)])
    );
    assert_eq!(
        reduced(&[ALICE, BIND_ALICE, b, every]),
        rows([alice.clone()])
    );
    let bobs = (1001, r#"{"bind":{"name":"bob","path":"/a"}}"#);
    let both = rows([alice, named(2, "bob", 1001, 1001), bound("/a", 2, 1001)]);
    assert_eq!(reduced(&[ALICE, BOB, BIND_ALICE, bobs]), both);
    // What was alice's once does not go with alice's other bindings.
    assert_eq!(reduced(&[ALICE, BOB, BIND_ALICE, bobs, every]), both);
}

#[test]
fn with_a_cgroup_goes_what_root_did_not_make_and_a_run_goes_whole() {
    let funded = |uid| {
        (
            uid,
            r#"{"fund":{"holder":"/a","issuer":"alice","resource":"cpu","amount":9}}"#,
        )
    };
    let wilt = (0, r#"{"wilt":{"path":"/a"}}"#);
    let alice = named(1, "alice", 1000, 0);
    assert_eq!(
        reduced(&[ALICE, BIND_ALICE, funded(1000), wilt]),
        rows([alice.clone()])
    );
    let roots = (0, BIND_ALICE.1);
    assert_eq!(
        reduced(&[ALICE, roots, funded(0), wilt]),
        rows([
            alice.clone(),
            bound("/a", 1, 0),
            ticket(End::Cid(1), End::Path("/a".into()), 9)
        ])
    );
    let mut run = named(5, "run-5", 1000, 1000);
    if let Row::Currency { transient, .. } = &mut run.1 {
        *transient = Some("/r.scope".into());
    }
    let running = rows([
        alice.clone(),
        run,
        by(ticket(End::Cid(1), End::Cid(5), 50), 1000),
        bound("/r.scope", 5, 1000),
    ]);
    assert_eq!(reduced(&[ALICE, RUN]), running);
    let over = (0, r#"{"destroy":{"name":"run-5"}}"#);
    let wilted = (0, r#"{"wilt":{"path":"/r.scope"}}"#);
    assert_eq!(reduced(&[ALICE, RUN, over, wilted]), rows([alice]));
}

#[test]
fn an_operation_that_there_never_was_is_named_and_nothing_is_changed() {
    for bad in [
        "{",
        "[]",
        r#"{"create":{"cid":1}}"#,
        r#"{"steal":{"name":"alice"}}"#,
        r#"{"fund":{"holder":"a","issuer":"b","resource":"luck","amount":1}}"#,
        r#"{"fund":{"holder":"a","issuer":"b","resource":"cpu","amount":-1}}"#,
    ] {
        let dir = dir();
        drop(old(dir.path(), 2, &[ALICE, (0, bad)]));
        for _ in 0..2 {
            let refused = Store::open(dir.path()).err().unwrap();
            assert!(refused.is_damage(), "{refused}");
            assert!(refused.to_string().contains("operation 2"), "{refused}");
        }
        let beside = |what: &str| {
            std::fs::read_dir(dir.path())
                .unwrap()
                .filter(|e| {
                    e.as_ref()
                        .unwrap()
                        .file_name()
                        .to_string_lossy()
                        .contains(what)
                })
                .count()
        };
        assert_eq!((beside(".damaged-"), beside(".schema-")), (1, 0));
        let db = raw(dir.path().join("ledger.sqlite"));
        let version: i64 = db
            .pragma_query_value(None, "user_version", |r| r.get(0))
            .unwrap();
        assert_eq!(version, 2);
    }
}

#[test]
fn a_later_schema_is_not_touched() {
    let dir = dir();
    drop(Store::open(dir.path()).unwrap());
    let file = dir.path().join("ledger.sqlite");
    let db = raw(&file);
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    let refused = Store::open(dir.path()).err().unwrap();
    assert!(
        matches!(refused, Error::Schema { found: 99, .. }),
        "{refused}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

/// Some of everything.
pub const OPS: [(u32, &str); 5] = [ALICE, BOB, FUND_ALICE, BIND_ALICE, RUN];

#[test]
fn an_upgrade_that_fails_at_any_step_is_done_by_the_next_start() {
    let expected = reduced(&OPS);
    let mut step = 0;
    loop {
        let dir = dir();
        drop(old(dir.path(), 1, &OPS));
        let disk = Disk::at(dir.path());
        disk.state().forget = true;
        disk.state().failing = Some((step..step + 1, crate::vfs::Fault::Nothing));
        let opened = open(dir.path(), Config::default());
        let steps = disk.state().count;
        disk.state().failing = None;
        if let Ok((store, model)) = opened {
            assert_eq!(model, expected, "step {step}");
            drop(store);
        }
        let (mut store, model) = open(dir.path(), Config::default()).unwrap();
        assert_eq!(model, expected, "step {step}");
        store
            .commit(&[], &[(Key::Currency(6), Some(currency("carol")))])
            .unwrap();
        step += 1;
        if step > steps {
            break;
        }
    }
    assert!(step > 20, "{step}");
}
