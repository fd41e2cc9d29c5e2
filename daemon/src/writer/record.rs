// SPDX-License-Identifier: GPL-2.0-only
//! What the store knows of `marks`: it is told before a file is written.

use super::Core;
use tix_model::Numbers;
use tix_model::{Mark, Written};

impl Core {
    /// Puts into the store what has been done, or is no number of tixd's any more; later, if that
    /// is not possible now.
    pub(super) fn save_marks(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
    ) {
        self.record(changed, told, |core, recorded, marks| {
            if !recorded {
                core.marks.unsaved.extend(marks);
            }
        });
    }

    /// Puts into the store what is about to be done, in one commit, and what of before is not there
    /// yet; `then` is told whether it is there, and of which marks. If not none of it may be done:
    /// the next tixd would take for somebody's funding what it does not know to be tixd's.
    pub(super) fn record(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
        then: impl FnOnce(&mut Core, bool, Vec<Mark>) + Send + 'static,
    ) {
        // Who observes does not know better than who writes.
        let marks = &mut self.marks;
        let gone = std::mem::take(&mut marks.gone);
        if self.observes() {
            return then(self, true, vec![]);
        }
        let marks = &mut self.marks;
        marks.unsaved.extend(gone);
        if changed.is_empty() && told.is_empty() && marks.unsaved.is_empty() {
            if !self.storing.is_writing() {
                return then(self, true, vec![]);
            }
            // What is being recorded may turn out not to be.
            let known = |core: &mut Core, ()| {
                let recorded = core.marks.unsaved.is_empty();
                then(core, recorded, vec![]);
            };
            return self.with_store(|_| (), known);
        }
        let (unsaved, done) = (
            std::mem::take(&mut marks.unsaved),
            std::mem::take(&mut marks.done),
        );
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
        self.with_store(
            move |store| store.set_marks(&changed, &told),
            move |core, kept| {
                if let Err(e) = &kept {
                    let why = format!(
                        "what tixd writes to cgroups' files is recorded first, and that cannot be, \
                         so it is not written: {e}"
                    );
                    tracing::error!("{why}; that is tried again each second");
                    core.marks.unrecorded = Some(why);
                    core.marks.unsaved.extend(unsaved);
                    core.marks.done.extend(done);
                }
                let recorded = kept.is_ok() && core.marks.unsaved.is_empty();
                then(core, recorded, asked);
            },
        );
    }

    /// Once a second: what could not be recorded before, and what was not done for that reason.
    pub(super) fn record_again(&mut self) {
        if self.marks.unrecorded.is_none() || self.storing.is_writing() {
            return;
        }
        self.record(&[], &[], |core, recorded, _| {
            if !recorded {
                return;
            }
            for (file, path) in std::mem::take(&mut core.marks.untold) {
                if let Some(last) = core.marks.told.newest(file, &path) {
                    core.tell_systemd_of(file, &path, last);
                }
            }
            core.marks.unrecorded = None;
            core.overhaul.due = true;
            core.overhaul_if_time();
        });
    }

    /// At the end: what the next tixd need not look for.
    pub(super) fn record_done(&mut self) {
        let marks = &self.marks;
        let done = marks.done.iter();
        let done: Vec<_> = done.map(|m| (m.clone(), marks.get(m.0, &m.1))).collect();
        self.save_marks(&done, &[]);
    }
}
