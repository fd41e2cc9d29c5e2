// SPDX-License-Identifier: GPL-2.0-only
//! Trading rights (Sullivan §3.2): offers go to the dealer, what it matches becomes exchanges, and
//! what a party has not got it cannot give.
//!
//! Who may trade for a party: whoever has `c` and `f` of its currency (model.md §1).

use super::brokers::{Caller, Right};
use super::refusal::Act;
use super::values::of_milli;
use super::{
    BASE, Cid, EndedLeg, Event, Exchange, Key, Ledger, MAX_BOOK, MAX_ENDED, MAX_OFFERS, Refusal,
    Resource, Row, TIXD, Terms,
};
use crate::dealer::{Book, Deal, Gone, Offer, Pair, Placed, Refused, Rest, Venue};
use tix_model::MAX_RIGHTS;

type Done = Result<Vec<Event>, Refusal>;

/// Offers that one operation takes off the book because they have expired.
const EXPIRED: usize = 1000;

/// An exchange that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub legs: Vec<EndedLeg>,
    pub why: String,
}

/// Where the dealer's deals become exchanges.
struct Floor<'a> {
    ledger: &'a mut Ledger,
    by: u32,
    events: Vec<Event>,
}

impl Venue for Floor<'_> {
    fn carry_out(&mut self, deals: &[Deal]) -> Result<(), Cid> {
        let (mark, told) = (self.ledger.mark(), self.events.len());
        for deal in deals {
            let legs = deal.transfers.iter().flat_map(|t| {
                let n = i64::try_from(t.amount).unwrap_or(i64::MAX);
                [(t.from, t.resource, -n), (t.to, t.resource, n)]
            });
            self.events
                .push(self.ledger.exchange(legs.collect(), self.by));
            for t in &deal.transfers {
                if !self.ledger.can_give(t.from, t.resource) {
                    self.ledger.undo(mark);
                    self.events.truncate(told);
                    return Err(t.from);
                }
            }
        }
        Ok(())
    }
}

impl Ledger {
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The number that the next offer gets, or the next exchange.
    pub fn next_number(&self) -> u64 {
        self.next_exchange
    }

    /// Exchanges that were revoked, the last of them.
    pub fn ended(&self) -> impl Iterator<Item = (u64, &Ended)> {
        self.ended.iter().map(|(id, e)| (*id, e))
    }

    pub fn ended_one(&self, id: u64) -> Option<&Ended> {
        self.ended.get(&id)
    }

    pub(super) fn do_offer(
        &mut self,
        caller: &Caller,
        id: u64,
        party: &str,
        terms: &Terms,
        now: u64,
    ) -> Done {
        let party = self.may_trade(caller, party)?;
        let taken = [Key::Offer(id), Key::Exchange(id), Key::Ended(id)];
        if taken.iter().any(|key| self.row(key).is_some()) {
            return Err(Refusal::BadOffer(format!("one with the number {id}")));
        }
        if !caller.is_root() && self.book.made_by(caller.uid) >= MAX_OFFERS {
            return Err(Refusal::LimitReached(format!(
                "uid {} has {MAX_OFFERS} offers on the book already",
                caller.uid
            )));
        }
        if self.book.len() >= MAX_BOOK {
            let what = format!("there are {MAX_BOOK} offers on the book already");
            return Err(Refusal::LimitReached(what));
        }
        let offer = Offer {
            id,
            turn: id,
            ..self.offer(party, caller.uid, terms, now)?
        };
        self.place(caller, offer, now)
    }

    pub(super) fn do_amend(&mut self, caller: &Caller, id: u64, terms: &Terms, now: u64) -> Done {
        let old = self.book.get(id).ok_or(Refusal::NoSuchOffer(id))?.clone();
        self.may_trade_for(caller, old.party)?;
        let offer = Offer {
            id,
            // Behind those who had offered as much.
            turn: self.next_exchange,
            ..self.offer(old.party, old.by, terms, now)?
        };
        self.set_on_book(id, None);
        self.place(caller, offer, now)
    }

