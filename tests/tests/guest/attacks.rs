// SPDX-License-Identifier: GPL-2.0-only
//! Attacks by kernel locks: bob's threads, each in a cgroup of its own, contend for one all the
//! time. alice has what she is due, and on one CPU a third one's sleeper wakes up as soon as under
//! the kernel's own scheduler, in the same guest.

use std::path::Path;

use tix_tests::daemon::soak;
use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::attacks::{Attacks, DUE};

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");
const ALL: &str =
    "append:2,append:20,exec:16,directory:8,maps:8,pipe:8,signals:8,flock:8,forks:8,cgroups:8";
/// A share may be off by so much of it. What bob's threads lose by their contention is alice's.
const OFF: f64 = 0.01;

/// `TIX_SOAK`: all attacks, for 10 s each.
#[test]
#[ignore = "boots a guest"]
fn attackers_on_kernel_locks_take_no_share_and_delay_no_sleeper_of_one_cpu() {
    for (cpus, attacks, seconds) in [(1, "append:20,maps:8,cgroups:8", 10), (4, "append:20", 6)] {
        let (attacks, seconds) = if soak() {
            (ALL, 10)
        } else {
            (attacks, seconds)
        };
        let run = format!("attacks {attacks} --warmup 0.5 --seconds {seconds}");
        let tix = under_tix(Path::new(LOAD), &format!("$LOAD --label tix {run}")).unwrap();
        let script = format!("{LOAD} --require kernel --label kernel {run}\n{tix}");
        let guest = Guest::new().cpus(cpus).icount(3).timeout(3600);
        let reports = guest.run(&script).unwrap();
        let of = |label: &str| {
            let report = reports.get::<Attacks>("attacks", label).unwrap();
            report.result.attacks
        };
        for (tix, kernel) in of("tix").iter().zip(of("kernel")) {
            let both = format!("{tix:?}; the kernel's own: {kernel:?}");
            assert!(tix.share > DUE * (1.0 - OFF), "{both}");
            assert!(tix.both > 0.9 * kernel.both, "{both}");
            eprintln!("       {cpus} CPUs: {both}");
            // On several CPUs a sleeper waits longer at times (6.7 ms beside 2.7): it is told
            // there, and not judged.
            if cpus == 1 {
                assert!(tix.waits.p99_us < 2.0 * kernel.waits.p99_us, "{both}");
            }
        }
    }
}
