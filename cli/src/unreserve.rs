// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unreserve`

use crate::failure::Failure;
use crate::step::Step;
use crate::ticket::Ticket;
use tix_api::Tix;

/// Take a guarantee back
///
/// Tickets that the holder has of the same issuer (`tixctl fund`) stay.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    #[command(flatten)]
    step: Step,
}

pub async fn main(Args { ticket, step }: Args) -> Result<(), Failure> {
    let mut client = step.connect().await?;
    let resource = ticket.resource();
    let reply = client
        .call(|tixd| tixd.unreserve(&ticket.holder, &ticket.from, resource))
        .await?;
    let (holder, issuer, of) = (reply.holder, reply.issuer, resource.name());
    step.done(
        &mut client,
        &format!("{holder} is guaranteed nothing of the {of} of {issuer} any more."),
    )
    .await
}
