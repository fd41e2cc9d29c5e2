// SPDX-License-Identifier: GPL-2.0-only
//! The ledger as rows: which of them a change touched, what they were, and the ledger back from
//! them.

use super::brokers::is_root;
use super::{
    Aside, Binding, Broker, Change, Currency, Ended, Exchange, Grant, Key, Kind, Ledger, Leg,
    Limit, Resource, Row,
};
use rustc_hash::FxHashSet;

impl Ledger {
    /// The row under `key` is about to change.
    pub(super) fn note(&mut self, key: Key) {
        if !self.setting {
            let was = self.row(&key);
            self.log.push((key, was));
        }
    }

    /// The rows that are others than at the last [`Ledger::settle`], for the store.
    pub fn changes(&self) -> Vec<Change> {
        let mut seen = FxHashSet::default();
        (self.log.iter())
            .filter(|(k, _)| seen.insert(k))
            .map(|(k, was)| (k, was, self.row(k)))
            .filter(|(_, was, now)| *was != now)
            .map(|(k, _, now)| (k.clone(), now))
            .collect()
    }

    /// Forgets of the log of changes what [`Ledger::changes`] does not ask for: while nothing can
    /// be kept it has no more than the rows that differ. There is no going back to a mark of
    /// before. Returns how many differ.
    pub fn compact(&mut self) -> usize {
        let mut seen = FxHashSet::default();
        let mut log = std::mem::take(&mut self.log);
        log.retain(|(key, was)| seen.insert(key.clone()) && *was != self.row(key));
        self.log = log;
        self.log.len()
    }

    /// They are kept: from here on.
    pub fn settle(&mut self) {
        self.log.clear();
    }

    /// Where [`Ledger::undo`] can go back to.
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// As it was at `mark`. Only operations can be undone, not what the tree did.
    pub fn undo(&mut self, mark: usize) {
        for (key, was) in self.log.split_off(mark).into_iter().rev() {
            self.set_row(key, was);
        }
    }

    /// Every durable row, in a fixed order.
    pub fn rows(&self) -> Vec<(Key, Row)> {
        let mut keys: Vec<Key> = self.spaces.keys().copied().map(Key::Space).collect();
        for (cid, c) in &self.currencies {
            if !c.is_mirror() {
                keys.push(Key::Currency(*cid));
            }
            for r in Resource::ALL {
                let its = c.grants(r).iter();
                keys.extend(its.map(|g| self.ticket_key(*cid, g.issuer, r, g.kind)));
            }
        }
        keys.extend(self.waiting.keys().cloned());
        keys.extend(self.brokers.keys().cloned().map(Key::Broker));
        keys.extend(self.bindings.keys().cloned().map(Key::Binding));
        keys.extend(self.exchanges.keys().copied().map(Key::Exchange));
        keys.extend(self.book.iter_from(0).map(|o| Key::Offer(o.id)));
        keys.extend(self.ended.keys().copied().map(Key::Ended));
        let limits = self.limits.keys().cloned();
        keys.extend(limits.map(|e| Key::Limit(e, Resource::Cpu)));
        keys.extend(self.lapsed.keys().cloned().map(|(n, r)| Key::Lapsed(n, r)));
        keys.sort();
        keys.into_iter()
            .filter_map(|k| self.row(&k).map(|row| (k, row)))
            .collect()
    }

    /// The row under `key`.
    pub fn row(&self, key: &Key) -> Option<Row> {
        match key {
            Key::Space(uid) => self.label(*uid).map(|label| Row::Space {
                label: label.to_owned(),
            }),
            Key::Currency(cid) => {
                let c = self.get(*cid).filter(|c| !c.is_mirror())?;
                Some(Row::Currency {
                    name: c.name.clone(),
                    owner: c.owner,
                    group: c.group,
                    mode: c.mode,
                    transient: c.transient.clone(),
                    by: c.by,
                })
            }
            Key::Broker(path) => self.brokers.get(path).map(|b| Row::Broker {
                owner: b.owner,
                group: b.group,
                mode: b.mode,
                by: b.by,
            }),
            Key::Ticket {
                issuer,
                holder,
                resource,
                kind,
            } => {
                let ends = (self.at_end(issuer), self.at_end(holder));
                let live = match ends {
                    (Some(i), Some(h)) => self.held(h, i, *resource, *kind),
                    _ => None,
                };
                let row = |amount, bytes, by| Row::Ticket { amount, bytes, by };
                match live {
                    Some(g) => Some(row(g.amount, g.bytes, g.by)),
                    None => self.waiting.get(key).map(|a| row(a.amount, a.bytes, a.by)),
                }
            }
            Key::Binding(path) => self.bindings.get(path).map(|b| Row::Binding {
                cid: b.name,
                by: b.by,
                withdrawn: b.withdrawn,
            }),
            Key::Exchange(id) => self.exchanges.get(id).map(|x| Row::Exchange {
                legs: (x.legs.iter())
                    .map(|(party, resource, amount)| Leg {
                        party: self.end(*party),
                        resource: *resource,
                        amount: *amount,
                    })
                    .collect(),
                by: x.by,
            }),
            Key::Lapsed(name, r) => {
                let amount = self.lapsed(name, *r);
                (amount > 0).then_some(Row::Lapsed { amount })
            }
            Key::Offer(id) => self.book.get(*id).map(|o| self.offer_row(o)),
            Key::Ended(id) => self.ended.get(id).map(|e| Row::Ended {
                legs: e.legs.clone(),
                why: e.why.clone(),
            }),
            Key::Limit(end, _) => self.limits.get(end).map(|l| Row::Limit {
                milli: l.milli,
                by: l.by,
            }),
        }
    }

