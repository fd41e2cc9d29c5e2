// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl unfund`

use crate::client::Client;
use crate::failure::Failure;
use crate::fund::{ResourceArg, tickets};
use tix_api::Tix;

/// Take tickets back from a currency
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency that holds the tickets
    holder: String,
    /// The currency that issued them
    #[arg(long, value_name = "ISSUER")]
    from: String,
    /// What the tickets are tickets for
    resource: ResourceArg,
    /// How many tickets; all of them without this
    #[arg(value_parser = tickets, allow_negative_numbers = true)]
    amount: Option<i64>,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let resource = args.resource.into();
    client
        .call(|tixd| tixd.unfund(&args.holder, &args.from, resource, args.amount))
        .await?;
    Ok(())
}
