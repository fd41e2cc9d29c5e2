// SPDX-License-Identifier: GPL-2.0-only
//! What was acknowledged once is done again at the start, and what has lost its cgroup waits for it, if root made it.

use super::{
    Binding, Cid, Currency, Event, Kind, Ledger, MAX_AMOUNT, Op, Refusal, Resource, Waiting,
};

impl Ledger {
    /// At start: do again what was acknowledged once. What has lost its cgroup waits for it (root's) or is dropped.
    pub fn replay(&mut self, op: &Op, uid: u32) -> Vec<Event> {
        let dropped = |why: &dyn std::fmt::Display| {
            vec![Event::Dropped {
                what: format!("{op:?}: {why}"),
            }]
        };
        let missing = |l: &Ledger, r: &str| r.starts_with('/') && l.find(r).is_none();
        match op {
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } if missing(self, holder) || missing(self, issuer) => {
                if uid == 0 {
                    self.wait(issuer, holder, *resource, *amount);
                }
                vec![]
            }
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } if missing(self, holder) || missing(self, issuer) => {
                self.wait(issuer, holder, *resource, amount.map_or(i64::MIN, |a| -a));
                vec![]
            }
            Op::Bind { name, path } if missing(self, path) => {
                if uid == 0
                    && let Some(name) = self.find(name)
                {
                    self.bindings.insert(
                        path.clone(),
                        Binding {
                            name,
                            by_root: true,
                        },
                    );
                }
                vec![]
            }
            Op::Run {
                cid,
                name,
                owner,
                path,
                ..
            } if missing(self, path) => {
                // Its Destroy follows in the journal or is due: keep the name for it.
                let mut c = Currency::new(name, *owner);
                c.transient = Some(path.clone());
                self.insert(*cid, c);
                vec![]
            }
            _ => match self.apply(op, uid) {
                Ok(events) => events,
                // What was done to something that went with its cgroup since.
                Err(
                    Refusal::NotBound { .. } | Refusal::NotFunded { .. } | Refusal::TooFew { .. },
                ) => {
                    vec![]
                }
                Err(e) => dropped(&e),
            },
        }
    }

    fn wait(&mut self, issuer: &str, holder: &str, resource: Resource, delta: i64) {
        let known = self
            .waiting
            .iter_mut()
            .find(|w| w.issuer == issuer && w.holder == holder && w.resource == resource);
        match known {
            Some(w) => w.amount = w.amount.saturating_add_signed(delta).min(MAX_AMOUNT),
            None if delta > 0 => self.waiting.push(Waiting {
                issuer: issuer.to_owned(),
                holder: holder.to_owned(),
                resource,
                kind: Kind::Soft,
                amount: delta.unsigned_abs(),
            }),
            None => {}
        }
        self.waiting.retain(|w| w.amount > 0);
    }

    /// A cgroup goes: root's grants wait for it to come back.
    pub(super) fn put_aside(&mut self, cid: Cid) {
        for r in Resource::ALL {
            let name = |c: Cid| self.get(c).map(|c| c.name.clone()).unwrap_or_default();
            let aside: Vec<(String, String, u64)> = self
                .grants_at(cid, r)
                .filter(|(_, g)| g.by_root)
                .map(|(h, g)| (name(g.issuer), name(h), g.amount))
                .collect();
            for (issuer, holder, amount) in aside {
                self.wait(&issuer, &holder, r, i64::try_from(amount).unwrap_or(0));
            }
        }
    }

    /// The cgroup `path` came: put into force what waited for it.
    pub(super) fn wake_waiting(&mut self, path: &str, cgroup: Cid) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(b) = self.bindings.get(path).cloned() {
            match self.check_edge(b.name, cgroup, Resource::Cpu) {
                Ok(()) => events.push(self.attach(cgroup, b.name, path)),
                Err(e) => {
                    self.bindings.remove(path);
                    events.push(Event::Dropped {
                        what: format!("binding of {path}: {e}"),
                    });
                }
            }
        }
        let (due, rest): (Vec<Waiting>, Vec<Waiting>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|w| self.find(&w.issuer).is_some() && self.find(&w.holder).is_some());
        self.waiting = rest;
        for w in due {
            let (Some(i), Some(h)) = (self.find(&w.issuer), self.find(&w.holder)) else {
                continue;
            };
            match self.check_edge(i, h, w.resource) {
                Ok(()) => events.push(self.grant(h, i, w.resource, w.amount, true)),
                Err(e) => events.push(Event::Dropped {
                    what: format!("tickets of {} for {}: {e}", w.issuer, w.holder),
                }),
            }
        }
        events
    }
}
