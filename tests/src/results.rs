// SPDX-License-Identifier: GPL-2.0-only
//! What a part of `make soak` came to once all of it held: `bench/soaked` puts the parts together.
//! And what tests left out: `make check` lists it at its end.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::guest::tree;
use crate::here::is_guest;

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
