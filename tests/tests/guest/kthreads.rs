// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own threads are served as what they are, in the root cgroup: beside hundreds of hogs what needs them ends in time. Told
//! of the guests of `shares` and of `cpus`.

use anyhow::Result;
use tix_tests::guest::Reports;
use tix_tests::load::kthreads::{Kthreads, Took};

/// What such a guest does for it.
pub const RUN: &str = "modprobe loop
    truncate -s 64M /tmp/disk
    mkfs.ext4 -q /tmp/disk
    mkdir -p /tmp/mnt
    mount -o loop /tmp/disk /tmp/mnt
    $LOAD kthreads --dir /tmp/mnt --hogs 300
    umount /tmp/mnt";

/// And what came of it.
pub fn all(reports: &Reports) -> Result<()> {
    let found = reports.get::<Kthreads>("kthreads", "")?.result;
    let peace = found.peace;
    let bounded = |beside: Took, share: f64| {
        // What they have to do takes so much longer as they have not all of the machine, and each time that one wakes another that
        // waits a moment for who runs.
        let most = peace.all_ms / share + 1_000.0;
        assert!(beside.all_ms < most, "{found:?}: {most} ms at most");
        // Nor does any one of them, as no other thread does.
        assert!(
            beside.longest_ms.max(beside.sync_ms) < 10_000.0,
            "{found:?}"
        );
    };
    bounded(found.alike, 0.5);
    bounded(found.small, 0.01);
    Ok(())
}
