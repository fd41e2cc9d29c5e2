// SPDX-License-Identifier: GPL-2.0-only
//! Currencies bound to cgroups, and what becomes of the ticket that a binding replaces.
//!
//! A binding stands in for the parent's weight ticket, which is kept to be put back (model.md §1). Whoever may withdraw that ticket has
//! done so by binding: it is out of the parent's sum, as it is out of the kernel's. But somebody who owns the cgroup and not its parent
//! has only given it up: it stays counted (§3), or unbinding would lower what the neighbours are entitled to.
//! For the same reason only root undoes what root bound.

use super::{BASE, Binding, Cid, Event, Ledger, Refusal, Resource};

impl Ledger {
    /// The paths that `name` is bound to, there or waited for.
    pub fn bindings_of(&self, name: Cid) -> impl Iterator<Item = &str> {
        self.bindings
            .iter()
            .filter(move |(_, b)| b.name == name)
            .map(|(p, _)| p.as_str())
    }

    pub(super) fn bindable(&self, uid: u32, name: Option<Cid>, path: &str) -> Result<Cid, Refusal> {
        let cgroup = self
            .find(path)
            .filter(|_| path.starts_with('/'))
            .ok_or_else(|| Refusal::NoSuchCgroup(path.to_owned()))?;
        if cgroup == BASE {
            return Err(Refusal::NotNamed("/".to_owned()));
        }
        self.own(uid, cgroup, format!("bind the cgroup {path:?}"))?;
        if let Some(to) = self.bindings.get(path)
            && Some(to.name) != name
        {
            let to = self
                .get(to.name)
                .map(|c| c.name.clone())
                .unwrap_or_default();
            return Err(Refusal::AlreadyBound {
                path: path.to_owned(),
                to,
            });
        }
        Ok(cgroup)
    }

    /// Root's bindings are root's to undo.
    pub(super) fn may_unbind(&self, uid: u32, path: &str, what: &str) -> Result<(), Refusal> {
        match self.bindings.get(path) {
            Some(b) if uid != 0 && b.by_root => Err(Refusal::NotPermitted {
                uid,
                what: what.to_owned(),
                why: format!("root bound it to {path:?}, and only root undoes that"),
            }),
            _ => Ok(()),
        }
    }

    /// Whether the weight ticket of `parent` for the bound cgroup `path` counts among what `parent` has issued.
    pub(super) fn still_counted(&self, path: &str, parent: Cid) -> bool {
        let owner = |c: Cid| self.get(c).map(|c| c.owner);
        self.bindings.get(path).is_some_and(|b| {
            let binder = if b.by_root { Some(0) } else { owner(b.name) };
            binder != Some(0) && binder != owner(parent)
        })
    }

    pub(super) fn bind(
        &mut self,
        name: Cid,
        cgroup: Cid,
        path: &str,
        by_root: bool,
    ) -> Option<Event> {
        let binding = self.bindings.entry(path.to_owned());
        let fresh = matches!(binding, std::collections::btree_map::Entry::Vacant(_));
        binding.or_insert(Binding { name, by_root }).by_root |= by_root;
        fresh.then(|| self.attach(cgroup, name, path))
    }

    pub(super) fn unbind(&mut self, name: Cid, path: &str) -> Event {
        self.bindings.remove(path);
        match self.find(path) {
            Some(cgroup) if self.get(cgroup).is_some_and(|c| c.bound_to == Some(name)) => {
                self.detach(cgroup, name, path)
            }
            _ => Event::Unbound {
                name,
                cgroup: None,
                path: path.to_owned(),
            },
        }
    }

    pub(super) fn may_stay_bound(&self, b: &Binding, cgroup_owner: u32) -> bool {
        b.by_root || self.get(b.name).is_some_and(|n| n.owner == cgroup_owner)
    }

    pub(super) fn attach(&mut self, cgroup: Cid, name: Cid, path: &str) -> Event {
        if let Some(c) = self.currencies.get_mut(&cgroup) {
            c.bound_to = Some(name);
        }
        self.link(name, cgroup, Resource::Cpu);
        Event::Bound {
            name,
            cgroup,
            path: path.to_owned(),
        }
    }

    pub(super) fn detach(&mut self, cgroup: Cid, name: Cid, path: &str) -> Event {
        if let Some(c) = self.currencies.get_mut(&cgroup) {
            c.bound_to = None;
        }
        self.unlink(name, cgroup, Resource::Cpu);
        Event::Unbound {
            name,
            cgroup: Some(cgroup),
            path: path.to_owned(),
        }
    }
}
