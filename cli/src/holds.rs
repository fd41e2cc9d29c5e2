// SPDX-License-Identifier: GPL-2.0-only
//! Whether anything holds a share, in words.

use crate::harmless::harmless;
use tix_api::{Problem, Share};

/// Why nothing holds what was just done, and what to do, on stderr.
pub fn warn(done: &str, not_held: Option<&Problem>) {
    if let Some(problem) = not_held {
        let text = lines(
            &format!("tixctl: {done}, and nothing holds it now"),
            problem,
        );
        eprintln!("{}", harmless(&text));
    }
}

/// `what`, and why, and in the next line what to do about it.
pub fn lines(what: &str, problem: &Problem) -> String {
    let Problem { message, hint } = problem;
    match hint.is_empty() {
        true => format!("{what}: {message}."),
        false => format!("{what}: {message}.\n  → {hint}"),
    }
}

/// Why a currency is not active, in a word; `is_held`: something holds shares of the CPU. Without
/// it nobody knows who wants the CPU.
pub fn inactive(cpu: &Share, is_held: bool) -> Option<&'static str> {
    match (cpu.throttled, cpu.frozen) {
        (Some(true), _) => Some("throttled"),
        (_, Some(true)) => Some("frozen"),
        _ => is_held.then_some("idle"),
    }
}
