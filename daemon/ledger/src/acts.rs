// SPDX-License-Identifier: GPL-2.0-only
//! What each operation needs (Sullivan Table 1, model.md §1) and does.

use super::brokers::{Caller, Right, is_root};
use super::refusal::Act;
use super::{
    BASE, By, Cid, Currency, DEFAULT_MODE, End, Event, Grant, Hard, Key, Kind, Ledger, MAX_AMOUNT,
    MAX_FUNDERS, Refusal, Resource, TIXD, ops::Part,
};
use tix_model::shell;

type Done = Result<Vec<Event>, Refusal>;

const NOT_IN_GROUP: &str = "the caller is not in that group";
const YOUR_GROUPS: &str = "name a group that you are in (`id` lists them), or ask root";

impl Ledger {
    /// Whoever creates it is its owner and in its group; root may create it for others.
    pub(super) fn do_create(
        &mut self,
        caller: &Caller,
        cid: Cid,
        name: &str,
        (owner, group, mode): (u32, u32, u16),
    ) -> Done {
        let what = format!("create {name:?} for uid {owner}, group {group}");
        if owner != caller.uid {
            Self::need_root(caller, &what, "only root creates for others", || {
                let name = shell::word(name);
                format!(
                    "for yourself: `tixctl create {name}`; \
                     root can: `tixctl create {name} --owner {owner}`"
                )
            })?;
        }
        if !caller.in_group(group) {
            Self::need_root(caller, &what, NOT_IN_GROUP, || YOUR_GROUPS.to_owned())?;
        }
        if mode > 0o777 {
            return Err(Refusal::BadMode(format!("{mode:o}")));
        }
        let name = self.new_name(caller, name)?;
        self.free_name(&name, owner)?;
        self.free_number(cid)?;
        let c = Currency::new(&name, owner, group, mode, caller.uid);
        Ok(vec![self.create(cid, c)])
    }

    fn create(&mut self, cid: Cid, currency: Currency) -> Event {
        let name = currency.name.clone();
        self.note(Key::Currency(cid));
        self.insert(cid, currency);
        Event::Created { cid, name }
    }

    pub(super) fn do_destroy(&mut self, caller: &Caller, name: &str) -> Done {
        let cid = self.named(name, Act::Destroy)?;
        let what = format!("destroy {name:?}");
        self.need(caller, cid, Right::Change, &what)?;
        let paths: Vec<String> = self.bindings_of(cid).map(str::to_owned).collect();
        for path in &paths {
            self.may_unbind(caller, path, &what)?;
        }
        Ok(self.destroy(cid, !self.issues_base(caller)))
    }

    /// It goes, and every ticket that it issued or holds. `lapse`: what base gave it stays counted.
    pub(super) fn destroy(&mut self, cid: Cid, lapse: bool) -> Vec<Event> {
        let Some((name, owner)) = self.get(cid).map(|c| (c.name.clone(), c.owner)) else {
            return vec![];
        };
        let mut events = self.revoke_of(cid, &format!("{name} was destroyed"));
        let paths: Vec<String> = self.bindings_of(cid).map(str::to_owned).collect();
        events.extend(paths.iter().filter_map(|p| self.unbind(p)));
        events.extend(self.drop_grants(cid, lapse, |_| true));
        self.drop_waiting(cid);
        self.drop_limit(&End::Cid(cid));
        self.note(Key::Currency(cid));
        self.remove(cid);
        events.push(Event::Destroyed { cid, name, owner });
        events
    }

    /// What waits for a cgroup to be funded by it, or to fund it.
    fn drop_waiting(&mut self, cid: Cid) {
        for key in self.waits_for(&self.end(cid)) {
            self.note(key.clone());
            self.wait(key, None);
        }
    }

    pub(super) fn do_fund(
        &mut self,
        caller: &Caller,
        holder: &str,
        issuer: &str,
        r: Resource,
        amount: i64,
    ) -> Done {
        let amount = Self::amount(amount)?;
        let (h, i) = self.may_give(caller, (holder, issuer), r, Kind::Soft)?;
        let held = self.held(h, i, r, Kind::Soft);
        let sum = held.map_or(0, |g| g.amount) + amount;
        if sum > MAX_AMOUNT {
            return Err(Refusal::BadAmount(sum.to_string()));
        }
        Ok(vec![self.add_soft(h, i, r, amount, caller.uid)])
    }

