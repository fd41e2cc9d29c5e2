// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup tree as it changes: each cgroup with the cpu controller is a currency (model.md §1).

use super::brokers::is_root;
use super::{BASE, Cid, Currency, End, Event, Key, Ledger, Mirror, Resource};

/// What is known of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cgroup<'a> {
    pub path: &'a str,
    /// The inode of its directory.
    pub id: u64,
    /// `cpu.weight`.
    pub weight: u64,
    /// `io.weight`.
    pub disk: u64,
    /// Who owns its directory.
    pub owner: u32,
    pub group: u32,
    /// It may hold threads beside its children.
    pub inner_threads: bool,
}

impl Ledger {
    /// The cgroup is there now, or is otherwise than it was. Its parent must be known.
    pub fn cgroup_here(&mut self, g: &Cgroup<'_>) -> Vec<Event> {
        let mut events = self.put_cgroup(g);
        events.extend(self.revoke_overdrawn());
        events
    }

    /// The cgroup `path` is gone, and all below it: what root gave it waits for it, everything else
    /// goes with it.
    pub fn cgroup_removed(&mut self, path: &str) -> Vec<Event> {
        let mut events = self.take_cgroup(path);
        events.extend(self.revoke_overdrawn());
        events
    }

    /// As [`Ledger::cgroup_here`], without [`Ledger::revoke_overdrawn`], which is due once after
    /// several.
    pub fn put_cgroup(&mut self, g: &Cgroup<'_>) -> Vec<Event> {
        if let Some(cid) = self.find(g.path) {
            return match self.get(cid).and_then(|c| c.mirror.as_ref()).map(|m| m.id) {
                Some(known) if known == g.id || cid == BASE => self.cgroup_changed(cid, g),
                _ => {
                    let mut events = self.take_cgroup(g.path);
                    events.extend(self.put_cgroup(g));
                    events
                }
            };
        }
        let parent_path = match g.path.rfind('/') {
            Some(0) => "/",
            Some(i) => &g.path[..i],
            None => return vec![],
        };
        let Some(parent) = self.find(parent_path) else {
            return vec![];
        };
        let cid = self.next;
        let (owner, group, mode) = self.broker_of(g.path, g.owner, g.group);
        let mut c = Currency::new(g.path, owner, group, mode, 0);
        c.mirror = Some(Mirror {
            path: g.path.to_owned(),
            id: g.id,
            parent,
            weight: g.weight.clamp(1, 10_000),
            disk: g.disk.clamp(1, 10_000),
            inner_threads: g.inner_threads,
            owner: g.owner,
            group: g.group,
        });
        self.insert(cid, c);
        let mut threads_inside = true;
        if let Some(p) = self.currencies.get_mut(&parent) {
            p.children.insert(cid);
            threads_inside = p.mirror.as_ref().is_some_and(|m| m.inner_threads);
        }
        if !threads_inside {
            // Who is active is not always looked at, of the disk: a domain with children has no
            // requests of its own.
            self.set_running(parent, Resource::Disk, false);
        }
        self.count_all(cid, true);
        self.count_what_waits(&self.end(cid));
        for r in Resource::ALL.into_iter().filter(|r| *r != Resource::Cpu) {
            self.set_running(cid, r, true);
        }
        let mut events = vec![Event::CgroupCreated {
            cid,
            path: g.path.to_owned(),
        }];
        events.extend(self.wake_waiting(g.path, cid));
        // One more shares what its parent has.
        events.extend(self.shared_anew(g.path));
        events
    }

    /// Weight, owner or kind of a known cgroup.
    fn cgroup_changed(&mut self, cid: Cid, g: &Cgroup<'_>) -> Vec<Event> {
        let (weight, disk) = (g.weight.clamp(1, 10_000), g.disk.clamp(1, 10_000));
        let (owner, group, _) = self.broker_of(g.path, g.owner, g.group);
        let Some(c) = self.get(cid).filter(|_| cid != BASE) else {
            return vec![];
        };
        let Some(m) = &c.mirror else { return vec![] };
        let owner_changed = c.owner != owner;
        let as_known = (m.weight, m.disk) == (weight, disk)
            && m.inner_threads == g.inner_threads
            && (m.owner, m.group) == (g.owner, g.group);
        if as_known && !owner_changed && c.group == group {
            return vec![];
        }
        self.retake(cid, |c| {
            (c.owner, c.group) = (owner, group);
            if let Some(m) = c.mirror.as_mut() {
                (m.weight, m.disk) = (weight, disk);
                m.inner_threads = g.inner_threads;
                (m.owner, m.group) = (g.owner, g.group);
            }
        });
        let mut events = vec![Event::CgroupChanged {
            cid,
            path: g.path.to_owned(),
        }];
        if owner_changed {
            // What its old owner bound there is not the new owner's doing.
            let stale = (self.bindings.get(g.path)).is_some_and(|b| !self.may_stay_bound(b, owner));
            if stale {
                events.extend(self.unbind(g.path));
            }
        }
        events.extend(self.shared_anew(g.path));
        events
    }

