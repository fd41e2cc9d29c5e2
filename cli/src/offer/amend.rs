// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl offer amend`

use super::make::How;
use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use crate::trade;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Change the terms of an offer on the book, and try again
///
/// It keeps its number, and comes as if it were new: behind others of the same price. What is not
/// said stays as it is left.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The offer, as `tixctl offer list` numbers it
    #[arg(add = ArgValueCandidates::new(candidates::offers))]
    id: u64,
    /// What is given, at most
    #[arg(long, value_name = "RESOURCE:AMOUNT", value_parser = trade::side)]
    give: Option<String>,
    /// What is wanted for it, at least
    #[arg(long, value_name = "RESOURCE:AMOUNT", value_parser = trade::side)]
    want: Option<String>,
    #[command(flatten)]
    how: How,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let how = &args.how;
    let reply = client
        .call(|tixd| {
            tixd.amend(
                args.id,
                args.give.as_deref(),
                args.want.as_deref(),
                how.minimum.as_deref(),
                how.all_or_none(),
                how.expires,
            )
        })
        .await?;
    trade::placed(&mut client, &reply, args.json, args.step).await
}
