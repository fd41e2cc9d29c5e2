// SPDX-License-Identifier: GPL-2.0-only
//! Compiles vtrr.h as a BPF program of its own, to be measured on this machine.

fn main() {
    for file in [
        "src/native/queue.bpf.c",
        "../bpf/core/vtrr.h",
        "../bpf/core/arch.h",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    if std::env::var_os("BPF_CLANG").is_none() {
        // Debian's unversioned clang is too old.
        // SAFETY: nobody else reads the environment: a build script has one thread here.
        unsafe { std::env::set_var("BPF_CLANG", "clang-19") };
    }
    scx_cargo::BpfBuilder::new()
        .and_then(|mut builder| {
            builder.enable_skel("src/native/queue.bpf.c", "queue");
            builder.build()
        })
        .unwrap_or_else(|err| panic!("cannot compile the BPF program (clang-19 needed): {err:?}"));
}
