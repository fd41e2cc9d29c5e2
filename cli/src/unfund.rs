// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unfund`

use crate::failure::Failure;
use crate::step::Step;
use crate::ticket::{Ticket, tickets};
use tix_api::Tix;

/// Take tickets back from a currency
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    /// How many tickets; all of them without this
    #[arg(value_parser = tickets, allow_negative_numbers = true)]
    amount: Option<i64>,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Args {
        ticket,
        amount,
        step,
    } = args;
    let mut client = step.connect().await?;
    let resource = ticket.resource();
    let reply = client
        .call(|tixd| tixd.unfund(&ticket.holder, &ticket.from, resource, amount))
        .await?;
    step.done(&mut client, &ticket.held(reply)).await
}
