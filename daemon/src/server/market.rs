// SPDX-License-Identifier: GPL-2.0-only
//! Offers and exchanges as the API has them.

use super::errors::{self, bad};
use super::names;
use super::session::Session;
use super::whole::Whole;
use std::collections::BTreeMap;
use tix_api::units::{self, rights};
use tix_api::{
    Error, Exchange, ExchangeReply, ExchangeState, ExchangesReply, Offer, OfferReply, OffersReply,
    Party, Rights,
};
use tix_ledger::dealer;
use tix_ledger::{self as ledger, Event, Ledger, Refusal, Terms};

/// Conflicting offers that are told of.
const CONFLICTING: usize = 10;
/// The longest that an offer may wait for: a hundred years.
const LONGEST_SEC: i64 = 100 * 365 * 24 * 3600;

/// What a caller said of an offer.
#[derive(Clone)]
pub struct Asked {
    pub give: Option<String>,
    pub want: Option<String>,
    pub minimum: Option<String>,
    pub all_or_none: Option<bool>,
    pub expires_sec: Option<i64>,
}

impl Asked {
    /// In base tickets; what was not said is as what is left of `known`.
    pub fn terms(
        &self,
        l: &Ledger,
        known: Option<&dealer::Offer>,
        now: u64,
    ) -> Result<Terms, Refusal> {
        let bad = |e: units::BadAmount| Refusal::BadOffer(e.to_string());
        let side = |text: &Option<String>, was: Option<(ledger::Resource, u64)>| match text {
            Some(text) => {
                let (r, amount) = rights::resource_and_amount(text).map_err(bad)?;
                let r = tix_model::Resource::from(r);
                Ok((r, amount.milli(l.total(r))))
            }
            None => was.ok_or_else(|| Refusal::BadOffer("one without an amount".to_owned())),
        };
        let (gives, give) = side(&self.give, known.map(|o| (o.pair.gives, o.gives())))?;
        let (wants, want) = side(&self.want, known.map(|o| (o.pair.wants, o.left)))?;
        let was_whole = known.is_some_and(|o| o.least == o.want && o.want > 1);
        let least = match (&self.minimum, self.all_or_none) {
            (Some(_), Some(true)) => {
                let what = "a minimum, and all or none,".to_owned();
                return Err(Refusal::BadOffer(what));
            }
            (Some(text), _) => {
                let least = rights::parse(text, tix_api::Resource::from(wants)).map_err(bad)?;
                least.milli(l.total(wants))
            }
            (None, Some(true)) => want,
            (None, None) if was_whole => want,
            (None, None) => known.map_or(1, |o| o.least.min(want)),
            (None, Some(false)) => 1,
        };
        let expires = match self.expires_sec {
            None => known.and_then(|o| o.expires),
            Some(0) if known.is_some() => None,
            Some(sec @ 1..=LONGEST_SEC) => Some(now + sec.unsigned_abs() * 1_000_000),
            Some(sec) => return Err(Refusal::BadOffer(format!("one that lasts {sec} s"))),
        };
        Ok(Terms {
            gives,
            give,
            wants,
            want,
            least,
            expires,
        })
    }
}

fn rights_of(r: ledger::Resource, milli: u64) -> Rights {
    Rights {
        resource: tix_api::Resource::from(r),
        amount: rights::number(milli),
    }
}

fn offer(l: &Ledger, o: &dealer::Offer) -> Offer {
    let all_or_none = o.least == o.want;
    Offer {
        id: o.id,
        principal: l.name(o.party),
        uid: o.by,
        gives: rights_of(o.pair.gives, o.gives()),
        wants: rights_of(o.pair.wants, o.left),
        minimum: (o.least > 1 && !all_or_none).then(|| rights::number(o.least)),
        all_or_none,
        expires_usec: o.expires,
    }
}

type NamedLeg = (String, ledger::Resource, i64);

fn parties(legs: &[NamedLeg]) -> Vec<Party> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _, _) in legs {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut out = Vec::new();
    for name in names {
        let side = |given: bool| {
            let its = legs
                .iter()
                .filter(|(n, _, a)| n == name && (*a < 0) == given);
            let mut sums: BTreeMap<ledger::Resource, u64> = BTreeMap::new();
            for (_, r, n) in its {
                *sums.entry(*r).or_default() += n.unsigned_abs();
            }
            sums.into_iter()
                .map(|(r, n)| rights_of(r, n))
                .collect::<Vec<_>>()
        };
        let (gives, gets) = (side(true), side(false));
        for i in 0..gives.len().max(gets.len()) {
            out.push(Party {
                principal: name.to_owned(),
                gives: gives.get(i).copied(),
                gets: gets.get(i).copied(),
            });
        }
    }
    out
}

/// The trade of that number, in force or not.
pub fn exchange(l: &Ledger, id: u64) -> Option<Exchange> {
    if let Some(x) = l.exchange_of(id).filter(|x| x.is_a_trade()) {
        let legs = x.legs.iter().map(|(p, r, n)| (l.name(*p), *r, *n));
        return Some(Exchange {
            id,
            parties: parties(&legs.collect::<Vec<_>>()),
            state: ExchangeState::Active,
            why: None,
        });
    }
    let ended = l.ended_one(id)?;
    let legs = ended.legs.iter();
    let legs: Vec<NamedLeg> = (legs.map(|e| (e.name.clone(), e.resource, e.amount))).collect();
    Some(Exchange {
        id,
        parties: parties(&legs),
        state: ExchangeState::Revoked,
        why: Some(ended.why.clone()),
    })
}

