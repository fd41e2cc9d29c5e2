// SPDX-License-Identifier: GPL-2.0-only
//! Where a test program runs: in a guest or outside, and beside which programs.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Set for the test program in the guest.
pub(crate) const INSIDE: &str = "TIX_TEST_INSIDE";
/// And if tixd was up when the guest was restored.
pub(crate) const RESTORED: &str = "TIX_TEST_RESTORED";

/// Is this the guest?
pub fn is_guest() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Is this a guest that was restored, with tixd up and at rest?
pub fn is_restored() -> bool {
    std::env::var_os(RESTORED).is_some()
}

/// The program beside this one, or, of a test, above it.
pub fn program(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe().context("where am I")?;
    let dir = me.parent().context("no directory")?;
    let dir = match dir.ends_with("deps") {
        true => dir.parent().context("no directory")?,
        false => dir,
    };
    Ok(dir.join(name))
}
