// SPDX-License-Identifier: GPL-2.0-only
//! What the store knows of marks: it is told before a file is written.
//!
//! The writer has the store. It is asked to record something ([`super::Requests`]), and says what
//! came of it ([`Reconcile::recorded`]); the files are written then.

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
        let marks = &mut *self.marks;
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
        let marks = &mut *self.marks;
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
            Next::Write(_) => self.ends_writing_files(),
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

#[cfg(test)]
mod tests {
    use super::super::systemd_values::SystemdValues;
    use super::super::{Marks, Reconcile};
    use super::Recording;
    use crate::reconcile::disk::Disk;
    use std::path::{Path, PathBuf};
    use tix_cgroupfs::Root;
    use tix_ledger::{Caller, Cgroup, Hard, Ledger, Op, Resource};
    use tix_model::File;
    use tix_store::{Error, Store};

    const BYTES: u64 = 8 << 20;

    /// A cgroup that is guaranteed memory, and whose file says that it has no guarantee.
    struct Machine {
        dir: tempfile::TempDir,
        root: Root,
        ledger: Ledger,
        disk: Disk,
        marks: Marks,
    }

    impl Machine {
        fn new() -> Machine {
            let dir = tempfile::tempdir().unwrap();
            let cgroup = dir.path().join("a");
            std::fs::create_dir(&cgroup).unwrap();
            for file in ["memory.min", "memory.low"] {
                std::fs::write(cgroup.join(file), "0\n").unwrap();
            }
            let mut ledger = Ledger::new(1, 1 << 30);
            ledger.cgroup_here(&Cgroup {
                path: "/a",
                id: 7,
                weight: 100,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
            let op = Op::Reserve {
                holder: "/a".into(),
                issuer: "base".into(),
                resource: Resource::Memory,
                amount: Hard::Bytes(BYTES),
            };
            ledger.apply(&op, &Caller::ROOT).unwrap();
            Machine {
                root: Root::open_any(dir.path()).unwrap(),
                disk: Disk::new(dir.path()),
                dir,
                ledger,
                marks: Marks::default(),
            }
        }

        fn files(&mut self) -> Reconcile<'_> {
            Reconcile {
                marks: &mut self.marks,
                ledger: &self.ledger,
                root: &self.root,
                disk: &self.disk,
                observes: false,
                by_weight: false,
                recursive: true,
                complete: true,
            }
        }

        fn recording(&mut self) -> Recording {
            let mut all = self.marks.take_requests().record;
            assert_eq!(all.len(), 1);
            all.remove(0)
        }

        /// Writes what is recorded, and returns what the file says.
        fn written(&mut self) -> u64 {
            while self.marks.has_to_write() {
                self.files().write_some_files();
            }
            let path: PathBuf = self.dir.path().join("a/memory.min");
            let text = std::fs::read_to_string(path).unwrap();
            text.trim().parse().unwrap()
        }
    }

    fn full() -> Error {
        Error::Full {
            path: Path::new("/state").to_owned(),
            source: "no space".into(),
        }
    }

    #[test]
    fn a_file_is_written_once_its_number_is_recorded() {
        let mut machine = Machine::new();
        machine.files().write_all_files();
        assert_eq!(machine.written(), 0);
        let recording = machine.recording();
        assert!(!machine.files().recorded(recording, Ok(())));
        assert_eq!(machine.written(), BYTES);
        assert_eq!(machine.marks.take_files(), 1);
    }

    #[test]
    fn what_cannot_be_recorded_is_written_when_it_can_be() {
        let mut machine = Machine::new();
        machine.files().write_all_files();
        let recording = machine.recording();
        assert!(!machine.files().recorded(recording, Err(full())));
        assert_eq!(machine.written(), 0);
        let why: Vec<&str> = machine.marks.not_written().collect();
        assert!(why.len() == 1 && why[0].contains("no space"), "{why:?}");
        // A second later it is recorded, another one later it is wanted again.
        machine.files().retry_writes();
        let recording = machine.recording();
        machine.files().recorded(recording, Ok(()));
        machine.files().retry_writes();
        assert!(machine.marks.take_requests().record.is_empty());
        assert!(machine.marks.take_look_again());
        assert_eq!(machine.marks.not_written().count(), 0);
        machine.files().write_all_files();
        let recording = machine.recording();
        machine.files().recorded(recording, Ok(()));
        assert_eq!(machine.written(), BYTES);
    }

    /// systemd may set the number when the unit comes back, so its record is deleted with the
    /// cgroup, also where the number itself is being recorded.
    #[test]
    fn no_number_stands_in_a_file_whose_record_is_deleted() {
        let state = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(state.path()).unwrap();
        let mut machine = Machine::new();
        let min = (File::MemoryMin, "/a".to_owned());
        machine.marks.told = SystemdValues::new(vec![(min.clone(), vec![BYTES])]);
        std::fs::write(machine.dir.path().join("a/memory.min"), "0\n").unwrap();
        machine.files().write_all_files();
        let first = machine.recording();
        machine.files().forget_all("/a");
        machine.files().save_gone();
        let second = machine.recording();
        for recording in [first, second] {
            let kept = recording.put(&mut store);
            machine.files().recorded(recording, kept);
        }
        let recorded = |store: &Store| {
            let mut all = store.marks().unwrap().into_iter();
            all.find(|(mark, _)| *mark == min).map(|(_, w)| w.number)
        };
        let says = machine.written();
        assert_eq!((says, recorded(&store)), (0, None));
        // It is wanted still, and recorded first once more.
        assert!(machine.marks.take_look_again());
        machine.files().write_all_files();
        for recording in machine.marks.take_requests().record {
            let kept = recording.put(&mut store);
            machine.files().recorded(recording, kept);
        }
        assert_eq!((machine.written(), recorded(&store)), (BYTES, Some(BYTES)));
    }
}
