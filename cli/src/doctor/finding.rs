// SPDX-License-Identifier: GPL-2.0-only
//! One thing that `tixctl doctor` looked at, and how bad it is.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// tix works, but not everywhere, not for everybody, or not as well.
    Warning,
    /// Shares cannot be held by tix's scheduler.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: a stable word.
    pub check: &'static str,
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do; empty if nothing.
    pub hint: String,
}
