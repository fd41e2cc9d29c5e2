// SPDX-License-Identifier: GPL-2.0-only
//! The dealer against an oracle that looks at every offer and tries every amount, and what it
//! promises whatever is offered.

#![allow(clippy::unwrap_used)]

mod market;
mod oracle;
mod props;
mod rules;

use std::collections::BTreeMap;
use tix_ledger::dealer::{Deal, Venue};
use tix_ledger::{Cid, Resource};

/// What each party has, and no more can it give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purse(pub BTreeMap<(Cid, Resource), i128>);

impl Purse {
    pub fn of(parties: impl IntoIterator<Item = Cid>, each: i128) -> Purse {
        let all = |p| Resource::ALL.map(|r| ((p, r), each));
        Purse(parties.into_iter().flat_map(all).collect())
    }

    pub fn sum(&self, r: Resource) -> i128 {
        let of = self.0.iter().filter(|((_, x), _)| *x == r);
        of.map(|(_, n)| n).sum()
    }
}

impl Venue for Purse {
    fn carry_out(&mut self, deals: &[Deal]) -> Result<(), Cid> {
        let before = self.0.clone();
        for deal in deals {
            for t in &deal.transfers {
                *self.0.entry((t.from, t.resource)).or_insert(0) -= i128::from(t.amount);
                *self.0.entry((t.to, t.resource)).or_insert(0) += i128::from(t.amount);
            }
            // In the order of the transfers, as a deal is a whole.
            for t in &deal.transfers {
                if self.0[&(t.from, t.resource)] < 0 {
                    self.0 = before;
                    return Err(t.from);
                }
            }
        }
        Ok(())
    }
}
