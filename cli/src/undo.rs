// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl undo`

use crate::failure::Failure;
use crate::step::Step;
use tix_api::Tix;

/// Take back what you did last, or what the log has under a number
///
/// What was given is taken, what was set is set to what it was before. Repeated, it goes back step
/// by step. Where something later would be taken back with it, it is refused, and says which; so it
/// is where what root took from a user would come back as root's.
///
/// An offer is taken off the book; a trade that was made is ended by `tixctl exchange end`. A
/// currency that was destroyed does not come back. What `tixctl run` and `tixctl nice` give a
/// command goes when that ends. What `tixctl disk` does is no such step: `tixctl disk enable` and
/// `tixctl disk disable` take each other back.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The operation, as `tixctl log` numbers it [default: your newest that is not taken back]
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    seq: Option<i64>,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let reply = client.call(|tixd| tixd.undo(args.seq)).await?;
    args.step
        .done(
            &mut client,
            &format!(
                "{} ({}) is taken back: {}.",
                reply.seq, reply.undone, reply.message
            ),
        )
        .await
}
