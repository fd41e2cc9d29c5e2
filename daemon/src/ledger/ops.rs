// SPDX-License-Identifier: GPL-2.0-only
//! Operations: a value in, a refusal or a list of events out.

use super::{
    BASE, Binding, Cid, Currency, Event, Grant, Kind, Ledger, MAX_AMOUNT, MAX_BINDINGS, MAX_OWNED,
    Refusal, Resource, Waiting,
};
use serde::{Deserialize, Serialize};

/// A currency as the journal names it: by name, or by cgroup path (beginning with `/`; base is `base`).
pub type Ref = String;

/// What can be asked of the ledger. This is what the journal holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Create {
        cid: Cid,
        name: String,
        owner: u32,
    },
    Destroy {
        name: String,
    },
    Fund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: i64,
    },
    Unfund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: Option<i64>,
    },
    Bind {
        name: String,
        path: String,
    },
    Unbind {
        name: String,
        path: Option<String>,
    },
    /// A currency for one run: created, funded and bound at once, gone with the cgroup.
    Run {
        cid: Cid,
        name: String,
        owner: u32,
        issuer: Ref,
        amount: i64,
        path: String,
    },
    /// The cgroup went: so do the grants and bindings that root did not make.
    Wilt {
        path: String,
    },
}

/// `[a-z][a-z0-9_-]{0,62}`, and not `base`.
fn good_name(name: &str) -> bool {
    let mut b = name.bytes();
    name.len() <= 63
        && name != "base"
        && b.next().is_some_and(|c| c.is_ascii_lowercase())
        && b.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-')
}

impl Ledger {
    fn resolve(&self, r: &str) -> Result<Cid, Refusal> {
        self.find(r).ok_or_else(|| {
            if r.starts_with('/') {
                Refusal::NoSuchCgroup(r.to_owned())
            } else {
                Refusal::NoSuchCurrency(r.to_owned())
            }
        })
    }

    fn named(&self, name: &str) -> Result<Cid, Refusal> {
        let cid = self.resolve(name)?;
        match self.get(cid) {
            Some(c) if !c.is_mirror() => Ok(cid),
            _ => Err(Refusal::NotNamed(name.to_owned())),
        }
    }

    fn own(&self, uid: u32, cid: Cid, what: String) -> Result<(), Refusal> {
        match self.get(cid) {
            Some(c) if uid == 0 || c.owner == uid => Ok(()),
            Some(c) => Err(Refusal::NotPermitted {
                uid,
                what,
                why: format!("{:?} belongs to uid {}", c.name, c.owner),
            }),
            None => Err(Refusal::NoSuchCurrency(cid.to_string())),
        }
    }

