// SPDX-License-Identifier: GPL-2.0-only
//! Which guarantees cannot be held, as their issuer is worth too little.

use std::collections::HashSet;
use tix_ledger::{Cid, Ledger, Unheld};
use tix_model::units;

#[derive(Debug, Default)]
pub struct Guarantees {
    /// Those that are not worth what they say.
    pub unheld: Vec<Unheld>,
}

/// What has become of a guarantee.
#[derive(Debug)]
pub struct Change {
    pub holder: Cid,
    pub is_held: bool,
    /// One sentence.
    pub message: String,
}

impl Guarantees {
    /// What is new since the last call: guarantees that cannot be held, or can be again.
    pub fn look(&mut self, ledger: &Ledger) -> Vec<Change> {
        let now = ledger.unheld();
        if now == self.unheld {
            return vec![];
        }
        let before = std::mem::replace(&mut self.unheld, now);
        let now = &self.unheld;
        let known: HashSet<&Unheld> = before.iter().collect();
        let still: HashSet<(Cid, Cid)> = now.iter().map(|u| (u.holder, u.issuer)).collect();
        let lost = now.iter().filter(|u| !known.contains(u)).map(|u| Change {
            holder: u.holder,
            is_held: false,
            message: format!(
                "{} of {} for {} are worth {} only: {} has no more",
                units::show_bytes(u.bytes),
                u.resource.name(),
                ledger.name(u.holder),
                units::show_bytes(u.worth),
                ledger.name(u.issuer),
            ),
        });
        let again = before
            .iter()
            .filter(|u| !still.contains(&(u.holder, u.issuer)) && ledger.get(u.holder).is_some());
        let again = again.map(|u| Change {
            holder: u.holder,
            is_held: true,
            message: format!("the guarantee of {} is held again", ledger.name(u.holder)),
        });
        lost.chain(again).collect()
    }
}
