// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl exchange end`

use crate::cancel::{self, What};
use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;

/// End an exchange: each side has back what it gave
///
/// Either side may end it, whatever the other says; the other is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The exchange, as `tixctl exchange list` numbers it
    #[arg(add = ArgValueCandidates::new(candidates::exchanges))]
    id: u64,
    /// Do not ask; where there is no terminal to ask on, nothing is ended without this
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    step: Step,
}

pub async fn main(Args { id, yes, step }: Args) -> Result<(), Failure> {
    cancel::cancel(id, What::Exchange { yes }, step).await
}
