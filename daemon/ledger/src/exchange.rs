// SPDX-License-Identifier: GPL-2.0-only
//! Exchange tickets (Sullivan §3.2.2, model.md §5): issued by base, each worth exactly its amount,
//! in sets that sum to zero per resource.
//!
//! So T does not change, and nobody's entitlement but that of the parties and of whom they fund.
//! While a party is inactive its exchange tickets rest with its funders, in proportion to what each
//! contributes to its entitlement: the others of those funders then have what they would have
//! without the exchange (footnote 3). `tixctl nice` is the smallest exchange: −n on the user's
//! currency, +n on the job's (§3.4, §4.6).

use super::brokers::is_root;
use super::values::of_milli;
use super::{BASE, By, Cid, Event, Key, Kind, Ledger, Refusal, Resource, TIXD, Ticket};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Party, resource, thousandths of a base ticket; negative: given away.
    pub legs: Vec<(Cid, Resource, i64)>,
    pub by: By,
}

impl Exchange {
    pub fn parties(&self) -> Vec<Cid> {
        let mut parties: Vec<Cid> = self.legs.iter().map(|(p, _, _)| *p).collect();
        parties.sort_unstable();
        parties.dedup();
        parties
    }

    /// Rights to one resource for rights to another, and not only handed on for a job.
    pub fn is_a_trade(&self) -> bool {
        (self.legs.iter()).any(|(_, r, _)| Some(*r) != self.legs.first().map(|l| l.1))
    }
}

/// The exchange tickets of inactive parties that rest with a currency, in base tickets with 64
/// fractional bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    pub whole: i128,
    /// With its soft pool.
    pub pool: i128,
}

impl Rest {
    fn sum(self) -> i128 {
        self.whole + self.pool
    }

    fn at(&mut self, kind: Kind) -> &mut i128 {
        match kind {
            Kind::Soft => &mut self.pool,
            Kind::Hard => &mut self.whole,
        }
    }
}

/// What rests with whom, as of an epoch.
#[derive(Debug, Clone, Default)]
pub(super) struct Rests {
    epoch: u64,
    with: [FxHashMap<Cid, Rest>; Resource::COUNT],
}

/// Values by currency that may be below zero.
type Lower = FxHashMap<Cid, i128>;

impl Ledger {
    pub fn exchanges(&self) -> impl Iterator<Item = (u64, &Exchange)> {
        self.exchanges.iter().map(|(id, x)| (*id, x))
    }

    /// Those with a number above `id`.
    pub fn exchanges_after(&self, id: u64) -> impl Iterator<Item = (u64, &Exchange)> {
        let all = self.exchanges.range(id.saturating_add(1)..);
        all.map(|(id, x)| (*id, x))
    }

    pub fn exchange_of(&self, id: u64) -> Option<&Exchange> {
        self.exchanges.get(&id)
    }

    /// Those that `party` is in.
    pub fn exchanges_of(&self, party: Cid) -> impl Iterator<Item = (u64, &Exchange)> {
        let its = self.exchanges_of.get(&party).into_iter().flatten();
        its.filter_map(|id| Some((*id, self.exchanges.get(id)?)))
    }

    /// What rests with `c`.
    pub(super) fn resting(&self, c: Cid, r: Resource) -> Rest {
        if self.exchanges.is_empty() {
            return Rest::default();
        }
        if self.rests.borrow().epoch != self.epoch {
            let with = Resource::ALL.map(|r| self.rest_now(r));
            *self.rests.borrow_mut() = Rests {
                epoch: self.epoch,
                with,
            };
        }
        let rests = self.rests.borrow();
        rests.with[r.index()].get(&c).copied().unwrap_or_default()
    }

    fn rest_now(&self, r: Resource) -> FxHashMap<Cid, Rest> {
        let mut rest: FxHashMap<Cid, Rest> = FxHashMap::default();
        for party in self.parties[r.index()].keys() {
            let delta = self.get(*party).map_or(0, |x| x.delta(r));
            if delta != 0 && !self.active(*party, r) {
                rest.entry(*party).or_default().whole = of_milli(delta);
            }
        }
        let parties: Vec<Cid> = rest.keys().copied().collect();
        // Holders before issuers: what rests with one that is inactive itself goes further up, all
        // of it at once.
        for c in self.upwards(&parties, r) {
            if c == BASE || self.active(c, r) {
                continue;
            }
            let amount = rest.remove(&c).unwrap_or_default().sum();
            for (issuer, kind, part) in self.split_rest(c, r, amount) {
                *rest.entry(issuer).or_default().at(kind) += part;
            }
        }
        rest
    }

