// SPDX-License-Identifier: GPL-2.0-only
//! Tickets on the command line: who holds them, who issues them, of what, and how many.

use crate::candidates;
use clap::ValueEnum;
use clap_complete::ArgValueCandidates;
use tix_api::{FundReply, Resource};

/// Whose tickets, and of what; `fund`, `unfund`, `reserve` and `unreserve` take the same.
#[derive(Debug, clap::Args)]
pub struct Ticket {
    /// The currency whose tickets they are
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    pub holder: String,
    /// The currency that issues them
    #[arg(long, value_name = "ISSUER", add = ArgValueCandidates::new(candidates::currencies))]
    pub from: String,
    /// What the tickets are tickets for
    resource: ResourceArg,
}

impl Ticket {
    pub fn resource(&self) -> Resource {
        self.resource.into()
    }

    /// What the holder has of the issuer now, both by their names in full.
    pub fn held(self, reply: FundReply) -> String {
        let resource = self.resource().name();
        let holder = reply.holder.unwrap_or(self.holder);
        let issuer = reply.issuer.unwrap_or(self.from);
        match reply.amount {
            0 => format!("{holder} holds no {resource} tickets of {issuer} any more."),
            1 => format!("{holder} holds 1 {resource} ticket of {issuer}."),
            n => format!("{holder} holds {n} {resource} tickets of {issuer}."),
        }
    }
}

/// A resource on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResourceArg {
    /// CPU time
    Cpu,
    /// Disk input and output
    Disk,
    /// Memory
    Memory,
    /// Network output: not enforced yet, and only taken back
    Net,
}

impl From<ResourceArg> for Resource {
    fn from(resource: ResourceArg) -> Resource {
        match resource {
            ResourceArg::Cpu => Resource::Cpu,
            ResourceArg::Disk => Resource::Disk,
            ResourceArg::Memory => Resource::Memory,
            ResourceArg::Net => Resource::Net,
        }
    }
}

/// Parses a number of tickets.
pub fn tickets(text: &str) -> Result<i64, String> {
    const MOST: i64 = 1 << 31;
    match text.parse() {
        Ok(amount) if (1..=MOST).contains(&amount) => Ok(amount),
        _ => Err(format!("tickets are whole numbers from 1 to {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::tickets;

    #[test]
    fn tickets_are_whole_and_in_range() {
        assert_eq!(tickets("1"), Ok(1));
        assert_eq!(tickets("2147483648"), Ok(2_147_483_648));
        for wrong in [
            "0",
            "-1",
            "2147483649",
            "99999999999999999999",
            "1.5",
            "25%",
            "",
            "ten",
            " 1",
        ] {
            assert!(tickets(wrong).is_err(), "{wrong:?}");
        }
    }
}
