// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl exchange`: what has been exchanged.

mod end;
pub mod list;
mod show;

use crate::failure::Failure;

/// Show what has been exchanged, or end an exchange
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    End(end::Args),
}

pub async fn main(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::List(args) => list::main(args).await,
        Command::Show(args) => show::main(args).await,
        Command::End(args) => end::main(args).await,
    }
}
