// SPDX-License-Identifier: GPL-2.0-only
//! Currencies bound to cgroups, and what becomes of the ticket that a binding replaces.
//!
//! A binding stands in for the parent's weight ticket, which is kept to be put back (model.md §1).
//! Whoever may issue the parent's tickets has withdrawn it by binding: it is out of the parent's
//! sum, as it is out of the kernel's. But somebody who may not has only put it aside: it stays
//! counted (§3), or unbinding would lower what the neighbours are entitled to. For the same reason
//! only root undoes what root bound.
//!
//! The disk's ticket is replaced from when the currency has tickets for the disk, and others may
//! give it the first, or give up the last. So that one is withdrawn, and issued again, when
//! somebody who may issue it changes what tickets for the disk the currency has. Until then the
//! currency's tickets come on top: a gift takes nothing. A last that goes with others leaves it
//! withdrawn.
//!
//! Binding needs `i` on the currency and `f` on the cgroup's (model.md §1). So whoever gives others
//! `f` on a cgroup lets them choose what backs it: what it was due from its parent is theirs to
//! replace.

use super::brokers::{Caller, Right, is_root};
use super::refusal::Act;
use super::{
    BASE, Binding, By, Cid, Currency, Event, Key, Ledger, MAX_BINDINGS, Refusal, Resource,
    Withdrawn,
};
use std::collections::BTreeSet;
use tix_model::shell;

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
            .filter(|cgroup| *cgroup == BASE || path.starts_with('/'))
            .ok_or_else(|| Refusal::NoSuchCgroup(path.to_owned()))?;
        if cgroup == BASE {
            return Err(Refusal::NotNamed(path.to_owned(), Act::BindTo));
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

    /// Root's bindings are root's to undo. And where the parent's ticket was withdrawn it is issued
    /// again, which needs that right.
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
                || {
                    let (name, path) = (self.name(b.name), shell::word(path));
                    format!("root can: `tixctl unbind {name} {path}`")
                },
            ),
            Some(b) if b.withdrawn != Withdrawn::Nothing => match self.parent_at(path) {
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

    /// What binding the cgroup `path` to `name` withdraws.
    fn withdraws(&self, caller: &Caller, name: Cid, path: &str) -> Withdrawn {
        match self.may_withdraw(caller, path) {
            true => Withdrawn::by_its_issuer(self.holds_disk(name)),
            false => Withdrawn::Nothing,
        }
    }

    /// May the caller withdraw what the parent of the cgroup `path` gives it? Of one that is not
    /// there: root.
    fn may_withdraw(&self, caller: &Caller, path: &str) -> bool {
        match self.parent_at(path) {
            Some(parent) => self.allows(caller, parent, Right::Issue),
            None => caller.is_root(),
        }
    }

    fn holds_disk(&self, name: Cid) -> bool {
        self.get(name)
            .is_some_and(|c| !c.grants(Resource::Disk).is_empty())
    }

    /// The caller has changed what tickets for the disk these currencies have: where the caller
    /// may, the parents' tickets are withdrawn, or issued again.
    pub(super) fn withdraw_disk(&mut self, caller: &Caller, events: &[Event]) {
        let changed: BTreeSet<Cid> = (events.iter())
            .filter_map(|e| match e {
                Event::Funded {
                    holder, resource, ..
                } if *resource == Resource::Disk => Some(*holder),
                _ => None,
            })
            .collect();
        for name in changed {
            let now = Withdrawn::by_its_issuer(self.holds_disk(name));
            let paths: Vec<String> = (self.bindings_of(name))
                .filter(|p| {
                    let was = self.bindings.get(*p).map(|b| b.withdrawn);
                    was.is_some_and(|was| was != Withdrawn::Nothing && was != now)
                        && self.may_withdraw(caller, p)
                })
                .map(str::to_owned)
                .collect();
            for path in paths {
                self.note(Key::Binding(path.clone()));
                if let Some(b) = self.bindings.get_mut(&path) {
                    b.withdrawn = now;
                }
                if let Some(cgroup) = self.bound_at(&path, name) {
                    self.retake(cgroup, |c| c.withdrawn = now);
                }
            }
        }
    }

    /// The cgroup `path`, if it is bound to `name`.
    fn bound_at(&self, path: &str, name: Cid) -> Option<Cid> {
        let cgroup = self.find(path)?;
        (self.get(cgroup)?.bound_to == Some(name)).then_some(cgroup)
    }

    pub(super) fn bind(&mut self, name: Cid, path: &str, caller: &Caller, by: By) -> Option<Event> {
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
            withdrawn: self.withdraws(caller, name, path),
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
        let cgroup = self.bound_at(path, b.name);
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
        let disk = self.get(name).is_some_and(Currency::has_disk);
        self.retake(cgroup, |c| {
            (c.bound_to, c.withdrawn) = (Some(name), withdrawn);
            c.disk = disk;
        });
        Event::Bound {
            name,
            cgroup,
            path: path.to_owned(),
        }
    }

    pub(super) fn detach(&mut self, cgroup: Cid) {
        self.retake(cgroup, |c| {
            (c.bound_to, c.withdrawn) = (None, Withdrawn::Nothing);
        });
    }

    /// What `name` has of `r` has changed: it may be the first, or have been the last.
    pub(super) fn tell_bound(&mut self, name: Cid, r: Resource) {
        let Some(x) = self.get(name).filter(|_| r == Resource::Disk) else {
            return;
        };
        let disk = x.has_disk();
        let bound = |path: &String| {
            let cgroup = self.bound_at(path, name)?;
            (self.get(cgroup)?.disk != disk).then_some(cgroup)
        };
        let told: Vec<Cid> = x.binds.iter().filter_map(bound).collect();
        for cgroup in told {
            self.retake(cgroup, |c| c.disk = disk);
        }
    }

    /// What a user bound is that user's as long as the cgroup is.
    pub(super) fn may_stay_bound(&self, b: &Binding, cgroup_owner: u32) -> bool {
        is_root(b.by) || b.by == cgroup_owner
    }
}
