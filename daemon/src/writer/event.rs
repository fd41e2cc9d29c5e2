// SPDX-License-Identifier: GPL-2.0-only
//! What those who watch are told of.

use super::now_usec;
use tix_model::{Kind, Resource};

/// What happened to a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Created,
    Destroyed,
    /// A soft ticket's amount changed; `amount` is the new one, 0: it is gone.
    Funded,
    /// A hard ticket's amount changed; `amount` is the new one (thousandths, or bytes of memory),
    /// 0: it is gone.
    Reserved,
    /// A limit was set; `amount` is thousandths of one CPU.
    Limited,
    /// A limit was lifted.
    Unlimited,
    /// The owner, the group or the mode changed.
    Brokered,
    /// Rights to resources were exchanged, or given up for a job.
    Exchanged,
    /// An exchange was revoked; `message` says why.
    Revoked,
    /// An offer is on the book, new or amended.
    Offered,
    /// An offer went off the book without being matched, or what was left of it did; `message` says
    /// why.
    Unoffered,
    /// A guarantee cannot be held at present; `message` says why.
    Unheld,
    /// It can be held again.
    Held,
    /// Funding that somebody else gave was taken away or lowered.
    Withdrawn,
    Bound,
    Unbound,
    /// A cgroup appeared, went, or changed its owner.
    CgroupCreated,
    CgroupRemoved,
    CgroupChanged,
    /// The scheduler was loaded, ejected or given up; `message` says why.
    Scheduler,
    /// The policy was read again, or it changed something.
    Policy,
    /// The ledger cannot be written, or can be again; `message` says which, and why.
    Store,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// Microseconds since 1970.
    pub time_usec: u64,
    pub kind: EventKind,
    /// The name of the currency concerned (the holder, for a ticket).
    pub currency: Option<String>,
    /// The name of the issuer, for a ticket.
    pub issuer: Option<String>,
    pub resource: Option<Resource>,
    pub amount: Option<u64>,
    /// For a ticket.
    pub kind_of_ticket: Option<Kind>,
    /// The path of the cgroup bound to or unbound from.
    pub cgroup: Option<String>,
    /// Who did it; `None`: nobody asked for it.
    pub uid: Option<u32>,
    /// The uids whose currencies it changes something for, whoever did it.
    pub concerns: Vec<u32>,
    /// One sentence.
    pub message: String,
}

impl WatchEvent {
    /// As of now, and with nothing but a sentence.
    pub(super) fn new(kind: EventKind, message: String) -> WatchEvent {
        WatchEvent {
            time_usec: now_usec(),
            kind,
            currency: None,
            issuer: None,
            resource: None,
            kind_of_ticket: None,
            amount: None,
            cgroup: None,
            uid: None,
            concerns: vec![],
            message,
        }
    }
}
