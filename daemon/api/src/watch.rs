// SPDX-License-Identifier: GPL-2.0-only
//! Samples and events, as `Watch` streams them.

use crate::{Kind, Problem, Resource, Share};
use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// What happened to a currency.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
        #[serde(rename_all = "snake_case")]
        #[zlink(rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
            /// The watcher was too slow and missed events before this one.
            Missed,
        }

        impl From<tix_model::EventKind> for EventKind {
            fn from(kind: tix_model::EventKind) -> EventKind {
                match kind {
                    $(tix_model::EventKind::$kind => EventKind::$kind,)*
                }
            }
        }
    };
}

tix_model::event_kinds!(kinds);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Event {
    /// Microseconds since 1970.
    pub time_usec: u64,
    pub kind: EventKind,
    /// The currency concerned (the holder, for a ticket).
    pub currency: Option<String>,
    /// The issuer, for a ticket.
    pub issuer: Option<String>,
    pub resource: Option<Resource>,
    pub amount: Option<u64>,
    /// Soft or hard, for a ticket.
    pub kind_of_ticket: Option<Kind>,
    /// The cgroup bound to or unbound from.
    pub cgroup: Option<String>,
    /// Who did it; null: nobody asked for it.
    pub uid: Option<u32>,
    /// The uids whose currencies it changes something for, whoever did it; may be empty.
    pub concerns: Vec<u32>,
    /// One sentence.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct CurrencySample {
    pub cid: u64,
    pub name: String,
    pub cgroup: Option<String>,
    pub owner: u32,
    pub active: bool,
    pub cpu: Share,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct ProcessSample {
    pub pid: u32,
    pub uid: u32,
    /// The kernel's short name of it.
    pub comm: String,
    /// The cgroup path it is in.
    pub cgroup: String,
    /// CPU time used so far, microseconds (all threads, at the kernel's clock-tick resolution of
    /// 10,000).
    pub used_usec: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Sample {
    /// Microseconds since 1970.
    pub time_usec: u64,
    /// Microseconds of the kernel's monotonic clock: use it for rates.
    pub monotonic_usec: u64,
    /// Processors online.
    pub cpus: u32,
    pub currencies: Vec<CurrencySample>,
    /// Processes outside the root cgroup; null unless asked for.
    pub processes: Option<Vec<ProcessSample>>,
    /// Why nothing holds shares of the CPU now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

/// Exactly one of the two is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct WatchReply {
    pub event: Option<Event>,
    pub sample: Option<Sample>,
}
