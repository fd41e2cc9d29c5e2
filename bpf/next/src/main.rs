// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's second edition for experiments: loads it, runs a command, takes it out.
//! `tix-bpf-next [--costs] -- COMMAND…`; exit status is the command's, 124 if the kernel ended the
//! scheduler. With `--costs` it tells of each program what was verified, how often it ran and for
//! how long, the two reads of the clock that measure it included.

use anyhow::{Context, Result, anyhow};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use std::process::{Command, ExitCode};

// libbpf-cargo generates it.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code,
    unsafe_code
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/tix_skel.rs"));
}

const STATE: &str = "/sys/kernel/sched_ext/state";

fn main() -> Result<ExitCode> {
    let mut args = std::env::args_os().skip(1).peekable();
    let costs = args.next_if(|arg| arg == "--costs").is_some();
    args.next_if(|arg| arg == "--");
    let program = args.next().context("a command to run")?;
    let mut object = MaybeUninit::uninit();
    let mut open = skel::TixSkelBuilder::default().open(&mut object)?;
    let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
    let online = u32::try_from(std::thread::available_parallelism()?.get())?;
    let rodata = open.maps.rodata_data.as_deref_mut();
    rodata.context("read-only data")?.nr_cpu_ids = cpus;
    let data = open.maps.data_data.as_deref_mut();
    data.context("data")?.nr_online = online;
    let mut skel = open.load()?;
    let verified: u64 = libbpf_rs::query::ProgInfoIter::default()
        .map(|program| u64::from(program.verified_insns))
        .sum();
    eprintln!("tix-bpf-next: {verified} instructions verified");
    let _waits = skel.progs.tix_contention.attach()?;
    let _has = skel.progs.tix_contention_end.attach()?;
    let link = skel.maps.tix_ops.attach_struct_ops()?;
    let _measured = costs.then(measure).transpose()?;
    let status = Command::new(&program).args(args).status();
    if costs {
        tell_costs();
    }
    let held = std::fs::read_to_string(STATE)?.trim() == "enabled";
    drop(link);
    if !held {
        eprintln!("tix-bpf-next: the kernel ended the scheduler; its log says why");
        return Ok(ExitCode::from(124));
    }
    let code = status
        .map_err(|err| anyhow!("{}: {err}", program.display()))?
        .code();
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)))
}

/// Has the kernel measure its BPF programs as long as the result is kept.
fn measure() -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: it takes a number.
    let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(0) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd)).context("statistics of BPF programs");
    }
    // SAFETY: it is new, and nobody else's.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

fn tell_costs() {
    let programs = libbpf_rs::query::ProgInfoIter::default();
    let mut programs: Vec<_> = programs.filter(|p| p.verified_insns > 0).collect();
    programs.sort_by_key(|p| std::cmp::Reverse(p.run_time_ns));
    eprintln!("program            verified       runs     ns a run");
    for p in programs {
        let each = p.run_time_ns as f64 / p.run_cnt.max(1) as f64;
        let name = p.name.to_string_lossy();
        eprintln!(
            "{name:<18} {:>8} {:>10} {each:>12.0}",
            p.verified_insns, p.run_cnt
        );
    }
}
