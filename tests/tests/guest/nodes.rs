// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler has of cgroups: with `cpu.idle` before it was there, deeper than it follows, gone.

use tix_tests::guest::{Guest, example};

/// `nodes_tix` has the cases, and ends with an error if one is wrong.
#[test]
#[ignore = "boots a guest"]
fn what_was_there_before_lies_deep_or_is_gone() {
    let program = example("nodes_tix").unwrap();
    let guest = Guest::new().icount(3).timeout(3600);
    let said = guest.text(&format!("{}\n", program.display())).unwrap();
    eprintln!("{said}");
    for case in [
        "loaded: idle",
        "with tickets",
        "deep",
        "reuse",
        "changed: idle",
        "exchanged: idle",
        "failed and back: nice",
        "no memory",
    ] {
        // On a kernel that does not say what cpu.idle is some are left out; the newest does.
        let told = said.contains(case) || std::env::var_os("KERNEL").is_some();
        assert!(told, "nothing was said of {case:?}:\n{said}");
    }
}
