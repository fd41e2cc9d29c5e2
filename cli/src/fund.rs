// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl fund`

use crate::failure::Failure;
use crate::step::Step;
use crate::ticket::{Ticket, tickets};
use tix_api::Tix;

/// Give a currency tickets of another one
///
/// They are added to what it already holds of that issuer; with --set it holds so many afterwards,
/// however many it held.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    /// How many tickets: 1 to 2147483648
    #[arg(value_parser = tickets, allow_negative_numbers = true)]
    amount: i64,
    /// Set what it holds to AMOUNT, instead of adding AMOUNT
    #[arg(long)]
    set: bool,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Args {
        ticket,
        amount,
        set,
        step,
    } = args;
    let mut client = step.connect().await?;
    let resource = ticket.resource();
    let (holder, issuer) = (&ticket.holder, &ticket.from);
    let reply = match set {
        true => {
            client
                .call(|tixd| tixd.set_funding(holder, issuer, resource, amount))
                .await
        }
        false => {
            client
                .call(|tixd| tixd.fund(holder, issuer, resource, amount))
                .await
        }
    }?;
    step.done(&mut client, &ticket.held(reply)).await
}
