// SPDX-License-Identifier: GPL-2.0-only
//! What the store knows of marks: it is told before a file is written.
//!
//! The writer has the store. It is asked to record something ([`super::Requests`]), and says what came
//! of it ([`Reconcile::recorded`]); the files are written then.

use super::{Reconcile, Todo};
use std::collections::BTreeSet;
use tix_model::{Mark, Numbers, Written};
use tix_store::{Error, Store};

/// What follows once something is recorded, or cannot be.
#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    /// Files are written, if their numbers are recorded.
    Write(Vec<Todo>),
    /// Files are written in any case, and systemd is told of what is recorded.
    Put(Vec<(Mark, u64)>),
    /// What could not be recorded before is done.
    CatchUp,
}

/// What is to be put into the store in one commit.
#[derive(Debug)]
pub struct Recording {
    changed: Vec<(Mark, Option<Written>)>,
    told: Vec<(Mark, Numbers)>,
    /// Of before, and among these.
    unsaved: BTreeSet<Mark>,
    done: BTreeSet<Mark>,
    asked: Vec<Mark>,
    next: Next,
}

impl Recording {
    /// # Errors
    /// When the store cannot be written.
    pub fn put(&self, store: &mut Store) -> Result<(), Error> {
        match self.changed.is_empty() && self.told.is_empty() {
            true => Ok(()),
            false => store.set_marks(&self.changed, &self.told),
        }
    }
}

impl Reconcile<'_> {
    /// Has the store told of what has been done, or is no number of tixd's any more; later, if that
    /// is not possible now.
    pub fn save_marks(&mut self, changed: &[(Mark, Option<Written>)], told: &[(Mark, Numbers)]) {
        self.record(changed, told, Next::Nothing);
    }

    /// Has the store told of what is about to be done, in one commit, and of what of before is not
    /// there yet; then comes `next`. What cannot be recorded may not be done: the next tixd would
    /// take for somebody's funding what it does not know to be tixd's.
    pub(super) fn record(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
        next: Next,
    ) {
        let marks = &mut self.marks;
        let gone = std::mem::take(&mut marks.gone);
        // Who observes does not know better than who writes.
        if self.observes {
            return self.go_on(next, true, vec![]);
        }
        marks.unsaved.extend(gone);
        let nothing = changed.is_empty() && told.is_empty() && marks.unsaved.is_empty();
        if nothing && marks.recordings == 0 {
            return self.go_on(next, true, vec![]);
        }
        // What is being recorded may turn out not to be: also nothing waits for it.
        let (unsaved, done) = match nothing {
            true => Default::default(),
            false => (
                std::mem::take(&mut marks.unsaved),
                std::mem::take(&mut marks.done),
            ),
        };
        let late = unsaved.iter().chain(&done);
        let late = late.map(|m| (m.clone(), marks.get(m.0, &m.1)));
        let asked: Vec<Mark> = (changed.iter().map(|(m, _)| m))
            .chain(told.iter().map(|(m, _)| m))
            .cloned()
            .collect();
        // Of two the later one counts.
        let changed: Vec<_> = late.chain(changed.iter().cloned()).collect();
        let late = unsaved.iter().map(|m| marks.told.kept(m));
        let told: Vec<_> = late.chain(told.iter().cloned()).collect();
        marks.recordings += 1;
        marks.requests.record.push(Recording {
            changed,
            told,
            unsaved,
            done,
            asked,
            next,
        });
    }

    /// It is in the store, or cannot be put there. True: it can again, after it could not.
    pub fn recorded(&mut self, recording: Recording, kept: Result<(), Error>) -> bool {
        let marks = &mut self.marks;
        marks.recordings -= 1;
        if let Err(e) = &kept {
            let why = format!(
                "what tixd writes to cgroups' files is recorded first, and that cannot be, so it \
                 is not written: {e}"
            );
            tracing::error!("{why}; that is tried again each second");
            marks.unrecorded = Some(why);
            marks.unsaved.extend(recording.unsaved);
            marks.done.extend(recording.done);
        }
        let recorded = kept.is_ok() && marks.unsaved.is_empty();
        let again = recorded && matches!(recording.next, Next::CatchUp);
        self.go_on(recording.next, recorded, recording.asked);
        again
    }

    /// `asked`: what was to be recorded for it.
    fn go_on(&mut self, next: Next, recorded: bool, asked: Vec<Mark>) {
        if !recorded {
            self.marks.unsaved.extend(asked);
        }
        match next {
            Next::Nothing => {}
            Next::Write(todo) if recorded => self.marks.to_write.extend(todo),
            Next::Write(_) => self.marks.is_writing_files = false,
            Next::Put(all) => self.write_all(all, recorded),
            Next::CatchUp if recorded => self.catch_up(),
            Next::CatchUp => {}
        }
    }

    /// Once a second: what could not be recorded before, and what was not done for that reason.
    pub(super) fn record_again(&mut self) {
        if self.marks.unrecorded.is_some() && self.marks.recordings == 0 {
            self.record(&[], &[], Next::CatchUp);
        }
    }

    fn catch_up(&mut self) {
        for (file, path) in std::mem::take(&mut self.marks.untold) {
            if let Some(last) = self.marks.told.newest(file, &path) {
                self.tell_systemd_of(file, &path, last);
            }
        }
        self.marks.unrecorded = None;
        self.marks.look_again = true;
    }

    /// At the end: what the next tixd need not look for.
    pub fn record_done(&mut self) {
        let marks = &self.marks;
        let done = marks.done.iter();
        let done: Vec<_> = done.map(|m| (m.clone(), marks.get(m.0, &m.1))).collect();
        self.save_marks(&done, &[]);
    }
}
