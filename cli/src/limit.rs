// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl limit`

use crate::candidates;
use crate::failure::Failure;
use crate::holds;
use crate::step::Step;
use crate::ticket::ResourceArg;
use clap_complete::ArgValueCandidates;
use tix_api::{Tix, units};

/// Limit what a currency and all that it funds have of the CPU
///
/// Of a cgroup's currency that is the cgroup and all below it, as with its cpu.max, which goes on
/// to hold beside it. Of a named one it is the cgroups that it is bound to, and those of currencies
/// below it: of several funders the one counts that most of a currency's entitlement comes from.
/// What it may not have others get. The limit takes the place of the one that it had.
///
/// The owner may limit a currency, and whom the mode lets change it (c); what root limited only
/// root changes. `tixctl explain` says which limits count for a currency, and how often they made
/// it wait.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    /// What is limited: cpu
    #[arg(hide_possible_values = true)]
    resource: ResourceArg,
    /// How much, in per cent of one CPU: 30%, or 150% for one and a half (0.1% to 102400%)
    #[arg(value_parser = milli, allow_negative_numbers = true)]
    amount: u64,
    #[command(flatten)]
    step: Step,
}

fn milli(text: &str) -> Result<u64, String> {
    units::limit(text).map_err(|e| e.to_string())
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let milli = args.amount.cast_signed();
    let reply = client
        .call(|tixd| tixd.limit(&args.name, args.resource.into(), milli))
        .await?;
    let name = reply.name.unwrap_or(args.name);
    let most = units::display_thousandths(args.amount);
    match reply.not_held {
        _ if args.step.is_dry() => {}
        Some(problem) => holds::warn("the limit is kept", Some(&problem)),
        // A tixd from before it said why.
        None if !reply.in_force => eprintln!(
            "tixctl: the limit is kept, and does not hold now: tix's scheduler is not in force \
             (`tixctl status` says why)"
        ),
        None => {}
    }
    args.step
        .done(
            &mut client,
            &format!("{name}, with all that it funds, is limited to {most} of one CPU."),
        )
        .await
}
