// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler without the daemon, for experiments: loads, runs a command, stops.
//! `scx_tix [--slice-us N] [--partial] [--costs] -- COMMAND…`; exit status is the command's, 124 if the
//! kernel ended the scheduler. With `--costs` it tells of each program how many instructions the kernel
//! verified, how often it ran and for how long, the two reads of the clock that measure it included.

use libbpf_rs::query::ProgInfoIter;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode};
use tix_bpf::{Force, Options, Scheduler, in_force};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let mut options = Options::default();
    if args.peek().is_some_and(|arg| arg == "--slice-us") {
        args.next();
        let us = args.next().and_then(|us| us.to_str()?.parse::<u64>().ok());
        options.slice_ns = us.expect("--slice-us takes microseconds") * 1000;
    }
    if args.peek().is_some_and(|arg| arg == "--partial") {
        args.next();
        options.partial = true;
    }
    let costs = args.next_if(|arg| arg == "--costs").is_some();
    if args.peek().is_some_and(|arg| arg == "--") {
        args.next();
    }
    let dir = Path::new("/sys/fs/bpf/scx_tix");
    let scheduler = match Scheduler::load_with(dir, &options) {
        Ok(scheduler) => scheduler,
        Err(err) => {
            eprintln!("scx_tix: {err}");
            return ExitCode::from(125);
        }
    };
    let program = args.next().expect("a command to run");
    let measured = costs.then(measure);
    let status = Command::new(program).args(args).status();
    if costs {
        tell_costs();
    }
    drop(measured);
    let held = matches!(in_force(), Force::InForce { .. });
    if let Ok(stats) = scheduler.stats() {
        eprintln!("scx_tix: {stats:?}");
    }
    if !held {
        match scheduler.exit() {
            Ok(Some(exit)) => eprintln!("scx_tix: ejected: {}\n{}", exit.reason, exit.dump),
            other => eprintln!("scx_tix: ejected: {other:?}"),
        }
        return ExitCode::from(124);
    }
    if let Err(err) = scheduler.stop() {
        eprintln!("scx_tix: {err}");
        return ExitCode::from(125);
    }
    match status {
        Ok(status) => ExitCode::from(status.code().unwrap_or(1) as u8),
        Err(err) => {
            eprintln!("scx_tix: {err}");
            ExitCode::from(127)
        }
    }
}

/// Has the kernel measure its BPF programs as long as the result is kept.
fn measure() -> OwnedFd {
    // SAFETY: it takes a number.
    let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(0) };
    assert!(fd >= 0, "the kernel measures no BPF programs");
    // SAFETY: it is new, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn tell_costs() {
    let programs = ProgInfoIter::default();
    let mut programs: Vec<_> = programs.filter(|p| p.verified_insns > 0).collect();
    programs.sort_by_key(|p| std::cmp::Reverse(p.run_time_ns));
    let all: u64 = programs.iter().map(|p| u64::from(p.verified_insns)).sum();
    eprintln!("program            verified       runs     ns a run");
    for p in programs {
        let each = p.run_time_ns as f64 / p.run_cnt.max(1) as f64;
        let name = p.name.to_string_lossy();
        eprintln!(
            "{name:<18} {:>8} {:>10} {each:>12.0}",
            p.verified_insns, p.run_cnt
        );
    }
    eprintln!("all                {all:>8}");
}