    /// Those and whoever is above them, holders before issuers.
    fn upwards(&self, from: &[Cid], r: Resource) -> Vec<Cid> {
        let (mut order, mut seen) = (Vec::new(), FxHashSet::default());
        for start in from {
            if !seen.insert(*start) {
                continue;
            }
            let mut stack: Vec<(Cid, Vec<Cid>)> = vec![(*start, self.funders(*start, r))];
            while let Some((c, rest)) = stack.last_mut() {
                match rest.pop() {
                    Some(up) if seen.insert(up) => {
                        stack.push((up, self.funders(up, r)));
                    }
                    Some(_) => {}
                    None => {
                        order.push(*c);
                        stack.pop();
                    }
                }
            }
        }
        order.reverse();
        order
    }

    /// How `amount`, which `c` holds, rests with its funders: exactly all of it.
    fn split_rest(&self, c: Cid, r: Resource, amount: i128) -> Vec<(Cid, Kind, i128)> {
        let mut parts = self.contributions(c, r);
        // In an order that is the same after a restart, so that the rounding is.
        parts.sort_by_cached_key(|(t, w)| (self.end(t.issuer), *w, t.kind == Kind::Hard));
        let total: u128 = parts.iter().map(|(_, w)| *w).sum();
        if total == 0 {
            return vec![(BASE, Kind::Hard, amount)];
        }
        let (mut out, mut given, mut sum) = (Vec::new(), 0i128, 0u128);
        for (t, w) in parts {
            sum += w;
            let upto = super::values::signed_part(amount, sum, total);
            out.push((t.issuer, t.kind, upto - given));
            given = upto;
        }
        out
    }

    /// The parties to exchanges of `r`, and whoever is above them: where their tickets may come to
    /// rest.
    pub fn resting_places(&self, r: Resource) -> FxHashSet<Cid> {
        let parties: Vec<Cid> = self.parties[r.index()].keys().copied().collect();
        self.upwards(&parties, r).into_iter().collect()
    }

    /// What each ticket of `c` contributes to its entitlement.
    pub fn contributions(&self, c: Cid, r: Resource) -> Vec<(Ticket, u128)> {
        let Some(x) = self.get(c) else { return vec![] };
        let tickets = self.tickets(x, r).filter(|t| !t.kept);
        tickets
            .map(|t| (t, self.ticket_value(&t, r, true)))
            .collect()
    }

    /// E⁻: the entitlement of `c` with what it and those above it have given away, and nothing of
    /// what was got in exchange.
    fn lower(&self, c: Cid, r: Resource, known: &mut Lower) -> i128 {
        if let Some(v) = known.get(&c) {
            return *v;
        }
        let Some(x) = self.get(c) else { return 0 };
        let mut sum = match c {
            BASE => i128::from(self.total(r)) << 64,
            _ => 0,
        };
        for t in self.tickets(x, r).filter(|t| !t.kept) {
            let above = u128::try_from(self.lower(t.issuer, r, known)).unwrap_or(0);
            sum += i128::try_from(self.guaranteed_part(&t, r, above)).unwrap_or(i128::MAX);
        }
        sum += of_milli(x.side(r).given);
        known.insert(c, sum);
        sum
    }

    /// The parties whose E⁻ is below zero for `r`, in an order that is the same after a restart:
    /// they have given away what they have not got.
    pub(super) fn overdrawn(&self, r: Resource) -> Vec<Cid> {
        let mut known = Lower::default();
        let given = |p: &Cid| self.get(*p).is_some_and(|x| x.side(r).given < 0);
        let givers = self.parties[r.index()].keys().copied();
        let mut short: Vec<Cid> = givers
            .filter(given)
            .filter(|p| self.lower(*p, r, &mut known) < 0)
            .collect();
        short.sort_unstable();
        short
    }

