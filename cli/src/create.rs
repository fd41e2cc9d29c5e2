// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl create`

use crate::client::Client;
use crate::failure::Failure;
use tix_api::Tix;

/// Create a currency
///
/// It is yours, and worth nothing until it is funded (`tixctl fund`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name: a lower-case letter, then up to 62 lower-case letters, digits, `_` and `-`
    name: String,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    client
        .call(|tixd| tixd.create(&args.name, None, None, None))
        .await?;
    Ok(())
}
