// SPDX-License-Identifier: GPL-2.0-only
//! tixctl: look at and change who gets how much of a machine.
//!
//! One file per verb. A verb's `Args` and their doc comments are its grammar and its help; what it
//! shows comes from tixd (or, for `status` and `doctor`, from the kernel) and is only rendered
//! here.

#![forbid(unsafe_code)]

mod accept;
mod ask;
mod bind;
mod cancel;
mod candidates;
mod chgrp;
mod chmod;
mod chown;
mod cli;
mod completions;
mod create;
mod destroy;
mod disk;
mod doctor;
mod elsewhere;
mod exchange;
mod explain;
mod export;
mod failure;
mod fund;
mod groups;
mod harmless;
mod holds;
mod host;
mod import;
mod job;
mod kernel;
mod keys;
mod limit;
mod log;
mod nice;
mod offer;
mod out;
mod pager;
mod pages;
mod report;
mod reserve;
mod run;
mod runtime;
mod status;
mod step;
mod ticket;
mod top;
mod trade;
mod tree;
mod unbind;
mod undo;
mod unfund;
mod unlimit;
mod unreserve;
mod untried;
mod usage;
mod users;
mod when;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
