// SPDX-License-Identifier: GPL-2.0-only
//! A crowd with next to no share that holds the kernel's locks all the time keeps nobody who has one waiting.

use std::path::Path;

use tix_tests::guest::{Guest, under_tix};
use tix_tests::load::forks::Forks;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// A crowd whose share is too small for its threads is owed nothing for those of its own that others have paid for: it would have all of
/// the CPU for seconds whenever these come back.
#[test]
#[ignore = "boots a guest"]
fn a_crowd_that_forks_keeps_nobody_waiting() {
    for cpus in [1, 2] {
        let script = under_tix(Path::new(LOAD), "$LOAD forks --seconds 5").unwrap();
        let guest = Guest::new().cpus(cpus).icount(1).timeout(900);
        let reports = guest.run(&script).unwrap();
        let forks = reports.get::<Forks>("forks", "").unwrap().result;
        assert!(forks.move_ms < 500.0, "{forks:?}");
        assert!(forks.start_ms < 1_000.0, "{forks:?}");
        assert!(forks.moves > 50 && forks.starts > 20, "{forks:?}");
        // It is not kept from forking either.
        assert!(forks.forks > 500, "{forks:?}");
    }
}
