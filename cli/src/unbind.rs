// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unbind`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Let a cgroup be funded by its parent again
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency that is bound to it
    #[arg(add = ArgValueCandidates::new(candidates::created))]
    name: String,
    /// Of several cgroups or units that the currency is bound to, only this one
    #[arg(value_name = "CGROUP-OR-UNIT", add = ArgValueCandidates::new(candidates::cgroups))]
    target: Option<String>,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client
        .call(|tixd| tixd.unbind(&args.name, args.target.as_deref()))
        .await?;
    let (name, cgroups) = (reply.name, reply.cgroups.join(", "));
    let parents = match reply.cgroups.len() {
        1 => "its parent funds it again",
        _ => "their parents fund them again",
    };
    args.step
        .done(
            &mut client,
            &format!("{name} is no longer bound to {cgroups}: {parents}."),
        )
        .await
}