    pub(super) fn do_accept(&mut self, caller: &Caller, id: u64, party: &str, now: u64) -> Done {
        let party = self.may_trade(caller, party)?;
        let o = self.book.get(id).ok_or(Refusal::NoSuchOffer(id))?;
        let (r, asked) = (o.pair.wants, o.left);
        self.may_exchange_more(caller)?;
        let (events, placed) = self.deal(caller, |book, floor| book.accept(id, party, now, floor));
        let placed = placed.map_err(|e| self.refused(e, id, (party, r, asked)))?;
        Ok(self.done(events, placed))
    }

    /// An offer goes off the book, an exchange ends: whoever may trade for a party may do that.
    pub(super) fn do_cancel(&mut self, caller: &Caller, id: u64) -> Done {
        if let Some(o) = self.book.get(id).cloned() {
            self.may_trade_for(caller, o.party)?;
            self.set_on_book(id, None);
            return Ok(vec![self.unoffered(&o, "it was cancelled")]);
        }
        let x = self.exchanges.get(&id).filter(|x| x.is_a_trade());
        let parties = x.ok_or(Refusal::NoSuchOffer(id))?.parties();
        let mut who = Err(Refusal::NoSuchOffer(id));
        for p in parties {
            who = self.may_trade_for(caller, p).map(|()| self.name(p));
            if who.is_ok() {
                break;
            }
        }
        let who = who?;
        Ok(vec![self.revoke(id, format!("cancelled for {who}"))])
    }

    pub(super) fn do_expire(&mut self, now: u64) -> Vec<Event> {
        let due: Vec<u64> = self.book.expired(now).take(EXPIRED).collect();
        let gone = due.into_iter().filter_map(|id| {
            let o = self.set_on_book(id, None)?;
            Some(self.unoffered(&o, "it has expired"))
        });
        gone.collect()
    }

    /// The offers of `c` go with it.
    pub(super) fn withdraw_of(&mut self, c: Cid, why: &str) -> Vec<Event> {
        let its = self.book.of(c).into_iter();
        let gone = its.filter_map(|id| {
            let o = self.set_on_book(id, None)?;
            Some(self.unoffered(&o, why))
        });
        gone.collect()
    }

    fn may_trade(&self, caller: &Caller, party: &str) -> Result<Cid, Refusal> {
        let cid = self.resolve(party)?;
        if cid == BASE {
            return Err(Refusal::NotNamed("base".to_owned(), Act::Trade));
        }
        self.may_trade_for(caller, cid)?;
        Ok(cid)
    }

    fn may_trade_for(&self, caller: &Caller, party: Cid) -> Result<(), Refusal> {
        let what = format!("trade the rights of {:?}", self.name(party));
        self.need(caller, party, Right::Change, &what)?;
        self.need(caller, party, Right::Fund, &what)
    }

    fn may_exchange_more(&self, caller: &Caller) -> Result<(), Refusal> {
        let made = self.made.get(&caller.uid).map_or(0, |m| m.exchanges);
        if !caller.is_root() && made >= MAX_OFFERS {
            return Err(Refusal::LimitReached(format!(
                "uid {} has {MAX_OFFERS} exchanges already",
                caller.uid
            )));
        }
        Ok(())
    }

    fn offer(&self, party: Cid, by: u32, t: &Terms, now: u64) -> Result<Offer, Refusal> {
        let bad = |what: String| Err(Refusal::BadOffer(what));
        if t.gives == t.wants {
            return bad(format!("{0} for {0}", t.gives.name()));
        }
        for n in [t.give, t.want] {
            if !(1..=MAX_RIGHTS).contains(&n) {
                return bad(format!("{n} thousandths of a ticket"));
            }
        }
        if !(1..=t.want).contains(&t.least) {
            return bad("a minimum that is not within what is wanted".to_owned());
        }
        if t.expires.is_some_and(|at| at <= now) {
            return bad("what has expired already".to_owned());
        }
        Ok(Offer {
            id: 0,
            turn: 0,
            party,
            by,
            pair: Pair {
                gives: t.gives,
                wants: t.wants,
            },
            give: t.give,
            want: t.want,
            left: t.want,
            least: t.least,
            expires: t.expires,
        })
    }

