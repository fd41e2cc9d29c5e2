// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl completions`: tixctl itself tells a shell what can be typed, each time it is asked.

use crate::failure::Failure;
use crate::out;
use clap::Command;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};
use std::io::Error;

/// Print completions for a shell
///
/// They know the names of currencies, offers, exchanges and disks, which tixd is asked for as they
/// are needed. The package has installed them for bash, zsh and fish; without it, for bash: tixctl
/// completions bash > /etc/bash_completion.d/tixctl
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// With this variable tixctl is asked for completions, by the script that this prints.
const ASKED_BY: &str = "TIXCTL_COMPLETE";

/// Answers a shell that asks for completions, and ends the process then.
pub fn answer(grammar: fn() -> Command) {
    CompleteEnv::with_factory(grammar).var(ASKED_BY).complete();
}

pub fn main(args: Args) -> Result<(), Failure> {
    let script = script(args.shell).map_err(|err| {
        Failure::refused(
            format!("no completions for {}: {err}", args.shell),
            "`tixctl completions --help` lists the shells",
        )
    })?;
    out::print(String::from_utf8_lossy(&script).trim_end())
}

/// What a shell reads once.
pub fn script(shell: Shell) -> Result<Vec<u8>, Error> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Error::other("this shell is not known"))?;
    let mut script = Vec::new();
    completer.write_registration(ASKED_BY, "tixctl", "tixctl", "tixctl", &mut script)?;
    Ok(script)
}
