// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups that come and go for long: a part of `make soak`.

use std::path::Path;

use tix_tests::bound;
use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::soak::Outcome;
use tix_tests::results::leave;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");
const PINS: &str = "/sys/fs/bpf/scx_tix";

/// 10,000 cgroups a minute come and go for ten minutes beside 200 busy threads, while weights and limits change ten times a second and
/// a CPU is unplugged every second. `TIX_SOAK_SECONDS` is for those who cannot wait.
#[test]
#[ignore = "boots a guest, for an hour where it is emulated"]
fn soak_of_cgroups() {
    let seconds = std::env::var("TIX_SOAK_SECONDS").unwrap_or("600".into());
    // More than have to come and go: at the end the last ones are still there, and others late, because a CPU was just unplugged.
    let script = under_tix(
        Path::new(LOAD),
        &format!("$LOAD soak --pins {PINS} --per-minute 10500 --seconds {seconds}"),
    )
    .unwrap();
    let guest = Guest::new().cpus(2).icount(0).timeout(3 * 3600);
    let reports = guest.run(&script).unwrap();
    let report = reports.get::<Outcome>("soak", "").unwrap();
    let soak = &report.result;
    assert!(
        soak.longest_wait_ms <= bound::STARVED_MS,
        "a thread waited {} ms",
        soak.longest_wait_ms
    );
    assert!(soak.cgroups_per_minute >= 10_000.0, "{soak:?}");
    // One a second, each of which takes its time.
    assert!(soak.unplugged as f64 > 0.9 * soak.seconds, "{soak:?}");
    crate::cpus::unharmed(&soak.after).unwrap();
    if soak.seconds >= 600.0 {
        leave("cgroups", &report).unwrap();
    }
}
