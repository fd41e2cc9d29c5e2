// SPDX-License-Identifier: GPL-2.0-only
//! What has lost its cgroup waits for it, if root or the policy made it. Rows say it in the same
//! words, so nothing durable changes.

use super::brokers::is_root;
use super::{Aside, BASE, Cid, End, Event, Grant, Key, Ledger, Resource};
use std::collections::BTreeSet;

impl Ledger {
    /// The end of a ticket as rows name it.
    pub fn end(&self, cid: Cid) -> End {
        match self.get(cid).and_then(|c| c.mirror.as_ref()) {
            Some(m) if m.path != "/" => End::Path(m.path.clone()),
            _ => End::Cid(cid),
        }
    }

    /// The currency that it is, if it is there.
    pub fn at_end(&self, end: &End) -> Option<Cid> {
        match end {
            End::Cid(c) => self.get(*c).map(|_| *c),
            End::Path(p) => self.find(p),
        }
    }

    /// A cgroup goes: the grants that are left wait for it to come back.
    pub(super) fn put_aside(&mut self, cid: Cid) {
        for r in Resource::ALL {
            for (holder, g) in self.grants_at(cid, r) {
                let key = self.ticket_key(holder, g.issuer, r, g.kind);
                self.put_grant(holder, r, Grant { amount: 0, ..g });
                let aside = Aside {
                    amount: g.amount,
                    bytes: g.bytes,
                    by: g.by,
                };
                self.wait(key, Some(aside));
            }
        }
    }

    /// Lets it wait, or no longer.
    pub(super) fn wait(&mut self, key: Key, aside: Option<Aside>) {
        let Key::Ticket {
            issuer,
            holder,
            resource,
            ..
        } = &key
        else {
            return;
        };
        let of = *resource;
        for end in [issuer, holder] {
            match aside {
                Some(_) => {
                    let with = self.waits_for.entry(end.clone()).or_default();
                    with.insert(key.clone());
                }
                None => {
                    if let Some(with) = self.waits_for.get_mut(end) {
                        with.remove(&key);
                        if with.is_empty() {
                            self.waits_for.remove(end);
                        }
                    }
                }
            }
        }
        let was = match aside {
            Some(a) => self.waiting.insert(key.clone(), a),
            None => self.waiting.remove(&key),
        };
        if let Some(a) = was {
            self.count_given(a.by, false);
            self.count_by_root(a.by, of, false);
            self.count_waiting(&key, &a, false);
        }
        if let Some(a) = aside {
            self.count_given(a.by, true);
            self.count_by_root(a.by, of, true);
            self.count_waiting(&key, &a, true);
        }
        self.reshaped();
    }

    /// What waits is issued: neither T nor what others are entitled to changes with who removes the
    /// cgroup and makes it again.
    fn count_waiting(&mut self, key: &Key, a: &Aside, on: bool) {
        let Key::Ticket {
            issuer,
            resource,
            kind,
            ..
        } = key
        else {
            return;
        };
        let t = Grant {
            issuer: BASE,
            kind: *kind,
            bytes: a.bytes,
            amount: a.amount,
            by: a.by,
        }
        .as_ticket();
        let issuer = self.at_end(issuer);
        if let Some(c) = issuer.and_then(|c| self.currencies.get_mut(&c)) {
            let issued = &mut c.side_mut(*resource).issued;
            match on {
                true => issued.add(&t),
                false => issued.sub(&t),
            }
        }
    }

    /// What waits for `end`, as either end of a ticket.
    pub(super) fn waits_for(&self, end: &End) -> Vec<Key> {
        (self.waits_for.get(end).into_iter().flatten())
            .cloned()
            .collect()
    }

