// SPDX-License-Identifier: GPL-2.0-only
//! What the operations answer.

use crate::Problem;
use serde::{Deserialize, Serialize};
use zlink::introspect::Type;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct CreateReply {
    pub cid: u64,
    /// Its name in full: `USER/NAME` if a user has made it.
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct FundReply {
    /// What the ticket amounts to now; 0: it is gone.
    pub amount: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ReserveReply {
    /// What the hard ticket amounts to now: thousandths of the issuer, 1 … 999, or bytes.
    pub amount: u64,
    /// Is `amount` bytes?
    pub bytes: bool,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct LimitReply {
    /// Does it hold now? Only while tix's scheduler is in force.
    pub in_force: bool,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ChmodReply {
    /// The mode it has now: 0 … 511 (0o777).
    pub mode: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct BindReply {
    /// The cgroup that `target` turned out to be, relative to the cgroup root.
    pub cgroup: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct RunReply {
    /// The new currency.
    pub name: String,
    /// Who funds it.
    pub issuer: String,
    /// Tickets.
    pub amount: u64,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct NiceReply {
    /// The new currency.
    pub name: String,
    /// Who gave up tickets for it.
    pub giver: String,
    /// What was given up: thousandths of a base ticket.
    pub milli: u64,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ExportReply {
    /// The next part of the document; the parts joined are the whole.
    pub chunk: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ImportBeginReply {
    /// What to name the import by in `ImportChunk` and `ImportEnd`; it lives as long as the connection.
    pub id: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ImportReply {
    /// One line for each change, in words; empty if the ledger is like that already.
    pub changes: Vec<String>,
    /// Were they made? Not in a dry run.
    pub applied: bool,
}
