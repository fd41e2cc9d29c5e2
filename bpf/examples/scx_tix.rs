// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler without the daemon, for experiments: loads, runs a command, stops.
//! `scx_tix [--slice-us N] [--partial] -- COMMAND…`; exit status is the command's.

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
    let status = Command::new(program).args(args).status();
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
