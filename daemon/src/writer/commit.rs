// SPDX-License-Identifier: GPL-2.0-only
//! Operations, from the asker to the disk: applied one by one, kept in groups, and acknowledged
//! only when they would survive a power cut.
//!
//! While operations keep coming each is applied to the ledger at once and waits; then all of them
//! are kept with one `fsync`, brought to the kernel and acknowledged. If they cannot be kept (the
//! disk is full) the ledger goes back to what it was, everybody is told, and what is in force stays
//! in force.
//!
//! The store is written by another thread, one job after the other. While a group is being kept
//! nothing else changes the ledger's rows: operations and changes of the tree wait. Whoever looks
//! is answered, and may see what is being kept; nobody is told that it is done, and the kernel is
//! not, before it is.

use super::beside::Rank;
use super::event::EventKind;
use super::tell::Undo;
use super::{Core, Failure, now_usec, tell, warned};
use crate::directory::Directory;
use tix_ledger::{Caller, Change, Event, Op, TIXD};
use tix_model::LIFELINE;
use tix_store::{Error, Record, Store};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations that wait to be kept, at most.
pub(super) const GROUP: usize = 256;

/// So many of the latest that were taken back are known beside the log, which tells of them later.
const UNDONE: usize = 1024;

/// Told what was done, once that is kept.
type Ack = Box<dyn FnOnce(&mut Core, Result<&[Event], Failure>) + Send>;

/// Applied, and not kept yet.
pub(super) struct Pending {
    events: Vec<Event>,
    uid: u32,
    ack: Ack,
}

/// What is not stored while the ledger cannot be written: what the tree did, and tixd of itself. It
/// is tried again each second.
#[derive(Debug, Default)]
pub struct Unstored {
    rows: usize,
    records: usize,
    /// Records that are not stored any more, either.
    left_out: usize,
}

impl fmt::Display for Unstored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unstored {
            rows,
            records,
            left_out,
        } = self;
        write!(
            f,
            "not stored yet, as the tree changed: {rows} rows of the ledger and {records} records \
             of the log"
        )?;
        match left_out {
            0 => Ok(()),
            n => write!(f, "; {n} older records are left out"),
        }
    }
}

/// The group that is being collected.
#[derive(Default)]
pub(super) struct Group {
    pending: Vec<Pending>,
    records: Vec<Record>,
    /// Where the ledger's log of changes was when it began.
    mark: usize,
}

impl Group {
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // Who panicked holding it has brought tixd down.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Applies `ops`, all or none; `ack` is told when they are kept, or cannot be.
    pub(super) fn stage(&mut self, ops: &[Op], caller: &Caller, ack: Ack) {
        self.stage_for(ops, caller, None, ack);
    }

    /// The same; `undoes`: the number in the log of what they take back, which is done once.
    pub(super) fn stage_for(&mut self, ops: &[Op], caller: &Caller, undoes: Option<i64>, ack: Ack) {
        let Some(seq) = undoes else {
            return self.stage_as(ops, caller, None, ack);
        };
        if self.undone.contains(&seq) {
            return ack(self, Err(Failure::Undone(seq)));
        }
        self.undone.push_back(seq);
        let over = self.undone.len().saturating_sub(UNDONE);
        self.undone.drain(..over);
        let ack: Ack = Box::new(move |core, done| {
            if done.is_err() {
                core.undone.retain(|known| *known != seq);
            }
            ack(core, done);
        });
        self.stage_as(ops, caller, undoes, ack);
    }

    fn stage_as(&mut self, ops: &[Op], caller: &Caller, undoes: Option<i64>, ack: Ack) {
        match self.apply(ops, caller, caller.uid, undoes) {
            Ok((events, records)) => self.wait_for_store(events, records, caller.uid, ack),
            Err(e) => ack(self, Err(e)),
        }
    }

    /// `by`: whose doing it is, as the log has it.
    fn apply(
        &mut self,
        ops: &[Op],
        caller: &Caller,
        by: u32,
        undoes: Option<i64>,
    ) -> Result<(Vec<Event>, Vec<Record>), Failure> {
        let mark = self.begin_group();
        let (mut events, mut records) = (Vec::new(), Vec::new());
        for op in ops {
            let back = op.inverse(&self.ledger, caller);
            let checked = op.check_enforced(&self.ledger);
            match checked.and_then(|()| self.ledger.apply(op, caller)) {
                Ok(more) => {
                    let its = self.records(op, &more, by, &Undo { undoes, back });
                    self.logged += its.iter().map(Record::bytes).sum::<u64>();
                    records.extend(its);
                    events.extend(more);
                }
                Err(e) => {
                    self.ledger.undo(mark);
                    return Err(e.into());
                }
            }
        }
        Ok((events, records))
    }

