// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl disk enable`

use crate::candidates;
use crate::failure::Failure;
use crate::out;
use crate::report::Report;
use crate::untried::Untried;
use clap_complete::ArgValueCandidates;
use tix_api::{DiskEnableReply, DiskMechanism, Tix};
use tix_client::Client;

/// Measure a disk and turn on iocost for it, or BFQ
///
/// iocost holds requests back by a model of the disk, so the disk is read from for some nine
/// seconds, as fast as it can; measure it while nobody else uses it. It is 6 % slower afterwards.
/// Writing is taken to cost what reading does. It holds until the next boot. Only root may.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The disk, as in /dev: vda
    #[arg(add = ArgValueCandidates::new(candidates::disks))]
    device: String,
    /// BFQ instead: nothing is measured, but shares are less exact and requests wait longer
    #[arg(long)]
    bfq: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: Report,
    #[command(flatten)]
    untried: Untried,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    args.untried.check(
        "this measures the disk and changes what the kernel does with it",
        "`tixctl disk list` shows what shares each disk; `tixctl disk disable DISK` takes it back",
    )?;
    let mut client = Client::connect().await?;
    let done = client
        .call(|tixd| tixd.disk_enable(&args.device, Some(args.bfq)))
        .await?;
    match args.json {
        true => out::json(&done),
        false => args.report.print(&render(&args.device, &done)),
    }
}

fn render(device: &str, done: &DiskEnableReply) -> String {
    let mut text = match done.mechanism {
        DiskMechanism::Iocost => format!("iocost holds shares of {device} now"),
        DiskMechanism::Bfq => format!("BFQ holds shares of {device} now"),
        DiskMechanism::None => format!("nothing holds shares of {device}"),
    };
    if let (Some(random), Some(sequential), Some(bytes)) =
        (done.random_iops, done.sequential_iops, done.bytes_per_sec)
    {
        text += &format!(
            "\nmeasured: {random} reads/s anywhere, {sequential} reads/s in a row, {}/s",
            out::bytes(bytes)
        );
    }
    for line in [&done.model, &done.qos].into_iter().flatten() {
        text += &format!("\n{line}");
    }
    text
}
