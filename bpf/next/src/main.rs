// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's second edition for experiments: loads it, runs a command, takes it out.
//! `tix-bpf-next -- COMMAND…`; exit status is the command's, 124 if the kernel ended the scheduler.

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
    let status = Command::new(&program).args(args).status();
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
