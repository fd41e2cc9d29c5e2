// SPDX-License-Identifier: GPL-2.0-only
//! A machine whose cores have two siblings each, and core scheduling on it: threads of two cookies are never on one core at once, and
//! shares hold and nobody starves all the same.

use std::path::Path;

use anyhow::Result;
use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::cores::{Cores, Round};
use tix_tests::results::skipped;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// Under the kernel's own scheduler, and under tix.
fn both(guest: &Guest, run: &str) -> Result<[Cores; 2]> {
    let tix = under_tix(Path::new(LOAD), &format!("$LOAD --label tix {run}"))?;
    let script = format!("{LOAD} --require kernel --label kernel {run}\n{tix}");
    let reports = guest.run(&script)?;
    let of = |label| -> Result<Cores> { Ok(reports.get("cores", label)?.result) };
    Ok([of("kernel")?, of("tix")?])
}

/// Everybody runs, and soon again.
fn nobody_starves(round: &Round) {
    assert!(!round.groups.is_empty(), "nobody was there");
    for group in &round.groups {
        assert!(group.least_ms > 0.0, "{group:?}");
        assert!(group.longest_wait_ms < 10_000.0, "{group:?}");
    }
}

fn judge([kernel, tix]: [Cores; 2]) {
    assert_eq!(kernel.cookies, tix.cookies);
    if !tix.cookies {
        // What follows is shares on two siblings then.
        skipped(
            "core scheduling",
            "untested: this kernel has none (CONFIG_SCHED_CORE)",
        );
    }
    for cores in [&kernel, &tix] {
        for round in [&cores.one, &cores.full, &cores.crowd] {
            nobody_starves(round);
        }
        // One of a cookie beside one of another: one at a time, and without cookies both.
        let used = cores.one.used;
        let most = if cores.cookies { 1.0 } else { 2.0 };
        assert!((0.9 * most..1.01 * most).contains(&used), "{cores:?}");
        // The kernel counts that, too.
        let idle = cores.one.forced_idle;
        assert!(!cores.cookies || (0.8..1.01).contains(&idle), "{cores:?}");
    }
    // One thread each, on a machine where one runs at a time: shares are by weight, as on one CPU.
    let off = tix.one.largest_relative_error();
    assert!(!tix.cookies || off < 0.02, "{off}: {:?}", tix.one);
    for (tix, kernel) in [(&tix.full, &kernel.full), (&tix.crowd, &kernel.crowd)] {
        let (off, kernels) = (
            tix.largest_relative_error(),
            kernel.largest_relative_error(),
        );
        eprintln!(
            "cores: {} threads each: {off:.3} off, the kernel's own {kernels:.3}",
            tix.threads
        );
        assert!(
            off < 0.02 || off < 1.5 * kernels,
            "{tix:?}; the kernel's own: {kernel:?}"
        );
        // No more of the core is wasted, but for what more switches cost on so slow a machine.
        assert!(
            tix.used > 0.9 * kernel.used,
            "{tix:?}; the kernel's own: {kernel:?}"
        );
    }
}

#[test]
#[ignore = "boots a guest"]
fn two_cookies_on_one_core() {
    let guest = Guest::new().cpus(2).threads(2).icount(3).timeout(3600);
    judge(both(&guest, "cores --warmup 1 --seconds 4").unwrap());
}
