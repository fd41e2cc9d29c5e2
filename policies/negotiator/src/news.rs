// SPDX-License-Identifier: GPL-2.0-only
//! What the negotiator says of what it does.

use crate::{Each, TRADED};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Exchanges were in force already, or were made by somebody else for the principal.
    Found,
    /// An offer goes on the book.
    Offered,
    /// It asks for less now.
    Lowered,
    /// It was matched: the trial begins.
    Matched,
    /// The trial has ended well, or made no difference.
    Kept,
    /// The trial has ended badly.
    Undone,
    /// An exchange was revoked, and not by the negotiator.
    Revoked,
    /// What is needed has changed so much that exchanges are ended, or failures forgotten.
    Turned,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct News {
    pub what: What,
    /// The exchanges that it is about.
    pub exchanges: Vec<u64>,
    /// How the principal got on before and after, as its progress is counted, and the least difference that says something; of `Kept`
    /// and `Undone`.
    pub before: Option<f64>,
    pub after: Option<f64>,
    pub noise: Option<f64>,
    /// One sentence.
    pub message: String,
}

impl News {
    pub fn new(what: What, message: impl Into<String>) -> News {
        News {
            what,
            exchanges: vec![],
            before: None,
            after: None,
            noise: None,
            message: message.into(),
        }
    }
}

/// Needs in words: `cpu 3 %, disk 90 %, memory 45 %` of the time waited for each.
pub fn waits(needs: &Each<f64>) -> String {
    let one = |(r, need): (&tix_api::Resource, &f64)| format!("{} {:.0} %", r.name(), need * 100.0);
    let all: Vec<String> = TRADED.iter().zip(needs).map(one).collect();
    all.join(", ")
}
