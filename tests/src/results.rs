// SPDX-License-Identifier: GPL-2.0-only
//! What a part of `make soak` came to once all of it held: `bench/soaked` puts the parts together.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::guest::tree;

/// In the working tree, which guests write as well.
pub fn leave(part: &str, came_to: &impl Serialize) -> Result<()> {
    let file = tree().join(format!("target/soak/{part}.json"));
    let dir = file.parent().context("a part without a name")?;
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let text = serde_json::to_string_pretty(came_to)?;
    std::fs::write(&file, text + "\n").with_context(|| format!("write {}", file.display()))
}
