// SPDX-License-Identifier: GPL-2.0-only
//! What this kernel does not tell a sched_ext scheduler, so that none can keep it. The kernel's own scheduler has it all the same.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::force::Force;

/// Since Linux 6.17.
pub const LIMIT: &str = "cgroup_set_bandwidth";
/// Since Linux 6.19.
pub const IDLE: &str = "cgroup_set_idle";

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why `what` is left out with the scheduler that is in force; nothing where it is kept. `op` is the operation of sched_ext that tells of it.
pub fn why(what: &str, op: &str) -> Result<Option<String>> {
    if Force::now().name() == "kernel" {
        return Ok(None);
    }
    // Names in there end with a NUL each.
    let look = Command::new("grep").args(["-qzxF", op, BTF]).status();
    let known = look.context("run grep")?.code();
    ensure!(
        matches!(known, Some(0 | 1)),
        "grep {op} {BTF} ended with {known:?}"
    );
    let why = || format!("{what}: this kernel's sched_ext has no {op}");
    Ok((known == Some(1)).then(why))
}
