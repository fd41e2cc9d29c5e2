// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own threads are served as what they are, in the root cgroup: beside hundreds of hogs what needs them ends in time. Told
//! of the guests of `shares` and of `cpus`.

use anyhow::Result;
use tix_tests::guest::Reports;
use tix_tests::load::kthreads::{Kthreads, Took};
use tix_tests::load::shares::Shares;

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
        // waits a moment for who runs: for each of the twenty files a few tens of ms, more in one run than in another.
        let most = peace.all_ms / share + 2_000.0;
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

/// On one CPU, where all of the kernel's threads have that alone: one that sends packets to nobody, without end, beside five of ours.
pub const HOG: &str = "modprobe dummy numdummies=1
    modprobe pktgen
    echo 0x83 >/sys/class/net/dummy0/flags
    echo add_device dummy0 >/proc/net/pktgen/kpktgend_0
    echo count 0 >/proc/net/pktgen/dummy0
    echo delay 0 >/proc/net/pktgen/dummy0
    echo start >/proc/net/pktgen/pgctrl &
    mkdir /sys/fs/cgroup/heavy
    echo 400 >/sys/fs/cgroup/heavy/cpu.weight
    echo +cpu >/sys/fs/cgroup/heavy/cgroup.subtree_control
    $LOAD shares --label pktgen --cgroup /sys/fs/cgroup/heavy/ours --seconds 5
    echo stop >/proc/net/pktgen/pgctrl
    wait $!";

/// It has a share like any other, 100 tickets beside their 400. If it went before all it would take turns with them: a half.
pub fn hog(reports: &Reports) -> Result<()> {
    let shares = reports.get::<Shares>("shares", "pktgen")?.result;
    assert!((shares.used - 0.8).abs() < 0.02, "{shares:?}");
    assert!(shares.largest_relative_error < 0.01, "{shares:?}");
    Ok(())
}
