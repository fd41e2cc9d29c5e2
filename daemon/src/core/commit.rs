// SPDX-License-Identifier: GPL-2.0-only
//! Operations, from the asker to the disk: applied one by one, kept in groups, and acknowledged only when they would survive a power cut.
//!
//! While operations keep coming each is applied to the ledger at once and waits; then all of them are kept with one `fsync`, brought to the
//! kernel and acknowledged. Nobody reads the ledger in between. If they cannot be kept (the disk is full) the ledger goes back to what it
//! was, everybody is told, and what is in force stays in force.
//!
//! A group of some size is kept by another thread, and connections are read and written meanwhile: that is half of the work.

use super::{Core, Failure, now_usec};
use crate::ledger::{Caller, Change, Event, Op, TIXD};
use crate::lifeline;
use crate::store::{Error, Record, Store};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tix_api as api;

/// Operations that wait to be kept, at most.
pub(super) const GROUP: usize = 256;

/// From so many on, another thread keeps them: below, telling it costs more than it saves.
const BESIDE: usize = 4;

/// Told what was done, once that is kept.
type Ack = Box<dyn FnOnce(&mut Core, Result<&[Event], Failure>) + Send>;

/// Applied, and not kept yet.
pub(super) struct Pending {
    events: Vec<Event>,
    uid: u32,
    ack: Ack,
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
        let mark = self.ledger.mark();
        if self.group.pending.is_empty() {
            self.group.mark = mark;
        }
        let mut events = Vec::new();
        let mut records = Vec::new();
        for op in ops {
            match self.ledger.apply(op, caller) {
                Ok(more) => {
                    records.extend(self.records(op, &more, caller.uid));
                    events.extend(more);
                }
                Err(e) => {
                    self.ledger.undo(mark);
                    return ack(self, Err(e.into()));
                }
            }
        }
        self.group.records.extend(records);
        self.group.pending.push(Pending {
            events,
            uid: caller.uid,
            ack,
        });
        if self.group.len() >= GROUP {
            self.commit();
        }
    }

    /// The ledger's file. Nobody else holds it but who keeps a group beside the writer, and that is waited for.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Keeps the group, and acknowledges it.
    pub(super) fn commit(&mut self) {
        let group = std::mem::take(&mut self.group);
        if group.len() > 0 {
            let kept = self.keep(&group.records);
            self.acknowledge(group, kept);
        }
    }

    /// The same; connections are read and written meanwhile.
    pub(super) async fn commit_beside(&mut self) {
        if self.group.len() < BESIDE {
            return self.commit();
        }
        let mut group = std::mem::take(&mut self.group);
        let (records, changes) = (std::mem::take(&mut group.records), self.ledger.changes());
        let store = Arc::clone(&self.store);
        let beside = tokio::task::spawn_blocking(move || {
            let done = lock(&store).commit(&records, &changes);
            (records, done)
        });
        let kept = match beside.await {
            Ok((records, done)) => self.kept(&records, done),
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(Failure::Ending.to_string()),
        };
        self.acknowledge(group, kept);
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
                self.ledger.undo(mark);
                for p in pending {
                    (p.ack)(self, Err(Failure::NotKept(why.clone())));
                }
            }
        }
    }

    /// Writes what has changed since it was last kept, and `records`.
    fn keep(&mut self, records: &[Record]) -> Result<(), String> {
        let changes = self.ledger.changes();
        if changes.is_empty() && records.is_empty() {
            self.ledger.settle();
            return Ok(());
        }
        let done = self.store().commit(records, &changes);
        self.kept(records, done)
    }

    /// Sees to what it means that these were kept, or could not be.
    fn kept(&mut self, records: &[Record], done: Result<(), Error>) -> Result<(), String> {
        match done {
            Ok(()) => {
                self.ledger.settle();
                records.iter().for_each(|r| self.notices.add(r));
                if self.unwritable.take().is_some() {
                    self.say(api::EventKind::Store, "the ledger can be written again");
                }
                Ok(())
            }
            Err(e) => {
                let why = e.to_string();
                tracing::error!("{why}");
                if self.unwritable.is_none() {
                    self.say(api::EventKind::Store, &why);
                }
                self.unwritable = Some(why.clone());
                Err(why)
            }
        }
    }

    /// What the tree did cannot be refused: what cannot be kept now is kept later.
    pub(super) fn keep_or_later(&mut self, events: &[Event]) {
        let mut records = std::mem::take(&mut self.late);
        records.extend(self.told(events));
        if self.keep(&records).is_err() {
            // The oldest go first: it is about what people should know now.
            let over = records.len().saturating_sub(1000);
            self.late = records.split_off(over);
        }
    }

    /// Does it now, kept when this returns. With several operations: all or none.
    pub fn submit(&mut self, ops: &[Op], caller: &Caller) -> Result<(), Failure> {
        self.commit();
        let (tx, rx) = std::sync::mpsc::channel();
        self.stage(
            ops,
            caller,
            Box::new(move |_, done| {
                // The receiver is in this function.
                let _ = tx.send(done.map(|_| ()));
            }),
        );
        self.commit();
        rx.try_recv().unwrap_or(Err(Failure::Ending))
    }

    /// Once a second: what could not be kept before.
    pub(super) fn keep_again(&mut self) {
        if self.unwritable.is_none() {
            return;
        }
        let probe = Record {
            time_usec: now_usec(),
            uid: crate::ledger::TIXD,
            kind: "store".to_owned(),
            text: "the ledger can be written again".to_owned(),
            ..Record::default()
        };
        self.late.push(probe);
        self.keep_or_later(&[]);
        if self.unwritable.is_some() {
            self.late.retain(|r| r.kind != "store");
        }
    }
}

impl Core {
    /// Moves currencies of users with plain names into their makers' spaces, `users` being the
    /// makers' names.
    pub fn move_into_spaces(&mut self, users: &BTreeMap<u32, String>) -> Result<(), Failure> {
        self.commit();
        let mark = self.ledger.mark();
        let renamed = self.ledger.move_into_spaces(users, &[lifeline::NAME]);
        let mut records = Vec::new();
        for r in &renamed {
            let mut text = format!(
                "{}, made by uid {}, is called {} now: plain names are root's and the policy's",
                r.was, r.maker, r.name
            );
            for e in &r.events {
                text.push_str("; ");
                text.push_str(&self.tell(e, None).event.message);
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
        if let Err(why) = self.keep(&records) {
            self.ledger.undo(mark);
            return Err(Failure::NotKept(why));
        }
        self.carry_out(&[(&events, TIXD)]);
        Ok(())
    }

    /// Makes these changes to the ledger's rows, all or none, or only sees whether they could be made.
    pub fn import(
        &mut self,
        changes: &[Change],
        dry_run: bool,
        caller: &Caller,
    ) -> Result<(), Failure> {
        self.commit();
        let mark = self.ledger.mark();
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
        if let Err(why) = self.keep(&[record]) {
            self.ledger.undo(mark);
            return Err(Failure::NotKept(why));
        }
        self.carry_out(&[(&events, caller.uid)]);
        self.cpu.push_all(&self.ledger);
        self.write_marks();
        self.look_at_guarantees();
        self.say(api::EventKind::Policy, "a ledger was imported");
        Ok(())
    }
}
