// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler's rules are for holds: charge and place (weights, attacks by locks), balance and
//! price (CPU sets that overlap), queues of threads that change all that can be changed.

use std::path::Path;

use anyhow::Result;
use tix_tests::bound;
use tix_tests::guest::{Guest, Reports, under_tix};
use tix_tests::load::attacks::{Attacks, DUE};
use tix_tests::load::churn::Outcome;
use tix_tests::load::cpusets::Cpusets;
use tix_tests::load::shares::Shares;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// The reports of these experiments under tix, in one guest.
fn reports(cpus: usize, experiments: &[&str]) -> Result<Reports> {
    let runs = experiments
        .iter()
        .map(|experiment| format!("$LOAD {experiment}\n"));
    let script = under_tix(Path::new(LOAD), &runs.collect::<String>())?;
    let guest = Guest::new().cpus(cpus).icount(3).timeout(3600);
    guest.run(&script)
}

/// One CPU: weights hold within a slice and a half at every moment, and an attack by a kernel lock
/// takes no share. What the attackers lose by their contention is alice's.
#[test]
#[ignore = "boots a guest"]
fn one_cpu_is_shared_by_weight_and_locks_take_nothing() {
    let reports = reports(
        1,
        &[
            "shares --seconds 5",
            "attacks append:20,cgroups:8 --warmup 2 --seconds 5",
        ],
    )
    .unwrap();
    let shares = reports.get::<Shares>("shares", "").unwrap().result;
    // A slice is 1 ms; the reading adds what runs then, and the samples are 10 ms apart.
    assert!(shares.largest_service_error_ms < 2.0, "{shares:?}");
    for attack in reports
        .get::<Attacks>("attacks", "")
        .unwrap()
        .result
        .attacks
    {
        assert!(attack.share > DUE * 0.99, "{attack:?}");
    }
}

/// Four CPUs: shares of the machine, sets of CPUs that overlap, and an attack.
#[test]
#[ignore = "boots a guest"]
fn four_cpus_are_one_machine_whatever_the_sets() {
    let reports = reports(
        4,
        &[
            "--label one cpusets 100:0 200:0-2 300:0 --seconds 4",
            "--label two cpusets 100:0 200:0-2 300:1-3 --seconds 4",
            "attacks append:20 --warmup 2 --seconds 5",
        ],
    )
    .unwrap();
    for label in ["one", "two"] {
        let sets = reports.get::<Cpusets>("cpusets", label).unwrap().result;
        // CPUs' clocks are 15 ms apart at most, of 4 s: 0.004 CPUs each, of four.
        assert!(sets.off < 0.01, "{label}: {sets:?}");
    }
    for attack in reports
        .get::<Attacks>("attacks", "")
        .unwrap()
        .result
        .attacks
    {
        assert!(attack.share > DUE * 0.99, "{attack:?}");
    }
}

/// Two CPUs: cgroups that come and go with their threads, which change their classes, CPUs and nice
/// meanwhile. A thread that was in another class waits its turn again, and nobody else stands still.
#[test]
#[ignore = "boots a guest"]
fn two_cpus_outlive_all_that_changes() {
    let reports = reports(2, &["churn --rounds 300 --seconds 3"]).unwrap();
    let churn = reports.get::<Outcome>("churn", "").unwrap().result;
    assert!(churn.done["policies changed"] > 0, "{churn:?}");
    assert!(churn.longest_wait_ms <= bound::STARVED_MS, "{churn:?}");
    bound::shares("afterwards", &churn.after.shares, 2).unwrap();
}