    /// What the parent of the cgroup `path` has is shared otherwise by its cgroups: of base's, the
    /// lifeline is kept at its part in the same step.
    fn shared_anew(&mut self, path: &str) -> Vec<Event> {
        match path.rfind('/') {
            Some(0) => self.raise_lifeline(),
            _ => Vec::new(),
        }
    }

    /// The currencies of cgroups, base first, parents before children.
    pub fn cgroups(&self) -> Vec<Cid> {
        let mut order = vec![BASE];
        let mut next = 0;
        while let Some(c) = order.get(next).copied() {
            let children = self.get(c).into_iter();
            order.extend(children.flat_map(Currency::mirrored_children));
            next += 1;
        }
        order
    }

    /// As [`Ledger::cgroup_removed`], without [`Ledger::revoke_overdrawn`].
    pub fn take_cgroup(&mut self, path: &str) -> Vec<Event> {
        match self.find(path) {
            Some(_) => self.cgroup_leaves(path, false),
            None => self.drop_waiting_at(path),
        }
    }

    /// The cgroup `path` is there, but has no cpu controller any more, nor have those below it:
    /// what was given to it, by whomever, waits until it has. An exchange does not wait.
    /// [`Ledger::revoke_overdrawn`] is due afterwards.
    pub fn switch_off_cgroup(&mut self, path: &str) -> Vec<Event> {
        self.cgroup_leaves(path, true)
    }

    /// The same; what overdraws is revoked.
    pub fn cgroup_off(&mut self, path: &str) -> Vec<Event> {
        let mut events = self.switch_off_cgroup(path);
        events.extend(self.revoke_overdrawn());
        events
    }

    fn cgroup_leaves(&mut self, path: &str, is_there: bool) -> Vec<Event> {
        let Some(cid) = self
            .find(path)
            .filter(|c| *c != BASE && path.starts_with('/'))
        else {
            return vec![];
        };
        let mut events = Vec::new();
        let below: Vec<String> = self.get(cid).map_or_else(Vec::new, |c| {
            c.children.iter().map(|k| self.name(*k)).collect()
        });
        for child in below {
            events.extend(self.cgroup_leaves(&child, is_there));
        }
        let why = match is_there {
            true => format!("{path} has no cpu controller any more"),
            false => format!("{path} is gone"),
        };
        if !is_there {
            events.extend(self.destroy_transient(path));
        }
        events.extend(self.revoke_of(cid, &why));
        match self.bindings.get(path) {
            Some(b) if is_there || is_root(b.by) => self.detach(cid),
            Some(_) => events.extend(self.unbind(path)),
            None => {}
        }
        if !is_there {
            events.extend(self.drop_grants(cid, false, |g| !is_root(g.by)));
        }
        self.put_aside(cid);
        if !is_there {
            self.drop_sayings(path);
        }
        let parent = self.get(cid).and_then(|c| c.mirror.as_ref());
        if let Some(p) = parent.map(|m| m.parent)
            && let Some(its) = self.currencies.get_mut(&p)
        {
            its.children.remove(&cid);
            if its.children.is_empty() && p != BASE {
                // Its processes are its own again.
                self.set_running(p, Resource::Disk, true);
            }
        }
        for r in Resource::ALL {
            self.set_running(cid, r, false);
        }
        self.count_all(cid, false);
        self.remove(cid);
        events.push(Event::CgroupRemoved {
            cid,
            path: path.to_owned(),
        });
        events.extend(self.shared_anew(path));
        events
    }

    /// What was made to go with the cgroup `path`.
    fn destroy_transient(&mut self, path: &str) -> Vec<Event> {
        let with: Vec<Cid> = (self.transient.get(path).into_iter().flatten())
            .copied()
            .collect();
        // The user who removed the cgroup may not have been one to withdraw base tickets.
        with.into_iter()
            .flat_map(|cid| self.destroy(cid, true))
            .collect()
    }

    /// The limit of the cgroup `path`, and whose it is, if root did not say so.
    fn drop_sayings(&mut self, path: &str) {
        self.drop_limit(&End::Path(path.to_owned()));
        if (self.brokers.get(path)).is_some_and(|b| !is_root(b.by)) {
            self.note(Key::Broker(path.to_owned()));
            self.brokers.remove(path);
        }
    }

    /// The cgroup `path`, which had no cpu controller, is gone: only what root gave it waits on.
    fn drop_waiting_at(&mut self, path: &str) -> Vec<Event> {
        let mut events = self.destroy_transient(path);
        if (self.bindings.get(path)).is_some_and(|b| !is_root(b.by)) {
            events.extend(self.unbind(path));
        }
        let lost: Vec<Key> = (self.waits_for(&End::Path(path.to_owned())).into_iter())
            .filter(|key| self.waiting.get(key).is_some_and(|a| !is_root(a.by)))
            .collect();
        for key in lost {
            self.note(key.clone());
            self.wait(key, None);
        }
        self.drop_sayings(path);
        events
    }
}
