// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the C core as a library of ordinary functions.

fn main() {
    for file in [
        "core.c",
        "../core/arch.h",
        "../core/exchange.h",
        "../core/funding.h",
        "../core/lead.h",
        "../core/vtrr.h",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = cc::Build::new()
        .file("core.c")
        .opt_level(2)
        .flag("-Wextra")
        .try_compile("tix_core_host");
    if let Err(err) = out {
        panic!("cannot compile the C core for the host: {err}");
    }
}
