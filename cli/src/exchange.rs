// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl exchange show`

use crate::failure::Failure;
use crate::{out, trade};
use clap::Subcommand;
use tix_api::Tix;
use tix_client::Client;

/// Look at one exchange
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show who gives what and gets what, and why it was revoked if it was
    Show {
        /// The exchange, as `tixctl exchanges` numbers it
        id: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Command::Show { id, json } = args.command;
    let mut client = Client::connect().await?;
    let reply = client.call(|tixd| tixd.show_exchange(id)).await?;
    match json {
        true => out::json(&reply.exchange),
        false => out::print(&trade::exchange(&reply.exchange)),
    }
}
