// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unlimit`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use crate::ticket::ResourceArg;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Lift a currency's limit
///
/// Those of currencies above it go on to count, and so does the cpu.max of its cgroup.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    /// What was limited: cpu
    #[arg(hide_possible_values = true)]
    resource: ResourceArg,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client
        .call(|tixd| tixd.unlimit(&args.name, args.resource.into()))
        .await?;
    args.step
        .done(
            &mut client,
            &format!("{} has no limit of its own any more.", reply.name),
        )
        .await
}