    pub(super) fn do_reserve(
        &mut self,
        caller: &Caller,
        holder: &str,
        issuer: &str,
        r: Resource,
        amount: Hard,
    ) -> Done {
        let (h, i) = self.may_give(caller, (holder, issuer), r, Kind::Hard)?;
        let (amount, bytes) = self.check_hard(i, h, r, amount)?;
        let known = self.held(h, i, r, Kind::Hard);
        let g = Grant {
            issuer: i,
            kind: Kind::Hard,
            bytes,
            amount,
            by: known.filter(|g| is_root(g.by)).map_or(caller.uid, |g| g.by),
        };
        Ok(vec![self.set_grant(h, r, g)])
    }

    /// To give: f on the holder, i on the issuer, and no cycle.
    fn may_give(
        &self,
        caller: &Caller,
        (holder, issuer): (&str, &str),
        r: Resource,
        kind: Kind,
    ) -> Result<(Cid, Cid), Refusal> {
        let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
        self.need(
            caller,
            i,
            Right::Issue,
            &format!("issue tickets of {issuer:?}"),
        )?;
        self.need(caller, h, Right::Fund, &format!("fund {holder:?}"))?;
        self.may_give_more(caller)?;
        self.check_edge(caller.uid, i, h, r)?;
        // One issuer's soft and its hard ticket are two, and the kernel side has room for so many.
        let tickets = self.get(h).map_or(0, |c| self.tickets(c, r).count());
        if self.held(h, i, r, kind).is_none() && tickets >= MAX_FUNDERS {
            return Err(Refusal::LimitReached(format!(
                "{holder:?} holds {MAX_FUNDERS} tickets already"
            )));
        }
        Ok((h, i))
    }

    /// To take: c on the holder, or i on the issuer. The second result: the issuer's side does it,
    /// and may withdraw for good.
    fn may_take(&self, caller: &Caller, holder: Cid, issuer: Cid) -> Result<bool, Refusal> {
        let what = format!(
            "take tickets of {:?} away from {:?}",
            self.name(issuer),
            self.name(holder)
        );
        if self.allows(caller, issuer, Right::Issue) {
            return Ok(true);
        }
        let needed = self.need(caller, holder, Right::Change, &what);
        needed.map_err(|refusal| match refusal {
            Refusal::NotPermitted {
                uid,
                what,
                why,
                hint,
            } => Refusal::NotPermitted {
                uid,
                what,
                why: format!("{why}; or i (issue) on {:?}", self.name(issuer)),
                hint,
            },
            other => other,
        })?;
        Ok(false)
    }

    pub(super) fn do_unfund(
        &mut self,
        caller: &Caller,
        holder: &str,
        issuer: &str,
        r: Resource,
        amount: Option<i64>,
    ) -> Done {
        let amount = amount.map(Self::amount).transpose()?;
        let i = self.resolve(issuer)?;
        let lapsed = if i == BASE { self.lapsed(holder, r) } else { 0 };
        if lapsed > 0 && self.issues_base(caller) {
            return self.withdraw_lapsed(holder, r, lapsed, amount);
        }
        let h = self.resolve(holder)?;
        let for_good = self.may_take(caller, h, i)?;
        let not_funded = || Refusal::NotFunded {
            holder: holder.to_owned(),
            issuer: issuer.to_owned(),
        };
        let g = self.held(h, i, r, Kind::Soft).ok_or_else(not_funded)?;
        if let Some(asked) = amount
            && asked > g.amount
        {
            return Err(Refusal::TooFew {
                holder: holder.to_owned(),
                issuer: issuer.to_owned(),
                has: g.amount,
                asked,
            });
        }
        Ok(vec![self.take_away(h, &g, r, amount, !for_good)])
    }

