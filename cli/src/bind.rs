// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl bind`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Let a currency fund a cgroup or unit
///
/// It does so instead of the tickets that the cgroup has from its parent by its cpu.weight; `tixctl
/// unbind` gives it those back.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::created))]
    name: String,
    /// The cgroup's path below the cgroup root (/user.slice/…), or the systemd unit
    #[arg(value_name = "CGROUP-OR-UNIT", add = ArgValueCandidates::new(candidates::cgroups))]
    target: String,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client
        .call(|tixd| tixd.bind(&args.name, &args.target))
        .await?;
    let name = reply.name.unwrap_or(args.name);
    args.step
        .done(
            &mut client,
            &format!("{name} is bound to {}.", reply.cgroup),
        )
        .await
}
