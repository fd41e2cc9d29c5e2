// SPDX-License-Identifier: GPL-2.0-only
//! How a share comes about.

use crate::{Currency, Kind, Limit, Problem, Resource};
use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// One ticket on a path from base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Step {
    pub issuer: String,
    pub holder: String,
    pub kind: Kind,
    /// Soft: tickets. Hard: thousandths of the issuer, or bytes if `bytes`.
    pub amount: u64,
    /// Present, and true, if `amount` is bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<bool>,
    /// The issuer's soft tickets of the resource that are active now, and all of them; of a hard
    /// ticket's issuer, too.
    pub issued_active: u64,
    pub issued: u64,
    /// Is this ticket active?
    pub active: bool,
    /// The fraction of the issuer that the ticket brings when all is active, which is what it
    /// guarantees: 0 … 1.
    pub part: f64,
    /// The fraction of the issuer that it brings now: 0 … 1; 0 while it is not active.
    pub part_now: f64,
}

/// One path through the funding graph, base first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct FundingPath {
    pub steps: Vec<Step>,
    /// What comes along this path, as a fraction of the machine: guaranteed, and now.
    pub entitlement: f64,
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct ExplainReply {
    pub currency: Currency,
    pub resource: Resource,
    /// T, what base is worth: all soft tickets of the resource that it has issued; of memory, the
    /// bytes that can be guaranteed.
    pub base_tickets: u64,
    /// Largest entitlement first.
    pub paths: Vec<FundingPath>,
    /// The limits that count for it: its own, and those of others above it. Of the CPU only.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// There were more than 256 paths; these are the first found.
    pub truncated: bool,
    /// Why nothing holds its share of the resource now, and what to do. Absent where something
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}