    /// First what nobody holds any more, then what is held still.
    fn withdraw_lapsed(
        &mut self,
        holder: &str,
        r: Resource,
        lapsed: u64,
        amount: Option<u64>,
    ) -> Done {
        let held = self
            .find(holder)
            .and_then(|h| Some((h, self.held(h, BASE, r, Kind::Soft)?)));
        let has = lapsed + held.map_or(0, |(_, g)| g.amount);
        let asked = amount.unwrap_or(has);
        if asked > has {
            return Err(Refusal::TooFew {
                holder: holder.to_owned(),
                issuer: "base".to_owned(),
                has,
                asked,
            });
        }
        self.set_lapsed(holder, r, lapsed.saturating_sub(asked));
        let rest = asked.saturating_sub(lapsed);
        let live = held.filter(|_| rest > 0);
        let live = live.map(|(h, g)| self.take_away(h, &g, r, Some(rest), false));
        Ok(live.into_iter().collect())
    }

    pub(super) fn do_unreserve(
        &mut self,
        caller: &Caller,
        holder: &str,
        issuer: &str,
        r: Resource,
    ) -> Done {
        let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
        self.may_take(caller, h, i)?;
        let g = self
            .held(h, i, r, Kind::Hard)
            .ok_or_else(|| Refusal::NotFunded {
                holder: holder.to_owned(),
                issuer: issuer.to_owned(),
            })?;
        Ok(vec![self.take_away(h, &g, r, None, false)])
    }

    pub(super) fn do_bind(&mut self, caller: &Caller, name: &str, path: &str) -> Done {
        let cid = self.named(name, Act::Bind)?;
        self.need(caller, cid, Right::Issue, &format!("bind {name:?}"))?;
        let cgroup = self.bindable(caller, Some(cid), path)?;
        for r in Resource::ALL {
            self.check_edge(caller.uid, cid, cgroup, r)?;
        }
        Ok(self
            .bind(cid, path, caller, caller.uid)
            .into_iter()
            .collect())
    }

    pub(super) fn do_unbind(&mut self, caller: &Caller, name: &str, path: Option<&str>) -> Done {
        let cid = self.named(name, Act::Unbind)?;
        let what = format!("unbind {name:?}");
        let paths: Vec<String> = self
            .bindings_of(cid)
            .filter(|p| path.is_none_or(|wanted| wanted == *p))
            .map(str::to_owned)
            .collect();
        if paths.is_empty() {
            self.need(caller, cid, Right::Issue, &what)?;
            return Err(Refusal::NotBound {
                name: name.to_owned(),
                target: path.unwrap_or("any cgroup").to_owned(),
            });
        }
        for path in &paths {
            match self.find(path) {
                Some(cgroup) => self.may_take(caller, cgroup, cid).map(drop)?,
                None => self.need(caller, cid, Right::Issue, &what)?,
            }
            self.may_unbind(caller, path, &what)?;
        }
        Ok(paths.iter().filter_map(|p| self.unbind(p)).collect())
    }

    pub(super) fn do_chmod(&mut self, caller: &Caller, name: &str, mode: u16) -> Done {
        let cid = self.resolve(name)?;
        let what = format!("change the mode of {name:?}");
        let octal = format!("{mode:o}");
        self.need_owner(caller, cid, &what, |owner, name| {
            format!("{owner} can: `tixctl chmod {octal} {name}`")
        })?;
        if mode > 0o777 {
            return Err(Refusal::BadMode(format!("{mode:o}")));
        }
        self.not_base(cid)?;
        Ok(self.set_broker(cid, None, None, Some(mode), caller.uid))
    }

