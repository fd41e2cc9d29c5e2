// SPDX-License-Identifier: GPL-2.0-only
//! The ledger checks itself: every sum that it keeps is computed again from the tickets, and what
//! model.md promises of every state is looked at. For tests, and for what comes from outside.

use super::currency::Issued;
use super::{
    BASE, Cid, Currency, End, HARD_WHOLE, Key, Kind, Ledger, MAX_AMOUNT, MAX_FUNDERS,
    MAX_HARD_OF_BASE, MAX_LIMIT, Resource,
    rights::{Made, is_roots},
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

impl Ledger {
    /// What is wrong, in words; nothing if all is well.
    pub fn verify(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for r in Resource::ALL {
            match self.issuers_last(r) {
                Some(order) => self.verify_sums(r, &order, &mut wrong),
                None => wrong.push(format!("{}: there is a cycle", r.name())),
            }
            self.verify_limits(r, &mut wrong);
        }
        self.verify_indexes(&mut wrong);
        self.verify_caps(&mut wrong);
        self.verify_made(&mut wrong);
        self.verify_lifeline(&mut wrong);
        wrong
    }

    /// All currencies, holders before issuers; `None` if there is a cycle.
    fn issuers_last(&self, r: Resource) -> Option<Vec<Cid>> {
        let mut open: FxHashMap<Cid, usize> = self.currencies.keys().map(|c| (*c, 0)).collect();
        for cid in self.currencies.keys() {
            for f in self.funders(*cid, r) {
                *open.entry(f).or_insert(0) += 1;
            }
        }
        let free = open.iter().filter(|(_, n)| **n == 0);
        let mut order: Vec<Cid> = free.map(|(c, _)| *c).collect();
        let mut at = 0;
        while let Some(c) = order.get(at).copied() {
            at += 1;
            for f in self.funders(c, r) {
                if let Some(n) = open.get_mut(&f) {
                    *n -= 1;
                    if *n == 0 {
                        order.push(f);
                    }
                }
            }
        }
        (order.len() == open.len()).then_some(order)
    }

    fn verify_sums(&self, r: Resource, holders_first: &[Cid], wrong: &mut Vec<String>) {
        #[derive(Default, PartialEq, Eq, Debug)]
        struct Sums {
            issued: Issued,
            active: Issued,
            holders: BTreeMap<Cid, u32>,
            delta: i64,
            given: i64,
        }
        let mut sums: FxHashMap<Cid, Sums> = FxHashMap::default();
        for cid in holders_first {
            let Some(c) = self.get(*cid) else {
                wrong.push(format!("a ticket of currency {cid}, which is not there"));
                continue;
            };
            let active = c.side(r).running || sums.get(cid).is_some_and(|s| s.active.count > 0);
            for t in self.tickets(c, r) {
                let of = sums.entry(t.issuer).or_default();
                *of.holders.entry(*cid).or_insert(0) += 1;
                if t.counted {
                    of.issued.add(&t);
                }
                if active && !t.kept {
                    of.active.add(&t);
                }
                let most = match t.kind {
                    Kind::Hard if t.bytes && r == Resource::Memory => u64::MAX,
                    Kind::Hard if !t.bytes && (t.issuer, r) != (BASE, Resource::Memory) => {
                        HARD_WHOLE - 1
                    }
                    Kind::Soft if !t.bytes => MAX_AMOUNT,
                    _ => 0,
                };
                if !(1..=most).contains(&t.amount) {
                    wrong.push(format!("{}: {t:?} of {:?}", r.name(), c.name));
                }
            }
        }
        for (key, a) in &self.waiting {
            if let Key::Ticket {
                issuer,
                resource,
                kind,
                ..
            } = key
                && *resource == r
                && let Some(issuer) = self.at_end(issuer)
            {
                let g = super::Grant {
                    issuer,
                    kind: *kind,
                    bytes: a.bytes,
                    amount: a.amount,
                    by: a.by,
                };
                sums.entry(issuer).or_default().issued.add(&g.as_ticket());
            }
        }
        for (party, of, n) in self.exchanges.values().flat_map(|x| &x.legs) {
            if *of == r {
                let s = sums.entry(*party).or_default();
                s.delta += n;
                s.given += n.min(&0);
            }
        }
        let mut parties: BTreeMap<Cid, u32> = BTreeMap::new();
        for (party, of, _) in self.exchanges.values().flat_map(|x| &x.legs) {
            *parties.entry(*party).or_insert(0) += u32::from(*of == r);
        }
        parties.retain(|_, n| *n > 0);
        if parties != self.parties[r.index()] {
            wrong.push(format!("{}: parties {parties:?}", r.name()));
        }
        for (cid, c) in &self.currencies {
            let side = c.side(r);
            let kept = Sums {
                issued: side.issued,
                active: side.active,
                holders: side.holders.clone(),
                delta: side.delta,
                given: side.given,
            };
            let should = sums.remove(cid).unwrap_or_default();
            if kept != should {
                wrong.push(format!(
                    "{} of {:?}: {kept:?} should be {should:?}",
                    r.name(),
                    c.name
                ));
            }
        }
        let gone = sums
            .keys()
            .map(|c| format!("currency {c} issues, and is not there"));
        wrong.extend(gone);
    }

    fn verify_limits(&self, r: Resource, wrong: &mut Vec<String>) {
        for (cid, c) in &self.currencies {
            let funders = self.funders(*cid, r).len();
            if funders > MAX_FUNDERS {
                wrong.push(format!("{}: {funders} fund {:?}", r.name(), c.name));
            }
            let (taken, all) = self.hard_taken(*cid, r);
            let thousandths = match *cid {
                BASE => MAX_HARD_OF_BASE,
                _ => HARD_WHOLE - 1,
            };
            let most = u128::from(all) * u128::from(thousandths) / u128::from(HARD_WHOLE);
            // An issuer that gave bytes may have shrunk since: then its guarantees are `unheld`.
            if u128::from(taken) > most && c.side(r).issued.bytes == 0 {
                wrong.push(format!(
                    "{}: {:?} has reserved {taken} of {all}",
                    r.name(),
                    c.name
                ));
            }
        }
        if let Some(&c) = self.overdrawn(r).first() {
            wrong.push(format!(
                "{}: {:?} has given away more than it has",
                r.name(),
                self.name(c)
            ));
        }
        let sum: i64 = self.currencies.values().map(|c| c.side(r).delta).sum();
        if sum != 0 {
            wrong.push(format!("{}: exchanges sum to {sum}", r.name()));
        }
        let lapsed = self.lapsed.iter().filter(|((_, of), _)| *of == r);
        let lapsed: u64 = lapsed.map(|(_, n)| n).sum();
        if lapsed != self.lapsed_total[r.index()] {
            wrong.push(format!("{}: {lapsed} tickets have lapsed", r.name()));
        }
    }

    fn verify_indexes(&self, wrong: &mut Vec<String>) {
        let mut tell = |ok: bool, what: String| {
            if !ok {
                wrong.push(what);
            }
        };
        let mut with: BTreeMap<&str, BTreeSet<Cid>> = BTreeMap::new();
        let mut bytes: BTreeSet<(Cid, Cid)> = BTreeSet::new();
        let mut keys: FxHashSet<(Cid, Cid, Resource, Kind)> = FxHashSet::default();
        for (cid, c) in &self.currencies {
            let named = self.find(&c.name) == Some(*cid);
            tell(named, format!("{:?} is not found by its name", c.name));
            let home = c.is_mirror() || self.is_name_of(c.by, &c.name).is_ok();
            tell(home, format!("{:?} is no name of uid {}", c.name, c.by));
            if let Some(path) = &c.transient {
                with.entry(path).or_default().insert(*cid);
            }
            for path in &c.binds {
                let known = self.bindings.get(path).map(|b| b.name);
                tell(known == Some(*cid), format!("{path} is bound to {known:?}"));
            }
            if let Some(m) = c.mirror.as_ref().filter(|_| *cid != BASE) {
                let parent = self.get(m.parent).is_some_and(|p| p.children.contains(cid));
                tell(parent, format!("{:?} is no child of its parent", c.name));
                let b = self.bindings.get(&m.path).map(|b| (b.name, b.withdrawn));
                let is = c.bound_to.map(|n| (n, c.withdrawn));
                tell(b == is, format!("{:?}: bound {is:?}, not {b:?}", c.name));
                let disk = c.bound_to.and_then(|n| self.get(n)).map(Currency::has_disk);
                tell(
                    disk.is_none_or(|disk| disk == c.disk),
                    format!("{:?} has not been told: {disk:?}", c.name),
                );
            }
            for k in &c.children {
                let of = self.get(*k).and_then(|c| Some(c.mirror.as_ref()?.parent));
                tell(of == Some(*cid), format!("{:?} has no child {k}", c.name));
            }
            for r in Resource::ALL {
                for g in c.grants(r) {
                    let first = keys.insert((*cid, g.issuer, r, g.kind));
                    tell(first, format!("{:?} holds two of {g:?}", c.name));
                    if g.bytes {
                        bytes.insert((g.issuer, *cid));
                    }
                }
            }
        }
        let names = self.by_name.len();
        tell(
            names == self.currencies.len() + 1,
            format!("{names} names, base has two"),
        );
        let long: usize = self.currencies.values().map(|c| c.name.len()).sum();
        tell(
            long == self.name_bytes,
            format!("names have {long} bytes, not {}", self.name_bytes),
        );
        tell(
            bytes == self.in_bytes,
            format!("in bytes: {:?}", self.in_bytes),
        );
        let goes: BTreeMap<&str, BTreeSet<Cid>> = (self.transient.iter())
            .map(|(p, c)| (p.as_str(), c.clone()))
            .collect();
        tell(with == goes, format!("goes with its cgroup: {goes:?}"));
        for (path, b) in &self.bindings {
            let known = self.get(b.name).is_some_and(|c| c.binds.contains(path));
            tell(known, format!("the binding of {path} has no currency"));
        }
        let mut waits: FxHashMap<&End, BTreeSet<&Key>> = FxHashMap::default();
        for key in self.waiting.keys() {
            let Key::Ticket { issuer, holder, .. } = key else {
                tell(false, format!("{key:?} waits"));
                continue;
            };
            for end in [issuer, holder] {
                waits.entry(end).or_default().insert(key);
                let lost = matches!(end, End::Cid(_)) && self.at_end(end).is_none();
                tell(!lost, format!("{key:?} waits for what never comes"));
            }
            let due = self.at_end(issuer).is_some() && self.at_end(holder).is_some();
            tell(!due, format!("{key:?} waits for nothing"));
        }
        let same = waits.len() == self.waits_for.len()
            && (self.waits_for.iter())
                .all(|(end, keys)| waits.get(end).is_some_and(|w| w.iter().copied().eq(keys)));
        tell(same, "what waits is not found by its ends".to_owned());
        for (id, x) in &self.exchanges {
            let there = x.legs.iter().all(|(c, _, _)| self.get(*c).is_some());
            tell(there, format!("exchange {id} has lost a party"));
            let of = x.parties();
            let found = of
                .iter()
                .all(|p| self.exchanges_of(*p).any(|(n, _)| n == *id));
            tell(found, format!("exchange {id} is not found by its parties"));
        }
        let parts: usize = self.exchanges.values().map(|x| x.parties().len()).sum();
        let indexed: usize = self.exchanges_of.values().map(BTreeSet::len).sum();
        tell(parts == indexed, format!("{indexed} parts in exchanges"));
        for o in self.book.iter_from(0) {
            let there = self.get(o.party).is_some();
            tell(there, format!("offer {} has lost its party", o.id));
            tell(!o.is_spent(), format!("nothing is left of {o:?}"));
        }
    }

    /// Limits are limits, of what is there or waited for; and what is above a limited currency
    /// leads to an end.
    fn verify_caps(&self, wrong: &mut Vec<String>) {
        for (end, l) in &self.limits {
            let there = match end {
                End::Cid(c) => *c != BASE && self.get(*c).is_some_and(|c| !c.is_mirror()),
                End::Path(p) => p.starts_with('/') && p != "/",
            };
            if !there || !(1..=MAX_LIMIT).contains(&l.milli) {
                wrong.push(format!("{l:?} of {end:?}"));
            }
        }
        let caps = self.caps();
        for cid in caps.limits.keys() {
            let (mut at, mut steps) = (*cid, 0);
            while let Some((_, Some(above))) = caps.limits.get(&at)
                && steps <= caps.limits.len()
            {
                (at, steps) = (*above, steps + 1);
            }
            if steps > caps.limits.len() {
                wrong.push(format!("{:?} is limited by itself", self.name(*cid)));
            }
        }
        for (cgroup, cap) in &caps.cgroups {
            if !caps.limits.contains_key(cap) || self.limits_over(*cgroup).first() != Some(cap) {
                wrong.push(format!("{:?} is capped by {cap}", self.name(*cgroup)));
            }
        }
    }

    /// The lifeline has what is due to it, as long as one ticket can say so much.
    fn verify_lifeline(&self, wrong: &mut Vec<String>) {
        for r in Resource::ALL {
            let held = self.currencies.values().flat_map(|c| c.grants(r));
            let given = held.filter(|g| is_roots(g.by)).count();
            let waits = (self.waiting.iter()).filter(|(k, a)| {
                matches!(k, Key::Ticket { resource, .. } if *resource == r) && is_roots(a.by)
            });
            let given = given + waits.count();
            if given != self.given_by_root[r.index()] {
                wrong.push(format!("{}: root gave {given} tickets", r.name()));
            }
            let Some(cid) = self.lifeline() else { continue };
            let held = self.held(cid, BASE, r, Kind::Soft).map_or(0, |g| g.amount);
            let (has, floor) = (self.entitlement(cid, r), self.lifeline_floor(r));
            // Rounding: two bits of 64.
            if held < MAX_AMOUNT && has.saturating_add(4) < floor {
                wrong.push(format!("{}: the lifeline has {has} of {floor}", r.name()));
            }
        }
    }

    /// What each user has made, as the quotas have it.
    fn verify_made(&self, wrong: &mut Vec<String>) {
        let mut made: FxHashMap<u32, Made> = FxHashMap::default();
        let mut given = |by: u32| {
            if !super::brokers::is_root(by) {
                made.entry(by).or_default().tickets += 1;
            }
        };
        for c in self.currencies.values() {
            for g in Resource::ALL.iter().flat_map(|r| c.grants(*r)) {
                given(g.by);
            }
        }
        self.waiting.values().for_each(|a| given(a.by));
        self.limits.values().for_each(|l| given(l.by));
        for by in self.exchanges.values().map(|x| x.by) {
            if !super::brokers::is_root(by) && by != super::TIXD {
                made.entry(by).or_default().exchanges += 1;
            }
        }
        for c in self.currencies.values().filter(|c| !c.is_mirror()) {
            made.entry(c.owner).or_default().currencies += 1;
        }
        let users: BTreeSet<u32> = made.keys().chain(self.made.keys()).copied().collect();
        for user in users {
            let of = |m: &FxHashMap<u32, Made>| m.get(&user).copied().unwrap_or_default();
            let (kept, should) = (of(&self.made), of(&made));
            if kept != should {
                wrong.push(format!("uid {user} made {kept:?}, really {should:?}"));
            }
        }
    }
}
