// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's clocks of cgroups (`cpu.stat`). A sample says when its clocks were read.

use std::collections::{HashMap, HashSet};
use tix_cgroupfs::Root;
use tix_ledger::{BASE, Cid, Ledger};

/// A cgroup whose clock is to be read: inode, path, and whether its processes are asked for, too.
pub type Wanted = (u64, String, bool);

/// What was read, by the inode of the cgroup's directory.
#[derive(Debug, Default)]
pub struct Clocks {
    pub used_usec: HashMap<u64, u64>,
    /// Those that have processes that are not frozen, among those that were asked for that.
    pub populated: HashSet<u64>,
    /// When, as the monotonic clock has it.
    pub monotonic_usec: u64,
}

impl Clocks {
    /// Reads them. Blocks.
    pub fn read(root: &Root, wanted: &[Wanted]) -> Clocks {
        let mut clocks = Clocks {
            monotonic_usec: monotonic_usec(),
            ..Clocks::default()
        };
        for (id, path, processes) in wanted {
            // What goes meanwhile has no clock any more.
            if let Ok(used) = root.used_usec(path) {
                clocks.used_usec.insert(*id, used);
            }
            if *processes && is_populated(root, path) {
                clocks.populated.insert(*id);
            }
        }
        clocks
    }
}

/// Has processes that could run.
fn is_populated(root: &Root, path: &str) -> bool {
    let events = root.cgroup(path).and_then(|c| c.read("cgroup.events"));
    events.is_ok_and(|t| {
        let has = |line: &str| t.lines().any(|l| l == line);
        has("populated 1") && !has("frozen 1")
    })
}

pub fn monotonic_usec() -> u64 {
    let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    mono.tv_sec.unsigned_abs() * 1_000_000 + mono.tv_nsec.unsigned_abs() / 1_000
}

/// What is to be read of the cgroup that `cid` mirrors. `by_tables`: the scheduler's tables say who
/// runs; else whoever has processes does.
pub fn wanted(ledger: &Ledger, cid: Cid, by_tables: bool) -> Option<Wanted> {
    let c = ledger.get(cid)?;
    let m = c.mirror.as_ref()?;
    let leaf = cid != BASE && c.mirrored_children().next().is_none();
    Some((m.id, m.path.clone(), leaf && !by_tables))
}
