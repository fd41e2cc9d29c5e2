// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl nice`

use crate::candidates;
use crate::failure::Failure;
use crate::holds;
use crate::job::{self, Job};
use crate::report::Report;
use crate::ticket::tickets;
use crate::untried::Untried;
use clap_complete::ArgValueCandidates;
use tix_api::{Resource, Tix, units};

/// Run a command with tickets that your currency gives up for it
///
/// As `tixctl run`, in a cgroup of its own, but with base tickets: what the command gets is fixed.
/// It does not shrink when you start more, and the rest of what is yours is that much smaller as
/// long as it runs. Nobody else has more or less by it.
///
/// The exit status is the command's; 1, 2 or 3 if it was not started.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    job: Job,
    /// How much it gets of the cpu: base tickets, or per cent of what your currency is entitled to
    /// (0.1% to 100%) [default: 10%]
    #[arg(
        long,
        value_name = "TICKETS|PERCENT",
        value_parser = given,
        allow_negative_numbers = true
    )]
    cpu: Option<Given>,
    /// The currency that gives it up [default: your user's currency]
    #[arg(long, value_name = "CURRENCY", add = ArgValueCandidates::new(candidates::currencies))]
    from: Option<String>,
    #[command(flatten)]
    report: Report,
    #[command(flatten)]
    untried: Untried,
}

/// What a currency gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// Base tickets: 1 … 2^31.
    Tickets(i64),
    /// Thousandths of what it is entitled to: 1 … 999.
    Milli(i64),
}

fn given(text: &str) -> Result<Given, String> {
    if text.ends_with('%') {
        let milli = units::thousandths(text).map_err(|e| e.to_string())?;
        return Ok(Given::Milli(milli.cast_signed()));
    }
    tickets(text)
        .map(Given::Tickets)
        .map_err(|why| format!("{why}; or per cent of your currency, such as 10%"))
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
        "what the command gets is yours again when it ends",
    )?;
    let (tickets, milli) = match cpu {
        Some(Given::Tickets(tickets)) => (Some(tickets), None),
        Some(Given::Milli(milli)) => (None, Some(milli)),
        None => (None, None),
    };
    job::launch(job, from, async |client, asked| {
        client
            .call(|tixd| tixd.nice_begin(asked.name, asked.from, tickets, milli, asked.cgroup))
            .await
            .map(|reply| {
                let rights = units::rights::show(Resource::Cpu, reply.milli);
                report.say(&format!(
                    "{} has {rights} of base that {} gives up",
                    reply.name, reply.giver
                ));
                holds::warn("it has its tickets", reply.not_held.as_ref());
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_or_per_cent() {
        assert_eq!(given("10"), Ok(Given::Tickets(10)));
        assert_eq!(given("10%"), Ok(Given::Milli(100)));
        assert_eq!(given("12.5%"), Ok(Given::Milli(125)));
        for wrong in ["0", "0%", "100%", "101%", "-1", "1.5", "ten", "", "%"] {
            assert!(given(wrong).is_err(), "{wrong:?}");
        }
    }
}
