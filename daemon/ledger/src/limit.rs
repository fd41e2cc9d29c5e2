// SPDX-License-Identifier: GPL-2.0-only
//! Limits of currencies (Banga §4.3, §5.6): how much CPU all may have together that a currency's
//! tickets fund. A limit gives nothing, and no value or entitlement knows of it: it takes away what
//! is above, and others have that.
//!
//! Resource containers are a tree, and the funding graph is not. So one currency is above each
//! other one for this: above a cgroup that is bound the currency that it is bound to, above any
//! other its parent's; above a named currency the funder that most of its entitlement comes from.
//! So nobody gets out from under a limit by a ticket of a friend's, nor below one by a ticket that
//! somebody gives to do harm.

use super::brokers::{Caller, Right, is_root};
use super::{BASE, By, Cid, Currency, End, Event, Key, Ledger, MAX_LIMIT, Refusal, Resource};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tix_model::shell;

/// How much a currency, and all that it funds, may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Thousandths of one CPU, 1 … [`MAX_LIMIT`].
    pub milli: u64,
    pub by: By,
}

/// Which limits count where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caps {
    /// Each currency that is there and has a limit: that, thousandths of one CPU, and the next one
    /// above that has one.
    pub limits: BTreeMap<Cid, (u64, Option<Cid>)>,
    /// The cgroups that have a limit, or are bound below one: the nearest. Below a cgroup its
    /// limits count without being told.
    pub cgroups: BTreeMap<Cid, Cid>,
}

impl Ledger {
    /// What was set for `cid` itself.
    pub fn limit_of(&self, cid: Cid) -> Option<Limit> {
        match self.limits.is_empty() {
            true => None,
            false => self.limits.get(&self.end(cid)).copied(),
        }
    }

    /// To limit, and to lift a limit: `c`. What root limited root alone changes: otherwise who is
    /// limited would lift it.
    fn may_limit(&self, caller: &Caller, name: &str, r: Resource) -> Result<End, Refusal> {
        let cid = self.resolve(name)?;
        self.limitable(&self.end(cid), r)?;
        let what = format!("limit {name:?}");
        self.need(caller, cid, Right::Change, &what)?;
        if self.limit_of(cid).is_some_and(|l| is_root(l.by)) {
            let why = "root limited it, and only root changes that";
            Self::need_root(caller, &what, why, || {
                let name = shell::word(name);
                format!("root can: `tixctl limit {name} cpu 100%`, or `tixctl unlimit {name} cpu`")
            })?;
        }
        Ok(self.end(cid))
    }

    /// Base is the machine.
    pub(super) fn limitable(&self, end: &End, r: Resource) -> Result<(), Refusal> {
        let what = match (end, r) {
            (_, Resource::Disk | Resource::Memory | Resource::Net) => {
                format!("there are no limits of {}", r.name())
            }
            (End::Cid(BASE), _) => "base is the machine, which is not limited".to_owned(),
            (End::Path(path), _) if path == "/" => return self.limitable(&End::Cid(BASE), r),
            _ => return Ok(()),
        };
        Err(Refusal::BadLimit(what))
    }

    pub(super) fn do_limit(
        &mut self,
        caller: &Caller,
        name: &str,
        r: Resource,
        milli: i64,
    ) -> Result<Vec<Event>, Refusal> {
        let end = self.may_limit(caller, name, r)?;
        let milli = Self::limit(milli.try_into().unwrap_or(0))?;
        if !self.limits.contains_key(&end) {
            self.may_give_more(caller)?;
        }
        let limit = Limit {
            milli,
            by: caller.uid,
        };
        Ok(vec![self.set_limit(end, r, Some(limit))])
    }

    pub(super) fn do_unlimit(
        &mut self,
        caller: &Caller,
        name: &str,
        r: Resource,
    ) -> Result<Vec<Event>, Refusal> {
        let end = self.may_limit(caller, name, r)?;
        if !self.limits.contains_key(&end) {
            return Err(Refusal::NotLimited(name.to_owned()));
        }
        Ok(vec![self.set_limit(end, r, None)])
    }

    /// Is it a limit?
    pub(super) fn limit(milli: u64) -> Result<u64, Refusal> {
        match (1..=MAX_LIMIT).contains(&milli) {
            true => Ok(milli),
            false => Err(Refusal::BadLimit(format!(
                "{milli} thousandths of a CPU is no limit"
            ))),
        }
    }

    fn set_limit(&mut self, end: End, r: Resource, limit: Option<Limit>) -> Event {
        let cid = self.at_end(&end).unwrap_or(BASE);
        self.note(Key::Limit(end.clone(), r));
        self.put_limit(end, limit);
        Event::Limited {
            cid,
            milli: limit.map(|l| l.milli),
        }
    }

