// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl exchange show`

use crate::candidates;
use crate::failure::Failure;
use crate::{out, trade};
use clap_complete::ArgValueCandidates;
use tix_api::Tix;
use tix_client::Client;

/// Show one exchange: who gives what for what, and why it was revoked if it was
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The exchange, as `tixctl exchange list` numbers it
    #[arg(add = ArgValueCandidates::new(candidates::exchanges))]
    id: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let reply = client.call(|tixd| tixd.show_exchange(args.id)).await?;
    match args.json {
        true => out::json(&reply.exchange),
        false => out::print(&trade::exchange(&reply.exchange)),
    }
}
