// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unreserve`

use crate::failure::Failure;
use crate::report::Report;
use crate::ticket::Ticket;
use tix_api::Tix;
use tix_client::Client;

/// Take a guarantee back
///
/// Tickets that the holder has of the same issuer (`tixctl fund`) stay.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    #[command(flatten)]
    report: Report,
}

pub async fn main(Args { ticket, report }: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let resource = ticket.resource();
    let reply = client
        .call(|tixd| tixd.unreserve(&ticket.holder, &ticket.from, resource))
        .await?;
    let (holder, issuer, of) = (reply.holder, reply.issuer, resource.name());
    report.print(&format!(
        "{holder} is guaranteed nothing of the {of} of {issuer} any more."
    ))
}
