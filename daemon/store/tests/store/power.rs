// SPDX-License-Identifier: GPL-2.0-only
//! The power is cut: at every moment, with any of what was not synced on the disk and the rest not.
//!
//! What is assumed of the disk: what was synced is there; of what was written since, any sectors
//! are there, in any order; and a sector that is being written is as it was or as it will be, but
//! does not take its neighbours with it (as SQLite assumes, too).

use crate::common::{Model, dir, open};
use crate::upgrade;
use crate::vfs::{Disk, Step};
use crate::work::{Random, commit, last, logged, models};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tix_store::{Config, Query};

const SECTOR: usize = 512;

type Files = BTreeMap<String, Vec<u8>>;

/// What is on the disk for certain, and what may be.
#[derive(Default)]
struct Cut {
    files: Files,
    pending: Vec<Step>,
    /// Made and not synced yet: SQLite syncs the directory with them.
    fresh: BTreeSet<String>,
    acknowledged: u64,
}

fn name(step: &Step) -> &str {
    match step {
        Step::Write { file, .. }
        | Step::Truncate { file, .. }
        | Step::Sync { file }
        | Step::Delete { file, .. } => file,
        Step::Acknowledged(_) => "",
    }
}

fn is_delete(step: &Step, wanted: &str) -> bool {
    matches!(step, Step::Delete { file, .. } if file == wanted)
}

fn perform(files: &mut Files, step: &Step) {
    match step {
        Step::Write { file, at, data } => {
            let file = files.entry(file.clone()).or_default();
            let end = at + data.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*at..end].copy_from_slice(data);
        }
        Step::Truncate { file, size } => files.entry(file.clone()).or_default().resize(*size, 0),
        Step::Delete { file, .. } => {
            files.remove(file);
        }
        Step::Sync { .. } | Step::Acknowledged(_) => {}
    }
}

impl Cut {
    fn step(&mut self, step: Step) {
        match step {
            Step::Acknowledged(n) => self.acknowledged = n,
            Step::Sync { file } => {
                if self.fresh.remove(&file) && file != "ledger.sqlite" {
                    self.settle_directory();
                }
                self.settle(|s| name(s) == file);
            }
            Step::Delete { durable, .. } => {
                self.pending.push(step);
                if durable {
                    self.settle_directory();
                }
            }
            step => {
                let latest = self.pending.iter().rfind(|s| name(s) == name(&step));
                let made = match latest {
                    Some(before) => is_delete(before, name(&step)),
                    None => !self.files.contains_key(name(&step)),
                };
                if made {
                    self.fresh.insert(name(&step).to_owned());
                }
                self.pending.push(step);
            }
        }
    }

    /// What came to the directory and went from it.
    fn settle_directory(&mut self) {
        let gone: Vec<String> = self
            .pending
            .iter()
            .filter(|s| matches!(s, Step::Delete { .. }))
            .map(|s| name(s).to_owned())
            .collect();
        for gone in gone {
            // What was written before it went; what was written to its successor is not durable by
            // this.
            let last = self.pending.iter().rposition(|s| is_delete(s, &gone));
            let rest = self.pending.split_off(last.map_or(0, |n| n + 1));
            self.settle(|s| name(s) == gone);
            self.pending.extend(rest);
        }
    }

    fn settle(&mut self, which: impl Fn(&Step) -> bool) {
        let (done, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|s| which(s));
        self.pending = rest;
        for step in &done {
            perform(&mut self.files, step);
        }
    }

    /// One of the states it may be found in: of every pending sector, whether it is there is up to
    /// `there`.
    fn found(&self, mut there: impl FnMut() -> bool) -> Files {
        let mut files = self.files.clone();
        // A file that was to be deleted and was not hides the one that took its place.
        let mut hidden: Vec<&str> = Vec::new();
        for step in &self.pending {
            if hidden.contains(&name(step)) {
                continue;
            }
            match step {
                Step::Write { file, at, data } => {
                    let mut from = 0;
                    while from < data.len() {
                        let sector_end = ((at + from) / SECTOR + 1) * SECTOR - at;
                        let to = sector_end.min(data.len());
                        if there() {
                            let part = Step::Write {
                                file: file.clone(),
                                at: at + from,
                                data: data[from..to].to_owned(),
                            };
                            perform(&mut files, &part);
                        }
                        from = to;
                    }
                }
                Step::Delete { file, .. } if !there() => hidden.push(file),
                Step::Truncate { .. } if !there() => {}
                step => perform(&mut files, step),
            }
        }
        files
    }
}

