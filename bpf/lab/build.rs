// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF program and the simulated machine that it runs on.

const SOURCES: [&str; 6] = [
    "kernel.c",
    "cpus.c",
    "locks.c",
    "maps.c",
    "programs.c",
    "tasks.c",
];

fn main() {
    for dir in [".", "include/scx", "..", "../core"] {
        for entry in std::fs::read_dir(dir).expect("the crate's directory") {
            let path = entry.expect("the crate's directory").path();
            if path.extension().is_some_and(|e| e == "h" || e == "c") {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let clang = std::env::var("BPF_CLANG").unwrap_or("clang-19".into());
    let out = cc::Build::new()
        .compiler(clang)
        .files(SOURCES)
        .include("include")
        .opt_level(2)
        .warnings(true)
        .flag("-Wno-sign-compare")
        .flag("-Wno-unused-but-set-variable")
        .flag("-Wno-unused-parameter")
        .flag("-Wno-deprecated-non-prototype")
        .flag("-Wno-unknown-attributes")
        .try_compile("tix_lab");
    if let Err(err) = out {
        panic!("cannot compile the simulated machine: {err}");
    }
}