    fn place(&mut self, caller: &Caller, offer: Offer, now: u64) -> Done {
        let (party, r, asked) = (offer.party, offer.pair.gives, offer.give);
        self.may_exchange_more(caller)?;
        let wanted = of_milli(i64::try_from(asked).unwrap_or(i64::MAX));
        if self.can_still_give(party, r) < wanted {
            return Err(self.too_little(party, r, asked));
        }
        self.next_exchange = self.next_exchange.max(offer.turn + 1);
        let id = offer.id;
        let (events, placed) =
            self.deal(caller, |book, floor| book.place(offer.clone(), now, floor));
        let placed = placed.map_err(|e| self.refused(e, id, (party, r, asked)))?;
        let rest = placed.rest;
        let mut events = self.done(events, placed);
        let why = match rest {
            Rest::Nothing => return Ok(events),
            Rest::OnBook => {
                events.push(Event::Offered { id, party });
                return Ok(events);
            }
            Rest::Spent => "what is left is less than it takes in one exchange",
            Rest::NotTried => "so much else was matched first; offer the rest again",
        };
        events.push(self.unoffered(&offer, why));
        Ok(events)
    }

    /// Runs the dealer, with this ledger as its floor.
    fn deal(
        &mut self,
        caller: &Caller,
        run: impl FnOnce(&mut Book, &mut Floor<'_>) -> Result<Placed, Refused>,
    ) -> (Vec<Event>, Result<Placed, Refused>) {
        let mut book = std::mem::take(&mut self.book);
        let mut floor = Floor {
            ledger: self,
            by: caller.uid,
            events: Vec::new(),
        };
        let placed = run(&mut book, &mut floor);
        let events = floor.events;
        self.book = book;
        (events, placed)
    }

    /// Notes what the dealer has changed, and tells of it.
    fn done(&mut self, mut events: Vec<Event>, placed: Placed) -> Vec<Event> {
        for (id, was) in &placed.was {
            let row = was.as_ref().map(|o| self.offer_row(o));
            self.log.push((Key::Offer(*id), row));
        }
        for (o, why) in &placed.gone {
            let why = match why {
                Gone::Expired => "it has expired".to_owned(),
                Gone::Unable => format!(
                    "{} no longer has the {} rights that it offered",
                    self.name(o.party),
                    o.pair.gives.name()
                ),
                Gone::Spent => "what is left is less than it takes in one exchange".to_owned(),
            };
            events.push(self.unoffered(o, &why));
        }
        events
    }

    fn refused(&self, e: Refused, id: u64, (party, r, asked): (Cid, Resource, u64)) -> Refusal {
        match e {
            Refused::SelfTrade(offer) => Refusal::SelfTrade {
                name: self.name(party),
                offer,
            },
            Refused::Unable => self.too_little(party, r, asked),
            Refused::Gone => Refusal::NoSuchOffer(id),
        }
    }

    fn too_little(&self, party: Cid, r: Resource, milli: u64) -> Refusal {
        let has = self.can_still_give(party, r) >> 64;
        Refusal::TooLittle {
            name: self.name(party),
            resource: r,
            has: u64::try_from(has).unwrap_or(0),
            asked: milli.div_ceil(1000),
        }
    }

    fn unoffered(&self, o: &Offer, why: &str) -> Event {
        Event::Unoffered {
            id: o.id,
            name: self.name(o.party),
            owner: self.get(o.party).map_or(o.by, |c| c.owner),
            why: why.to_owned(),
        }
    }

    fn set_on_book(&mut self, id: u64, offer: Option<Offer>) -> Option<Offer> {
        self.note(Key::Offer(id));
        self.book.set(id, offer)
    }

    /// An exchange is about to be revoked: what it was is told for a while.
    pub(super) fn remember(&mut self, id: u64, why: String) {
        let Some(x) = self.exchanges.get(&id).filter(|x| x.is_a_trade()) else {
            return;
        };
        let legs = x.legs.iter().map(|(p, resource, amount)| EndedLeg {
            name: self.name(*p),
            resource: *resource,
            amount: *amount,
        });
        let legs = legs.collect();
        self.keep_ended(id, Ended { legs, why });
    }

    fn keep_ended(&mut self, id: u64, ended: Ended) {
        self.note(Key::Ended(id));
        self.ended.insert(id, ended);
        while self.ended.len() > MAX_ENDED
            && let Some(oldest) = self.ended.keys().next().copied()
        {
            self.note(Key::Ended(oldest));
            self.ended.remove(&oldest);
        }
    }

    pub(super) fn offer_row(&self, o: &Offer) -> Row {
        Row::Offer {
            party: self.end(o.party),
            by: o.by,
            turn: o.turn,
            gives: o.pair.gives,
            give: o.give,
            wants: o.pair.wants,
            want: o.want,
            left: o.left,
            least: o.least,
            expires: o.expires,
        }
    }

    pub(super) fn set_offer(&mut self, id: u64, row: Option<Row>) {
        let Some(Row::Offer {
            party,
            by,
            turn,
            gives,
            give,
            wants,
            want,
            left,
            least,
            expires,
        }) = row.clone()
        else {
            self.book.set(id, None);
            return;
        };
        let Some(cid) = self.at_end(&party) else {
            // Its party vanished meanwhile.
            self.log.push((Key::Offer(id), row));
            self.lost.push(Event::Unoffered {
                id,
                name: shown(&party),
                owner: by,
                why: format!("{} is gone", shown(&party)),
            });
            return;
        };
        let offer = Offer {
            id,
            turn,
            party: cid,
            by,
            pair: Pair { gives, wants },
            give,
            want,
            left,
            least,
            expires,
        };
        self.next_exchange = self.next_exchange.max(id.max(turn) + 1);
        self.book.set(id, Some(offer));
    }

    /// A party to an exchange that was kept has vanished meanwhile: it is revoked, as one.
    pub(super) fn lose_exchange(&mut self, id: u64, row: Row) {
        let Row::Exchange { legs, .. } = &row else {
            return;
        };
        let there = |l: &super::Leg| self.at_end(&l.party);
        let gone = legs.iter().find(|l| there(l).is_none());
        let why = gone.map_or_else(String::new, |l| format!("{} is gone", shown(&l.party)));
        let mut parties: Vec<Cid> = legs.iter().filter_map(there).collect();
        parties.sort_unstable();
        parties.dedup();
        let was: Vec<EndedLeg> = (legs.iter())
            .map(|l| EndedLeg {
                name: there(l).map_or_else(|| shown(&l.party), |c| self.name(c)),
                resource: l.resource,
                amount: l.amount,
            })
            .collect();
        let x = Exchange {
            legs: was.iter().map(|l| (BASE, l.resource, l.amount)).collect(),
            by: TIXD,
        };
        self.log.push((Key::Exchange(id), Some(row)));
        if x.is_a_trade() {
            self.setting = false;
            let why = why.clone();
            self.keep_ended(id, Ended { legs: was, why });
            self.setting = true;
        }
        self.lost.push(Event::Exchanged {
            id,
            parties,
            revoked: Some(why),
        });
    }
}

/// A party that is gone, as its row names it.
fn shown(end: &super::End) -> String {
    match end {
        super::End::Cid(c) => format!("currency {c}"),
        super::End::Path(p) => p.clone(),
    }
}
