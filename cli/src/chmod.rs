// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl chmod`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;
use tix_api::{Tix, units};

/// Change who may do what with a currency
///
/// A mode has three rights for each of the owner (u), the group (g) and others (o): f, fund it; c,
/// change it (destroy it, take its tickets away); i, issue its tickets. Only its owner and root may
/// change it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Symbolic (g+f, o-i, u=fci,go-c), nine characters (fci-c----), or octal (740)
    #[arg(value_parser = mode, allow_hyphen_values = true)]
    mode: String,
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    #[command(flatten)]
    step: Step,
}

/// tixd does it against the mode as it is then; what is a mode for no currency is wrong usage.
fn mode(text: &str) -> Result<String, String> {
    let any = units::mode::apply(0, text);
    any.map(|_| text.to_owned()).map_err(|e| e.to_string())
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client
        .call(|tixd| tixd.chmod(&args.name, &args.mode))
        .await?;
    let name = reply.name.unwrap_or(args.name);
    let mode = units::mode::show(u16::try_from(reply.mode).unwrap_or_default());
    args.step
        .done(&mut client, &format!("{name} has the mode {mode}."))
        .await
}