    /// May `giver` have given what it now has? Only if E⁻ ≥ 0 for it and for whoever it funds:
    /// nobody else's has changed.
    pub(super) fn can_give(&self, giver: Cid, r: Resource) -> bool {
        let mut known = Lower::default();
        let mut short = |c: Cid| {
            let gave = self.get(c).is_some_and(|x| x.side(r).given < 0);
            gave && self.lower(c, r, &mut known) < 0
        };
        let parties = &self.parties[r.index()];
        let (mut seen, mut todo) = (FxHashSet::from_iter([giver]), vec![giver]);
        while let Some(c) = todo.pop() {
            if short(c) {
                return false;
            }
            if seen.len() > parties.len() {
                // It funds more than there are parties: those, then.
                return !parties.keys().any(|p| short(*p));
            }
            todo.extend(self.funded(c, r).filter(|h| seen.insert(*h)));
        }
        true
    }

    /// E⁻ of `c`, whole base tickets.
    pub(super) fn can_still_give(&self, c: Cid, r: Resource) -> i128 {
        self.lower(c, r, &mut Lower::default())
    }

    /// May `giver` have exchanged so much, as it now has? Only if E⁻ ≥ 0 for everybody. Thousandths
    /// of base tickets.
    pub(super) fn check_exchanged(
        &self,
        giver: Cid,
        r: Resource,
        milli: i64,
    ) -> Result<(), Refusal> {
        if self.overdrawn(r).is_empty() {
            return Ok(());
        }
        let has = self.lower(giver, r, &mut Lower::default()) + of_milli(milli);
        Err(Refusal::TooLittle {
            name: self.name(giver),
            resource: r,
            has: u64::try_from(has >> 64).unwrap_or(0),
            asked: milli.unsigned_abs().div_ceil(1000),
        })
    }

    pub(super) fn exchange(&mut self, legs: Vec<(Cid, Resource, i64)>, by: By) -> Event {
        let id = self.next_exchange;
        self.put_exchange(id, Exchange { legs, by });
        self.exchanged(id, None)
    }

    fn exchanged(&self, id: u64, revoked: Option<String>) -> Event {
        let x = self.exchanges.get(&id);
        Event::Exchanged {
            id,
            parties: x.map(Exchange::parties).unwrap_or_default(),
            revoked,
        }
    }

    pub(super) fn put_exchange(&mut self, id: u64, x: Exchange) {
        self.note(Key::Exchange(id));
        self.next_exchange = self.next_exchange.max(id + 1);
        self.move_legs(&x, 1);
        self.count_exchange(id, &x, true);
        self.exchanges.insert(id, x);
    }

    pub(super) fn take_exchange(&mut self, id: u64) {
        self.note(Key::Exchange(id));
        if let Some(x) = self.exchanges.remove(&id) {
            self.move_legs(&x, -1);
            self.count_exchange(id, &x, false);
        }
    }

    fn count_exchange(&mut self, id: u64, x: &Exchange, more: bool) {
        for party in x.parties() {
            let its = self.exchanges_of.entry(party).or_default();
            match more {
                true => its.insert(id),
                false => its.remove(&id),
            };
            if its.is_empty() {
                self.exchanges_of.remove(&party);
            }
        }
        if is_root(x.by) || x.by == TIXD {
            return;
        }
        let made = self.made.entry(x.by).or_default();
        match more {
            true => made.exchanges += 1,
            false => made.exchanges -= 1,
        }
    }

    fn move_legs(&mut self, x: &Exchange, sign: i64) {
        for (party, r, n) in &x.legs {
            if let Some(c) = self.currencies.get_mut(party) {
                let side = c.side_mut(*r);
                side.delta += sign * n;
                side.given += sign * n.min(&0);
            }
            self.tell_bound(*party, *r);
            let parties = &mut self.parties[r.index()];
            let held = parties.entry(*party).or_insert(0);
            match sign {
                1 => *held += 1,
                _ => *held -= 1,
            }
            if *held == 0 {
                parties.remove(party);
            }
        }
        self.reshaped();
    }

    pub(super) fn revoke(&mut self, id: u64, why: String) -> Event {
        let event = self.exchanged(id, Some(why.clone()));
        self.remember(id, why);
        self.take_exchange(id);
        event
    }

    /// The exchanges that `c` is a party to end with it, and so do its offers.
    pub(super) fn revoke_of(&mut self, c: Cid, why: &str) -> Vec<Event> {
        let mut events = self.withdraw_of(c, why);
        let its: Vec<u64> = self.exchanges_of(c).map(|(id, _)| id).collect();
        events.extend(its.into_iter().map(|id| self.revoke(id, why.to_owned())));
        events
    }

