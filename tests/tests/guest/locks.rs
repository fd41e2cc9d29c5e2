// SPDX-License-Identifier: GPL-2.0-only
//! A crowd with next to no share that holds the kernel's locks all the time, or locked pages, or reads by RCU, keeps nobody who has one waiting.

use std::path::Path;

use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::compaction::Compaction;
use tix_tests::load::forks::Forks;
use tix_tests::load::readers::Readers;

/// Beside a crowd of whom one moves the pages of another.
const MOVES: &str = "echo never >/sys/kernel/mm/transparent_hugepage/enabled
    $LOAD compaction --crowd 300 --seconds 10";
/// Beside a crowd of whom one reads by RCU for so long that its slice is over before it is done.
const READS: &str = "$LOAD readers --warmup 0 --seconds 5";
const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// A crowd whose share is too small for its threads is owed nothing for those of its own that others have paid for: it would have all of
/// the CPU for seconds whenever these come back.
#[test]
#[ignore = "boots a guest"]
fn a_crowd_that_forks_or_moves_pages_keeps_nobody_waiting() {
    for cpus in [1, 2] {
        let script = under_tix(
            Path::new(LOAD),
            &format!(
                "$LOAD forks --seconds 5\n$LOAD forks --label mixed --mixed --seconds 5\n{}",
                if cpus == 1 { MOVES } else { READS }
            ),
        )
        .unwrap();
        let guest = Guest::new().cpus(cpus).icount(1).memory("2G").timeout(3600);
        let reports = guest.run(&script).unwrap();
        let forks = reports.get::<Forks>("forks", "").unwrap().result;
        assert!(forks.move_ms < 500.0, "{forks:?}");
        // Whoever starts a program waits for a dozen locks, each behind as many of the crowd as happen to. On one CPU it takes up to 90 ms;
        // on two 0.2 to 0.6 s, seldom 0.9, of 21 to 33 starts (of 30 runs; under the kernel's own scheduler 0.5 s, of 34 and 45). When the
        // crowd was owed what others had paid it was 9.7 s on one CPU, of 5 in 10 s.
        let (start_ms, starts) = if cpus == 1 {
            (500.0, 30)
        } else {
            (2_000.0, 12)
        };
        assert!(forks.start_ms < start_ms, "{forks:?}");
        assert!(forks.moves > 50 && forks.starts > starts, "{forks:?}");
        // It is not kept from forking either.
        assert!(forks.forks > 500, "{forks:?}");
        // So is who moves a process, starts a program or makes a cgroup, as a login does, beside a crowd that does all of that.
        let mixed = reports.get::<Forks>("forks", "mixed").unwrap().result;
        // Each waits for a lock of one of the crowd, which runs within the ten seconds that any thread
        // does. Seen: 0.1 to 2.2 s, of 8 to 20 starts.
        for ms in [mixed.move_ms, mixed.start_ms, mixed.make_ms] {
            assert!(ms < 10_000.0, "{mixed:?}");
        }
        if cpus > 1 {
            let found = reports.get::<Readers>("readers", "").unwrap().result;
            // A six-hundredth of two CPUs is one or two in that time. It has up to 400, as it goes first, or one turn of them and none
            // in the next three.
            assert!(found.changes > 0, "{found:?}");
            // Grace periods take 40 ms at most, mostly: some 290 of them, and 6 if who reads has to wait for its turn. But a crowd that is
            // ahead of its due when one of it is to go first cannot pay for that, and then it is a turn's length.
            assert!(found.graces > 50, "{found:?}");
            // A change takes so many quanta of 1 ms; before each, all of the crowd may have one on
            // the two CPUs, and one more where a change has just begun anew.
            let quanta = found.change_cpu_ms.ceil() + 1.0;
            let most = quanta * found.crowd as f64 / cpus as f64;
            assert!(found.longest_ms < most, "{found:?}: {most} ms at most");
            continue;
        }
        let found = reports.get::<Compaction>("compaction", "").unwrap().result;
        // One of a crowd that has a thousandth of the CPU: 7 to 32 are moved, 32 under the kernel's own.
        assert!(found.moved > 0, "{found:?}");
        // Nobody helps who moves pages, so a touch waits until that one has its turn among the crowd:
        // the ten seconds within which any thread runs.
        assert!(found.touch_ms < 10_000.0, "{found:?}");
    }
}
