// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl cancel`: offers and exchanges are numbered together, and tixd ends either.

use crate::ask;
use crate::failure::Failure;
use crate::step::Step;
use crate::trade;
use tix_api::{Error, Exchange, ExchangeState, Tix};
use tix_client::Client;

/// Take an offer off the book, or end an exchange
///
/// Either side may end an exchange; each side has back what it gave, and the other is told. The
/// same as `tixctl offer cancel` and `tixctl exchange end`, whichever of the two has the number.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The number of the offer or the exchange
    id: u64,
    /// Do not ask; where there is no terminal to ask on, no exchange is ended without this
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    step: Step,
}

pub async fn main(Args { id, yes, step }: Args) -> Result<(), Failure> {
    cancel(id, What::Either { yes }, step).await
}

/// What the number is to be of; `yes`: nobody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Offer,
    Exchange { yes: bool },
    Either { yes: bool },
}

pub async fn cancel(id: u64, what: What, step: Step) -> Result<(), Failure> {
    let mut client = step.connect().await?;
    if what != (What::Either { yes: true }) {
        check(
            id,
            what,
            step.is_dry(),
            exchange(&mut client, id).await?.as_ref(),
        )?;
    }
    let reply = client.call(|tixd| tixd.cancel(id)).await?;
    step.done(
        &mut client,
        &match reply.exchange {
            true => format!("exchange {id} is revoked: each side has back what it gave"),
            false => format!("offer {id} is off the book"),
        },
    )
    .await
}

/// The exchange of that number that is in force, if there is one.
async fn exchange(client: &mut Client, id: u64) -> Result<Option<Exchange>, Failure> {
    match client.call(|tixd| tixd.show_exchange(id)).await {
        Ok(reply) => {
            let live = reply.exchange.state == ExchangeState::Active;
            Ok(Some(reply.exchange).filter(|_| live))
        }
        Err(tix_client::Error::Refused(Error::NoSuchOffer { .. })) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// May it be done? Nobody gives back what was exchanged by a slip.
fn check(id: u64, what: What, dry: bool, exchange: Option<&Exchange>) -> Result<(), Failure> {
    match (what, exchange) {
        (What::Offer, Some(_)) => Err(Failure::refused(
            format!("{id} is an exchange, not an offer"),
            format!("`tixctl exchange end {id}` ends it"),
        )),
        (What::Exchange { .. }, None) => Err(Failure::refused(
            format!("no exchange {id} is in force"),
            "`tixctl exchange list` shows those that are",
        )),
        (What::Exchange { yes: false } | What::Either { yes: false }, Some(live)) if !dry => {
            let question = format!("{}\nEnd it?", trade::exchange(live));
            match ask::agrees(&question) {
                true => Ok(()),
                false => Err(Failure::refused(
                    format!("exchange {id} is in force, and goes on"),
                    format!("`tixctl exchange end {id} --yes` ends it"),
                )),
            }
        }
        _ => Ok(()),
    }
}
