// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF program against the sched_ext community's headers and vmlinux.h, which
//! come as a build dependency, and generates its skeleton.

fn main() {
    for dir in [".", "core"] {
        for entry in std::fs::read_dir(dir).expect("the crate's directory") {
            let path = entry.expect("the crate's directory").path();
            if path.extension().is_some_and(|e| e == "h" || e == "c") {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    for (file, name) in [
        ("intf.h", "TIX_LAYOUT"),
        ("intf.h", "TIX_LEADS"),
        ("intf.h", "TIX_NODES_MAX"),
        ("core/funding.h", "FUND_FUNDERS"),
    ] {
        let text = std::fs::read_to_string(file).expect(file);
        let define = format!("#define {name} ");
        let number = text
            .lines()
            .find_map(|l| number(l.strip_prefix(&define)?))
            .unwrap_or_else(|| panic!("{name} in {file}"));
        println!("cargo:rustc-env={name}={number}");
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    if std::env::var_os("BPF_CLANG").is_none() {
        // Debian's unversioned clang is too old.
        // SAFETY: this build script has one thread until here.
        unsafe { std::env::set_var("BPF_CLANG", "clang-19") };
    }
    // Loop strength reduction adds an arena's pointer to a number, which the verifier takes since 7.1 only. The other way
    // round it always did.
    // SAFETY: likewise.
    unsafe { std::env::set_var("BPF_EXTRA_CFLAGS_POST_INCL", "-mllvm -disable-lsr") };
    scx_cargo::BpfBuilder::new()
        .and_then(|mut builder| {
            builder.enable_skel("tix.bpf.c", "tix");
            builder.build()
        })
        .unwrap_or_else(|err| panic!("cannot compile the BPF program (clang-19 needed): {err:?}"));
    // Which build of it is in force is told by this (pins.rs).
    let out = std::env::var("OUT_DIR").expect("OUT_DIR");
    let object =
        std::fs::read(format!("{out}/tix.bpf.o")).expect("the BPF program that was just compiled");
    println!("cargo:rustc-env=TIX_BUILD={:016x}", fnv(&object));
}

/// A number that differs where `bytes` do: FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What a `#define` says: a number, or a sum of numbers in parentheses.
fn number(text: &str) -> Option<u32> {
    let text = text.split("/*").next()?.trim();
    let sum = text
        .trim_start_matches('(')
        .trim_end_matches(')')
        .split('+');
    sum.map(|n| n.trim().trim_end_matches('u').parse::<u32>().ok())
        .sum()
}
