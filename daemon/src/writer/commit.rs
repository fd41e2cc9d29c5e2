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
//! is answered, and may see what is not kept yet, and whoever asks for something may be refused for
//! it. Nobody is told that what they asked for is done, and the kernel is not, before it is kept.

use super::event::EventKind;
use super::lately::Lately;
use super::notices::Notices;
use super::store_thread::StoreThread;
use super::tell::{Teller, Undo};
use super::watchers::Watchers;
use super::{Failure, Then, now_usec};
use std::collections::VecDeque;
use std::fmt;
use tix_ledger::{Caller, Change, Event, Ledger, Op, TIXD};
use tix_store::{Error, Record, Store};

/// Operations that wait to be kept, at most.
pub(super) const GROUP: usize = 256;

/// So many of the latest that were taken back are known beside the log, which tells of them later.
const UNDONE: usize = 1024;

/// What an operation takes back.
#[derive(Debug, Clone)]
pub struct Undoes {
    /// Its number in the log.
    pub seq: i64,
    /// The currency that it was done to.
    pub subject: String,
    /// Where [`Commits::here`] was before the log was read.
    pub place: u64,
}

/// Told what was done, once that is kept.
pub(super) type Ack = Box<dyn FnOnce(&Ledger, Result<&[Event], Failure>) + Send>;

/// Applied, and not kept yet.
pub(super) struct Pending {
    pub(super) events: Vec<Event>,
    pub(super) uid: u32,
    pub(super) ack: Ack,
    /// The number in the log of what it takes back.
    pub(super) undoes: Option<i64>,
    /// These rows take the place of what there was.
    pub(super) imports: bool,
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
    pub(super) pending: Vec<Pending>,
    records: Vec<Record>,
    /// Where the ledger's log of changes was when it began.
    pub(super) mark: usize,
}

/// What is kept at once: the group, what the tree did, and what there is to tell the log.
pub(super) struct Batch {
    group: Group,
    /// The late ones first.
    records: Vec<Record>,
    late: usize,
    changes: Vec<Change>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.changes.is_empty()
    }

    pub(super) fn put(&self, store: &mut Store) -> Result<(), Error> {
        store.commit(&self.records, &self.changes)
    }

    pub(super) fn into_group(self) -> Group {
        self.group
    }
}

/// What was applied to the ledger, and is kept.
pub struct Commits {
    group: Group,
    /// Records that are not kept yet.
    late: Vec<Record>,
    /// Bytes that operations have had logged so far.
    pub(super) logged: u64,
    /// Numbers in the log of what was taken back lately, or is being.
    undone: VecDeque<i64>,
    lately: Lately,
    /// A group is being kept: no row changes until it is.
    keeping: bool,
    /// There is something to keep.
    due: bool,
    /// Why the ledger cannot be written.
    pub unwritable: Option<String>,
    pub unstored: Unstored,
    pub notices: Notices,
    /// The ledger's file, for whatever is kept.
    pub(super) store: StoreThread<Then>,
}

impl Commits {
    pub(super) fn new(store: Store) -> Result<Commits, Failure> {
        let notices = Notices::read(&store)?;
        Ok(Commits {
            group: Group::default(),
            late: Vec::new(),
            logged: 0,
            undone: VecDeque::new(),
            lately: Lately::default(),
            keeping: false,
            due: false,
            unwritable: None,
            unstored: Unstored::default(),
            notices,
            store: StoreThread::start(store)?,
        })
    }

    /// A group is being kept: no row changes until it is.
    pub(super) fn is_keeping(&self) -> bool {
        self.keeping
    }

    /// The place among what was changed lately.
    pub fn here(&self) -> u64 {
        self.lately.here()
    }

    /// No other operation is taken into the group.
    pub(super) fn is_full(&self) -> bool {
        self.group.pending.len() >= GROUP
    }

    /// Applies `ops`, all or none; `ack` is told when they are kept, or cannot be.
    pub(super) fn stage(&mut self, ledger: &mut Ledger, ops: &[Op], caller: &Caller, ack: Ack) {
        self.stage_for(ledger, ops, caller, None, ack);
    }

