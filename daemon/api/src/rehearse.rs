// SPDX-License-Identifier: GPL-2.0-only
//! What would come of a change.

use crate::Resource;
use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// A share that would be another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Effect {
    /// Whose.
    pub currency: String,
    pub resource: Resource,
    /// The fraction of the machine that is guaranteed now: 0 … 1.
    pub before: f64,
    /// The one that would be.
    pub after: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct RehearsedReply {
    /// What would be done, a sentence each.
    pub acts: Vec<String>,
    /// Whose shares would change, the largest change first; at most 100.
    pub effects: Vec<Effect>,
    /// So many more would.
    pub more: u64,
}
