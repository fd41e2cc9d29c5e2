// SPDX-License-Identifier: GPL-2.0-only
//! Tickets on top of what the cgroup tree gives: given, withdrawn, given up, and gone with their
//! ends.

use super::brokers::is_root;
use super::{BASE, Cid, End, Event, Grant, Key, Kind, Ledger, Resource, TIXD};
use std::collections::BTreeSet;

impl Ledger {
    /// The ticket that `issuer` gave `holder`.
    pub fn held(&self, holder: Cid, issuer: Cid, r: Resource, kind: Kind) -> Option<Grant> {
        let grants = self.get(holder)?.grants(r);
        grants
            .iter()
            .find(|g| g.issuer == issuer && g.kind == kind)
            .copied()
    }

    pub(super) fn ticket_key(&self, holder: Cid, issuer: Cid, r: Resource, kind: Kind) -> Key {
        Key::Ticket {
            issuer: self.end(issuer),
            holder: self.end(holder),
            resource: r,
            kind,
        }
    }

    /// `g` instead of what `holder` has of that issuer and kind; an amount of 0: nothing.
    pub(super) fn set_grant(&mut self, holder: Cid, r: Resource, g: Grant) -> Event {
        self.note(self.ticket_key(holder, g.issuer, r, g.kind));
        let was = self.put_grant(holder, r, g);
        Event::Funded {
            holder,
            issuer: g.issuer,
            resource: r,
            kind: g.kind,
            bytes: g.bytes,
            was,
            amount: g.amount,
        }
    }

    pub(super) fn put_grant(&mut self, holder: Cid, r: Resource, g: Grant) -> u64 {
        let known = self.held(holder, g.issuer, r, g.kind);
        if let Some(old) = known {
            self.count_one(holder, r, &old.as_ticket(), false);
            self.count_given(old.by, false);
            self.count_by_root(old.by, r, false);
            if old.bytes {
                self.in_bytes.remove(&(old.issuer, holder));
            }
        }
        if let Some(c) = self.currencies.get_mut(&holder) {
            let grants = &mut c.side_mut(r).grants;
            grants.retain(|x| x.issuer != g.issuer || x.kind != g.kind);
            if g.amount > 0 {
                grants.push(g);
            }
        }
        if g.amount > 0 {
            self.count_one(holder, r, &g.as_ticket(), true);
            self.count_given(g.by, true);
            self.count_by_root(g.by, r, true);
            if g.bytes {
                self.in_bytes.insert((g.issuer, holder));
            }
        }
        self.reshaped();
        self.tell_bound(holder, r);
        known.map_or(0, |g| g.amount)
    }

    /// So many soft tickets more.
    pub(super) fn add_soft(
        &mut self,
        holder: Cid,
        issuer: Cid,
        r: Resource,
        amount: u64,
        by: super::By,
    ) -> Event {
        let known = self.held(holder, issuer, r, Kind::Soft);
        let g = Grant {
            issuer,
            kind: Kind::Soft,
            bytes: false,
            amount: known.map_or(0, |g| g.amount) + amount,
            // What root gave a part of waits for its cgroup as a whole.
            by: known.filter(|g| is_root(g.by)).map_or(by, |g| g.by),
        };
        self.set_grant(holder, r, g)
    }

    /// So much less of it, or all. `lapse`: whoever takes it away may not change what base has
    /// issued, so it stays counted.
    pub(super) fn take_away(
        &mut self,
        holder: Cid,
        g: &Grant,
        r: Resource,
        amount: Option<u64>,
        lapse: bool,
    ) -> Event {
        let taken = amount.map_or(g.amount, |a| a.min(g.amount));
        if lapse && g.issuer == BASE && g.kind == Kind::Soft && g.by != TIXD {
            let name = self.name(holder);
            let lapsed = self.lapsed(&name, r) + taken;
            self.set_lapsed(&name, r, lapsed);
        }
        let left = Grant {
            amount: g.amount - taken,
            ..*g
        };
        self.set_grant(holder, r, left)
    }

    /// Base tickets that `name` gave up, or had when it was destroyed by somebody who may not
    /// withdraw them. They count until root does.
    pub fn lapsed(&self, name: &str, r: Resource) -> u64 {
        self.lapsed.get(&(name.to_owned(), r)).copied().unwrap_or(0)
    }

    /// All of those.
    pub fn all_lapsed(&self) -> impl Iterator<Item = (&str, Resource, u64)> {
        self.lapsed.iter().map(|((n, r), a)| (n.as_str(), *r, *a))
    }

    pub(super) fn set_lapsed(&mut self, name: &str, r: Resource, amount: u64) {
        self.note(Key::Lapsed(name.to_owned(), r));
        self.put_lapsed(name, r, amount);
    }

    pub(super) fn put_lapsed(&mut self, name: &str, r: Resource, amount: u64) {
        let key = (name.to_owned(), r);
        let was = match amount {
            0 => self.lapsed.remove(&key),
            _ => self.lapsed.insert(key, amount),
        };
        let total = &mut self.lapsed_total[r.index()];
        *total = *total - was.unwrap_or(0) + amount;
        self.reshaped();
    }

    /// Currencies that hold, wait for or trade rights that nothing enforces, given before they were
    /// refused.
    pub fn holders_of_unenforced(&self) -> BTreeSet<String> {
        let unenforced = |r: &Resource| !r.is_enforced();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for c in self.currencies.values() {
            let mut held = Resource::ALL.into_iter().filter(unenforced);
            if held.any(|r| !c.grants(r).is_empty() || c.delta(r) != 0) {
                names.insert(c.name.clone());
            }
        }
        for key in self.waiting.keys() {
            match key {
                Key::Ticket {
                    holder, resource, ..
                } if unenforced(resource) => names.insert(match holder {
                    End::Cid(c) => self.name(*c),
                    End::Path(path) => path.clone(),
                }),
                _ => continue,
            };
        }
        let offers = self.book.iter_from(0);
        let offers = offers.filter(|o| [o.pair.gives, o.pair.wants].iter().any(unenforced));
        names.extend(offers.map(|o| self.name(o.party)));
        names
    }

    /// The grants that `cid` holds and those that it issued, with their holders. Costs what they
    /// are, not what there is.
    pub(super) fn grants_at(&self, cid: Cid, r: Resource) -> Vec<(Cid, Grant)> {
        let mut out: Vec<(Cid, Grant)> = (self.funded(cid, r))
            .filter_map(|h| Some((h, self.get(h)?)))
            .flat_map(|(h, c)| c.grants(r).iter().map(move |g| (h, *g)))
            .filter(|(_, g)| g.issuer == cid)
            .collect();
        if let Some(c) = self.get(cid) {
            out.extend(c.grants(r).iter().map(|g| (cid, *g)));
        }
        out
    }

    /// Withdraw the grants that `cid` holds and those it issued, where `which` says so.
    pub(super) fn drop_grants(
        &mut self,
        cid: Cid,
        lapse: bool,
        which: impl Fn(&Grant) -> bool,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for r in Resource::ALL {
            for (holder, g) in self.grants_at(cid, r) {
                if which(&g) {
                    events.push(self.take_away(holder, &g, r, None, lapse && holder == cid));
                }
            }
        }
        events
    }
}
