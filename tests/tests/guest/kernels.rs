// SPDX-License-Identifier: GPL-2.0-only
//! What every kernel that tix supports must show: it takes the BPF program, and shares hold. `.ci/kernels` runs it, and `matrix`, on each of them.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;
use tix_tests::guest::{Guest, tree, under_tix};
use tix_tests::load::shares::Shares;
use tix_tests::results::leave;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// What one of the harness's programs prints.
fn harness(name: &str, argument: Option<&str>) -> Result<String> {
    let mut command = Command::new(tree().join("tests/vm").join(name));
    let said = command.args(argument).output()?;
    let status = said.status;
    ensure!(status.success(), "tests/vm/{name} ended with {status}");
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

#[test]
#[ignore = "boots a guest"]
fn loads_and_holds_shares() {
    let script = under_tix(Path::new(LOAD), "$LOAD shares --threads 2 --seconds 10").unwrap();
    let kernel = harness("kernel", std::env::var("KERNEL").ok().as_deref()).unwrap();
    let mut guest = Guest::new().cpus(2).timeout(900);
    // By KVM where it runs this kernel. An emulated guest counts instructions: else what else this machine does would show.
    if harness("accel", Some(&kernel)).unwrap() != "KVM" {
        guest = guest.icount(3);
    }
    let reports = guest.run(&script).unwrap();
    let report = reports.get::<Shares>("shares", "").unwrap();
    let shares = report.result;
    assert!(
        shares.largest_relative_error < 0.02,
        "a share is {} off",
        shares.largest_relative_error
    );
    let came_to = json!({ "largest_relative_error": shares.largest_relative_error });
    let part = format!("kernels/{}/loads_and_holds_shares", report.kernel);
    leave(&part, &came_to).unwrap();
}
