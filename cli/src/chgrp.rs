// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl chgrp`

use crate::candidates;
use crate::chown;
use crate::failure::Failure;
use crate::step::Step;
use crate::users;
use clap_complete::ArgValueCandidates;

/// Change the group of a currency
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The new group, by name or by number
    group: String,
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let group = users::gid(&args.group)?;
    chown::change(&args.name, None, Some(group), args.step).await
}
