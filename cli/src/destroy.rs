// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl destroy`

use crate::failure::Failure;
use tix_api::Tix;
use tix_client::Client;

/// Destroy a currency, with all the tickets it issued or holds
///
/// A cgroup bound to it is funded by its parent again, with its cpu.weight. The currency of a cgroup itself goes when the cgroup is
/// removed, never by this.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    name: String,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    Ok(client.call(|tixd| tixd.destroy(&args.name)).await?)
}
