// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl doctor`: what this host lacks, and what to do about it. Asks the host, and tixd only
//! whether it is there.

mod btf;
mod checks;
mod finding;

use crate::failure::Failure;
use crate::out;
use anstyle::{AnsiColor, Style};
use finding::{Finding, Level};
use serde::Serialize;
use std::path::Path;

/// Say what this host lacks for tix, and what to do about it
///
/// Exits with 1 if something is missing without which tix cannot hold shares here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `tixctl doctor --json`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The worst of the findings.
    pub level: Level,
    pub findings: Vec<Finding>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let findings = checks::all(&checks::Host::this(Path::new("/")));
    let level = findings
        .iter()
        .map(|finding| finding.level)
        .max()
        .unwrap_or(Level::Ok);
    let report = Report { level, findings };
    match args.json {
        true => out::json(&report)?,
        false => out::print(&render(&report))?,
    }
    match report.level {
        Level::Missing => Err(Failure::Said),
        Level::Ok | Level::Warning => Ok(()),
    }
}

const OK: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const MISSING: Style = AnsiColor::Red.on_default().bold();

fn render(report: &Report) -> String {
    let mut text = Vec::new();
    for finding in &report.findings {
        let (style, word) = match finding.level {
            Level::Ok => (OK, "ok"),
            Level::Warning => (WARNING, "warning"),
            Level::Missing => (MISSING, "missing"),
        };
        text.push(format!(
            "{style}{word:7}{style:#}  {:12} {}",
            finding.check, finding.message
        ));
        if !finding.hint.is_empty() {
            text.push(format!("                      → {}", finding.hint));
        }
    }
    text.push(match report.level {
        Level::Ok => "\nNothing is missing.".into(),
        Level::Warning => "\nNothing is missing that tix needs to hold shares.".into(),
        Level::Missing => format!(
            "\n{MISSING}tix's scheduler cannot hold shares here as things are.{MISSING:#} {}",
            without(&report.findings)
        ),
    });
    text.join("\n")
}

/// What holds without tix's scheduler.
fn without(findings: &[Finding]) -> &'static str {
    let is_missing = |check| {
        let mut of = findings.iter().filter(|f| f.check == check);
        of.any(|f| f.level == Level::Missing)
    };
    match is_missing("scheduler") {
        _ if is_missing("cgroups") => {
            "Without cgroup v2 at /sys/fs/cgroup tixd keeps the ledger and exchanges, and \
             enforces nothing."
        }
        true => {
            "Without it tixd keeps the ledger, exchanges, and shares of disks and of memory; \
             those of CPU are the other scheduler's business."
        }
        false => "Without it tixd keeps to cpu.weight and the kernel's own scheduler where it can.",
    }
}
