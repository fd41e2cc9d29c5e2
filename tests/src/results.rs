// SPDX-License-Identifier: GPL-2.0-only
//! What a part of `make soak` came to once all of it held: `bench/soaked` puts the parts together.
//! And what tests left out: `make check` lists it at its end.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::daemon::is_guest;
use crate::guest::tree;

/// How a test's standard error says that it left something out.
pub const SKIPPED: &str = "SKIPPED ";

/// In the working tree, which guests write as well.
pub fn leave(part: &str, came_to: &impl Serialize) -> Result<()> {
    let file = tree().join(format!("target/soak/{part}.json"));
    let dir = file.parent().context("a part without a name")?;
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let text = serde_json::to_string_pretty(came_to)?;
    std::fs::write(&file, text + "\n").with_context(|| format!("write {}", file.display()))
}

/// Says that something is not looked at here, and why.
pub fn skipped(what: &str, why: &str) {
    let left_out = format!("{what}: {why}");
    eprintln!("{SKIPPED}{left_out}");
    // What a guest says is read by the test that started it.
    if !is_guest() {
        record_skipped(&left_out);
    }
}

/// Keeps what was left out, with its reason, for the end of `make check`.
pub fn record_skipped(left_out: &str) {
    let file = tree().join("target/skipped");
    let line = format!("{left_out}\n");
    let written = std::fs::create_dir_all(tree().join("target"))
        .and_then(|()| File::options().create(true).append(true).open(&file))
        // In one piece: others write beside it.
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tests_that_are_none_fail() {
        let status = |words: &[&str]| {
            let mut command = Command::new(tree().join(".ci/tests"));
            command.args(["--locked", "-p", "tix-tests", "--lib", "--"]);
            let out = command.args(words).current_dir(tree()).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            (out.status.code(), said)
        };
        let (some, said) = status(&["checks_that_fail_are_named"]);
        assert_eq!(some, Some(0), "{said}");
        let (none, said) = status(&["checks_that_fail_are_named", "checks_that_are_none"]);
        assert_eq!(none, Some(1), "{said}");
        assert!(said.contains("no test has a name with: checks_that_are_none"));
        let (none, said) = status(&["--skip=checks_that_are_none"]);
        assert_eq!(none, Some(1), "{said}");
        // Its name has the word, and it is not one of those that are chosen.
        let (none, said) = status(&["--ignored", "checks_that_fail_are_named"]);
        assert_eq!(none, Some(1), "{said}");
        assert!(said.contains("no test ran"), "{said}");
    }
}
