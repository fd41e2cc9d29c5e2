// SPDX-License-Identifier: GPL-2.0-only
//! Placing an offer: matched at once with what is on the book as far as it goes, the rest put
//! beside it.

use super::book::{Book, Gone, Was};
use super::fill::{Part, crosses, fill};
use super::{Half, Offer, Pair};
use tix_model::{Cid, Resource};

/// Matches of one offer: what one operation costs is bounded.
pub const MAX_FILLS: usize = 64;
/// And what was found not to be deliverable, or to have expired, meanwhile.
pub const MAX_TRIES: usize = 64;

/// What passes from one party to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub from: Cid,
    pub to: Cid,
    pub resource: Resource,
    /// Thousandths of base tickets.
    pub amount: u64,
}

/// What happens as a whole or not at all, and ends as a whole: everybody gives and gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deal {
    pub transfers: Vec<Transfer>,
    /// The offers that it is of.
    pub offers: Vec<u64>,
}

/// Where deals are carried out.
pub trait Venue {
    /// Carries them out, all or none. An error: who cannot give what it would have to.
    fn carry_out(&mut self, deals: &[Deal]) -> Result<(), Cid>;
}

/// What became of what was not matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// There is none.
    Nothing,
    OnBook,
    /// It is less than the offer takes in one exchange.
    Spent,
    /// So much else had to be matched or cleared away first that it was not looked at.
    NotTried,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub deals: Vec<Deal>,
    pub rest: Rest,
    /// Of the offer's `want`, what is left.
    pub left: u64,
    /// Others' offers that went off the book.
    pub gone: Vec<(Offer, Gone)>,
    /// Every offer that is otherwise now, as it was, in the order of the changes.
    pub was: Vec<Was>,
}

/// Why an offer was not placed; the book is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would be matched with this offer of the same party.
    #[error("it would be matched with offer {0} of the same party")]
    SelfTrade(u64),
    /// Its party cannot give what was matched.
    #[error("its party cannot deliver")]
    Unable,
    #[error("the offer has gone")]
    Gone,
}

/// Some offers on the book that the newcomer goes together with, those that give to the newcomer
/// last.
type Ring = Vec<Offer>;

enum Found {
    Match(Ring, Vec<Part>),
    Expired(u64),
    Nothing,
}

impl Book {
    /// Matches `new` with what is on the book, best price first and then who came first; the rest
    /// goes on the book.
    pub fn place(
        &mut self,
        new: Offer,
        now: u64,
        venue: &mut impl Venue,
    ) -> Result<Placed, Refused> {
        let mut was = Vec::new();
        let placed = self.try_to_place(new, now, venue, &mut was);
        match placed {
            Ok(placed) => Ok(Placed { was, ..placed }),
            Err(e) => {
                self.back(&mut was, 0);
                Err(e)
            }
        }
    }

    /// `party` does what offer `id` asks, exactly and all of it.
    pub fn accept(
        &mut self,
        id: u64,
        party: Cid,
        now: u64,
        venue: &mut impl Venue,
    ) -> Result<Placed, Refused> {
        let o = self.get(id).filter(|o| !o.has_expired(now));
        let o = o.ok_or(Refused::Gone)?.clone();
        if o.party == party {
            return Err(Refused::SelfTrade(id));
        }
        let transfer = |from, to, resource, amount| Transfer {
            from,
            to,
            resource,
            amount,
        };
        let deal = Deal {
            transfers: vec![
                transfer(party, o.party, o.pair.wants, o.left),
                transfer(o.party, party, o.pair.gives, o.gives()),
            ],
            offers: vec![id],
        };
        let mut placed = Placed {
            deals: vec![deal],
            rest: Rest::Nothing,
            left: 0,
            gone: vec![],
            was: vec![],
        };
        match venue.carry_out(&placed.deals) {
            Err(who) if who == party => return Err(Refused::Unable),
            Err(_) => {
                placed.deals.clear();
                placed.rest = Rest::NotTried;
                placed.gone.push((o, Gone::Unable));
            }
            Ok(()) => {}
        }
        placed.was.push((id, self.set(id, None)));
        Ok(placed)
    }

