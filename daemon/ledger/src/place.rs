// SPDX-License-Identifier: GPL-2.0-only
//! The place that root speaks from keeps a share of the CPU.
//!
//! Problem: base tickets by the hundred thousand for one cgroup leave all others next to nothing,
//! the shell that asked for it as well. The lifeline keeps tixd, which nobody can ask any more.
//! Rule: an operation of root's that takes half and more of what root's own cgroup is entitled to
//! is refused where that leaves it less than a thousandth of the machine. Example: /system.slice
//! has 100 of 400 tickets. 262,144 for /big leave it 0.03 %: refused. After
//! `tixctl fund /system.slice --from base cpu 1000` that is 0.4 %, and is done. Cost: two
//! entitlements for each operation of root's. Limits: policies, and root's processes elsewhere, are
//! not asked; limits do not count.

use super::brokers::Caller;
use super::{BASE, HARD_WHOLE, Ledger, Refusal, Resource, SELF_TICKETS, fraction};

/// Parts of the machine of which one is enough to be heard.
const ENOUGH: f64 = 1.0 / 1000.0;

/// A cgroup, and the fraction of the machine's CPU that it is entitled to.
pub(super) struct Place {
    path: String,
    share: f64,
}

impl Ledger {
    /// Where `caller` speaks from, if that is to keep a share.
    pub(super) fn place_of(&self, caller: &Caller) -> Option<Place> {
        let path = caller.place.as_deref().filter(|_| caller.is_root())?;
        let above = std::iter::successors(Some(path), |p| p.rfind('/').map(|end| &p[..end]));
        let known = above.filter(|p| p.len() > 1).find_map(|p| self.find(p));
        let total = self.total(Resource::Cpu);
        let share = match known {
            Some(cid) => fraction(self.entitlement(cid, Resource::Cpu), total),
            // Base's own threads: the hidden leaf's tickets, of what is not reserved.
            None => {
                let reserved = self.get(BASE)?.side(Resource::Cpu).issued.milli;
                let soft = HARD_WHOLE.saturating_sub(reserved) as f64 / HARD_WHOLE as f64;
                soft * SELF_TICKETS as f64 / total as f64
            }
        };
        let path = known.map_or_else(|| "/".to_owned(), |cid| self.name(cid));
        Some(Place { path, share })
    }

    /// Refuses what has just been done where it leaves `before` too little to take it back.
    pub(super) fn keep_place(&self, before: Option<Place>, caller: &Caller) -> Result<(), Refusal> {
        let (Some(before), Some(now)) = (before, self.place_of(caller)) else {
            return Ok(());
        };
        match now.share < ENOUGH && now.share <= before.share / 2.0 {
            true => Err(Refusal::OwnPlace {
                path: now.path,
                percent: format!("{:.4}", now.share * 100.0),
            }),
            false => Ok(()),
        }
    }
}
