// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl run`

use crate::candidates;
use crate::failure::Failure;
use crate::holds;
use crate::job::{self, Job};
use crate::report::Report;
use crate::ticket::tickets;
use crate::untried::Untried;
use clap_complete::ArgValueCandidates;
use tix_api::{Resource, Tix, units};

/// Run a command in a cgroup of its own, with tickets of its own
///
/// It gets a new currency, which goes when the command has ended, with everything it started. With
/// systemd the cgroup is a scope: of the caller's own systemd (no privileges needed), or of the
/// system's for root. Without, it is made below the caller's cgroup, or beside it if only that is
/// possible; what was changed there for it is taken back when the command has ended.
///
/// The exit status is the command's; 1, 2 or 3 if it was not started.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    job: Job,
    /// How many cpu tickets it gets: 1 to 2147483648 [default: 100]
    #[arg(long, value_name = "TICKETS", value_parser = tickets, allow_negative_numbers = true)]
    cpu: Option<i64>,
    /// The currency that issues them [default: your user's currency]
    #[arg(long, value_name = "ISSUER", add = ArgValueCandidates::new(candidates::currencies))]
    from: Option<String>,
    #[command(flatten)]
    report: Report,
    #[command(flatten)]
    untried: Untried,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let Args {
        job,
        cpu,
        from,
        report,
        untried,
    } = args;
    untried.check(
        "this makes a cgroup and starts the command",
        "`tixctl explain base` shows what has been issued; what the command gets goes when it ends",
    )?;
    job::launch(job, from, async |client, asked| {
        client
            .call(|tixd| tixd.run_begin(asked.name, asked.from, cpu, asked.cgroup))
            .await
            .map(|reply| {
                let tickets = units::rights::show(Resource::Cpu, reply.amount * 1000);
                report.say(&format!(
                    "{} holds {tickets} of {}",
                    reply.name, reply.issuer
                ));
                holds::warn("it has its tickets", reply.not_held.as_ref());
            })
    })
}