    fn free_name(&self, name: &str, owner: u32) -> Result<(), Refusal> {
        if !good_name(name) {
            return Err(Refusal::BadName(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(Refusal::AlreadyExists(name.to_owned()));
        }
        if owner != 0
            && self
                .iter()
                .filter(|(_, c)| !c.is_mirror() && c.owner == owner)
                .count()
                >= MAX_OWNED
        {
            return Err(Refusal::LimitReached(format!(
                "uid {owner} owns {MAX_OWNED} currencies already"
            )));
        }
        Ok(())
    }

    fn held(&self, holder: Cid, issuer: Cid, r: Resource) -> u64 {
        self.get(holder)
            .and_then(|c| {
                c.grants(r)
                    .iter()
                    .find(|g| g.issuer == issuer && g.kind == Kind::Soft)
            })
            .map_or(0, |g| g.amount)
    }

    fn amount(amount: i64) -> Result<u64, Refusal> {
        u64::try_from(amount)
            .ok()
            .filter(|a| (1..=MAX_AMOUNT).contains(a))
            .ok_or_else(|| Refusal::BadAmount(amount.to_string()))
    }

    fn cpu_only(r: Resource) -> Result<(), Refusal> {
        if r == Resource::Cpu {
            Ok(())
        } else {
            Err(Refusal::UnsupportedResource(r))
        }
    }

    fn bindable(&self, uid: u32, name: Option<Cid>, path: &str) -> Result<Cid, Refusal> {
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

    /// May `uid` do this now? Changes nothing.
    pub fn check(&self, op: &Op, uid: u32) -> Result<(), Refusal> {
        match op {
            Op::Create { name, owner, .. } => self.free_name(name, *owner),
            Op::Destroy { name } => {
                let cid = self.named(name)?;
                self.own(uid, cid, format!("destroy {name:?}"))?;
                if uid != 0
                    && self
                        .get(cid)
                        .is_some_and(|c| c.grants(Resource::Cpu).iter().any(|g| g.issuer == BASE))
                {
                    return Err(Refusal::NotPermitted {
                        uid,
                        what: format!("destroy {name:?}"),
                        why: "base funds it, and only root changes what base has issued".to_owned(),
                    });
                }
                Ok(())
            }
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let amount = Self::amount(*amount)?;
                let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
                Self::cpu_only(*resource)?;
                self.own(uid, i, format!("issue tickets of {issuer:?}"))?;
                let sum = self.held(h, i, *resource) + amount;
                if sum > MAX_AMOUNT {
                    return Err(Refusal::BadAmount(sum.to_string()));
                }
                self.check_edge(i, h, *resource)
            }
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let asked = amount.map(Self::amount).transpose()?;
                let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
                Self::cpu_only(*resource)?;
                self.own(uid, i, format!("withdraw tickets of {issuer:?}"))?;
                let has = self.held(h, i, *resource);
                match asked {
                    _ if has == 0 => Err(Refusal::NotFunded {
                        holder: holder.clone(),
                        issuer: issuer.clone(),
                    }),
                    Some(asked) if asked > has => Err(Refusal::TooFew {
                        holder: holder.clone(),
                        issuer: issuer.clone(),
                        has,
                        asked,
                    }),
                    _ => Ok(()),
                }
            }
            Op::Bind { name, path } => {
                let cid = self.named(name)?;
                self.own(uid, cid, format!("bind {name:?}"))?;
                let cgroup = self.bindable(uid, Some(cid), path)?;
                if self.bindings_of(cid).count() >= MAX_BINDINGS {
                    return Err(Refusal::LimitReached(format!(
                        "{name:?} is bound to {MAX_BINDINGS} cgroups already"
                    )));
                }
                self.check_edge(cid, cgroup, Resource::Cpu)
            }
            Op::Unbind { name, path } => {
                let cid = self.named(name)?;
                self.own(uid, cid, format!("unbind {name:?}"))?;
                let bound = match path {
                    Some(p) => self.bindings.get(p).is_some_and(|b| b.name == cid),
                    None => self.bindings_of(cid).next().is_some(),
                };
                let target = path.clone().unwrap_or_else(|| "any cgroup".to_owned());
                if bound {
                    Ok(())
                } else {
                    Err(Refusal::NotBound {
                        name: name.clone(),
                        target,
                    })
                }
            }
            Op::Run {
                name,
                owner,
                issuer,
                amount,
                path,
                ..
            } => {
                Self::amount(*amount)?;
                self.free_name(name, *owner)?;
                let i = self.resolve(issuer)?;
                self.own(uid, i, format!("issue tickets of {issuer:?}"))?;
                let cgroup = self.bindable(uid, None, path)?;
                // The new currency sits between the two: no cycle but this one, and one edge more of depth, which check_edge refuses late by
                // at most one; the kernel's limit has the room.
                self.check_edge(i, cgroup, Resource::Cpu)
            }
            Op::Wilt { .. } => Ok(()),
        }
    }

    /// Check and do it. `uid` is whoever asked (0 for what tixd does of itself).
    pub fn apply(&mut self, op: &Op, uid: u32) -> Result<Vec<Event>, Refusal> {
        self.check(op, uid)?;
        self.perform(op, uid)
    }

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
            _ => self.apply(op, uid).unwrap_or_else(|e| dropped(&e)),
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

    fn perform(&mut self, op: &Op, uid: u32) -> Result<Vec<Event>, Refusal> {
        match op {
            Op::Create { cid, name, owner } => {
                self.insert(*cid, Currency::new(name, *owner));
                Ok(vec![Event::Created {
                    cid: *cid,
                    name: name.clone(),
                }])
            }
            Op::Destroy { name } => {
                let cid = self.named(name)?;
                let paths: Vec<String> = self.bindings_of(cid).map(str::to_owned).collect();
                let mut events: Vec<Event> =
                    paths.iter().map(|p| self.unbind_one(cid, p)).collect();
                events.extend(self.drop_grants(cid, |_| true));
                self.waiting
                    .retain(|w| w.issuer != *name && w.holder != *name);
                self.remove_currency(cid);
                events.push(Event::Destroyed {
                    cid,
                    name: name.clone(),
                });
                Ok(events)
            }
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
                Ok(vec![self.grant(
                    h,
                    i,
                    *resource,
                    Self::amount(*amount)?,
                    uid == 0,
                )])
            }
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
                let asked = amount.map(Self::amount).transpose()?;
                Ok(vec![self.withdraw(h, i, *resource, asked)])
            }
            Op::Bind { name, path } => {
                let (cid, cgroup) = (self.named(name)?, self.resolve(path)?);
                let known = self.bindings.insert(
                    path.clone(),
                    Binding {
                        name: cid,
                        by_root: uid == 0,
                    },
                );
                Ok(if known.is_some() {
                    vec![]
                } else {
                    vec![self.attach(cgroup, cid, path)]
                })
            }
            Op::Unbind { name, path } => {
                let cid = self.named(name)?;
                let paths: Vec<String> = match path {
                    Some(p) => vec![p.clone()],
                    None => self.bindings_of(cid).map(str::to_owned).collect(),
                };
                Ok(paths.iter().map(|p| self.unbind_one(cid, p)).collect())
            }
            Op::Run {
                cid,
                name,
                owner,
                issuer,
                amount,
                path,
            } => {
                let (i, cgroup) = (self.resolve(issuer)?, self.resolve(path)?);
                let mut c = Currency::new(name, *owner);
                c.transient = Some(path.clone());
                self.insert(*cid, c);
                let funded = self.grant(*cid, i, Resource::Cpu, Self::amount(*amount)?, uid == 0);
                self.bindings.insert(
                    path.clone(),
                    Binding {
                        name: *cid,
                        by_root: false,
                    },
                );
                let bound = self.attach(cgroup, *cid, path);
                Ok(vec![
                    Event::Created {
                        cid: *cid,
                        name: name.clone(),
                    },
                    funded,
                    bound,
                ])
            }
            Op::Wilt { path } => {
                let mut events = Vec::new();
                if let Some(b) = self.bindings.get(path).filter(|b| !b.by_root) {
                    let name = b.name;
                    events.push(self.unbind_one(name, path));
                }
                if let Some(cid) = self.find(path) {
                    events.extend(self.drop_grants(cid, |g| !g.by_root));
                }
                Ok(events)
            }
        }
    }

    fn unbind_one(&mut self, name: Cid, path: &str) -> Event {
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

    fn grant(
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

    fn withdraw(
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

    /// Withdraw the grants that `cid` holds and those it issued, where `which` says so.
    fn drop_grants(&mut self, cid: Cid, which: impl Fn(&Grant) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for r in Resource::ALL {
            let holders: Vec<Cid> = self.funded(cid, r).chain([cid]).collect();
            let doomed: Vec<(Cid, Cid)> = holders
                .iter()
                .filter_map(|h| self.get(*h).map(|c| (*h, c)))
                .flat_map(|(h, c)| {
                    c.grants(r)
                        .iter()
                        .filter(|g| which(g))
                        .map(move |g| (h, g.issuer))
                })
                .filter(|(h, i)| *h == cid || *i == cid)
                .collect();
            for (h, i) in doomed {
                events.push(self.withdraw(h, i, r, None));
            }
        }
        events
    }

    pub(super) fn remove_currency(&mut self, cid: Cid) {
        self.drop_grants(cid, |_| true);
        if let Some(c) = self.currencies.remove(&cid) {
            self.by_name.remove(&c.name);
        }
    }

    /// A cgroup goes: root's grants wait for it to come back.
    pub(super) fn put_aside(&mut self, cid: Cid) {
        for r in Resource::ALL {
            let holders: Vec<Cid> = self.funded(cid, r).chain([cid]).collect();
            let mut aside = Vec::new();
            for h in holders {
                let Some(c) = self.get(h) else { continue };
                for g in c
                    .grants(r)
                    .iter()
                    .filter(|g| g.by_root && (h == cid || g.issuer == cid))
                {
                    if let Some(issuer) = self.get(g.issuer) {
                        aside.push((issuer.name.clone(), c.name.clone(), g.amount));
                    }
                }
            }
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
