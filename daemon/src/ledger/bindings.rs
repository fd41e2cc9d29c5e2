// SPDX-License-Identifier: GPL-2.0-only
//! Currencies bound to cgroups, and what becomes of the ticket that a binding replaces.
//!
//! A binding stands in for the parent's weight ticket, which is kept to be put back (model.md §1). Whoever may issue the parent's tickets has
//! withdrawn it by binding: it is out of the parent's sum, as it is out of the kernel's. But somebody who may not
//! has only put it aside: it stays counted (§3), or unbinding would lower what the neighbours are entitled to.
//! For the same reason only root undoes what root bound.
//!
//! Binding needs `i` on the currency and `f` on the cgroup's (model.md §1). So whoever gives others `f` on a cgroup lets them choose what
//! backs it: what it was due from its parent is theirs to replace.

use super::brokers::{Caller, Right, is_root};
use super::{
    BASE, Binding, By, Cid, Currency, Event, Key, Ledger, MAX_BINDINGS, Refusal, Resource,
};

impl Ledger {
    /// The paths that `name` is bound to, there or waited for.
    pub fn bindings_of(&self, name: Cid) -> impl Iterator<Item = &str> {
        self.get(name).into_iter().flat_map(|c| c.bindings())
    }

    pub(super) fn bindable(
        &self,
        caller: &Caller,
        name: Option<Cid>,
        path: &str,
    ) -> Result<Cid, Refusal> {
        let cgroup = self
            .find(path)
            .filter(|_| path.starts_with('/'))
            .ok_or_else(|| Refusal::NoSuchCgroup(path.to_owned()))?;
        if cgroup == BASE {
            return Err(Refusal::NotNamed("/".to_owned()));
        }
        self.need(
            caller,
            cgroup,
            Right::Fund,
            &format!("bind the cgroup {path:?}"),
        )?;
        if let Some(with) = name
            .and_then(|n| self.get(n))
            .and_then(|c| c.transient.as_deref())
            && with != path
        {
            return Err(Refusal::LimitReached(format!(
                "{:?} goes with {with:?} and is bound to no other cgroup",
                name.map(|n| self.name(n)).unwrap_or_default()
            )));
        }
        if let Some(to) = self.bindings.get(path)
            && Some(to.name) != name
        {
            return Err(Refusal::AlreadyBound {
                path: path.to_owned(),
                to: self.name(to.name),
            });
        }
        if name.is_some_and(|n| {
            self.bindings_of(n).count() >= MAX_BINDINGS && !self.bindings.contains_key(path)
        }) {
            return Err(Refusal::LimitReached(format!(
                "{:?} is bound to {MAX_BINDINGS} cgroups already",
                name.map(|n| self.name(n)).unwrap_or_default()
            )));
        }
        Ok(cgroup)
    }

    /// Root's bindings are root's to undo. And where the parent's ticket was withdrawn it is issued again, which needs that right.
    pub(super) fn may_unbind(
        &self,
        caller: &Caller,
        path: &str,
        what: &str,
    ) -> Result<(), Refusal> {
        match self.bindings.get(path) {
            Some(b) if is_root(b.by) => Self::need_root(
                caller,
                what,
                &format!("root bound it to {path:?}, and only root undoes that"),
            ),
            Some(b) if b.withdrawn => match self.parent_at(path) {
                Some(parent) => self.need(caller, parent, Right::Issue, what),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn parent_at(&self, path: &str) -> Option<Cid> {
        let c = self.get(self.find(path)?)?;
        c.mirror.as_ref().map(|m| m.parent)
    }

    /// Does binding the cgroup `path` withdraw its parent's ticket?
    fn withdraws(&self, caller: &Caller, cgroup: Cid) -> bool {
        let parent = self
            .get(cgroup)
            .and_then(|c| c.mirror.as_ref())
            .map(|m| m.parent);
        parent.is_some_and(|p| self.allows(caller, p, Right::Issue))
    }

    pub(super) fn bind(
        &mut self,
        name: Cid,
        cgroup: Cid,
        path: &str,
        caller: &Caller,
        by: By,
    ) -> Option<Event> {
        self.note(Key::Binding(path.to_owned()));
        if let Some(known) = self.bindings.get_mut(path) {
            if is_root(by) {
                known.by = by;
            }
            return None;
        }
        let binding = Binding {
            name,
            by,
            withdrawn: self.withdraws(caller, cgroup),
        };
        self.put_binding(path, binding)
    }

    pub(super) fn put_binding(&mut self, path: &str, b: Binding) -> Option<Event> {
        if let Some(c) = self.currencies.get_mut(&b.name) {
            c.binds.insert(path.to_owned());
        }
        let cgroup = self.find(path);
        let event = cgroup.map(|cgroup| self.attach(cgroup, &b, path));
        self.bindings.insert(path.to_owned(), b);
        event
    }

    pub(super) fn unbind(&mut self, path: &str) -> Option<Event> {
        self.note(Key::Binding(path.to_owned()));
        let b = self.bindings.remove(path)?;
        if let Some(c) = self.currencies.get_mut(&b.name) {
            c.binds.remove(path);
        }
        let cgroup = self
            .find(path)
            .filter(|c| self.get(*c).is_some_and(|x| x.bound_to == Some(b.name)));
        if let Some(cgroup) = cgroup {
            self.detach(cgroup);
        }
        Some(Event::Unbound {
            name: b.name,
            cgroup,
            path: path.to_owned(),
        })
    }

    pub(super) fn attach(&mut self, cgroup: Cid, b: &Binding, path: &str) -> Event {
        let (name, withdrawn) = (b.name, b.withdrawn);
        let disk = self.get(name).map(Currency::says_of_disk);
        self.retake(cgroup, |c| {
            (c.bound_to, c.withdrawn) = (Some(name), withdrawn);
            c.disk = disk.unwrap_or_default();
        });
        Event::Bound {
            name,
            cgroup,
            path: path.to_owned(),
        }
    }

    pub(super) fn detach(&mut self, cgroup: Cid) {
        self.retake(cgroup, |c| (c.bound_to, c.withdrawn) = (None, false));
    }

    /// What `name` has of `r` has changed: it may be the first, or have been the last.
    pub(super) fn tell_bound(&mut self, name: Cid, r: Resource) {
        let Some(x) = self.get(name).filter(|_| r == Resource::Disk) else {
            return;
        };
        let says = x.says_of_disk();
        let bound = |path: &String| {
            let cgroup = self.find(path)?;
            let its = self.get(cgroup)?;
            (its.bound_to == Some(name) && its.disk != says).then_some(cgroup)
        };
        let told: Vec<Cid> = x.binds.iter().filter_map(bound).collect();
        for cgroup in told {
            self.retake(cgroup, |c| c.disk = says);
        }
    }

    /// What a user bound is that user's as long as the cgroup is.
    pub(super) fn may_stay_bound(&self, b: &Binding, cgroup_owner: u32) -> bool {
        is_root(b.by) || b.by == cgroup_owner
    }
}
