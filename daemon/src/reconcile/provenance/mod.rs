// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that tixd writes into files of cgroups, for what the kernel holds by itself:
//! `cpu.weight` while tix's scheduler is not in force, `io.weight`, `memory.min` and `memory.low`.
//!
//! A weight is somebody's funding (model.md §4) unless tixd wrote it. So what tixd writes is
//! remembered with the funding that it covers, durably: the next tixd must not take it for
//! anybody's tickets. Whatever else is read was written by others and is funding. A guarantee is
//! nobody's funding: what others write instead of it is corrected.

mod foreign;
mod giveback;
mod record;
mod systemd_values;
mod write;

use super::disk::Disk;
use super::number::{self, lasts};
use foreign::Corrected;
pub use giveback::{GivenBack, give_back};
pub use record::Recording;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeBounds;
use std::time::Instant;
use systemd_values::SystemdValues;
use tix_cgroupfs::Root;
use tix_ledger::Ledger;
use tix_model::{DEFAULT_CGROUP_WEIGHT, File, Mark, Numbers, Written};
use tix_store::{self as store, Store};
use tix_systemd::PropertySync;

/// A number that is recorded.
#[derive(Debug)]
pub(super) enum Todo {
    Write(Fresh),
    /// What is tixd's business no more, and what is to stand there then.
    GiveBack(Mark, u64, Written),
}

/// A number that is to be recorded and then written, and what was known of the file before.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) mark: Mark,
    pub(super) had: Option<Written>,
    pub(super) now: Written,
}

/// What is known of the numbers in files, and what is to be done with it.
#[derive(Debug, Default)]
pub struct Marks {
    written: BTreeMap<Mark, Written>,
    told: SystemdValues,
    /// Tells systemd what is set where systemd owns the cgroup.
    systemd: Option<PropertySync>,
    /// What systemd would not have, by cgroup.
    pub unsettled: BTreeMap<String, String>,
    /// Entries of `written` and `told` that could not be stored: tried again.
    unsaved: BTreeSet<Mark>,
    /// Written: the number that stood there before can be deleted from the store.
    done: BTreeSet<Mark>,
    /// What systemd is to be told once that is in the store.
    untold: BTreeSet<Mark>,
    /// Why numbers are not written: they could not be recorded.
    unrecorded: Option<String>,
    /// Numbers are being recorded, to be written then, or are being written.
    is_writing_files: bool,
    /// Forgotten meanwhile with their cgroup: the store deletes them, whatever is being recorded.
    dropped: BTreeSet<Mark>,
    /// Recorded, and to be written.
    to_write: VecDeque<Todo>,
    /// Their cgroup is gone, and they are to be deleted from the store.
    gone: BTreeSet<Mark>,
    /// What could not be brought about, and why.
    failed: BTreeMap<Mark, String>,
    /// Guarantees that others wrote over.
    corrected: BTreeMap<Mark, Corrected>,
    /// The last ones that were looked at, and tried again.
    looked: Option<Mark>,
    tried: Option<Mark>,
    /// When what systemd was told was last checked.
    swept: Option<Instant>,
    /// Files that have been written since that was asked last.
    files: u64,
    /// Handed out to be recorded, and not answered yet.
    recordings: usize,
    requests: Requests,
    /// Other numbers than before may be wanted.
    look_again: bool,
}

/// What the writer is to do for the marks, after any call.
#[derive(Debug, Default)]
pub struct Requests {
    /// To be put into the store, in this order.
    pub record: Vec<Recording>,
    /// The cgroup of a guarantee that was written over, and what happened.
    pub corrected: Vec<(String, String)>,
}