fn materialise(dir: &Path, files: &Files) {
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, content) in files {
        std::fs::write(dir.join(name), content).unwrap();
    }
}

/// Opens what the power cut left, compares, and goes on from there if `go_on`.
fn check(dir: &Path, files: &Files, acknowledged: u64, models: &[Model], what: &str, go_on: bool) {
    materialise(dir, files);
    let (mut store, model) = open(dir, Config::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let n = last(&model);
    // What is under way may be there, whole, since it may have been durable before it could be
    // acknowledged.
    assert!(
        n == acknowledged || n == acknowledged + 1,
        "{what}: {n} commits are there, {acknowledged} were acknowledged"
    );
    assert_eq!(model, models[usize::try_from(n).unwrap()], "{what}");
    assert_eq!(logged(&store), (1..=n).collect::<Vec<_>>(), "{what}");
    if go_on {
        commit(&mut store, n + 1).unwrap_or_else(|e| panic!("{what}: {e}"));
        drop(store);
        let (_, model) = open(dir, Config::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(model, models[usize::try_from(n + 1).unwrap()], "{what}");
    }
}

#[test]
fn whatever_a_power_cut_leaves_every_acknowledged_commit_is_there_and_none_is_half_there() {
    const COMMITS: u64 = 40;
    let (recorded, restored) = (dir(), dir());
    let disk = Disk::at(recorded.path());
    // Small, so that the WAL begins anew often.
    let config = Config {
        checkpoint_pages: 12,
        ..Config::default()
    };
    let (mut store, _) = open(recorded.path(), config.clone()).unwrap();
    for n in 1..=COMMITS {
        if n % 15 == 0 {
            drop(store);
            store = open(recorded.path(), config.clone()).unwrap().0;
        }
        commit(&mut store, n).unwrap();
        disk.state().steps.push(Step::Acknowledged(n));
        if n % 7 == 0 {
            // What is no commit of the ledger takes part in it as well.
            store.set_usage(&[(n, n)]).unwrap();
            assert_eq!(store.prune(0).unwrap(), 0);
        }
    }
    drop(store);
    let steps = std::mem::take(&mut disk.state().steps);
    let models = models(COMMITS + 1);
    let mut cut = Cut::default();
    let mut states = 0;
    for (k, step) in steps.iter().enumerate() {
        cut.step(step.clone());
        let mut random = Random(k as u64);
        let mut test = |how: &str, files: Files| {
            let what = format!("after step {k} of {}, {how}", steps.len());
            let go_on = k % 10 == 0;
            check(
                restored.path(),
                &files,
                cut.acknowledged,
                &models,
                &what,
                go_on,
            );
            states += 1;
        };
        test("all that was written is there", cut.found(|| true));
        if !cut.pending.is_empty() {
            test("only what was synced is there", cut.found(|| false));
            test("half is there", cut.found(|| random.below(2) == 0));
            test("most is there", cut.found(|| random.below(8) > 0));
        }
    }
    assert!(
        steps.len() > 500 && states > 1_500,
        "{states} states after {} steps",
        steps.len()
    );
}

#[test]
fn an_upgrade_whose_power_is_cut_is_done_by_the_next_start() {
    let (recorded, restored) = (dir(), dir());
    drop(upgrade::old(recorded.path(), 2, &upgrade::OPS));
    let expected = upgrade::reduced(&upgrade::OPS);
    let before = std::fs::read(recorded.path().join("ledger.sqlite")).unwrap();
    let disk = Disk::at(recorded.path());
    assert_eq!(
        open(recorded.path(), Config::default()).unwrap().1,
        expected
    );
    let steps = std::mem::take(&mut disk.state().steps);
    let mut cut = Cut::default();
    cut.files.insert("ledger.sqlite".to_owned(), before);
    let mut states = 0;
    for (k, step) in steps.into_iter().enumerate() {
        cut.step(step);
        let mut random = Random(k as u64);
        for part in 0..5 {
            let files = cut.found(|| random.below(4) < part);
            materialise(restored.path(), &files);
            let (store, model) = open(restored.path(), Config::default())
                .unwrap_or_else(|e| panic!("after step {k}, {part}: {e}"));
            assert_eq!(model, expected, "after step {k}, {part}");
            let log = store.log(&Query::default()).unwrap();
            assert_eq!(log.records.len(), upgrade::OPS.len());
            states += 1;
        }
    }
    assert!(states > 100, "{states}");
}
