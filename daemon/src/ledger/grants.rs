// SPDX-License-Identifier: GPL-2.0-only
//! Tickets on top of what the cgroup tree gives: given, withdrawn, and gone with their ends.

use super::{Cid, Event, Grant, Kind, Ledger, Resource};

impl Ledger {
    pub(super) fn held(&self, holder: Cid, issuer: Cid, r: Resource) -> u64 {
        self.get(holder)
            .and_then(|c| {
                c.grants(r)
                    .iter()
                    .find(|g| g.issuer == issuer && g.kind == Kind::Soft)
            })
            .map_or(0, |g| g.amount)
    }

    pub(super) fn grant(
        &mut self,
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        amount: u64,
        by_root: bool,
    ) -> Event {
        let mut total = amount;
        let mut fresh = true;
        if let Some(c) = self.currencies.get_mut(&holder) {
            let grants = &mut c.grants[resource.index()];
            match grants
                .iter_mut()
                .find(|g| g.issuer == issuer && g.kind == Kind::Soft)
            {
                Some(g) => {
                    g.amount += amount;
                    g.by_root |= by_root;
                    total = g.amount;
                    fresh = false;
                }
                None => grants.push(Grant {
                    issuer,
                    kind: Kind::Soft,
                    amount,
                    by_root,
                }),
            }
        }
        if fresh {
            self.link(issuer, holder, resource);
        }
        Event::Funded {
            holder,
            issuer,
            resource,
            amount: total,
        }
    }

    pub(super) fn withdraw(
        &mut self,
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        asked: Option<u64>,
    ) -> Event {
        let mut left = 0;
        if let Some(c) = self.currencies.get_mut(&holder) {
            let grants = &mut c.grants[resource.index()];
            if let Some(g) = grants
                .iter_mut()
                .find(|g| g.issuer == issuer && g.kind == Kind::Soft)
            {
                g.amount -= asked.unwrap_or(g.amount).min(g.amount);
                left = g.amount;
            }
            grants.retain(|g| g.amount > 0);
        }
        if left == 0 {
            self.unlink(issuer, holder, resource);
        }
        Event::Funded {
            holder,
            issuer,
            resource,
            amount: left,
        }
    }

    /// The grants that `cid` holds and those that it issued, with their holders. Costs what they are, not what there is.
    pub(super) fn grants_at(&self, cid: Cid, r: Resource) -> impl Iterator<Item = (Cid, Grant)> {
        self.funded(cid, r)
            .chain([cid])
            .filter_map(move |h| Some((h, self.get(h)?)))
            .flat_map(move |(h, c)| c.grants(r).iter().map(move |g| (h, *g)))
            .filter(move |(h, g)| *h == cid || g.issuer == cid)
    }

    /// Withdraw the grants that `cid` holds and those it issued, where `which` says so.
    pub(super) fn drop_grants(&mut self, cid: Cid, which: impl Fn(&Grant) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for r in Resource::ALL {
            let doomed: Vec<(Cid, Grant)> =
                self.grants_at(cid, r).filter(|(_, g)| which(g)).collect();
            for (holder, g) in doomed {
                events.push(self.withdraw(holder, g.issuer, r, None));
            }
        }
        events
    }

    pub(super) fn remove_currency(&mut self, cid: Cid) {
        self.drop_grants(cid, |_| true);
        let Some(c) = self.currencies.remove(&cid) else {
            return;
        };
        self.by_name.remove(&c.name);
        if let Some(path) = c.transient
            && let Some(with) = self.transient.get_mut(&path)
        {
            with.remove(&cid);
            if with.is_empty() {
                self.transient.remove(&path);
            }
        }
    }
}
