// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl reserve`

use crate::failure::Failure;
use crate::holds;
use crate::step::Step;
use crate::ticket::Ticket;
use tix_api::units::{self, Hard};
use tix_api::{Resource, Tix};

/// Guarantee a currency a fixed part of another one
///
/// However many tickets the issuer gives to others, the holder has that part whenever it wants it;
/// while it does not, others use it. The guarantee takes the place of the one that the holder had
/// of that issuer.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ticket: Ticket,
    /// How much of the issuer: 25% (0.1% to 99.9%), thousandths as a plain number (1 to 999), or a
    /// size of memory (256M, 2G)
    #[arg(value_parser = hard, allow_negative_numbers = true)]
    amount: Hard,
    #[command(flatten)]
    step: Step,
}

/// Of which resource it is shows later.
fn hard(text: &str) -> Result<Hard, String> {
    units::hard(text, true).map_err(|e| e.to_string())
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Args {
        ticket,
        amount,
        step,
    } = args;
    let resource = ticket.resource();
    let (milli, bytes) = match amount {
        Hard::Thousandths(n) => (Some(n.cast_signed()), None),
        Hard::Bytes(_) if resource != Resource::Memory => {
            return Err(Failure::usage(
                format!("a size is an amount of memory, not of {}", resource.name()),
                format!(
                    "say how much of {} in per cent (25%) or in thousandths (250)",
                    ticket.from
                ),
            ));
        }
        Hard::Bytes(n) => (None, Some(n.cast_signed())),
    };
    let mut client = step.connect().await?;
    let reply = client
        .call(|tixd| tixd.reserve(&ticket.holder, &ticket.from, resource, milli, bytes))
        .await?;
    let part = match reply.bytes {
        true => units::display_bytes(reply.amount),
        false => units::display_thousandths(reply.amount),
    };
    let holder = reply.holder.unwrap_or(ticket.holder);
    let issuer = reply.issuer.unwrap_or(ticket.from);
    let of = resource.name();
    let not_held = reply.not_held.filter(|_| !step.is_dry());
    holds::warn("it is reserved", not_held.as_ref());
    step.done(
        &mut client,
        &format!("{holder} is guaranteed {part} of the {of} of {issuer}."),
    )
    .await
}