    /// The same; `undoes`: what they take back, which is done once, and not if something else was
    /// done to it since the log was read.
    pub(super) fn stage_for(
        &mut self,
        ledger: &mut Ledger,
        ops: &[Op],
        caller: &Caller,
        undoes: Option<Undoes>,
        ack: Ack,
    ) {
        if let Some(Undoes {
            seq,
            subject,
            place,
        }) = &undoes
        {
            if self.undone.contains(seq) {
                return ack(ledger, Err(Failure::Undone(*seq)));
            }
            if self.lately.may_have_changed(subject, *place) {
                let overtaken = Failure::Overtaken(*seq, subject.clone());
                return ack(ledger, Err(overtaken));
            }
            self.undone.push_back(*seq);
            let over = self.undone.len().saturating_sub(UNDONE);
            self.undone.drain(..over);
        }
        let undoes = undoes.map(|u| u.seq);
        match self.apply(ledger, ops, caller, caller.uid, undoes) {
            Ok((events, records)) => {
                self.wait_for_store(events, records, caller.uid, ack);
                if let Some(last) = self.group.pending.last_mut() {
                    last.undoes = undoes;
                }
            }
            Err(e) => {
                self.not_undone(undoes);
                ack(ledger, Err(e));
            }
        }
    }

    /// It was not taken back after all.
    pub(super) fn not_undone(&mut self, undoes: Option<i64>) {
        self.undone.retain(|known| Some(*known) != undoes);
    }

    /// `by`: whose doing it is, as the log has it.
    fn apply(
        &mut self,
        ledger: &mut Ledger,
        ops: &[Op],
        caller: &Caller,
        by: u32,
        undoes: Option<i64>,
    ) -> Result<(Vec<Event>, Vec<Record>), Failure> {
        let mark = self.begin_group(ledger);
        let (mut events, mut records) = (Vec::new(), Vec::new());
        for op in ops {
            let back = op.inverse(ledger, caller);
            let checked = op.check_enforced(ledger);
            match checked.and_then(|()| ledger.apply(op, caller)) {
                Ok(more) => {
                    let its = Teller(ledger).records(op, &more, by, &Undo { undoes, back });
                    self.logged += its.iter().map(Record::bytes).sum::<u64>();
                    records.extend(its);
                    events.extend(more);
                }
                Err(e) => {
                    ledger.undo(mark);
                    return Err(e.into());
                }
            }
        }
        // Also whose tickets were given: it funds somebody.
        let issuers = events.iter().filter_map(|e| match e {
            Event::Funded { issuer, .. } => Some(ledger.name(*issuer)),
            _ => None,
        });
        let subjects = records.iter().map(|r: &Record| r.subject.clone());
        self.lately.changed(subjects.chain(issuers));
        Ok((events, records))
    }

    /// Where the ledger's log of changes is, from which on the group is what has changed.
    fn begin_group(&mut self, ledger: &Ledger) -> usize {
        debug_assert!(!self.keeping, "rows change while others are being kept");
        let mark = ledger.mark();
        if self.group.pending.is_empty() {
            self.group.mark = mark;
        }
        mark
    }

    /// What has been applied is acknowledged when it is kept.
    fn wait_for_store(&mut self, events: Vec<Event>, records: Vec<Record>, uid: u32, ack: Ack) {
        self.group.records.extend(records);
        self.group.pending.push(Pending {
            events,
            uid,
            ack,
            undoes: None,
            imports: false,
        });
        self.due = true;
    }

    /// What is to be kept now, if nothing is being kept; it is kept once [`Commits::kept`] is told
    /// so.
    pub(super) fn take_due(&mut self, ledger: &mut Ledger) -> Option<Batch> {
        if self.keeping || !std::mem::take(&mut self.due) {
            return None;
        }
        let mut group = std::mem::take(&mut self.group);
        let mut records = std::mem::take(&mut self.late);
        records.iter_mut().for_each(Record::bound);
        let late = records.len();
        records.append(&mut group.records);
        let batch = Batch {
            group,
            records,
            late,
            changes: ledger.changes(),
        };
        match batch.is_empty() {
            true => ledger.settle(),
            false => self.keeping = true,
        }
        Some(batch)
    }

    /// `batch` is kept, or could not be, and why.
    pub(super) fn kept(
        &mut self,
        ledger: &mut Ledger,
        watchers: &Watchers,
        batch: &mut Batch,
        done: Result<(), Error>,
    ) -> Result<(), String> {
        self.keeping = false;
        let kept = self.see_to(ledger, watchers, &batch.records, done);
        if kept.is_err() {
            // What the tree did cannot be refused: what cannot be kept now is kept later. The
            // oldest records go first: it is about what people should know now.
            let mut records = std::mem::take(&mut batch.records);
            records.truncate(batch.late);
            records.append(&mut self.late);
            let over = records.len().saturating_sub(1000);
            self.late = records.split_off(over);
            self.unstored.left_out += over;
        }
        kept
    }

