// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl disk disable`

use crate::candidates;
use crate::failure::Failure;
use crate::report::Report;
use crate::untried::Untried;
use clap_complete::ArgValueCandidates;
use tix_api::{DiskMechanism, Tix};
use tix_client::Client;

/// Turn off what shares a disk: everybody uses it as if there were no tickets
///
/// Tickets for the disk stay, and count again once it is enabled. Only root may.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The disk, as in /dev: vda
    #[arg(add = ArgValueCandidates::new(candidates::disks))]
    device: String,
    #[command(flatten)]
    report: Report,
    #[command(flatten)]
    untried: Untried,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    args.untried.check(
        "this changes what the kernel does with the disk",
        "`tixctl disk list` shows what shares each disk; `tixctl disk enable DISK` takes it back",
    )?;
    let mut client = Client::connect().await?;
    let device = &args.device;
    let done = client.call(|tixd| tixd.disk_disable(device)).await?;
    args.report.print(&match done.was {
        DiskMechanism::Iocost => format!("Nothing shares {device} now: iocost is off."),
        DiskMechanism::Bfq => format!("Nothing shares {device} now: BFQ is off."),
        DiskMechanism::None => format!("Nothing shares {device}, as before."),
    })
}
