// SPDX-License-Identifier: GPL-2.0-only
//! What the operations answer. What is named in an answer is named in full, whatever the request
//! called it: `alice/gold`, `/user.slice/user-1000.slice`. (A tixd from before it did leaves it
//! out.)

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
pub struct DestroyReply {
    /// What is gone.
    pub name: String,
    /// Tickets that went with it: those that it held, and those that it had issued.
    pub tickets: u64,
    /// The cgroups that it was bound to.
    pub cgroups: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct FundReply {
    /// What the ticket amounts to now; 0: it is gone.
    pub amount: u64,
    /// The currency that holds the ticket.
    pub holder: Option<String>,
    /// The currency that has issued it.
    pub issuer: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ReserveReply {
    /// What the hard ticket amounts to now: thousandths of the issuer, 1 … 999, or bytes.
    pub amount: u64,
    /// Is `amount` bytes?
    pub bytes: bool,
    /// The currency that has the guarantee.
    pub holder: Option<String>,
    /// The currency that gives it.
    pub issuer: Option<String>,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct UnreserveReply {
    /// The currency that had the guarantee.
    pub holder: String,
    /// The currency that gave it.
    pub issuer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct LimitReply {
    /// What is limited.
    pub name: Option<String>,
    /// Does it hold now? Only while tix's scheduler is in force.
    pub in_force: bool,
    /// Why nothing holds it now, and what to do. Absent where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct UnlimitReply {
    /// What has no limit of its own any more.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ChmodReply {
    /// What has the mode.
    pub name: Option<String>,
    /// The mode it has now: 0 … 511 (0o777).
    pub mode: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ChownReply {
    /// What was given away.
    pub name: String,
    /// Its owner now: a uid.
    pub owner: u32,
    /// Its group now: a gid.
    pub group: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct BindReply {
    /// What funds the cgroup now.
    pub name: Option<String>,
    /// The cgroup that `target` turned out to be, relative to the cgroup root.
    pub cgroup: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct UnbindReply {
    /// What was bound.
    pub name: String,
    /// The cgroups that it does not fund any more.
    pub cgroups: Vec<String>,
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
    /// What to name the import by in `ImportChunk` and `ImportEnd`; it lives as long as the
    /// connection.
    pub id: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ImportReply {
    /// One line for each change, in words; empty if the ledger is like that already.
    pub changes: Vec<String>,
    /// Were they made? Not in a dry run.
    pub applied: bool,
}