impl Marks {
    /// Also what systemd has forgotten, which the store is to be told ([`Reconcile::save_marks`]).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(
        store: &Store,
        systemd: Option<PropertySync>,
    ) -> Result<(Marks, Vec<(Mark, Numbers)>), store::Error> {
        let (told, forgotten) = systemd_values::read(store)?;
        let marks = Marks {
            written: store.marks()?.into_iter().collect(),
            told,
            systemd,
            ..Marks::default()
        };
        Ok((marks, forgotten))
    }

    fn get(&self, file: File, path: &str) -> Option<Written> {
        self.written.get(&(file, path.to_owned())).copied()
    }

    fn of(&self, file: File) -> impl Iterator<Item = (&String, &Written)> {
        self.written
            .range(all_of(file))
            .map(|((_, path), w)| (path, w))
    }

    /// What the writer is to do now.
    pub fn take_requests(&mut self) -> Requests {
        std::mem::take(&mut self.requests)
    }

    /// Other numbers than before may be wanted.
    pub fn take_look_again(&mut self) -> bool {
        std::mem::take(&mut self.look_again)
    }

    /// Are there numbers that are recorded and not written yet?
    pub fn has_to_write(&self) -> bool {
        !self.to_write.is_empty()
    }

    /// How many files were written since that was asked last.
    pub fn take_files(&mut self) -> u64 {
        std::mem::take(&mut self.files)
    }

    /// What could not be written, and why.
    pub fn not_written(&self) -> impl Iterator<Item = &str> {
        let failed = self.failed.values();
        failed.chain(&self.unrecorded).map(String::as_str)
    }

    /// Why `file` of the cgroup `path` is not as it should be, if it is not.
    pub fn why_not_written(&self, file: File, path: &str) -> Option<&str> {
        let failed = self.failed.get(&(file, path.to_owned()));
        failed.map(String::as_str)
    }

    /// Is any cgroup guaranteed memory?
    pub fn guarantees_memory(&self) -> bool {
        let mut all = [File::MemoryMin, File::MemoryLow].into_iter();
        all.any(|f| self.of(f).next().is_some())
    }

    /// What of the cgroup `path` tixd has set.
    pub fn set_by_tix(&self, file: File, path: &str) -> Option<Written> {
        self.get(file, path)
    }
}

/// The marks beside what they follow from: the files of cgroups are reconciled with the ledger.
pub struct Reconcile<'a> {
    pub marks: &'a mut Marks,
    pub ledger: &'a Ledger,
    pub root: &'a Root,
    pub disk: &'a Disk,
    /// Nothing is written.
    pub observes: bool,
    /// `cpu.weight` has to do, as tix's scheduler is not in force.
    pub by_weight: bool,
    /// The tree is mounted with `memory_recursiveprot`.
    pub recursive: bool,
    /// The whole tree is known.
    pub complete: bool,
}

fn all_of(file: File) -> impl RangeBounds<Mark> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let first = Included((file, String::new()));
    let after = File::ALL.into_iter().find(|f| *f > file);
    let last = after.map_or(Unbounded, |f| Excluded((f, String::new())));
    (first, last)
}

