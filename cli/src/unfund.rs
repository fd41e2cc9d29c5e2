// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unfund`

use crate::failure::Failure;
use crate::report::Report;
use crate::ticket::{Ticket, tickets};
use tix_api::Tix;
use tix_client::Client;

/// Take tickets back from a currency
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    /// How many tickets; all of them without this
    #[arg(value_parser = tickets, allow_negative_numbers = true)]
    amount: Option<i64>,
    #[command(flatten)]
    report: Report,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Args {
        ticket,
        amount,
        report,
    } = args;
    let mut client = Client::connect().await?;
    let resource = ticket.resource();
    let reply = client
        .call(|tixd| tixd.unfund(&ticket.holder, &ticket.from, resource, amount))
        .await?;
    report.print(&ticket.held(reply))
}
