// SPDX-License-Identifier: GPL-2.0-only
//! Notices of what happens by itself or by others' doing, as often as these like: for those who
//! watch, for the ledger's log and for the journal, each no oftener than [`Repeats`] has it.

use super::Core;
use super::event::WatchEvent;
use crate::repeats::{Repeats, count, tell_due};
use std::time::Instant;
use tix_ledger::TIXD;
use tix_store::Record;

/// What notices are about, and never about one more than once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Somebody has written over a guarantee, which was written again.
    Corrected,
    /// A guarantee cannot be held, or can be again.
    Held,
}

/// One that is told, or held back.
#[derive(Debug)]
pub(super) struct Notice {
    event: WatchEvent,
    record: Record,
    /// It goes into the journal as well.
    warns: bool,
}

impl Notice {
    /// `owner`: whom it concerns.
    pub(super) fn new(event: WatchEvent, subject: &str, owner: Option<u32>) -> Notice {
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
            event,
            record,
            warns: false,
        }
    }

    pub(super) fn warning(self) -> Notice {
        Notice {
            warns: true,
            ..self
        }
    }
}

pub(super) type Notices = Repeats<Kind, Notice>;

impl Core {
    /// Tells of it now, or counts it; [`Core::keep_soon`] is left to the caller.
    pub(super) fn notice(&mut self, kind: Kind, subject: &str, notice: Notice) {
        let now = Instant::now();
        if let Some(notice) = self.repeats.admit(kind, subject, notice, now) {
            self.tell_notice(notice);
        }
    }

    fn tell_notice(&mut self, notice: Notice) {
        if notice.warns {
            tracing::warn!("{}", notice.event.message);
        }
        self.late.push(notice.record);
        // Nobody watching is fine.
        let _ = self.events.send(notice.event);
    }

    /// Once a second: what was held back and is due.
    pub(super) fn tell_held_back(&mut self) {
        tell_due();
        let due = self.repeats.due(Instant::now());
        if due.is_empty() {
            return;
        }
        for (mut notice, held) in due {
            let count = count(held);
            notice.event.message.push_str(&count);
            notice.record.text.push_str(&count);
            self.tell_notice(notice);
        }
        self.keep_soon(&[]);
    }
}
