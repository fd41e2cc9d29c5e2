// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own threads are served as what they are, in the root cgroup: beside hundreds of hogs what needs them ends in time.

use std::path::Path;

use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::kthreads::{Kthreads, Took};

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

#[test]
#[ignore = "boots a guest"]
fn a_crowd_does_not_keep_them_waiting() {
    for cpus in [1, 2] {
        let script = under_tix(
            Path::new(LOAD),
            "modprobe loop
             truncate -s 64M /tmp/disk
             mkfs.ext4 -q /tmp/disk
             mkdir -p /tmp/mnt
             mount -o loop /tmp/disk /tmp/mnt
             $LOAD kthreads --dir /tmp/mnt --hogs 300",
        )
        .unwrap();
        let guest = Guest::new().cpus(cpus).icount(3).timeout(900);
        let reports = guest.run(&script).unwrap();
        let found = reports.get::<Kthreads>("kthreads", "").unwrap().result;
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
    }
}