    pub(super) fn put_limit(&mut self, end: End, limit: Option<Limit>) {
        let was = match limit {
            Some(l) => self.limits.insert(end, l),
            None => self.limits.remove(&end),
        };
        for (by, more) in [(was.map(|l| l.by), false), (limit.map(|l| l.by), true)] {
            if let Some(by) = by {
                self.count_given(by, more);
            }
        }
        self.reshaped();
    }

    /// `end` is going for good; or it is a cgroup, and what root said waits for it.
    pub(super) fn drop_limit(&mut self, end: &End) {
        let stays = |l: &Limit| is_root(l.by) && matches!(end, End::Path(_));
        if self.limits.get(end).is_some_and(|l| !stays(l)) {
            self.note(Key::Limit(end.clone(), Resource::Cpu));
            self.put_limit(end.clone(), None);
        }
    }

    /// At the start: limits of what is not there any more.
    pub(super) fn sweep_limits(&mut self) {
        let gone = |e: &&End| self.at_end(e).is_none();
        let lost: Vec<End> = self.limits.keys().filter(gone).cloned().collect();
        lost.iter().for_each(|end| self.drop_limit(end));
    }

    /// How many there are, those not that wait for their cgroup.
    pub fn limits_there(&self) -> usize {
        let there = self.limits.keys().filter(|e| self.at_end(e).is_some());
        there.count()
    }

    /// All that is in force, and where.
    pub fn caps(&self) -> Caps {
        let mut caps = Caps::default();
        let mut known = FxHashMap::default();
        let there = |end| self.at_end(end);
        for (cid, limit) in self.limits.iter().filter_map(|(e, l)| Some((there(e)?, l))) {
            let above = self.limited_above(cid, &mut known);
            caps.limits.insert(cid, (limit.milli, above));
            if self.get(cid).is_some_and(Currency::is_mirror) {
                caps.cgroups.insert(cid, cid);
            }
        }
        if caps.limits.is_empty() {
            return caps;
        }
        for cgroup in self.bindings.keys().filter_map(|path| self.find(path)) {
            if let Some(nearest) = self.limited_from(cgroup, &mut known) {
                caps.cgroups.insert(cgroup, nearest);
            }
        }
        caps
    }

    /// The limits that count for `cid`, the nearest first: its own, and those above it; of a cgroup
    /// those of the cgroups above, too.
    pub fn limits_over(&self, cid: Cid) -> Vec<Cid> {
        let mut known = FxHashMap::default();
        let mut all: Vec<Cid> = Vec::new();
        let mut cgroup = Some(cid).filter(|_| !self.limits.is_empty());
        while let Some(c) = cgroup {
            let mut next = self.limited_from(c, &mut known);
            while let Some(l) = next.filter(|l| !all.contains(l)) {
                all.push(l);
                next = self.limited_above(l, &mut known);
            }
            let mirror = self.get(c).and_then(|x| x.mirror.as_ref());
            cgroup = mirror.map(|m| m.parent).filter(|_| c != BASE);
        }
        all
    }

    /// Of every currency the nearest limit that counts for it: its own, or that of one above.
    pub fn nearest_limits(&self) -> FxHashMap<Cid, Cid> {
        let mut known = FxHashMap::default();
        let all = self.iter().filter(|_| !self.limits.is_empty());
        all.filter_map(|(cid, _)| Some((cid, self.limited_from(cid, &mut known)?)))
            .collect()
    }

    /// The nearest of `cid` and those above it that has a limit.
    fn limited_from(&self, cid: Cid, known: &mut Known) -> Option<Cid> {
        match self.limit_of(cid) {
            Some(_) => Some(cid),
            None => self.limited_above(cid, known),
        }
    }

    fn limited_above(&self, cid: Cid, known: &mut Known) -> Option<Cid> {
        if let Some(found) = known.get(&cid) {
            return *found;
        }
        let c = self.get(cid).filter(|_| cid != BASE)?;
        let up = (c.mirror.as_ref()).map(|m| c.bound_to.unwrap_or(m.parent));
        let found = match up {
            Some(up) => self.limited_from(up, known),
            None => (self.main_funder(cid)).and_then(|up| self.limited_from(up, known)),
        };
        known.insert(cid, found);
        found
    }

    /// Whose tickets guarantee the most of a currency's CPU; of several the oldest.
    fn main_funder(&self, cid: Cid) -> Option<Cid> {
        let funders = self.funders(cid, Resource::Cpu);
        if let [only] = funders[..] {
            return Some(only);
        }
        let c = self.get(cid)?;
        let from = |f: &Cid| -> u128 {
            let its = self.tickets(c, Resource::Cpu).filter(|t| t.issuer == *f);
            its.map(|t| self.ticket_value(&t, Resource::Cpu, true))
                .sum()
        };
        (funders.into_iter()).max_by_key(|f| (from(f), Reverse(*f)))
    }
}

/// The nearest limited above each that was looked at.
type Known = FxHashMap<Cid, Option<Cid>>;