    pub(super) fn do_chown(
        &mut self,
        caller: &Caller,
        name: &str,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Done {
        let cid = self.resolve(name)?;
        let what = format!("change who owns {name:?}");
        self.need_owner(caller, cid, &what, |its, name| match (owner, group) {
            (None, Some(gid)) => format!("{its} can: `tixctl chgrp {gid} {name}`"),
            (owner, _) => {
                let owner = owner.unwrap_or_default();
                format!("root can: `tixctl chown {owner} {name}`")
            }
        })?;
        self.not_base(cid)?;
        // Said by others than root it would outlast root's change of the directory.
        let owner =
            owner.filter(|o| caller.is_root() || self.get(cid).is_none_or(|c| c.owner != *o));
        if let Some(owner) = owner
            && self.get(cid).is_some_and(|c| c.owner != owner)
        {
            Self::need_root(caller, &what, "only root gives a currency away", || {
                format!("root can: `tixctl chown {owner} {}`", shell::word(name))
            })?;
            if self.get(cid).is_some_and(|c| !c.is_mirror()) {
                self.free_owner(owner)?;
            }
        }
        if let Some(group) = group
            && !caller.in_group(group)
        {
            let what = format!("change the group of {name:?}");
            Self::need_root(caller, &what, NOT_IN_GROUP, || YOUR_GROUPS.to_owned())?;
        }
        Ok(self.set_broker(cid, owner, group, None, caller.uid))
    }

    fn not_base(&self, cid: Cid) -> Result<(), Refusal> {
        match cid {
            BASE => Err(Refusal::NotNamed("base".to_owned(), Act::Change)),
            _ => Ok(()),
        }
    }

    pub(super) fn do_run(
        &mut self,
        caller: &Caller,
        cid: Cid,
        name: &str,
        issuer: &str,
        amount: i64,
        path: &str,
    ) -> Done {
        let amount = Self::amount(amount)?;
        let i = self.resolve(issuer)?;
        self.need(
            caller,
            i,
            Right::Issue,
            &format!("issue tickets of {issuer:?}"),
        )?;
        self.may_give_more(caller)?;
        let cgroup = self.bindable(caller, None, path)?;
        self.one_funder_more(cgroup)?;
        // The new currency comes between the two.
        self.check_edge_at(caller.uid, i, cgroup, Resource::Cpu, 1)?;
        let created = self.make_for(caller, cid, name, path)?;
        let funded = self.add_soft(cid, i, Resource::Cpu, amount, self.passing(caller));
        let bound = self.bind(cid, path, caller, self.passing(caller));
        Ok([created, funded].into_iter().chain(bound).collect())
    }

    pub(super) fn do_nice(
        &mut self,
        caller: &Caller,
        cid: Cid,
        name: &str,
        giver: &str,
        amount: Part,
        path: &str,
    ) -> Done {
        let r = Resource::Cpu;
        let from = self.resolve(giver)?;
        let what = format!("give up rights of {giver:?}");
        self.need(caller, from, Right::Change, &what)?;
        self.need(caller, from, Right::Fund, &what)?;
        // What it gives up goes to a job of the caller's, as if its tickets were issued.
        self.need(caller, from, Right::Issue, &what)?;
        self.may_give_more(caller)?;
        let milli = match amount {
            Part::Tickets(n) => i64::try_from(Self::amount(n)? * 1000).unwrap_or(i64::MAX),
            Part::Milli(n @ 1..=1000) => {
                let has = self.entitlement(from, r) >> 32;
                let n = (has * u128::from(n.unsigned_abs())) >> 32;
                i64::try_from(n).unwrap_or(i64::MAX)
            }
            Part::Milli(n) => return Err(Refusal::BadHard(format!("{n} thousandths"))),
        };
        if milli == 0 {
            return Err(Refusal::BadAmount("less than a thousandth".to_owned()));
        }
        if from == BASE {
            return Err(Refusal::NotNamed("base".to_owned(), Act::GiveUp));
        }
        let cgroup = self.bindable(caller, None, path)?;
        self.one_funder_more(cgroup)?;
        let created = self.make_for(caller, cid, name, path)?;
        let bound = self.bind(cid, path, caller, self.passing(caller));
        let legs = vec![(from, r, -milli), (cid, r, milli)];
        let given = self.exchange(legs, self.passing(caller));
        // Looked at afterwards: binding may have taken from the giver what it gives.
        self.check_exchanged(from, r, milli)?;
        Ok([created, given].into_iter().chain(bound).collect())
    }

    /// A currency that goes with the cgroup `path`.
    fn make_for(
        &mut self,
        caller: &Caller,
        cid: Cid,
        name: &str,
        path: &str,
    ) -> Result<Event, Refusal> {
        let name = self.new_name(caller, name)?;
        self.free_name(&name, caller.uid)?;
        self.free_number(cid)?;
        let mut c = Currency::new(&name, caller.uid, caller.gid, DEFAULT_MODE, caller.uid);
        c.transient = Some(path.to_owned());
        Ok(self.create(cid, c))
    }

    /// Who did what is to go with its cgroup, whoever did it: not root, whose doings wait for it.
    fn passing(&self, caller: &Caller) -> By {
        match caller.is_root() {
            true => TIXD,
            false => caller.uid,
        }
    }
}
