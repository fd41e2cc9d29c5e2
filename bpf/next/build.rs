// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the second edition of the BPF program, and generates its skeleton.

fn main() {
    for dir in [".", "core", ".."] {
        for entry in std::fs::read_dir(dir).expect("the crate's directory") {
            let path = entry.expect("the crate's directory").path();
            if path.extension().is_some_and(|e| e == "h" || e == "c") {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    if std::env::var_os("BPF_CLANG").is_none() {
        // Debian's unversioned clang is too old.
        // SAFETY: this build script has one thread until here.
        unsafe { std::env::set_var("BPF_CLANG", "clang-19") };
    }
    // Loop strength reduction adds an arena's pointer to a number, which the verifier takes since 7.1 only.
    // SAFETY: likewise.
    unsafe { std::env::set_var("BPF_EXTRA_CFLAGS_POST_INCL", "-mllvm -disable-lsr") };
    scx_cargo::BpfBuilder::new()
        .and_then(|mut builder| {
            builder.enable_skel("tix.bpf.c", "tix");
            builder.build()
        })
        .unwrap_or_else(|err| panic!("cannot compile the BPF program (clang-19 needed): {err:?}"));
}
