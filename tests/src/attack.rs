// SPDX-License-Identifier: GPL-2.0-only
//! What `tix-attack` does.

pub mod clients;
pub mod kernel;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// What is counted: what the kernel has to do, then what tixd has.
pub const KINDS: [&str; 9] = [
    "forks", "cgroups", "moves", "threads", "reads", "changes", "trees", "noise", "connects",
];

/// Cgroups of the attacker's own, with the cpu controller.
pub struct Place {
    /// Its directory.
    pub top: PathBuf,
    /// Relative to the cgroup root.
    pub path: String,
}

impl Place {
    /// In the cgroup this process is in, which must be delegated to it. The process moves to a leaf.
    pub fn make() -> Result<Place> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path = own.trim().strip_prefix("0::").context("no cgroup v2")?;
        let top = PathBuf::from(format!("/sys/fs/cgroup{path}"));
        for leaf in ["main", "a", "b"] {
            fs::create_dir(top.join(leaf))?;
        }
        fs::write(top.join("main/cgroup.procs"), "0")?;
        fs::write(top.join("cgroup.subtree_control"), "+cpu")?;
        Ok(Place {
            path: path.to_owned(),
            top,
        })
    }
}
