// SPDX-License-Identifier: GPL-2.0-only
//! What a policy decides for whom, for somebody who tries one out.

use super::check::show;
use super::{Grant, Policy, Subject, Verdict};
use std::fmt::Write;
use tix_model::Kind;
use tix_model::units::mode;

/// The currencies that `policy` makes, what it decides for each of `subjects`, and what its author
/// should know.
pub fn report<'a, 's: 'a>(
    policy: &Policy,
    subjects: impl IntoIterator<Item = &'a Subject<'s>>,
) -> String {
    // Writing to a String does not fail.
    let mut out = String::new();
    if !policy.declared.is_empty() {
        out.push_str("declared:\n");
    }
    for d in &policy.declared {
        let who = |id: Option<u32>| id.unwrap_or(0);
        let mode = mode::show(d.mode.unwrap_or(tix_model::DEFAULT_MODE));
        let _ = writeln!(
            out,
            "  {}  {mode} {}:{}{}  [{}]",
            d.name,
            who(d.owner),
            who(d.group),
            granted(&d.grants),
            d.origin
        );
    }
    let mut any = false;
    for s in subjects {
        if !any {
            out.push_str("decided:\n");
            any = true;
        }
        let name = s.user.as_ref().and_then(|u| u.name.as_deref());
        let user = name.map(|n| format!(" ({n})")).unwrap_or_default();
        let whom = printable(&format!("{}{user}", s.path));
        let _ = match policy.verdict(s) {
            Verdict::None => writeln!(out, "  {whom}: its parent's weight"),
            Verdict::Skip(rule) => {
                writeln!(
                    out,
                    "  {}{user}: its parent's weight  [{}]",
                    s.path, rule.place
                )
            }
            Verdict::Fund(d) => writeln!(
                out,
                "  {whom}: {}  {} {}:{}{}  [{}]",
                d.currency,
                mode::show(d.mode),
                d.owner,
                d.group,
                granted(&d.grants),
                d.origin
            ),
        };
    }
    let notes = policy.notes();
    if !notes.is_empty() {
        out.push_str("to know:\n");
    }
    for n in notes {
        let _ = writeln!(out, "  {n}");
    }
    if out.is_empty() {
        out.push_str(
            "nothing is declared or decided: every cgroup is funded by its parent's weight\n",
        );
    }
    out
}

/// `, cpu 100 tickets from base`, for each.
fn granted(grants: &[Grant]) -> String {
    grants
        .iter()
        .map(|g| {
            let hard = if g.kind == Kind::Hard {
                " guaranteed"
            } else {
                ""
            };
            format!(
                ", {} {}{hard} from {}",
                g.resource.name(),
                show(g),
                g.issuer
            )
        })
        .collect()
}

/// Whoever may make a cgroup chooses its name, and a terminal obeys some characters.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
