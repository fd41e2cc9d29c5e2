// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl disk`: what has the kernel share disks by tickets.

mod disable;
mod enable;
mod list;

use crate::failure::Failure;

/// Have the kernel share a disk by tickets
///
/// Disk tickets become weights of cgroups, and something in the kernel has to go by them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Enable(enable::Args),
    Disable(disable::Args),
}

pub async fn main(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::List(args) => list::main(args).await,
        Command::Enable(args) => enable::main(args).await,
        Command::Disable(args) => disable::main(args).await,
    }
}
