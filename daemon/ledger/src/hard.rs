// SPDX-License-Identifier: GPL-2.0-only
//! Hard tickets (Sullivan §2.4): a fixed part of the issuer, whatever soft tickets it issues beside
//! them. How many it may issue, and which of them it cannot honour any more.

use super::{BASE, Cid, HARD_WHOLE, Kind, Ledger, MAX_HARD_OF_BASE, Refusal, Resource};
use serde::{Deserialize, Serialize};

/// How much of its issuer a hard ticket is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hard {
    /// Thousandths of it, 1 … 999.
    Milli(u64),
    /// So many bytes of memory.
    Bytes(u64),
}

/// A guarantee that is not worth what it says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unheld {
    pub holder: Cid,
    pub issuer: Cid,
    pub resource: Resource,
    /// Bytes that it says, and bytes that it is worth.
    pub bytes: u64,
    pub worth: u64,
}

impl Ledger {
    /// The ticket that `asked` stands for: its amount, and whether that is bytes. Refuses what the
    /// issuer has not left.
    pub(super) fn check_hard(
        &self,
        issuer: Cid,
        holder: Cid,
        r: Resource,
        asked: Hard,
    ) -> Result<(u64, bool), Refusal> {
        let memory = r == Resource::Memory;
        let (amount, bytes) = match asked {
            Hard::Milli(n @ 1..HARD_WHOLE) if memory && issuer == BASE => {
                let all = u128::from(self.total(r));
                let n = all * u128::from(n) / u128::from(HARD_WHOLE);
                (u64::try_from(n).unwrap_or(u64::MAX).max(1), true)
            }
            Hard::Milli(n @ 1..HARD_WHOLE) => (n, false),
            Hard::Bytes(n) if memory && n > 0 => (n, true),
            Hard::Milli(n) => return Err(Refusal::BadHard(format!("{n} thousandths"))),
            Hard::Bytes(n) => return Err(Refusal::BadHard(format!("{n} bytes of {}", r.name()))),
        };
        let (taken, all) = self.hard_taken(issuer, r);
        let known = self.held(holder, issuer, r, Kind::Hard);
        let mine = known.map_or(0, |g| self.hard_size(issuer, r, g.amount, g.bytes));
        let most = match issuer {
            BASE => MAX_HARD_OF_BASE,
            _ => HARD_WHOLE - 1,
        };
        let most = u64::try_from(u128::from(all) * u128::from(most) / u128::from(HARD_WHOLE))
            .unwrap_or(u64::MAX);
        let taken = taken - mine.min(taken);
        let size = self.hard_size(issuer, r, amount, bytes);
        let left = most.saturating_sub(taken);
        if size > left {
            return Err(Refusal::TooMuch {
                issuer: self.name(issuer),
                resource: r,
                asked: size,
                left,
            });
        }
        Ok((amount, bytes))
    }

    /// A hard ticket in the unit of [`Ledger::hard_taken`].
    fn hard_size(&self, issuer: Cid, r: Resource, amount: u64, bytes: bool) -> u64 {
        if r != Resource::Memory || bytes {
            return amount;
        }
        let (_, all) = self.hard_taken(issuer, r);
        let n = u128::from(all) * u128::from(amount) / u128::from(HARD_WHOLE);
        u64::try_from(n).unwrap_or(u64::MAX)
    }

    /// Guarantees in bytes that are worth less: their issuer has less than it gave, or the machine
    /// has.
    pub fn unheld(&self) -> Vec<Unheld> {
        let r = Resource::Memory;
        let mut out: Vec<Unheld> = (self.in_bytes.iter())
            .filter_map(|(issuer, holder)| {
                let g = self.held(*holder, *issuer, r, Kind::Hard)?;
                let t = self
                    .tickets(self.get(*holder)?, r)
                    .find(|t| t.issuer == *issuer && t.kind == Kind::Hard)?;
                let worth = u64::try_from(self.ticket_value(&t, r, true) >> 64).unwrap_or(0);
                // Rounding may cost it a few bytes.
                (worth + 16 < g.amount).then_some(Unheld {
                    holder: *holder,
                    issuer: *issuer,
                    resource: r,
                    bytes: g.amount,
                    worth,
                })
            })
            .collect();
        out.sort();
        out
    }
}
