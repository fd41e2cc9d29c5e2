// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own threads are served as what they are, in the root cgroup: beside hundreds of hogs what needs them ends in time. Told
//! of the guests of `shares` and of `cpus`.

use anyhow::Result;
use tix_tests::bound;
use tix_tests::daemon_load::near;
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

/// And what came of it, on so many CPUs.
pub fn all(reports: &Reports, cpus: f64) -> Result<()> {
    let found = reports.get::<Kthreads>("kthreads", "")?.result;
    let peace = found.peace;
    // What was neither the kernel's threads nor who writes was waiting for a timer or a device.
    let idle = (peace.all_ms - peace.kernel_ms - peace.own_ms).max(0.0);
    let bounded = |beside: Took, share: f64| {
        // One thing after the other, so no more than a CPU: what was used takes so much longer as
        // less than a CPU is due to the root cgroup, and each run may begin a quantum late. On several
        // CPUs it is a tenth of the crowd's turn, which it would wait for if it were one of them.
        let used = (beside.kernel_ms + beside.own_ms) / (share * cpus).min(1.0);
        let turn = found.hogs as f64 / cpus;
        let quanta = if cpus > 1.0 { turn / 10.0 } else { 1.0 };
        let most = idle + used + beside.runs as f64 * quanta * bound::QUANTUM_MS;
        assert!(beside.all_ms < most, "{beside:?}: {most} ms at most");
    };
    // Tickets of the root's own threads beside those of the hogs.
    bounded(found.alike, 100.0 / 200.0);
    bounded(found.small, 100.0 / 1_100.0);
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
    // Interrupts, switches and tix-load itself, which go first, have taken a hundredth (BOUNDS.md).
    near("all of ours beside it", shares.used, 0.8, 0.02)?;
    bound::shares("beside it", &shares, 1)
}
