// SPDX-License-Identifier: GPL-2.0-only
//! Whether anything holds a share, in words.

use crate::harmless::harmless;
use tix_api::{NotHeld, Problem, Share};

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

/// What nothing holds, that of one cause in one note.
pub fn together(all: &[&NotHeld]) -> Vec<String> {
    let mut notes: Vec<(Problem, Vec<&str>)> = Vec::new();
    for not in all {
        let problem = Problem {
            message: not.message.clone(),
            hint: not.hint.clone(),
        };
        match notes.iter_mut().find(|(known, _)| *known == problem) {
            Some((_, resources)) => resources.push(not.resource.name()),
            None => notes.push((problem, vec![not.resource.name()])),
        }
    }
    let note = |(problem, resources): (Problem, Vec<&str>)| {
        let listed = match resources.as_slice() {
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            all => all.concat(),
        };
        lines(&format!("Nothing holds shares of {listed} now"), &problem)
    };
    notes.into_iter().map(note).collect()
}
