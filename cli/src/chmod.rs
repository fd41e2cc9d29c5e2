// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl chmod`

use crate::client::Client;
use crate::failure::Failure;
use tix_api::Tix;

/// Change who may do what with a currency
///
/// A mode has three rights for each of the owner (u), the group (g) and others (o): f, fund it; c, change it (destroy it, take its
/// tickets away); i, issue its tickets. Only its owner and root may change it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Symbolic (g+f, o-i, u=fci,go-c), nine characters (fci-c----), or octal (740)
    #[arg(value_parser = mode, allow_hyphen_values = true)]
    mode: String,
    /// The currency
    name: String,
}

/// tixd does it against the mode as it is then; what is a mode for no currency is wrong usage.
fn mode(text: &str) -> Result<String, String> {
    match tix_api::mode::evaluate(text, 0) {
        Some(_) => Ok(text.to_owned()),
        None => Err(NO_MODE.into()),
    }
}

pub const NO_MODE: &str =
    "a mode is symbolic (g+f, u=fci,go-c), nine characters (fci-c----), or octal (740)";

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    client
        .call(|tixd| tixd.chmod(&args.name, &args.mode))
        .await?;
    Ok(())
}
