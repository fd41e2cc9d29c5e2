// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF program against the sched_ext community's headers and vmlinux.h, which
//! come as a build dependency, and generates its skeleton.

fn main() {
    for file in [
        "arch.h",
        "control.bpf.h",
        "dump.bpf.h",
        "due.h",
        "exchange.h",
        "funding.h",
        "intf.h",
        "nodes.bpf.h",
        "lock.bpf.h",
        "pick.bpf.h",
        "share.bpf.h",
        "state.bpf.h",
        "task.bpf.h",
        "timer.bpf.h",
        "vtrr.h",
        "tix.bpf.c",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    if std::env::var_os("BPF_CLANG").is_none() {
        // Debian's unversioned clang is too old; build scripts are single-threaded here.
        unsafe { std::env::set_var("BPF_CLANG", "clang-19") };
    }
    scx_cargo::BpfBuilder::new()
        .and_then(|mut builder| {
            builder.enable_skel("tix.bpf.c", "tix");
            builder.build()
        })
        .unwrap_or_else(|err| panic!("cannot compile the BPF program (clang-19 needed): {err:?}"));
}
