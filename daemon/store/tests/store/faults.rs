// SPDX-License-Identifier: GPL-2.0-only
//! Every write, sync, truncation and deletion fails once, or from some time on for a while: a
//! commit is then refused, or done, but not half done, and the next one works when the disk does.

use crate::common::{Model, apply, dir, open};
use crate::vfs::{Disk, Fault};
use crate::work::{changes, commit, records};
use std::path::Path;
use tix_store::{Config, Error, Query, Store};

const COMMITS: u64 = 8;

fn config() -> Config {
    Config {
        checkpoint_pages: 8,
        ..Config::default()
    }
}

/// What came of a run.
struct Run {
    /// After every acknowledged commit.
    model: Model,
    logged: Vec<u64>,
    /// Refused since the last one that was acknowledged: one of them may be found done, whole,
    /// after a restart.
    doubtful: Vec<u64>,
    refused: Vec<Error>,
}

impl Run {
    /// After a restart: these rows are there.
    fn found(&mut self, rows: &Model) {
        for n in std::mem::take(&mut self.doubtful) {
            let mut with = self.model.clone();
            apply(&mut with, &changes(n));
            if *rows == with {
                self.model = with;
                self.logged.push(n);
                break;
            }
        }
        assert_eq!(*rows, self.model);
    }
}

/// Commits `COMMITS` times, closing the store once in between, on a disk that fails as it was told.
fn run(dir: &Path) -> Run {
    let mut out = Run {
        model: Model::new(),
        logged: Vec::new(),
        doubtful: Vec::new(),
        refused: Vec::new(),
    };
    let mut store: Option<Store> = None;
    for n in 1..=COMMITS {
        if n == COMMITS / 2 {
            store = None;
        }
        let mut has = match store.take() {
            Some(has) => has,
            None => match open(dir, config()) {
                Ok((has, model)) => {
                    out.found(&model);
                    has
                }
                Err(e) => {
                    out.refused.push(e);
                    continue;
                }
            },
        };
        match commit(&mut has, n) {
            Ok(()) => {
                apply(&mut out.model, &changes(n));
                out.logged.push(n);
                out.doubtful.clear();
            }
            Err(e) => {
                out.refused.push(e);
                out.doubtful.push(n);
            }
        }
        assert_eq!(crate::work::logged(&has), out.logged);
        store = Some(has);
    }
    out
}

/// After a run, on a disk that works: what was acknowledged is there, and nothing else; and it goes
/// on.
fn check(dir: &Path, mut run: Run, what: &str) {
    let (mut store, model) = open(dir, config()).unwrap_or_else(|e| panic!("{what}: {e}"));
    run.found(&model);
    assert_eq!(crate::work::logged(&store), run.logged, "{what}");
    commit(&mut store, COMMITS + 1).unwrap_or_else(|e| panic!("{what}: {e}"));
    apply(&mut run.model, &changes(COMMITS + 1));
    drop(store);
    let (_, model) = open(dir, config()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(model, run.model, "{what}");
}

/// Runs with every step failing in turn, `length` of them in a row.
fn each_fails(fault: Fault, length: u64) {
    let dir = dir();
    let mut refused = 0;
    let mut n = 0;
    loop {
        let at = dir.path().join(n.to_string());
        let disk = Disk::at(&at);
        disk.state().forget = true;
        disk.state().failing = Some((n..n + length, fault));
        let run = run(&at);
        let what = format!("{fault:?} in step {n} and the {} after it", length - 1);
        for e in &run.refused {
            let expected = match fault {
                Fault::Full => e.is_full(),
                _ => e.is_io(),
            };
            assert!(expected, "{what}: {e:?}");
            refused += 1;
        }
        let steps = disk.state().count;
        disk.state().failing = None;
        check(&at, run, &what);
        Disk::forget(&at);
        std::fs::remove_dir_all(&at).unwrap();
        n += 1;
        if n > steps {
            break;
        }
    }
    assert!(n > 100 && refused > 20, "{refused} refusals in {n} runs");
}

#[test]
fn no_room_once_at_any_step() {
    each_fails(Fault::Full, 1);
}

#[test]
fn no_room_for_a_while_from_any_step_on() {
    each_fails(Fault::Full, 25);
}

#[test]
fn a_short_write_at_any_step() {
    each_fails(Fault::Short, 1);
}

#[test]
fn an_error_with_nothing_done_at_any_step() {
    each_fails(Fault::Nothing, 1);
}

#[test]
fn an_error_with_all_of_it_done_at_any_step() {
    each_fails(Fault::All, 1);
}

#[test]
fn errors_for_a_while_from_any_step_on() {
    each_fails(Fault::Nothing, 25);
}

#[test]
fn a_full_disk_lets_the_ledger_be_opened_and_read_and_refuses_changes_until_there_is_room() {
    let dir = dir();
    let (mut store, _) = open(dir.path(), config()).unwrap();
    for n in 1..=5 {
        commit(&mut store, n).unwrap();
    }
    drop(store);
    let disk = Disk::at(dir.path());
    disk.state().failing = Some((0..u64::MAX, Fault::Full));
    let (mut store, before) = open(dir.path(), config()).unwrap();
    for _ in 0..3 {
        let refused = commit(&mut store, 6).unwrap_err();
        assert!(refused.is_full(), "{refused}");
        assert!(refused.to_string().contains("make room"), "{refused}");
        assert!(store.prune(u64::MAX).is_err_and(|e| e.is_full()));
        assert!(store.set_usage(&[(1, 1)]).is_err_and(|e| e.is_full()));
    }
    assert_eq!(store.log(&Query::default()).unwrap().records.len(), 5);
    drop(store);
    let (mut store, after) = open(dir.path(), config()).unwrap();
    assert_eq!(before, after);
    disk.state().failing = None;
    store.commit(&records(6), &changes(6)).unwrap();
    drop(store);
    let (_, model) = open(dir.path(), config()).unwrap();
    assert_eq!(model, crate::work::models(6)[6]);
}
