// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl offer make`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use crate::trade;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Offer rights to one resource for rights to another
///
/// The dealer matches it at once with what others offer, the best price first, then who came first;
/// a surplus is split evenly. What is left waits on the book (`tixctl offer list`). Without a match
/// the offers that conflict with it are listed. What has been exchanged is yours, and no longer
/// yours, until either side ends the exchange, exits, or loses what it gave. Nobody else's rights
/// change.
#[derive(Debug, clap::Args)]
pub struct Make {
    /// The currency or cgroup that trades
    #[arg(value_name = "CURRENCY", add = ArgValueCandidates::new(candidates::currencies))]
    principal: String,
    /// What is given, at most: cpu:100 (base tickets), disk:12.5, disk:10% (of the machine),
    /// memory:256M
    #[arg(long, value_name = "RESOURCE:AMOUNT", value_parser = trade::side)]
    give: String,
    /// What is wanted for it, at least
    #[arg(long, value_name = "RESOURCE:AMOUNT", value_parser = trade::side)]
    want: String,
    #[command(flatten)]
    how: How,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    step: Step,
}

/// How much of an offer is matched, and when; `offer` and `amend` take the same.
#[derive(Debug, clap::Args)]
pub struct How {
    /// The least that one exchange must bring of what is wanted [default: any part]
    #[arg(long, value_name = "AMOUNT", conflicts_with = "all_or_none")]
    pub minimum: Option<String>,
    /// Match all of it or nothing
    #[arg(long)]
    all_or_none: bool,
    /// Take it off the book after that time: 30s, 10min, 2h, 3d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = trade::lasts)]
    pub expires: Option<i64>,
}

impl How {
    pub fn all_or_none(&self) -> Option<bool> {
        self.all_or_none.then_some(true)
    }
}

pub async fn main(args: Make) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let how = &args.how;
    let reply = client
        .call(|tixd| {
            tixd.offer(
                &args.principal,
                &args.give,
                &args.want,
                how.minimum.as_deref(),
                how.all_or_none(),
                how.expires,
            )
        })
        .await?;
    trade::placed(&mut client, &reply, args.json, args.step).await
}
