// SPDX-License-Identifier: GPL-2.0-only
//! What was done, and by whom.

use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// One operation, or something else that happened, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct LogRecord {
    /// Its number: 1 and more, rising; not reused.
    pub seq: u64,
    /// Microseconds since 1970.
    pub time_usec: u64,
    /// Who did it; null: the policy, or tixd of itself.
    pub uid: Option<u32>,
    /// The same in words: `root`, `policy`, `tixd`, or `uid N`.
    pub who: String,
    /// A word for what it was: the operation (`fund`, `reserve`, `chmod`, …), or what an event has
    /// for its kind.
    pub kind: String,
    /// The currency concerned (the holder, for a ticket); empty where there is none.
    pub subject: String,
    /// One sentence, of 1,024 bytes at most; what is left out of a longer one is counted.
    pub message: String,
    /// What was asked, as JSON, without the name that `subject` is; with `undo`, the operations
    /// that would take it back, or `undoes`, the number of what it took back. Null where nobody
    /// asked.
    pub operation: Option<String>,
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct UndoReply {
    /// Its number in the log.
    pub seq: u64,
    /// What it was, in a sentence.
    pub undone: String,
    /// What is so instead now, in a sentence.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct LogReply {
    /// Oldest first.
    pub records: Vec<LogRecord>,
    /// There are more: give this as `after` for them. Null: these were all, so what comes next is
    /// after the last `seq`.
    pub next: Option<u64>,
}
