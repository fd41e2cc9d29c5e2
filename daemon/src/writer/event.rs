// SPDX-License-Identifier: GPL-2.0-only
//! What those who watch are told of.

use super::now_usec;
pub use tix_model::EventKind;
use tix_model::{Kind, Resource};

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
