// SPDX-License-Identifier: GPL-2.0-only
//! What every kernel that tix supports must show: it takes the BPF program, and shares hold. `.ci/kernels` runs it on each of them.

use std::path::Path;

use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::shares::Shares;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

#[test]
#[ignore = "boots a guest"]
fn loads_and_holds_shares() {
    let script = under_tix(Path::new(LOAD), "$LOAD shares --threads 2 --seconds 10").unwrap();
    // On the machine's own clock, so by KVM where that works: there is a little noise in what each gets.
    let guest = Guest::new().cpus(2).timeout(900);
    let reports = guest.run(&script).unwrap();
    let shares = reports.get::<Shares>("shares", "").unwrap().result;
    assert!(
        shares.largest_relative_error < 0.05,
        "a share is {} off",
        shares.largest_relative_error
    );
}
