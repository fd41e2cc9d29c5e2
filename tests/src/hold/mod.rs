// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's experiments with the disk, with memory and with exchanges (§5.3 to §5.6), inside a guest, by the real daemon.

pub mod disk;
pub mod exchange;
pub mod memory;
pub mod store;
pub mod stores;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::alone::{Tixd, cgroups, write};
use crate::daemon::tixctl;

/// A figure's lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Who is due what, in words.
    pub names: Vec<String>,
    /// Seconds from one sample to the next.
    pub every_s: f64,
    /// By sample, one number for each: of the disk requests since the last one, of memory bytes.
    pub samples: Vec<Vec<u64>>,
    /// What is guaranteed to each, bytes; of memory.
    pub guaranteed: Vec<u64>,
    /// Requests a second of all of them without weights; of the disk.
    pub without: Option<f64>,
    /// What enforces it.
    pub mechanism: String,
}

/// Puts this process and tixd where they get some of the CPU whenever they want it, beside thousands of others' tickets; they sleep while it
/// is measured. By a hard ticket: soft ones of base's, idle or not, would count for what an exchanged base ticket is worth.
fn aside(tixd: &Tixd) -> Result<()> {
    cgroups(&["/aside"])?;
    tixctl("reserve /aside --from base cpu 5%")?.ok()?;
    for pid in [std::process::id(), tixd.id()] {
        write("/aside", "cgroup.procs", &pid.to_string())?;
    }
    Ok(())
}