    /// The paths of cgroups that are not known here and that something is bound to, funded by,
    /// limited or waits for otherwise.
    pub fn waited_for(&self) -> BTreeSet<&str> {
        fn path(end: &End) -> Option<&str> {
            match end {
                End::Path(path) => Some(path),
                End::Cid(_) => None,
            }
        }
        let bound = self.bindings.keys().map(String::as_str);
        let limited = self.limits.keys().filter_map(path);
        let funded = self.waits_for.keys().filter_map(path);
        let all = bound.chain(limited).chain(funded);
        all.filter(|path| self.find(path).is_none()).collect()
    }

    /// What an issuer has issued that has just come back.
    pub(super) fn count_what_waits(&mut self, end: &End) {
        for key in self.waits_for(end) {
            if matches!(&key, Key::Ticket { issuer, .. } if issuer == end)
                && let Some(a) = self.waiting.get(&key).copied()
            {
                self.count_waiting(&key, &a, true);
            }
        }
    }

    /// The cgroup `path` came: put into force what waited for it.
    pub(super) fn wake_waiting(&mut self, path: &str, cgroup: Cid) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(b) = self.bindings.get(path).cloned() {
            let bad = (Resource::ALL.iter()).find_map(|r| {
                let checked = self.check_edge(b.by, b.name, cgroup, *r);
                checked.err()
            });
            match bad {
                None => events.push(self.attach(cgroup, &b, path)),
                Some(e) => {
                    let owner = self.get(b.name).map_or(0, |c| c.owner);
                    self.unbind(path);
                    events.push(Event::Dropped {
                        what: format!("binding of {path}: {e}"),
                        owner,
                    });
                }
            }
        }
        for key in self.waits_for(&End::Path(path.to_owned())) {
            events.extend(self.wake(&key));
        }
        events
    }

    fn wake(&mut self, key: &Key) -> Option<Event> {
        let Key::Ticket {
            issuer,
            holder,
            resource,
            kind,
        } = key
        else {
            return None;
        };
        let (i, h) = (self.at_end(issuer)?, self.at_end(holder)?);
        let aside = self.waiting.get(key).copied()?;
        let checked = self.check_edge(aside.by, i, h, *resource);
        self.note(key.clone());
        self.wait(key.clone(), None);
        Some(match checked {
            Ok(()) => self.set_grant(
                h,
                *resource,
                Grant {
                    issuer: i,
                    kind: *kind,
                    bytes: aside.bytes,
                    amount: aside.amount,
                    by: aside.by,
                },
            ),
            Err(e) => Event::Dropped {
                what: format!("tickets of {} for {}: {e}", self.name(i), self.name(h)),
                owner: self.get(h).map_or(0, |c| c.owner),
            },
        })
    }

    /// At the start, when the tree is known: what has no cgroup to wait for, or nobody to wait for
    /// it, goes.
    pub fn sweep(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let lost: Vec<Cid> = (self.transient.iter())
            .filter(|(path, _)| self.find(path).is_none())
            .flat_map(|(_, cids)| cids.iter().copied())
            .collect();
        for cid in lost {
            events.extend(self.destroy(cid, true));
        }
        let lost: Vec<String> = (self.bindings.iter())
            .filter(|(path, b)| !is_root(b.by) && self.find(path).is_none())
            .map(|(path, _)| path.clone())
            .collect();
        for path in lost {
            events.extend(self.unbind(&path));
        }
        let lost: Vec<Key> = (self.waiting.iter())
            .filter(|(_, a)| !is_root(a.by))
            .map(|(k, _)| k.clone())
            .collect();
        for key in lost {
            self.note(key.clone());
            self.wait(key, None);
        }
        let lost: Vec<String> = (self.brokers.iter())
            .filter(|(path, b)| !is_root(b.by) && self.find(path).is_none())
            .map(|(path, _)| path.clone())
            .collect();
        for path in lost {
            self.note(Key::Broker(path.clone()));
            self.brokers.remove(&path);
        }
        self.sweep_limits();
        events.append(&mut self.lost);
        events.extend(self.revoke_overdrawn());
        events
    }
}