    /// After a change: whoever has given away what is no longer there gets it back, newest exchange
    /// first, until E⁻ ≥ 0.
    pub fn revoke_overdrawn(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.exchanges.is_empty() {
            return events;
        }
        for r in Resource::ALL {
            // What is revoked leaves everybody more, so the exchanges are gone through once. Of
            // memory a guarantee in bytes may be a larger part of less: then once more.
            loop {
                let short = self.overdrawn(r);
                let before = events.len();
                if !short.is_empty() {
                    self.revoke_for(short, r, &mut events);
                }
                if events.len() == before {
                    break;
                }
            }
        }
        events
    }

    /// Revokes exchanges, newest first, whose givers these have what they have from, as long as
    /// they are overdrawn.
    fn revoke_for(&mut self, short: Vec<Cid>, r: Resource, events: &mut Vec<Event>) {
        let mut fault = Fault::of(self, short, r);
        let newest_first: Vec<u64> = self.exchanges.keys().rev().copied().collect();
        for id in newest_first {
            if fault.short.is_empty() {
                return;
            }
            let legs = self.exchanges.get(&id).map(|x| x.legs.clone());
            let legs = legs.unwrap_or_default().into_iter();
            let mut givers = legs.filter(|(_, of, n)| *of == r && *n < 0);
            let Some(name) = givers.find_map(|(p, _, _)| fault.due_to(self, p, r)) else {
                continue;
            };
            let why = format!(
                "{} no longer has the {} rights that were given away",
                self.name(name),
                r.name()
            );
            events.push(self.revoke(id, why));
        }
    }
}

/// Parties that are overdrawn, and whoever they have something from: each of those by how many of
/// its holders are among them. A party is looked at again when an exchange is to be revoked for it,
/// and only then, so what it takes is in proportion to the exchanges that are revoked and the
/// parties.
#[derive(Default)]
struct Fault {
    short: FxHashSet<Cid>,
    count: FxHashMap<Cid, u32>,
    issuers: FxHashMap<Cid, Vec<Cid>>,
    holders: FxHashMap<Cid, Vec<Cid>>,
}

impl Fault {
    fn of(l: &Ledger, short: Vec<Cid>, r: Resource) -> Fault {
        let mut fault = Fault::default();
        let mut todo = short.clone();
        fault.short.extend(short);
        while let Some(c) = todo.pop() {
            let count = fault.count.entry(c).or_insert(0);
            *count += 1;
            if *count > 1 {
                continue;
            }
            // Not who keeps a ticket for one while it is bound.
            let live = l.get(c).into_iter().flat_map(|x| l.tickets(x, r));
            let issuers: Vec<Cid> = live.filter(|t| !t.kept).map(|t| t.issuer).collect();
            for issuer in &issuers {
                fault.holders.entry(*issuer).or_default().push(c);
            }
            todo.extend(&issuers);
            fault.issuers.insert(c, issuers);
        }
        fault
    }

    /// A party that is overdrawn and has something from `giver`.
    fn due_to(&mut self, l: &Ledger, giver: Cid, r: Resource) -> Option<Cid> {
        while self.is_in(giver) {
            let party = self.party_below(giver)?;
            if l.lower(party, r, &mut Lower::default()) < 0 {
                return Some(party);
            }
            self.heal(party);
        }
        None
    }

    fn is_in(&self, c: Cid) -> bool {
        self.count.get(&c).is_some_and(|n| *n > 0)
    }

    fn party_below(&mut self, giver: Cid) -> Option<Cid> {
        let mut c = giver;
        while !self.short.contains(&c) {
            let mut holders = self.holders.remove(&c)?;
            while holders.last().is_some_and(|h| !self.is_in(*h)) {
                holders.pop();
            }
            let next = holders.last().copied();
            self.holders.insert(c, holders);
            c = next?;
        }
        Some(c)
    }

    /// `party` is not overdrawn any more.
    fn heal(&mut self, party: Cid) {
        self.short.remove(&party);
        let mut todo = vec![party];
        while let Some(c) = todo.pop() {
            let Some(count) = self.count.get_mut(&c).filter(|n| **n > 0) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                todo.extend(self.issuers.get(&c).into_iter().flatten());
            }
        }
    }
}
