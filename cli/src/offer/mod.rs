// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl offer`: the book, and one's offers on it.

pub mod amend;
pub mod cancel;
pub mod list;
pub mod make;

use crate::failure::Failure;

/// Trade rights to one resource for rights to another
///
/// Without a command, `make` is meant.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true)]
#[command(override_usage = "tixctl offer <COMMAND>")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    make: Option<make::Make>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Make(make::Make),
    Amend(amend::Args),
    Cancel(cancel::Args),
}

/// The command as it was before it had commands: what `make` takes it takes itself, and shows it
/// there.
pub fn as_before(offer: clap::Command) -> clap::Command {
    // clap does not say by itself which arguments are there of a struct that has others in it.
    offer
        .mut_args(|arg| arg.hide(true))
        .mut_group("Make", |make| make.arg("principal"))
}

pub async fn main(args: Args) -> Result<(), Failure> {
    match (args.command, args.make) {
        (Some(Command::List(args)), _) => list::main(args).await,
        (Some(Command::Make(args)), _) | (None, Some(args)) => make::main(args).await,
        (Some(Command::Amend(args)), _) => amend::main(args).await,
        (Some(Command::Cancel(args)), _) => cancel::main(args).await,
        (None, None) => Err(Failure::usage(
            "what is to be done with offers?",
            "`tixctl offer list` shows the book, `tixctl offer --help` what else there is",
        )),
    }
}
