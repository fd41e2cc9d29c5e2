// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl cancel`

use crate::failure::Failure;
use crate::out;
use tix_api::Tix;
use tix_client::Client;

/// Take an offer off the book, or end an exchange
///
/// Either side may end an exchange; all of it is undone at once, and the other side is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The number of the offer or the exchange
    id: u64,
}

pub async fn main(Args { id }: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let reply = client.call(|tixd| tixd.cancel(id)).await?;
    out::print(&match reply.exchange {
        true => format!("exchange {id} is revoked"),
        false => format!("offer {id} is off the book"),
    })
}
