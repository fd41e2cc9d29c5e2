// SPDX-License-Identifier: GPL-2.0-only
//! Which scheduler is in force, read from the kernel and believed from nobody.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// State of sched_ext on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Force {
    /// tix is the scheduler.
    InForce { ops: String },
    /// Somebody else's sched_ext scheduler is.
    Other { ops: String },
    /// The kernel is about to put a scheduler into force or out of it (`enabling`, `disabling`):
    /// why one left is known afterwards.
    Changing { state: String },
    /// The kernel's own is; sched_ext is there and unused.
    Disabled,
    /// The kernel cannot have it; the reason.
    Unsupported(String),
}

/// How long the kernel may take to put a scheduler in force or out of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const SCX: &str = "/sys/kernel/sched_ext";

fn read(file: &str) -> Option<String> {
    Some(
        fs::read_to_string(format!("{SCX}/{file}"))
            .ok()?
            .trim()
            .to_owned(),
    )
}

/// Reads `/sys/kernel/sched_ext`.
pub fn in_force() -> Force {
    let Some(state) = read("state") else {
        return Force::Unsupported("the kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT)".into());
    };
    let ops = read("root/ops").unwrap_or_default();
    match state.as_str() {
        // The kernel appends nothing to the name, but other builds may ("tix_0.1").
        "enabled" if ops == "tix" => Force::InForce { ops },
        "enabled" if !ops.is_empty() => Force::Other { ops },
        "disabled" => Force::Disabled,
        _ => Force::Changing { state },
    }
}

/// Whether what is in force has every thread, and not those alone that ask for it (SCHED_EXT).
pub fn has_all() -> bool {
    read("switch_all").as_deref() != Some("0")
}

/// Waits until the kernel has made up its mind, for a bounded time; what came of it.
pub fn settled(patience: Duration) -> Force {
    let until = Instant::now() + patience;
    loop {
        match in_force() {
            Force::Changing { .. } if Instant::now() < until => sleep(Duration::from_millis(20)),
            force => return force,
        }
    }
}

/// How many schedulers were enabled since boot: it moves when one was replaced or ejected
/// and loaded again.
pub fn ejections() -> Option<u64> {
    read("enable_seq")?.parse().ok()
}