    /// Sets rows that were kept, in the order of their keys.
    pub fn load(&mut self, rows: impl IntoIterator<Item = (Key, Row)>) {
        for (key, row) in rows {
            self.set_row(key, Some(row));
        }
    }

    /// Puts the row in force, without asking whether it may be.
    pub fn set_row(&mut self, key: Key, row: Option<Row>) {
        self.setting = true;
        self.set(key, row);
        self.setting = false;
    }

    fn set(&mut self, key: Key, row: Option<Row>) {
        match (key, row) {
            (Key::Space(uid), row) => {
                let label = match row {
                    Some(Row::Space { label }) => Some(label),
                    _ => None,
                };
                self.put_space(uid, label);
            }
            (Key::Currency(cid), row) => self.set_currency(cid, row),
            (Key::Broker(path), row) => self.set_broker_row(path, row),
            (key @ Key::Ticket { .. }, row) => self.set_ticket(key, row),
            (Key::Binding(path), row) => {
                self.unbind(&path);
                if let Some(Row::Binding { cid, by, withdrawn }) = row {
                    let binding = Binding {
                        name: cid,
                        by,
                        withdrawn,
                    };
                    self.put_binding(&path, binding);
                }
            }
            (Key::Exchange(id), row) => {
                self.take_exchange(id);
                if let Some(Row::Exchange { legs, by }) = row {
                    let found: Option<Vec<_>> = (legs.iter())
                        .map(|l| Some((self.at_end(&l.party)?, l.resource, l.amount)))
                        .collect();
                    match found {
                        Some(legs) => self.put_exchange(id, Exchange { legs, by }),
                        // A party vanished meanwhile: it is revoked, as one.
                        None => self.lose_exchange(id, Row::Exchange { legs, by }),
                    }
                }
            }
            (Key::Lapsed(name, r), row) => {
                let amount = match row {
                    Some(Row::Lapsed { amount }) => amount,
                    _ => 0,
                };
                self.put_lapsed(&name, r, amount);
            }
            (Key::Offer(id), row) => self.set_offer(id, row),
            (Key::Ended(id), row) => {
                match row {
                    Some(Row::Ended { legs, why }) => self.ended.insert(id, Ended { legs, why }),
                    _ => self.ended.remove(&id),
                };
            }
            (Key::Limit(end, _), row) => {
                let limit = match row {
                    Some(Row::Limit { milli, by }) => Some(Limit { milli, by }),
                    _ => None,
                };
                self.put_limit(end, limit);
            }
        }
    }

    fn set_currency(&mut self, cid: super::Cid, row: Option<Row>) {
        let Some(Row::Currency {
            name,
            owner,
            group,
            mode,
            transient,
            by,
        }) = row
        else {
            self.remove(cid);
            return;
        };
        if self.get(cid).is_some() {
            self.put_name(cid, &name);
            self.change_broker(cid, Some(owner), Some(group), Some(mode));
            return;
        }
        let mut c = Currency::new(&name, owner, group, mode, by);
        c.transient = transient;
        self.insert(cid, c);
    }

    fn set_broker_row(&mut self, path: String, row: Option<Row>) {
        match row {
            Some(Row::Broker {
                owner,
                group,
                mode,
                by,
            }) => {
                let b = Broker {
                    owner,
                    group,
                    mode,
                    by,
                };
                self.brokers.insert(path.clone(), b);
            }
            _ => {
                self.brokers.remove(&path);
            }
        }
        let dir = (self.find(&path))
            .and_then(|cid| Some((cid, self.get(cid)?.mirror.as_ref()?)))
            .map(|(cid, m)| (cid, m.owner, m.group));
        if let Some((cid, owner, group)) = dir {
            let (owner, group, mode) = self.broker_of(&path, owner, group);
            self.change_broker(cid, Some(owner), Some(group), Some(mode));
        }
    }

    fn set_ticket(&mut self, key: Key, row: Option<Row>) {
        let Key::Ticket {
            issuer,
            holder,
            resource,
            kind,
        } = &key
        else {
            return;
        };
        let aside = match row {
            Some(Row::Ticket { amount, bytes, by }) => Some(Aside { amount, bytes, by }),
            _ => None,
        };
        match (self.at_end(issuer), self.at_end(holder)) {
            (Some(i), Some(h)) => {
                let a = aside.unwrap_or(Aside {
                    amount: 0,
                    bytes: *kind == Kind::Hard,
                    by: 0,
                });
                let g = Grant {
                    issuer: i,
                    kind: *kind,
                    bytes: a.bytes,
                    amount: a.amount,
                    by: a.by,
                };
                self.put_grant(h, *resource, g);
            }
            // Others' go with their cgroup (sweep), so they wait as long as that.
            _ => self.wait(key, aside),
        }
    }

    /// How many rows root or the policy made wait for their cgroups.
    pub fn waiting(&self) -> usize {
        let bindings =
            (self.bindings.iter()).filter(|(p, b)| is_root(b.by) && self.find(p).is_none());
        self.waiting.len() + bindings.count()
    }
}