    fn try_to_place(
        &mut self,
        new: Offer,
        now: u64,
        venue: &mut impl Venue,
        was: &mut Vec<Was>,
    ) -> Result<Placed, Refused> {
        let mut gone = Vec::new();
        let mut tries = 0;
        loop {
            let plan = self.plan(&new, now, was, &mut gone, &mut tries)?;
            let matched = !plan.deals.is_empty();
            if matched && let Err(who) = venue.carry_out(&plan.deals) {
                if who == new.party {
                    return Err(Refused::Unable);
                }
                self.back(was, plan.mark);
                self.strike(&plan, who, was, &mut gone);
                tries += 1;
                continue;
            }
            let rest = Offer {
                left: plan.left,
                ..new
            };
            gone.extend(plan.spent);
            let what = match () {
                () if rest.left == 0 => Rest::Nothing,
                () if rest.is_spent() => Rest::Spent,
                () if plan.stopped => Rest::NotTried,
                () => {
                    was.push((rest.id, self.set(rest.id, Some(rest.clone()))));
                    Rest::OnBook
                }
            };
            return Ok(Placed {
                deals: plan.deals,
                rest: what,
                left: rest.left,
                gone,
                was: vec![],
            });
        }
    }

    /// The offers of `who` in the plan go.
    fn strike(&mut self, plan: &Plan, who: Cid, was: &mut Vec<Was>, gone: &mut Vec<(Offer, Gone)>) {
        for id in plan.deals.iter().flat_map(|d| &d.offers) {
            if self.get(*id).is_some_and(|o| o.party == who)
                && let Some(o) = self.set(*id, None)
            {
                was.push((*id, Some(o.clone())));
                gone.push((o, Gone::Unable));
            }
        }
    }

    /// As the book was when `was` was so long.
    fn back(&mut self, was: &mut Vec<Was>, mark: usize) {
        for (id, offer) in was.drain(mark..).rev() {
            self.set(id, offer);
        }
    }

    /// What `new` is matched with, taken off the book; what was matched is nothing if it is less
    /// than `new` takes.
    fn plan(
        &mut self,
        new: &Offer,
        now: u64,
        was: &mut Vec<Was>,
        gone: &mut Vec<(Offer, Gone)>,
        tries: &mut usize,
    ) -> Result<Plan, Refused> {
        let mut mine = new.clone();
        let mut fills: Vec<(Ring, Vec<Part>)> = Vec::new();
        let mut mark = was.len();
        let (mut spent, mut stopped) = (Vec::new(), false);
        while mine.left > 0 && mine.gives() > 0 {
            if fills.len() == MAX_FILLS || *tries >= MAX_TRIES {
                stopped = true;
                break;
            }
            match self.find(&mine, now)? {
                Found::Nothing => break,
                Found::Expired(id) => {
                    *tries += 1;
                    // Whatever becomes of the matches, it is gone.
                    if let Some(o) = self.set(id, None) {
                        was.insert(mark, (id, Some(o.clone())));
                        mark += 1;
                        gone.push((o, Gone::Expired));
                    }
                }
                Found::Match(ring, parts) => {
                    mine.left -= parts[0].asked;
                    for (o, part) in ring.iter().zip(&parts[1..]) {
                        let rest = Offer {
                            left: o.left - part.asked,
                            ..o.clone()
                        };
                        let stays = rest.left > 0 && !rest.is_spent();
                        if rest.left > 0 && !stays {
                            spent.push((rest.clone(), Gone::Spent));
                        }
                        was.push((o.id, self.set(o.id, stays.then_some(rest))));
                    }
                    fills.push((ring, parts));
                }
            }
        }
        if fills.is_empty() || new.left - mine.left < new.least {
            self.back(was, mark);
            return Ok(Plan {
                deals: vec![],
                left: new.left,
                spent: vec![],
                mark,
                stopped,
            });
        }
        Ok(Plan {
            deals: deals(new, &fills),
            left: mine.left,
            spent,
            mark,
            stopped,
        })
    }

