// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl undo`

use crate::failure::Failure;
use crate::step::Step;
use tix_api::Tix;

/// Take back what you did last, or what the log has under a number
///
/// What was given is taken, what was set is set to what it was before. Repeated, it goes back step
/// by step. Where something later would be taken back with it, it is refused, and says which. A
/// currency that was destroyed, a trade, and what `tixctl run` does are not taken back.
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