    /// Where the ledger's log of changes is, from which on the group is what has changed.
    fn begin_group(&mut self) -> usize {
        debug_assert!(!self.keeping, "rows change while others are being kept");
        let mark = self.ledger.mark();
        if self.group.pending.is_empty() {
            self.group.mark = mark;
        }
        mark
    }

    /// What has been applied is acknowledged when it is kept.
    fn wait_for_store(&mut self, events: Vec<Event>, records: Vec<Record>, uid: u32, ack: Ack) {
        self.group.records.extend(records);
        self.group.pending.push(Pending { events, uid, ack });
        self.keep_due = true;
    }

    /// Has another thread do something with the ledger's file, in the order of these calls, and the
    /// writer what follows from it.
    pub(super) fn with_store<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Store) -> T + Send + 'static,
        then: impl FnOnce(&mut Core, T) + Send + 'static,
    ) {
        let store = Arc::clone(&self.store);
        self.untidy = true;
        self.storing.push(Rank::Writer, move || {
            let done = job(&mut lock(&store));
            Box::new(move |core| then(core, done))
        });
    }

    /// The same for what only reads it: after what is to be written, and a slice at a time.
    pub(super) fn read_store(&mut self, rank: Rank, job: impl FnOnce(&Store) + Send + 'static) {
        let store = Arc::clone(&self.store);
        self.storing.push(rank, move || {
            job(&lock(&store));
            Box::new(|_| ())
        });
    }

    /// Has the store carry its log over, if it was used since: at rest no thread is woken for it.
    pub(super) fn tidy_store(&mut self) {
        if !self.untidy {
            return;
        }
        self.with_store(Store::tidy, |_, tidied| {
            warned(tidied);
        });
        self.untidy = false;
    }

    /// Has what has changed kept, if nothing is being kept: the group, what the tree did, and what
    /// there is to tell the log.
    pub(super) fn keep_if_due(&mut self) {
        if self.keeping || !std::mem::take(&mut self.keep_due) {
            return;
        }
        let mut group = std::mem::take(&mut self.group);
        let mut records = std::mem::take(&mut self.late);
        records.iter_mut().for_each(Record::bound);
        let late = records.len();
        records.append(&mut group.records);
        let changes = self.ledger.changes();
        if changes.is_empty() && records.is_empty() {
            self.ledger.settle();
            return self.acknowledge(group, Ok(()));
        }
        self.keeping = true;
        self.with_store(
            move |store| {
                let done = store.commit(&records, &changes);
                (records, done)
            },
            move |core, (mut records, done)| {
                core.keeping = false;
                let kept = core.kept(&records, done);
                if kept.is_err() {
                    // What the tree did cannot be refused: what cannot be kept now is kept later.
                    // The oldest records go first: it is about what people should know now.
                    records.truncate(late);
                    records.append(&mut core.late);
                    let over = records.len().saturating_sub(1000);
                    core.late = records.split_off(over);
                    core.unstored.left_out += over;
                }
                let failed = kept.is_err();
                core.acknowledge(group, kept);
                if failed {
                    core.unstored.rows = core.ledger.compact();
                    core.unstored.records = core.late.len();
                }
            },
        );
    }

    /// Carries out what was kept, or takes back what was not, and tells who asked for it.
    fn acknowledge(&mut self, group: Group, kept: Result<(), String>) {
        let Group { pending, mark, .. } = group;
        match kept {
            Ok(()) => {
                let done: Vec<(&[Event], u32)> = (pending.iter())
                    .map(|p| (p.events.as_slice(), p.uid))
                    .collect();
                self.carry_out(&done);
                for p in pending {
                    (p.ack)(self, Ok(&p.events));
                }
            }
            Err(why) => {
                if !pending.is_empty() {
                    self.ledger.undo(mark);
                    // The scheduler may have been loaded meanwhile, and files written.
                    self.cpu.push_all(&self.ledger);
                    self.overhaul.due = true;
                }
                for p in pending {
                    (p.ack)(self, Err(Failure::NotKept(why.clone())));
                }
            }
        }
    }

    /// Sees to what it means that these were kept, or could not be.
    fn kept(&mut self, records: &[Record], done: Result<(), Error>) -> Result<(), String> {
        match done {
            Ok(()) => {
                self.ledger.settle();
                records.iter().for_each(|r| self.notices.add(r));
                if self.unwritable.take().is_some() {
                    self.say(EventKind::Store, "the ledger can be written again");
                }
                let Unstored { left_out, .. } = std::mem::take(&mut self.unstored);
                if left_out > 0 {
                    let what = format!(
                        "{left_out} records are left out before this one: the ledger could not be \
                         written"
                    );
                    self.note(EventKind::Store, &what);
                }
                Ok(())
            }
            Err(e) => {
                let why = e.to_string();
                tracing::error!("{why}");
                if self.unwritable.is_none() {
                    self.say(EventKind::Store, &why);
                }
                self.unwritable = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Has `events` told to the log, with what else is kept next.
    pub(super) fn keep_soon(&mut self, events: &[Event]) {
        let records = self.told(events);
        self.late.extend(records);
        self.keep_due = true;
    }

    /// Applies it now, for tixd itself; with several operations all or none. Should it not be kept
    /// the log of tixd says so.
    ///
    /// # Errors
    /// It was refused.
    pub fn submit(&mut self, ops: &[Op], caller: &Caller) -> Result<(), Failure> {
        // What tixd does of itself it may do as root may.
        let by = match *caller == Caller::ROOT {
            true => TIXD,
            false => caller.uid,
        };
        let (events, records) = self.apply(ops, caller, by, None)?;
        let ack: Ack = Box::new(|_, done| {
            if let Err(e) = done {
                tracing::warn!("{e}");
            }
        });
        self.wait_for_store(events, records, by, ack);
        Ok(())
    }

    /// Once a second: what could not be kept before.
    pub(super) fn keep_again(&mut self) {
        if self.unwritable.is_none() || self.keeping {
            return;
        }
        self.late.retain(|r| r.kind != "store");
        let probe = Record {
            time_usec: now_usec(),
            uid: tix_ledger::TIXD,
            kind: "store".to_owned(),
            text: "the ledger can be written again".to_owned(),
            ..Record::default()
        };
        self.late.push(probe);
        self.keep_due = true;
    }
}

impl Core {
    /// Moves currencies of users with plain names, which they made before there were spaces, into
    /// their makers' spaces. Done at the start, once: there are none afterwards. Nobody asked for
    /// it, so nobody can be told that it failed: what cannot be kept now is kept later.
    pub async fn move_into_spaces(&mut self, directory: &Directory) {
        let makers = self.ledger.without_space();
        if makers.is_empty() {
            return;
        }
        let users = directory.names(makers).await;
        let renamed = self.ledger.move_into_spaces(&users, &[LIFELINE]);
        let mut records = Vec::new();
        for r in &renamed {
            let mut text = format!(
                "{}, made by uid {}, is called {} now: plain names are root's and the policy's",
                r.was, r.maker, r.name
            );
            let gone = tell::Gone::of(&r.events);
            for e in &r.events {
                text.push_str("; ");
                text.push_str(&self.tell(e, None, &gone).event.message);
            }
            tracing::warn!("{text}");
            records.push(Record {
                time_usec: now_usec(),
                uid: TIXD,
                kind: "rename".to_owned(),
                subject: r.name.clone(),
                text,
                op: String::new(),
                owner: Some(r.owner),
            });
        }
        let events: Vec<Event> = renamed.into_iter().flat_map(|r| r.events).collect();
        self.late.extend(records);
        self.keep_due = true;
        self.finish_keeping().await;
        self.carry_out(&[(&events, TIXD)]);
    }

    /// Makes these changes to the ledger's rows, all or none, or only sees whether they could be
    /// made.
    ///
    /// # Errors
    /// The rows make no ledger.
    pub fn import(
        &mut self,
        changes: &[Change],
        dry_run: bool,
        caller: &Caller,
    ) -> Result<(), Failure> {
        let mark = self.begin_group();
        let events = self.ledger.restore(changes)?;
        if dry_run {
            self.ledger.undo(mark);
            return Ok(());
        }
        let record = Record {
            time_usec: now_usec(),
            uid: caller.uid,
            kind: "import".to_owned(),
            text: format!("{} rows of the ledger replaced", changes.len()),
            ..Record::default()
        };
        let ack: Ack = Box::new(|core, done| {
            if done.is_err() {
                return;
            }
            core.cpu.push_all(&core.ledger);
            core.write_marks();
            core.look_at_guarantees();
            core.say(EventKind::Policy, "a ledger was imported");
        });
        self.wait_for_store(events, vec![record], caller.uid, ack);
        Ok(())
    }
}
