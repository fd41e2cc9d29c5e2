// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl disk list`

use crate::failure::Failure;
use crate::out;
use tix_api::{DiskMechanism, DiskStatus, Tix};
use tix_client::Client;

/// List the disks, and what shares each of them by tickets
///
/// RATE is how fast iocost lets the disk be, in per cent of what was measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let disks = client.call(|tixd| tixd.status()).await?.disks;
    match (args.json, disks.is_empty()) {
        (true, _) => out::json(&disks),
        (false, true) => out::print("There are no disks here that could be shared."),
        (false, false) => out::print(&render(&disks, out::width())),
    }
}

fn render(disks: &[DiskStatus], width: Option<u16>) -> String {
    let row = |disk: &DiskStatus| {
        let shared = match disk.mechanism {
            DiskMechanism::Iocost => "iocost",
            DiskMechanism::Bfq => "BFQ",
            DiskMechanism::None => "nothing",
        };
        let rate = disk.rate.map(|rate| format!("{rate:.0} %"));
        vec![
            disk.device.clone(),
            disk.number.clone(),
            shared.to_owned(),
            rate.unwrap_or_default(),
        ]
    };
    let columns = ["DISK", ">NUMBER", "SHARED BY", ">RATE"];
    let mut text = out::table(&columns, disks.iter().map(row).collect(), width);
    for disk in disks.iter().filter(|disk| !disk.hint.is_empty()) {
        text += &format!("\n{}: {}", disk.device, disk.hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_disk_and_what_to_do_where_nothing_shares_it() {
        let disk = |device: &str, mechanism, rate, hint: &str| DiskStatus {
            device: device.into(),
            number: "254:0".into(),
            mechanism,
            rate,
            hint: hint.into(),
        };
        let disks = [
            disk("vda", DiskMechanism::Iocost, Some(97.5), ""),
            disk("vdb", DiskMechanism::Bfq, None, ""),
            disk(
                "vdc",
                DiskMechanism::None,
                None,
                "`tixctl disk enable vdc` measures it and turns iocost on",
            ),
        ];
        let text = anstream::adapter::strip_str(&render(&disks, None)).to_string();
        insta::assert_snapshot!(text, @r"
        DISK  NUMBER  SHARED BY  RATE
        vda    254:0  iocost     98 %
        vdb    254:0  BFQ
        vdc    254:0  nothing
        vdc: `tixctl disk enable vdc` measures it and turns iocost on
        ");
    }
}
