// SPDX-License-Identifier: GPL-2.0-only
//! What rotted on the disk is found at the start and named; a copy is kept, and nothing is begun
//! anew over it.

use crate::common::{contents, currency, dir, open, raw};
use crate::work::{Random, commit, models};
use std::path::{Path, PathBuf};
use tix_model::{Key, Row, Withdrawn};
use tix_store::{Config, Copy, Error, Store};

const COMMITS: u64 = 30;

fn ledger(dir: &Path) -> PathBuf {
    let (mut store, _) = open(dir, Config::default()).unwrap();
    for n in 1..=COMMITS {
        commit(&mut store, n).unwrap();
    }
    dir.join("ledger.sqlite")
}

/// What is said of it, and where the copy is.
fn refused(dir: &Path) -> (String, PathBuf) {
    match Store::open(dir).err().unwrap() {
        Error::Damaged { what, copy, .. } => match copy {
            Copy::Kept(copy) => (what, copy),
            other => panic!("{what}; {other}"),
        },
        other => panic!("{other}"),
    }
}

fn copies(dir: &Path) -> usize {
    std::fs::read_dir(dir)
        .unwrap()
        .filter(|e| {
            e.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains(".damaged-")
        })
        .count()
}

#[test]
fn a_changed_row_is_named_and_one_copy_is_kept_however_often_it_is_tried() {
    let dir = dir();
    let file = ledger(dir.path());
    let db = raw(&file);
    db.execute("UPDATE currency SET owner = owner + 1 WHERE cid = 1", [])
        .unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    let (what, copy) = refused(dir.path());
    assert!(
        what.contains("table currency") && what.contains("mark"),
        "{what}"
    );
    assert_eq!(std::fs::read(&copy).unwrap(), before);
    assert_eq!(refused(dir.path()), (what, copy));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(copies(dir.path()), 1);
}

#[test]
fn a_missing_row_and_one_that_is_older_than_it_should_be_are_noticed() {
    let dir = dir();
    let file = ledger(dir.path());
    let sound = std::fs::read(&file).unwrap();
    let db = raw(&file);
    db.execute("DELETE FROM currency WHERE cid = 1", [])
        .unwrap();
    drop(db);
    let (what, _) = refused(dir.path());
    assert!(what.contains("rows are there, and there were"), "{what}");

    // An old state of one row, with the sum that fitted it.
    std::fs::write(&file, &sound).unwrap();
    let db = raw(&file);
    let kept: (i64, i64) = db
        .query_row("SELECT owner, sum FROM currency WHERE cid = 1", [], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .unwrap();
    drop(db);
    let (mut store, _) = open(dir.path(), Config::default()).unwrap();
    commit(&mut store, COMMITS + 1).unwrap();
    drop(store);
    let db = raw(&file);
    db.execute("UPDATE currency SET owner = ?, sum = ? WHERE cid = 1", kept)
        .unwrap();
    drop(db);
    let (what, _) = refused(dir.path());
    assert!(what.contains("not all as they were written last"), "{what}");
}

#[test]
fn a_file_that_is_cut_short_or_no_database_is_refused() {
    let dir = dir();
    let file = ledger(dir.path());
    let sound = std::fs::read(&file).unwrap();
    for (content, expected) in [
        (&sound[..sound.len() / 2], "malformed"),
        (&sound[..4096], ""),
        (
            &b"This is a letter to my aunt, and no database.".repeat(20),
            "not a database",
        ),
        (&sound[..100], "100 bytes are left"),
        (&b"x"[..], ""),
    ] {
        std::fs::write(&file, content).unwrap();
        let (what, copy) = refused(dir.path());
        assert!(what.contains(expected), "{what}");
        assert_eq!(std::fs::read(copy).unwrap(), content);
        assert_eq!(std::fs::read(&file).unwrap(), content);
    }
    std::fs::write(&file, sound).unwrap();
    assert_eq!(
        contents(dir.path()),
        models(COMMITS)[usize::try_from(COMMITS).unwrap()]
    );
}

#[test]
fn a_ledger_that_is_gone_or_empty_is_not_begun_anew_in_silence() {
    let dir = dir();
    let file = ledger(dir.path());
    for empty in [true, false] {
        match empty {
            true => std::fs::write(&file, "").unwrap(),
            false => std::fs::remove_file(&file).unwrap(),
        }
        let refused = Store::open(dir.path()).err().unwrap();
        assert!(
            matches!(
                &refused,
                Error::Damaged {
                    copy: Copy::Nothing,
                    ..
                }
            ),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("missing or empty"),
            "{refused}"
        );
    }
    assert!(!file.exists());
    // As the refusal says: without anything else in the directory it is a new one.
    std::fs::remove_file(dir.path().join("lock")).unwrap();
    assert!(contents(dir.path()).is_empty());
}

#[test]
fn somebody_elses_database_is_left_alone() {
    let dir = dir();
    let file = dir.path().join("ledger.sqlite");
    let db = raw(&file);
    db.execute_batch("CREATE TABLE aunts (name TEXT)").unwrap();
    drop(db);
    let (what, _) = refused(dir.path());
    assert!(what.contains("not tixd's"), "{what}");
}

#[test]
fn any_changed_byte_is_found_or_does_not_matter() {
    let dir = dir();
    let file = ledger(dir.path());
    let sound = std::fs::read(&file).unwrap();
    let expected = contents(dir.path());
    let mut random = Random(7);
    let mut found = 0;
    for _ in 0..800 {
        let mut bytes = sound.clone();
        let at = usize::try_from(random.below(sound.len() as u64)).unwrap();
        bytes[at] ^= u8::try_from(random.below(255) + 1).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        match open(dir.path(), Config::default()) {
            Ok((_, model)) => assert_eq!(model, expected, "byte {at}"),
            Err(Error::Damaged { copy, .. }) => {
                found += 1;
                let Copy::Kept(copy) = copy else {
                    panic!("byte {at}: {copy}");
                };
                assert_eq!(std::fs::read(&copy).unwrap(), bytes, "byte {at}");
                std::fs::remove_file(copy).unwrap();
            }
            // The byte that says which schema it is.
            Err(Error::Schema { .. }) => found += 1,
            Err(e) => panic!("byte {at}: {e}"),
        }
    }
    assert!(found > 50, "{found}");
}

#[test]
fn a_row_says_the_same_sum_as_when_this_schema_was_made() {
    // Sums are on people's disks: these numbers do not change without a new schema.
    let dir = dir();
    let (mut store, _) = open(dir.path(), Config::default()).unwrap();
    store
        .commit(
            &[],
            &[
                (Key::Currency(7), Some(currency("alice"))),
                (
                    Key::Binding("/a".into()),
                    Some(Row::Binding {
                        cid: 7,
                        by: 1,
                        withdrawn: Withdrawn::Nothing,
                    }),
                ),
                (
                    Key::Space(1000),
                    Some(Row::Space {
                        label: "alice".into(),
                    }),
                ),
            ],
        )
        .unwrap();
    drop(store);
    let db = raw(dir.path().join("ledger.sqlite"));
    let sum = |table: &str| -> i64 {
        db.query_row(&format!("SELECT sum FROM {table}"), [], |r| r.get(0))
            .unwrap()
    };
    assert_eq!(
        (sum("currency"), sum("binding"), sum("space")),
        (2109069738, -291497679, 1728730232)
    );
}
