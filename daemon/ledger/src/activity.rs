// SPDX-License-Identifier: GPL-2.0-only
//! Who is active (model.md §2), and the sums over tickets that follow from it.
//!
//! Each issuer keeps the sum of its tickets and of the active ones. Whatever changes the tickets of
//! a holder goes through [`Ledger::retake`]: they are taken out of the sums, changed, and put in
//! again. So a change costs the holder's tickets and, where somebody's activity turns, the tickets
//! above it.

use super::{Cid, Currency, Ledger, Resource, Ticket};

impl Ledger {
    /// A principal is active while its threads are; any other currency while a ticket it issued is.
    pub fn active(&self, c: Cid, r: Resource) -> bool {
        self.get(c).is_some_and(|x| {
            let side = x.side(r);
            side.running || side.active.count > 0
        })
    }

    /// Do the threads directly in the cgroup of `c` want the resource?
    pub fn is_running(&self, c: Cid, r: Resource) -> bool {
        self.get(c).is_some_and(|x| x.side(r).running)
    }

    /// The threads directly in the cgroup of `c` want the resource, or do not any longer.
    pub fn set_running(&mut self, c: Cid, r: Resource, on: bool) {
        let Some(side) = self.currencies.get_mut(&c).map(|x| x.side_mut(r)) else {
            return;
        };
        if side.running == on {
            return;
        }
        let others = side.active.count > 0;
        side.running = on;
        self.epoch += 1;
        if !others {
            self.turned(c, r, on);
        }
    }

    /// Exactly these want the CPU.
    pub fn set_all_running(&mut self, r: Resource, running: &dyn Fn(Cid) -> bool) {
        let flips: Vec<(Cid, bool)> = self
            .iter()
            .map(|(c, x)| (c, x.side(r).running, running(c)))
            .filter(|(_, was, is)| was != is)
            .map(|(c, _, is)| (c, is))
            .collect();
        for (c, on) in flips {
            self.set_running(c, r, on);
        }
    }

    /// `c` has become active, or has ceased to be: so have the tickets that back it.
    fn turned(&mut self, c: Cid, r: Resource, on: bool) {
        let Some(x) = self.get(c) else { return };
        let backing: Vec<Ticket> = self.tickets(x, r).filter(|t| !t.kept).collect();
        for t in &backing {
            self.count_active(t, r, on);
        }
    }

    fn count_active(&mut self, t: &Ticket, r: Resource, on: bool) {
        let Some(side) = self.currencies.get_mut(&t.issuer).map(|x| x.side_mut(r)) else {
            return;
        };
        match on {
            true => side.active.add(t),
            false => side.active.sub(t),
        }
        let turned = !side.running && side.active.count == u32::from(on);
        if turned {
            self.turned(t.issuer, r, on);
        }
    }

    /// Changes what backs `holder`.
    pub(super) fn retake<T>(
        &mut self,
        holder: Cid,
        change: impl FnOnce(&mut Currency) -> T,
    ) -> Option<T> {
        self.count_all(holder, false);
        let done = self.currencies.get_mut(&holder).map(|c| change(c));
        self.count_all(holder, true);
        self.reshaped();
        done
    }

    /// All that backs `holder` into the sums, or out of them.
    pub(super) fn count_all(&mut self, holder: Cid, on: bool) {
        for r in Resource::ALL {
            let Some(x) = self.get(holder) else { return };
            let backing: Vec<Ticket> = self.tickets(x, r).collect();
            for t in &backing {
                self.count_one(holder, r, t, on);
            }
        }
    }

    /// One ticket more in the sums, or less.
    pub(super) fn count_one(&mut self, holder: Cid, r: Resource, t: &Ticket, on: bool) {
        let active = !t.kept && self.active(holder, r);
        if let Some(side) = self.currencies.get_mut(&t.issuer).map(|x| x.side_mut(r)) {
            let n = side.holders.entry(holder).or_insert(0);
            match on {
                true => *n += 1,
                false => *n -= 1,
            }
            if *n == 0 {
                side.holders.remove(&holder);
            }
            if t.counted {
                match on {
                    true => side.issued.add(t),
                    false => side.issued.sub(t),
                }
            }
        }
        if active {
            self.count_active(t, r, on);
        }
    }
}
