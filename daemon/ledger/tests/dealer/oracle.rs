// SPDX-License-Identifier: GPL-2.0-only
//! The dealer once more, without queues and formulas: every offer is looked at, every amount tried.
//! For small numbers.

use crate::Purse;
use std::collections::BTreeMap;
use tix_ledger::Resource;
use tix_ledger::dealer::{Deal, Offer, Transfer, Venue};

#[derive(Debug, Clone, Default)]
pub struct Oracle {
    pub book: BTreeMap<u64, Offer>,
    pub purse: Purse,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Deals(Vec<Deal>),
    SelfTrade,
    Unable,
}

fn gives(o: &Offer) -> u64 {
    o.left * o.give / o.want
}

fn has_expired(o: &Offer, now: u64) -> bool {
    o.expires.is_some_and(|at| at <= now)
}

/// The largest parts of what each wants for which each is at its rate or better: tried one by one.
fn largest(ring: &[&Offer]) -> Option<Vec<u64>> {
    let n = ring.len();
    let fits = |asked: &[u64]| {
        (0..n).all(|i| asked[(i + 1) % n] * ring[i].left <= asked[i] * gives(ring[i]))
    };
    let mut best: Option<Vec<u64>> = None;
    let mut asked = vec![1; n];
    loop {
        if fits(&asked) {
            let found = best.get_or_insert_with(|| asked.clone());
            for (most, n) in found.iter_mut().zip(&asked) {
                *most = (*most).max(*n);
            }
        }
        let mut i = 0;
        loop {
            if i == n {
                // What is largest for each of them is so for all at once.
                return best.inspect(|b| assert!(fits(b), "{ring:?}: {b:?}"));
            }
            asked[i] += 1;
            if asked[i] <= ring[i].left {
                break;
            }
            asked[i] = 1;
            i += 1;
        }
    }
}

impl Oracle {
    fn best(&self, gives_r: Resource, wants_r: Resource, amount: u64) -> Option<&Offer> {
        let queue = self
            .book
            .values()
            .filter(|o| o.pair.gives == gives_r && o.pair.wants == wants_r && o.least <= amount);
        queue.min_by(|a, b| {
            let (first, second) = (gives(a) * b.left, gives(b) * a.left);
            second.cmp(&first).then(a.turn.cmp(&b.turn))
        })
    }

    /// Whom the offer goes together with next, itself first; `Err`: itself.
    fn next(&self, mine: &Offer, now: u64) -> Result<Option<Vec<Offer>>, ()> {
        let (give, want) = (mine.pair.gives, mine.pair.wants);
        if let Some(o) = self.best(want, give, gives(mine))
            && largest(&[mine, o]).is_some()
        {
            return match o.party == mine.party && !has_expired(o, now) {
                true => Err(()),
                false => Ok(Some(vec![mine.clone(), o.clone()])),
            };
        }
        for third in Resource::ALL {
            if third == give || third == want {
                continue;
            }
            let Some(to) = self.best(third, give, gives(mine)) else {
                continue;
            };
            let passes = gives(mine).min(to.left) * gives(to) / to.left;
            let Some(from) = self.best(want, third, passes) else {
                continue;
            };
            if [to, from].iter().any(|o| has_expired(o, now)) {
                // To be cleared away, whoever would be matched.
                return Ok(Some(vec![mine.clone(), to.clone(), from.clone()]));
            }
            let mut parties = vec![mine.party, to.party, from.party];
            parties.sort_unstable();
            parties.dedup();
            let Some(asked) = largest(&[mine, to, from]) else {
                continue;
            };
            // As the dealer: what is given must come to what is wanted, before any part is looked
            // at.
            let all = [mine, to, from];
            let given: u128 = all.iter().map(|o| u128::from(gives(o))).product();
            let wanted: u128 = all.iter().map(|o| u128::from(o.left)).product();
            if given < wanted || parties.len() < 3 {
                continue;
            }
            if asked[1] >= to.least && asked[2] >= from.least {
                return Ok(Some(all.into_iter().cloned().collect()));
            }
        }
        Ok(None)
    }

    pub fn place(&mut self, new: Offer, now: u64) -> Said {
        let before = self.clone();
        let said = self.try_to_place(new, now);
        if !matches!(said, Said::Deals(_)) {
            *self = before;
        }
        said
    }

    fn try_to_place(&mut self, new: Offer, now: u64) -> Said {
        loop {
            let start = self.clone();
            let mut mine = new.clone();
            let mut fills: Vec<(Vec<Offer>, Vec<u64>)> = Vec::new();
            let mut expired = Vec::new();
            while mine.left > 0 && gives(&mine) > 0 {
                let ring = match self.next(&mine, now) {
                    Err(()) => return Said::SelfTrade,
                    Ok(None) => break,
                    Ok(Some(ring)) => ring,
                };
                if let Some(o) = ring.iter().find(|o| has_expired(o, now)) {
                    self.book.remove(&o.id);
                    expired.push(o.id);
                    continue;
                }
                let all: Vec<&Offer> = ring.iter().collect();
                let asked = largest(&all).unwrap();
                mine.left -= asked[0];
                for (o, n) in ring.iter().zip(&asked).skip(1) {
                    let left = o.left - n;
                    let rest = Offer { left, ..o.clone() };
                    match left < o.least || gives(&rest) == 0 {
                        true => self.book.remove(&o.id),
                        false => self.book.insert(o.id, rest),
                    };
                }
                fills.push((ring, asked));
            }
            if new.left - mine.left < new.least {
                fills.clear();
                mine.left = new.left;
                self.book = start.book.clone();
                self.book.retain(|id, _| !expired.contains(id));
            }
            let deals = deals(&new, &fills);
            if let Err(who) = self.purse.carry_out(&deals) {
                if who == new.party {
                    return Said::Unable;
                }
                self.book = start.book;
                self.book.retain(|id, _| !expired.contains(id));
                for (ring, _) in &fills {
                    for o in ring.iter().skip(1).filter(|o| o.party == who) {
                        self.book.remove(&o.id);
                    }
                }
                continue;
            }
            if mine.left >= mine.least && mine.left > 0 && gives(&mine) > 0 {
                self.book.insert(mine.id, mine);
            }
            return Said::Deals(deals);
        }
    }
}

fn deals(new: &Offer, fills: &[(Vec<Offer>, Vec<u64>)]) -> Vec<Deal> {
    let mut out = Vec::new();
    for (ring, asked) in fills {
        let n = ring.len();
        let transfer = |i: usize| {
            let (giver, taker) = (&ring[i], &ring[(i + 1) % n]);
            let (least, most) = (asked[(i + 1) % n], asked[i] * gives(giver) / giver.left);
            // The middle, and the odd unit to whoever came first.
            let amount = match taker.turn < giver.turn {
                true => (least + most).div_ceil(2),
                false => (least + most) / 2,
            };
            Transfer {
                from: giver.party,
                to: taker.party,
                resource: giver.pair.gives,
                amount,
            }
        };
        out.push(Deal {
            transfers: (0..n).map(transfer).collect(),
            offers: ring.iter().map(|o| o.id).collect(),
        });
    }
    if fills.iter().any(|(_, asked)| asked[0] < new.least) {
        let mut offers: Vec<u64> = out.iter().flat_map(|d| d.offers.clone()).collect();
        offers.sort_unstable();
        offers.dedup();
        let transfers = out.into_iter().flat_map(|d| d.transfers).collect();
        return vec![Deal { transfers, offers }];
    }
    out
}
