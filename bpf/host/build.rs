// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the C core as a library of ordinary functions.

const SOURCES: [&str; 2] = ["core.c", "queue.c"];

fn main() {
    for file in SOURCES.iter().chain(&["../core", "../intf.h"]) {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = cc::Build::new()
        .files(SOURCES)
        .opt_level(2)
        .flag("-Wextra")
        .try_compile("tix_core_host");
    if let Err(err) = out {
        panic!("cannot compile the C core for the host: {err}");
    }
}
