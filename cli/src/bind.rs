// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl bind`

use crate::candidates;
use crate::failure::Failure;
use crate::report::Report;
use clap_complete::ArgValueCandidates;
use tix_api::Tix;
use tix_client::Client;

/// Let a currency fund a cgroup or unit
///
/// It does so instead of the tickets that the cgroup has from its parent by its cpu.weight; `tixctl unbind` gives it those back.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::created))]
    name: String,
    /// The cgroup's path below the cgroup root (/user.slice/…), or the systemd unit
    #[arg(value_name = "CGROUP-OR-UNIT", add = ArgValueCandidates::new(candidates::cgroups))]
    target: String,
    #[command(flatten)]
    report: Report,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let reply = client
        .call(|tixd| tixd.bind(&args.name, &args.target))
        .await?;
    let name = reply.name.unwrap_or(args.name);
    let report = args.report;
    report.print(&format!("{name} is bound to {}.", reply.cgroup))
}
