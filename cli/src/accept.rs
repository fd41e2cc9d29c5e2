// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl accept`

use crate::candidates;
use crate::failure::Failure;
use crate::report::Report;
use crate::{out, trade};
use clap_complete::ArgValueCandidates;
use tix_api::Tix;
use tix_client::Client;

/// Do exactly what an offer on the book asks
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The offer, as `tixctl offer list` numbers it
    #[arg(add = ArgValueCandidates::new(candidates::offers))]
    id: u64,
    /// The currency or cgroup that gives what the offer wants, and gets what it gives
    #[arg(value_name = "CURRENCY", add = ArgValueCandidates::new(candidates::currencies))]
    principal: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: Report,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let reply = client
        .call(|tixd| tixd.accept(args.id, &args.principal))
        .await?;
    match args.json {
        true => out::json(&reply.exchange),
        false => args.report.print(&trade::exchange(&reply.exchange)),
    }
}