/// The exchanges that were made.
fn made<'a>(l: &'a Ledger, told: &'a [Event]) -> impl Iterator<Item = Exchange> + 'a {
    told.iter().filter_map(|e| match e {
        Event::Exchanged {
            id, revoked: None, ..
        } => exchange(l, *id),
        _ => None,
    })
}

/// What became of offer `id`.
pub fn placed(l: &Ledger, id: u64, told: &[Event]) -> OfferReply {
    let exchanges: Vec<Exchange> = made(l, told).collect();
    let note = told.iter().find_map(|e| match e {
        Event::Unoffered { id: of, why, .. } if *of == id => Some(why.clone()),
        _ => None,
    });
    let rest = l.book().get(id);
    let others = rest.into_iter().flat_map(|o| {
        let all = l.book().against(o.pair).take(CONFLICTING + 1);
        all.filter(|other| other.party != o.party)
    });
    OfferReply {
        id,
        matched: !exchanges.is_empty(),
        exchanges,
        offer: rest.map(|o| offer(l, o)),
        note,
        conflicting: others.take(CONFLICTING).map(|o| offer(l, o)).collect(),
    }
}

/// The exchange that accepting offer `id` has made; it has none if who offered cannot deliver.
pub fn accepted(l: &Ledger, id: u64, told: &[Event]) -> Result<ExchangeReply, Error> {
    if let Some(exchange) = made(l, told).next() {
        return Ok(ExchangeReply { exchange });
    }
    let why = told.iter().find_map(|e| match e {
        Event::Unoffered { why, .. } => Some(why.clone()),
        _ => None,
    });
    Err(Error::NoSuchOffer {
        message: format!("offer {id} is gone: {}", why.unwrap_or_default()),
        hint: "`tixctl offer list` shows what there is".to_owned(),
    })
}

/// What is listed of the book, or of exchanges.
pub struct Page {
    /// Only what this currency or cgroup takes part in, as `uid` calls it.
    principal: Option<String>,
    uid: u32,
    /// Only numbers above this one, and so many.
    after: u64,
    limit: usize,
}

impl Session {
    pub(super) async fn page<T: Send + 'static>(
        &self,
        principal: Option<String>,
        after: Option<u64>,
        limit: Option<i64>,
        list: fn(&Ledger, &Page) -> Result<T, Error>,
    ) -> Result<Whole<T>, Error> {
        let limit = limit.unwrap_or(100);
        let page = Page {
            principal,
            uid: self.caller.uid,
            after: after.unwrap_or(0),
            limit: match usize::try_from(limit) {
                Ok(n @ 1..=1000) => n,
                _ => return Err(bad(format!("a limit of {limit}"), "1 to 1000")),
            },
        };
        let found = self.ask(move |core| list(&core.ledger, &page));
        found.await?.map(Whole)
    }
}

fn party(l: &Ledger, name: Option<&str>, uid: u32) -> Result<Option<ledger::Cid>, Error> {
    let found = name.map(|n| names::named(l, n, uid)).transpose();
    let found = found.map_err(|e| errors::refusal(&e))?;
    Ok(found.and_then(|n| l.find(&n)))
}

pub fn offers(l: &Ledger, page: &Page) -> Result<OffersReply, Error> {
    let (from, limit) = (page.after.saturating_add(1), page.limit);
    let of = party(l, page.principal.as_deref(), page.uid)?.map(|p| l.book().of(p));
    let offers: Vec<Offer> = match of {
        None => {
            let all = l.book().iter_from(from).take(limit);
            all.map(|o| offer(l, o)).collect()
        }
        Some(ids) => {
            let its = ids.into_iter().filter(|id| *id >= from).take(limit);
            let its = its.filter_map(|id| l.book().get(id));
            its.map(|o| offer(l, o)).collect()
        }
    };
    let next = (offers.len() == limit).then(|| offers.last().map(|o| o.id));
    Ok(OffersReply {
        next: next.flatten(),
        offers,
    })
}

pub fn exchanges(l: &Ledger, page: &Page) -> Result<ExchangesReply, Error> {
    let Page {
        uid, after, limit, ..
    } = *page;
    let ended = |wanted: Option<&str>| -> Vec<u64> {
        let all = l.ended().filter(|(id, e)| {
            *id > after && wanted.is_none_or(|n| e.legs.iter().any(|leg| leg.name == n))
        });
        all.map(|(id, _)| id).take(limit).collect()
    };
    let mut ids: Vec<u64> = match page.principal.as_deref() {
        None => {
            let active = l.exchanges_after(after).filter(|(_, x)| x.is_a_trade());
            let mut ids: Vec<u64> = active.map(|(id, _)| id).take(limit).collect();
            ids.extend(ended(None));
            ids
        }
        Some(name) => {
            // One that is gone may have had some.
            let known = names::known(l, name, uid);
            let cid = known.as_deref().and_then(|n| l.find(n));
            let its = cid.into_iter().flat_map(|c| l.exchanges_of(c));
            let its = its.filter(|(id, x)| *id > after && x.is_a_trade());
            let mut ids: Vec<u64> = its.map(|(id, _)| id).take(limit).collect();
            let name = names::known_or_gone(l, name, uid);
            ids.extend(ended(Some(&name)));
            ids
        }
    };
    ids.sort_unstable();
    ids.truncate(limit);
    let next = (ids.len() == limit).then(|| ids.last().copied());
    Ok(ExchangesReply {
        next: next.flatten(),
        exchanges: ids.into_iter().filter_map(|id| exchange(l, id)).collect(),
    })
}