impl Reconcile<'_> {
    /// The funding that a weight read from `file` of the cgroup `path` stands for. `fresh`: the
    /// cgroup was not known before.
    pub fn funding_of(&mut self, file: File, path: &str, read: u64, fresh: bool) -> u64 {
        let written = self.marks.get(file, path);
        if written.is_none() {
            match self.funding(file, path) {
                Some(known) if known == read => return read,
                None if !self.is_systemd_value(file, path, read) => return read,
                _ => {}
            }
        }
        // tixd may have written another since it was read.
        let now = number::read(file, self.root, path).unwrap_or(read);
        let Some(w) = written else {
            return self.given_back_to(file, path, now);
        };
        if self.shown(file, w.number) == now {
            self.stands(file, path);
            return w.funding;
        }
        let ours = self.is_before(file, &w, now) || self.is_systemd_value(file, path, now);
        if now != w.funding && ours {
            self.try_to_put(file, path, w.number);
            return w.funding;
        }
        self.forget(file, path);
        self.marks.look_again = true;
        // systemd sets what it was told a moment after it has made the cgroup.
        if fresh && self.complete && now == DEFAULT_CGROUP_WEIGHT {
            return w.funding;
        }
        if now != w.funding {
            tracing::info!(
                "somebody set {} of {path} to {now}: that is its funding now",
                file.name()
            );
        }
        now
    }

    /// Is `now` what stood in `file` before the number of `w`, which was not written then?
    pub(super) fn is_before(&self, file: File, w: &Written, now: u64) -> bool {
        w.before.is_some_and(|n| self.shown(file, n) == now)
    }

    /// The number is there: what others set from now on is theirs, be it the one before.
    pub(super) fn stands(&mut self, file: File, path: &str) {
        let mark = (file, path.to_owned());
        let written = self.marks.written.get_mut(&mark);
        if written.and_then(|w| w.before.take()).is_some() {
            self.marks.done.insert(mark);
        }
    }

    /// What `file` says when `number` has been written.
    pub(super) fn shown(&self, file: File, number: u64) -> u64 {
        match file {
            File::IoWeight => self.disk.shown(number),
            _ => number,
        }
    }

    /// The funding where `now` is read of a file that tixd has nothing to do with any more: systemd
    /// may set a moment late what it was told.
    fn given_back_to(&mut self, file: File, path: &str, now: u64) -> u64 {
        let last = self.marks.told.last(file, path);
        let Some(last) = last.filter(|_| self.is_systemd_value(file, path, now)) else {
            return now;
        };
        if self.shown(file, last) != now {
            tracing::info!(
                "{} of {path} is {now}, as systemd was told before, and {last} again",
                file.name()
            );
            self.try_to_put(file, path, last);
        }
        last
    }

    /// The cgroup is gone. What systemd sets again when the unit comes back is no funding then,
    /// either.
    pub fn forget_all(&mut self, path: &str) {
        for file in File::ALL {
            let mark = (file, path.to_owned());
            self.marks.failed.remove(&mark);
            self.marks.corrected.remove(&mark);
            if lasts(file, path) {
                continue;
            }
            if self.marks.written.remove(&mark).is_some() {
                self.marks.gone.insert(mark.clone());
            }
            if self.marks.told.forget(&mark) {
                self.marks.gone.insert(mark.clone());
            }
            if self.marks.is_writing_files {
                self.marks.dropped.insert(mark);
            }
        }
        self.marks.unsettled.remove(path);
    }

    /// What was forgotten with cgroups that went, in one commit for all of them.
    pub fn save_gone(&mut self) {
        self.save_marks(&[], &[]);
    }

    /// The cgroup is another than the one whose files were written.
    pub fn put_marked(&mut self, path: &str) {
        for file in File::ALL {
            if let Some(w) = self.marks.get(file, path) {
                self.try_to_put(file, path, w.number);
            }
        }
    }

    /// The number of the cgroup that is known at `path`.
    pub fn mirror_id(&self, path: &str) -> Option<u64> {
        let c = self.ledger.get(self.ledger.find(path)?)?;
        c.mirror.as_ref().map(|m| m.id)
    }

    fn forget(&mut self, file: File, path: &str) {
        let mark = (file, path.to_owned());
        if self.marks.written.remove(&mark).is_some() {
            self.save_marks(&[(mark, None)], &[]);
        }
    }

    pub(super) fn funding(&self, file: File, path: &str) -> Option<u64> {
        let cid = self.ledger.find(path)?;
        let m = self.ledger.get(cid)?.mirror.as_ref()?;
        match file {
            File::CpuWeight => Some(m.weight),
            File::IoWeight => Some(m.disk),
            File::MemoryMin | File::MemoryLow => match self.marks.get(file, path) {
                Some(w) => Some(w.funding),
                // Unreadable: it is tried, and said when it is not possible.
                None => {
                    let read = number::read(file, self.root, path).unwrap_or(0);
                    Some(self.marks.told.before(file, path, read))
                }
            },
        }
    }

    pub(super) fn try_to_put(&mut self, file: File, path: &str, number: u64) {
        if self.observes {
            return;
        }
        let mark = (file, path.to_owned());
        self.marks.files += 1;
        match number::put(file, self.root, path, number) {
            Ok(()) => {
                self.marks.failed.remove(&mark);
                if self
                    .marks
                    .get(file, path)
                    .is_some_and(|w| w.number == number)
                {
                    self.stands(file, path);
                }
            }
            Err(_) if self.root.cgroup(path).is_err_and(|e| e.is_gone()) => {
                self.marks.failed.remove(&mark);
            }
            Err(e) => {
                let what = e.to_string();
                if self.marks.failed.get(&mark) != Some(&what) {
                    tracing::warn!("{what}");
                    self.marks.failed.insert(mark, what);
                }
            }
        }
    }
}