    /// The best that `mine` goes together with: a pair, or three where no pair does.
    fn find(&self, mine: &Offer, now: u64) -> Result<Found, Refused> {
        let half = mine.half();
        if let Some(other) = self.best(mine.pair, half.gives)
            && crosses(&[half, other.half()])
        {
            if other.has_expired(now) {
                return Ok(Found::Expired(other.id));
            }
            if other.party == mine.party {
                return Err(Refused::SelfTrade(other.id));
            }
            if let Some(parts) = fill(&[half, other.half()]) {
                return Ok(Found::Match(vec![other.clone()], parts));
            }
        }
        let (gives, wants) = (mine.pair.gives, mine.pair.wants);
        for third in Resource::ALL {
            if third == gives || third == wants {
                continue;
            }
            // Who wants what `mine` gives, for a third resource; and who gives for that what `mine`
            // wants.
            let to = Pair {
                gives,
                wants: third,
            };
            let Some(to) = self.best(to, half.gives) else {
                continue;
            };
            let passes = carried(half.gives, to.half());
            let from = Pair {
                gives: third,
                wants,
            };
            let Some(from) = self.best(from, passes) else {
                continue;
            };
            if let Some(old) = [to, from].iter().find(|o| o.has_expired(now)) {
                return Ok(Found::Expired(old.id));
            }
            let parties = [mine.party, to.party, from.party];
            if parties[0] == parties[1] || parties[1] == parties[2] || parties[0] == parties[2] {
                continue;
            }
            let halves: [Half; 3] = [half, to.half(), from.half()];
            let Some(parts) = fill(&halves) else { continue };
            if parts[1].asked >= to.least && parts[2].asked >= from.least {
                let ring = vec![to.clone(), from.clone()];
                return Ok(Found::Match(ring, parts));
            }
        }
        Ok(Found::Nothing)
    }
}

/// What `half` gives on of `amount`, at most.
fn carried(amount: u64, half: Half) -> u64 {
    let wants = u128::from(half.wants.max(1));
    let gets = u128::from(amount.min(half.wants));
    u64::try_from(gets * u128::from(half.gives) / wants).unwrap_or(u64::MAX)
}

struct Plan {
    deals: Vec<Deal>,
    left: u64,
    /// What is left of others' offers, and less than they take.
    spent: Vec<(Offer, Gone)>,
    /// Of the changes, those of the matches begin here.
    mark: usize,
    /// There may be more to match.
    stopped: bool,
}

/// One deal for each fill; or one for all, where a single one would be less than `new` takes: what
/// was accepted as a whole ends as a whole.
fn deals(new: &Offer, fills: &[(Ring, Vec<Part>)]) -> Vec<Deal> {
    let each = fills.iter().map(|(ring, parts)| {
        let all: Vec<&Offer> = std::iter::once(new).chain(ring).collect();
        let transfer = |i: usize| {
            let (from, to) = (all[i], all[(i + 1) % all.len()]);
            Transfer {
                from: from.party,
                to: to.party,
                resource: from.pair.gives,
                amount: parts[i].gives,
            }
        };
        Deal {
            transfers: (0..all.len()).map(transfer).collect(),
            offers: all.iter().map(|o| o.id).collect(),
        }
    });
    if fills.iter().all(|(_, parts)| parts[0].asked >= new.least) {
        return each.collect();
    }
    let mut whole = Deal::default();
    for deal in each {
        whole.transfers.extend(deal.transfers);
        whole.offers.extend(deal.offers);
    }
    whole.offers.sort_unstable();
    whole.offers.dedup();
    vec![whole]
}
