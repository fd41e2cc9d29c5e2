// SPDX-License-Identifier: GPL-2.0-only
//! What takes too long for every change: `make soak`. The reports of the last run are in bench/results.

use std::path::Path;
use std::process::Command;

use tix_tests::guest::{Guest, tree, under_tix};
use tix_tests::load::soak::Outcome;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");
const PINS: &str = "/sys/fs/bpf/scx_tix";

/// 10,000 cgroups a minute come and go for ten minutes beside 200 busy threads, while weights and limits change ten times a second and
/// a CPU is unplugged every second. `TIX_SOAK_SECONDS` is for those who cannot wait.
#[test]
#[ignore = "boots a guest, for an hour where it is emulated"]
fn soak_of_cgroups() {
    let seconds = std::env::var("TIX_SOAK_SECONDS").unwrap_or("600".into());
    let script = under_tix(
        Path::new(LOAD),
        &format!("$LOAD soak --pins {PINS} --seconds {seconds}"),
    )
    .unwrap();
    let guest = Guest::new().cpus(2).icount(0).timeout(3 * 3600);
    let reports = guest.run(&script).unwrap();
    let report = reports.get::<Outcome>("soak", "").unwrap();
    let text = serde_json::to_string_pretty(&report).unwrap();
    std::fs::write(tree().join("bench/results/soak.json"), text + "\n").unwrap();
    let soak = report.result;
    assert!(
        soak.longest_wait_ms <= 10_000.0,
        "a thread waited {} ms",
        soak.longest_wait_ms
    );
    assert!(soak.cgroups_per_minute > 9_000.0, "{soak:?}");
    crate::smp::unharmed(&soak.after);
}

/// What of the kernel's own tests of cgroups passes under the kernel's own scheduler passes under tix. On one CPU: emulated ones run in
/// turns, which those tests do not expect.
#[test]
#[ignore = "boots a guest, and fetches the kernel's source"]
fn soak_of_judges() {
    let out = Command::new(tree().join("bench/peers"))
        .arg("--judges")
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let dir = String::from_utf8(out.stdout).unwrap();
    let judges = ["test_cpu", "test_core", "test_freezer", "test_kill"];
    let all: String = judges
        .map(|j| format!("{}/{j} || true\n", dir.trim()))
        .concat();
    let passed = |script: &str| {
        let guest = Guest::new().icount(3).timeout(1800);
        let said = guest.text(script).unwrap();
        let ok = said
            .lines()
            .filter(|l| l.starts_with("ok ") && !l.contains("# SKIP"));
        let ok = ok.map(|l| {
            // Less its number.
            l.splitn(3, ' ').nth(2).unwrap_or(l).to_owned()
        });
        ok.collect::<Vec<String>>()
    };
    let kernel = passed(&all);
    let tix = passed(&under_tix(Path::new(LOAD), &all).unwrap());
    assert!(kernel.len() > 20, "{kernel:?}");
    let lost: Vec<_> = kernel.iter().filter(|k| !tix.contains(k)).collect();
    assert!(lost.is_empty(), "not passed under tix: {lost:?}");
}
