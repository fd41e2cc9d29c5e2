// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl completions`

use crate::failure::Failure;
use crate::out;
use clap::Command;
use clap_complete::Shell;

/// Print completions for a shell
///
/// For bash: tixctl completions bash > /etc/bash_completion.d/tixctl
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn main(args: Args, mut all: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut all, "tixctl", &mut script);
    out::print(String::from_utf8_lossy(&script).trim_end())
}
