// SPDX-License-Identifier: GPL-2.0-only
//! The book: every offer that waits, by its number, in its queue, by when it expires, and by whose
//! it is.

use super::queue::{Place, Queue};
use super::{Offer, Pair};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use tix_model::{Cid, Resource};

/// An offer as it was before a change; `None`: there was none of that number.
pub type Was = (u64, Option<Offer>);

/// Why an offer is no longer on the book, though nobody matched all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    Expired,
    /// Its party cannot give what it offered.
    Unable,
    /// What was left is less than it takes in one exchange.
    Spent,
}

#[derive(Debug, Clone, Default)]
pub struct Book {
    offers: BTreeMap<u64, Offer>,
    queues: [Queue; Resource::COUNT * Resource::COUNT],
    expiring: BTreeSet<(u64, u64)>,
    of_party: FxHashMap<Cid, BTreeSet<u64>>,
    made_by: FxHashMap<u32, usize>,
}

impl Book {
    pub fn get(&self, id: u64) -> Option<&Offer> {
        self.offers.get(&id)
    }

    pub fn len(&self) -> usize {
        self.offers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// All from number `from` on.
    pub fn iter_from(&self, from: u64) -> impl Iterator<Item = &Offer> {
        self.offers.range(from..).map(|(_, o)| o)
    }

    /// Those that `party` is to be held to.
    pub fn of(&self, party: Cid) -> Vec<u64> {
        (self.of_party.get(&party).into_iter().flatten())
            .copied()
            .collect()
    }

    /// How many this user has on it.
    pub fn made_by(&self, uid: u32) -> usize {
        self.made_by.get(&uid).copied().unwrap_or(0)
    }

    /// Those that give what `pair` wants, the best for it first.
    pub fn against(&self, pair: Pair) -> impl Iterator<Item = &Offer> {
        let queue = &self.queues[pair.opposite().index()];
        queue.iter().filter_map(|id| self.get(id))
    }

    /// The best of those for whoever gives at most `amount`.
    pub(super) fn best(&self, pair: Pair, amount: u64) -> Option<&Offer> {
        let id = self.queues[pair.opposite().index()].first(amount)?;
        self.get(id)
    }

    /// The numbers of those that have expired, in the order in which they did.
    pub fn expired(&self, now: u64) -> impl Iterator<Item = u64> + '_ {
        let upto = (now, u64::MAX);
        self.expiring.range(..=upto).map(|(_, id)| *id)
    }

    /// The offer of that number as it is to be; how it was.
    pub fn set(&mut self, id: u64, offer: Option<Offer>) -> Option<Offer> {
        let was = self.offers.remove(&id);
        if let Some(o) = &was {
            self.queues[o.pair.index()].remove(&Place::of(o));
            if let Some(at) = o.expires {
                self.expiring.remove(&(at, id));
            }
            if let Some(its) = self.of_party.get_mut(&o.party) {
                its.remove(&id);
                if its.is_empty() {
                    self.of_party.remove(&o.party);
                }
            }
            if let Some(n) = self.made_by.get_mut(&o.by) {
                *n -= 1;
                if *n == 0 {
                    self.made_by.remove(&o.by);
                }
            }
        }
        if let Some(o) = offer {
            self.queues[o.pair.index()].insert(Place::of(&o));
            if let Some(at) = o.expires {
                self.expiring.insert((at, id));
            }
            self.of_party.entry(o.party).or_default().insert(id);
            *self.made_by.entry(o.by).or_insert(0) += 1;
            self.offers.insert(id, o);
        }
        was
    }
}