    /// What could not be kept has been taken back: the rest is what is to be kept later.
    pub(super) fn count_unstored(&mut self, ledger: &mut Ledger) {
        self.unstored.rows = ledger.compact();
        self.unstored.records = self.late.len();
    }

    /// Sees to what it means that these were kept, or could not be.
    fn see_to(
        &mut self,
        ledger: &mut Ledger,
        watchers: &Watchers,
        records: &[Record],
        done: Result<(), Error>,
    ) -> Result<(), String> {
        match done {
            Ok(()) => {
                ledger.settle();
                records.iter().for_each(|r| self.notices.add(r));
                if self.unwritable.take().is_some() {
                    watchers.say(EventKind::Store, "the ledger can be written again");
                }
                let Unstored { left_out, .. } = std::mem::take(&mut self.unstored);
                if left_out > 0 {
                    let what = format!(
                        "{left_out} records are left out before this one: the ledger could not be \
                         written"
                    );
                    watchers.say(EventKind::Store, &what);
                    self.note(EventKind::Store, &what);
                }
                Ok(())
            }
            Err(e) => {
                let why = e.to_string();
                tracing::error!("{why}");
                if self.unwritable.is_none() {
                    watchers.say(EventKind::Store, &why);
                }
                self.unwritable = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Has `events` told to the log, with what else is kept next.
    pub(super) fn keep_soon(&mut self, ledger: &Ledger, events: &[Event]) {
        self.log(Teller(ledger).told(events));
    }

    /// The same for records; there may be rows, too.
    pub(super) fn log(&mut self, records: impl IntoIterator<Item = Record>) {
        self.late.extend(records);
        self.due = true;
    }

    /// Has the log say this of tixd itself.
    pub(super) fn note(&mut self, kind: EventKind, message: &str) {
        let kind = format!("{kind:?}").to_lowercase();
        self.log([by_tixd(&kind, message)]);
    }

    /// Applies it now, for tixd itself; with several operations all or none. Should it not be kept
    /// the log of tixd says so.
    ///
    /// # Errors
    /// It was refused.
    pub(super) fn submit(
        &mut self,
        ledger: &mut Ledger,
        ops: &[Op],
        caller: &Caller,
    ) -> Result<(), Failure> {
        // What tixd does of itself it may do as root may.
        let by = match *caller == Caller::ROOT {
            true => TIXD,
            false => caller.uid,
        };
        let (events, records) = self.apply(ledger, ops, caller, by, None)?;
        let ack: Ack = Box::new(|_, done| {
            if let Err(e) = done {
                tracing::warn!("{e}");
            }
        });
        self.wait_for_store(events, records, by, ack);
        Ok(())
    }

    /// Makes these changes to the ledger's rows, all or none, or only sees whether they could be
    /// made.
    ///
    /// # Errors
    /// The rows make no ledger.
    pub(super) fn import(
        &mut self,
        ledger: &mut Ledger,
        changes: &[Change],
        dry_run: bool,
        caller: &Caller,
    ) -> Result<(), Failure> {
        let mark = self.begin_group(ledger);
        let events = ledger.restore(changes)?;
        if dry_run {
            ledger.undo(mark);
            return Ok(());
        }
        let record = Record {
            time_usec: now_usec(),
            uid: caller.uid,
            kind: "import".to_owned(),
            text: format!("{} rows of the ledger replaced", changes.len()),
            ..Record::default()
        };
        self.wait_for_store(events, vec![record], caller.uid, Box::new(|_, _| ()));
        if let Some(last) = self.group.pending.last_mut() {
            last.imports = true;
        }
        self.lately.all_changed();
        Ok(())
    }

    /// Once a second: what could not be kept before.
    pub(super) fn keep_again(&mut self) {
        if self.unwritable.is_none() || self.keeping {
            return;
        }
        self.late.retain(|r| r.kind != "store");
        self.log([by_tixd("store", "the ledger can be written again")]);
    }
}

fn by_tixd(kind: &str, text: &str) -> Record {
    Record {
        time_usec: now_usec(),
        uid: TIXD,
        kind: kind.to_owned(),
        text: text.to_owned(),
        ..Record::default()
    }
}
