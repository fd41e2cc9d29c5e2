// SPDX-License-Identifier: GPL-2.0-only
//! Those who watch, and how often they are told the same.
//!
//! What happens by itself or by others' doing happens as often as these like. Such notices go to
//! those who watch, to the ledger's log and to the journal, each no oftener than [`Repeats`] has
//! it.

use super::event::{EventKind, WatchEvent};
use super::tell::{Gone, Teller};
use crate::reconcile::guarantees::Change;
use crate::repeats::{Repeats, count, tell_due};
use std::time::Instant;
use tix_ledger::{Event, Ledger, TIXD};
use tix_store::Record;
use tokio::sync::broadcast;

/// What notices are about, and never about one more than once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Somebody has written over a guarantee, which was written again.
    Corrected,
    /// A guarantee cannot be held, or can be again.
    Held,
}

/// One that is told, or held back.
#[derive(Debug)]
pub(super) struct Notice {
    kind: Kind,
    /// What is told apart of that kind.
    about: String,
    event: WatchEvent,
    record: Record,
}

impl Notice {
    /// A guarantee of the cgroup `path` was written over.
    pub(super) fn corrected(path: &str, message: String) -> Notice {
        let event = WatchEvent::new(EventKind::Held, message);
        Notice::new(Kind::Corrected, path, event, "", None)
    }

    pub(super) fn guarantee(ledger: &Ledger, change: Change) -> Notice {
        let kind = match change.is_held {
            true => EventKind::Held,
            false => EventKind::Unheld,
        };
        let name = ledger.name(change.holder);
        let owner = ledger.get(change.holder).map_or(0, |c| c.owner);
        let mut event = WatchEvent::new(kind, change.message);
        event.currency = Some(name.clone());
        event.concerns = vec![owner];
        Notice::new(Kind::Held, &name, event, &name, Some(owner))
    }

    /// `owner`: whom it concerns.
    fn new(
        kind: Kind,
        about: &str,
        event: WatchEvent,
        subject: &str,
        owner: Option<u32>,
    ) -> Notice {
        let record = Record {
            time_usec: event.time_usec,
            uid: TIXD,
            kind: format!("{:?}", event.kind).to_lowercase(),
            subject: subject.to_owned(),
            text: event.message.clone(),
            op: String::new(),
            owner,
        };
        Notice {
            kind,
            about: about.to_owned(),
            event,
            record,
        }
    }
}

pub(super) struct Watchers {
    events: broadcast::Sender<WatchEvent>,
    /// The paths of cgroups that appear.
    appear: broadcast::Sender<String>,
    repeats: Repeats<Kind, Notice>,
}

impl Watchers {
    pub(super) fn new() -> Watchers {
        Watchers {
            events: broadcast::channel(1024).0,
            appear: broadcast::channel(1024).0,
            repeats: Repeats::new(1),
        }
    }

    pub(super) fn events(&self) -> broadcast::Sender<WatchEvent> {
        self.events.clone()
    }

    pub(super) fn appear(&self) -> broadcast::Sender<String> {
        self.appear.clone()
    }

    pub(super) fn say(&self, kind: EventKind, message: &str) {
        // Nobody watching is fine, here and below.
        let _ = self.events.send(WatchEvent::new(kind, message.to_owned()));
    }

    /// Tells what was done by whom.
    pub(super) fn announce(&self, ledger: &Ledger, done: &[(&[Event], u32)]) {
        let all = || done.iter().flat_map(|(events, _)| events.iter());
        for e in all() {
            if let Event::CgroupCreated { path, .. } = e {
                let _ = self.appear.send(path.clone());
            }
        }
        if self.events.receiver_count() == 0 {
            return;
        }
        // An operation may have destroyed what another one of the group has just funded.
        let gone = Gone::of(all());
        for (events, uid) in done {
            for e in *events {
                let uid = Some(*uid).filter(|u| *u != TIXD);
                let _ = self.events.send(Teller(ledger).report(e, uid, &gone).event);
            }
        }
    }

    /// Tells of it now, or counts it. Returns what the log is to have of it.
    pub(super) fn notice(&mut self, notice: Notice) -> Option<Record> {
        let (kind, about) = (notice.kind, notice.about.clone());
        let admitted = (self.repeats).admit(kind, &about, notice, Instant::now())?;
        Some(self.tell(admitted))
    }

    /// Once a second: what was held back and is due. Returns what the log is to have of it.
    pub(super) fn tell_held_back(&mut self) -> Vec<Record> {
        tell_due();
        let due = self.repeats.due(Instant::now()).into_iter();
        let told = due.map(|(mut notice, held)| {
            let count = count(held);
            notice.event.message.push_str(&count);
            notice.record.text.push_str(&count);
            self.tell(notice)
        });
        told.collect()
    }

    fn tell(&self, notice: Notice) -> Record {
        // The journal has it as well.
        if notice.kind == Kind::Corrected {
            tracing::warn!("{}", notice.event.message);
        }
        let _ = self.events.send(notice.event);
        notice.record
    }
}
