// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl accept`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use crate::{out, trade};
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

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
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client
        .call(|tixd| tixd.accept(args.id, &args.principal))
        .await?;
    match args.json && !args.step.is_dry() {
        true => out::json(&reply.exchange),
        false => {
            args.step
                .done(&mut client, &trade::exchange(&reply.exchange))
                .await
        }
    }
}
