// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl offer cancel`

use crate::cancel::{self, What};
use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;

/// Take an offer off the book
///
/// What was exchanged by it stays exchanged: `tixctl exchange end` undoes that.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The offer, as `tixctl offer list` numbers it
    #[arg(add = ArgValueCandidates::new(candidates::offers))]
    id: u64,
    #[command(flatten)]
    step: Step,
}

pub async fn main(Args { id, step }: Args) -> Result<(), Failure> {
    cancel::cancel(id, What::Offer, step).await
}
