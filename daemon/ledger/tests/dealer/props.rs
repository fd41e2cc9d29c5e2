// SPDX-License-Identifier: GPL-2.0-only
//! Random books and histories.

use crate::Purse;
use crate::oracle::{Oracle, Said};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tix_ledger::Resource;
use tix_ledger::dealer::{Book, Deal, Offer, Pair, Refused};

const PARTIES: u64 = 6;

#[derive(Debug, Clone)]
enum Step {
    Place(Asked),
    Accept(prop::sample::Index, u64),
    Amend(prop::sample::Index, Asked),
    Cancel(prop::sample::Index),
    /// So much later.
    Wait(u64),
}

#[derive(Debug, Clone)]
struct Asked {
    party: u64,
    pair: Pair,
    give: u64,
    want: u64,
    least: u64,
    lasts: Option<u64>,
}

impl Asked {
    fn offer(&self, id: u64, now: u64) -> Offer {
        Offer {
            id,
            turn: id,
            party: self.party,
            by: 0,
            pair: self.pair,
            give: self.give,
            want: self.want,
            left: self.want,
            least: self.least.min(self.want),
            expires: self.lasts.map(|t| now + t),
        }
    }
}

fn pair() -> impl Strategy<Value = Pair> {
    // Three resources, so that rings are found; two of them more often, so that pairs are.
    let pick = prop::sample::select(vec![
        Resource::Cpu,
        Resource::Cpu,
        Resource::Disk,
        Resource::Disk,
        Resource::Memory,
    ]);
    (pick.clone(), pick)
        .prop_filter("two resources", |(a, b)| a != b)
        .prop_map(|(gives, wants)| Pair { gives, wants })
}

fn asked() -> impl Strategy<Value = Asked> {
    let least = prop_oneof![4 => Just(1), 1 => 1..12_u64, 2 => Just(u64::MAX)];
    let lasts = prop::option::weighted(0.2, 1..5_u64);
    (1..=PARTIES, pair(), 1..12_u64, 1..12_u64, least, lasts).prop_map(
        |(party, pair, give, want, least, lasts)| Asked {
            party,
            pair,
            give,
            want,
            least,
            lasts,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        12 => asked().prop_map(Step::Place),
        1 => (any(), 1..=PARTIES).prop_map(|(i, p)| Step::Accept(i, p)),
        1 => (any(), asked()).prop_map(|(i, a)| Step::Amend(i, a)),
        1 => any().prop_map(Step::Cancel),
        1 => (0..4_u64).prop_map(Step::Wait),
    ]
}

fn all(book: &Book) -> BTreeMap<u64, Offer> {
    book.iter_from(0).map(|o| (o.id, o.clone())).collect()
}

/// Everybody in the deal has what it accepted: at its rate or better, and no less than it takes.
fn check_rates(deal: &Deal, known: &BTreeMap<u64, Offer>) -> Result<(), TestCaseError> {
    let ring = deal.transfers.len() == deal.offers.len();
    for (i, id) in deal.offers.iter().enumerate().filter(|_| ring) {
        let o = &known[id];
        let n = deal.transfers.len();
        let (gave, got) = (deal.transfers[i], deal.transfers[(i + n - 1) % n]);
        prop_assert_eq!((gave.from, got.to), (o.party, o.party));
        prop_assert_eq!((gave.resource, got.resource), (o.pair.gives, o.pair.wants));
        prop_assert!(
            gave.amount * o.want <= got.amount * o.give,
            "{:?} {:?}",
            o,
            deal
        );
        prop_assert!(got.amount >= o.least, "{:?} {:?}", o, deal);
    }
    Ok(())
}

fn run(steps: &[Step], each: i128) -> Result<(), TestCaseError> {
    let mut book = Book::default();
    let mut purse = Purse::of(1..=PARTIES, each);
    let mut oracle = Oracle {
        purse: purse.clone(),
        ..Oracle::default()
    };
    let (mut next, mut now) = (1, 100);
    let mut known: BTreeMap<u64, Offer> = BTreeMap::new();
    let sums = Resource::ALL.map(|r| purse.sum(r));
    for step in steps {
        let at = |i: &prop::sample::Index| {
            let ids: Vec<u64> = book.iter_from(0).map(|o| o.id).collect();
            (!ids.is_empty()).then(|| ids[i.index(ids.len())])
        };
        let offer = match step {
            Step::Place(a) => Some(a.offer(next, now)),
            Step::Amend(i, a) => at(i).map(|id| Offer {
                id,
                party: book.get(id).unwrap().party,
                ..a.offer(next, now)
            }),
            Step::Accept(i, party) => {
                if let Some(id) = at(i) {
                    let before = (all(&book), purse.clone());
                    let o = book.get(id).unwrap().clone();
                    match book.accept(id, *party, now, &mut purse) {
                        Ok(placed) => {
                            if let [deal] = placed.deals.as_slice() {
                                // Exactly what it asks.
                                prop_assert_eq!(deal.transfers[0].amount, o.left);
                                prop_assert_eq!(deal.transfers[1].amount, o.gives());
                            }
                            prop_assert_eq!(book.get(id), None);
                            oracle.book.remove(&id);
                            oracle.purse = purse.clone();
                        }
                        Err(_) => prop_assert_eq!(before, (all(&book), purse.clone())),
                    }
                }
                None
            }
            Step::Cancel(i) => {
                if let Some(id) = at(i) {
                    book.set(id, None);
                    oracle.book.remove(&id);
                }
                None
            }
            Step::Wait(t) => {
                now += t;
                None
            }
        };
        let Some(offer) = offer else { continue };
        next += 1;
        // As an amendment does.
        book.set(offer.id, None);
        oracle.book.remove(&offer.id);
        known.insert(offer.id, offer.clone());
        let before = (all(&book), purse.clone());
        let said = oracle.place(offer.clone(), now);
        match book.place(offer, now, &mut purse) {
            Ok(placed) => {
                placed
                    .deals
                    .iter()
                    .try_for_each(|d| check_rates(d, &known))?;
                // What it says that it was is what it was.
                let mut back = book.clone();
                for (id, was) in placed.was.iter().rev() {
                    back.set(*id, was.clone());
                }
                prop_assert_eq!(&all(&back), &before.0);
                prop_assert_eq!(Said::Deals(placed.deals), said);
            }
            Err(e) => {
                prop_assert_eq!(&before, &(all(&book), purse.clone()));
                let wanted = match e {
                    Refused::SelfTrade(_) => Said::SelfTrade,
                    _ => Said::Unable,
                };
                prop_assert_eq!(wanted, said);
            }
        }
        prop_assert_eq!(&all(&book), &oracle.book);
        prop_assert_eq!(&purse, &oracle.purse);
        prop_assert_eq!(Resource::ALL.map(|r| purse.sum(r)), sums);
    }
    Ok(())
}

fn filled(book: &Book, offers: &[Asked]) -> Book {
    let mut book = book.clone();
    for (id, a) in (1..).zip(offers) {
        let offer = a.offer(id, 0);
        if offer.gives() > 0 {
            book.set(
                id,
                Some(Offer {
                    expires: None,
                    ..offer
                }),
            );
        }
    }
    book
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_oracle_does(steps in prop::collection::vec(step(), 1..40), each in prop_oneof![Just(1000_i128), 5..30_i128]) {
        run(&steps, each)?;
    }

    /// The book is the same whatever order its rows are read in, and so is what it does.
    #[test]
    fn no_order_but_price_and_time(mut offers in prop::collection::vec(asked(), 1..30), new in asked(), turn in 0..30_usize) {
        let book = filled(&Book::default(), &offers);
        let mut other = Book::default();
        let n = offers.len();
        let mut rows: Vec<Offer> = book.iter_from(0).cloned().collect();
        rows.reverse();
        let middle = turn % rows.len().max(1);
        rows.rotate_left(middle);
        for o in rows {
            other.set(o.id, Some(o));
        }
        offers.push(new.clone());
        let new = new.offer(n as u64 + 1, 0);
        let (mut one, mut two) = (book, other);
        let purse = Purse::of(1..=PARTIES, 1000);
        let first = one.place(new.clone(), 0, &mut purse.clone());
        prop_assert_eq!(first, two.place(new, 0, &mut purse.clone()));
        prop_assert_eq!(all(&one), all(&two));
    }

    /// Counted at its own rate, nobody gains more of another's offer by dividing its own than one
    /// unit of each resource for each fill.
    #[test]
    fn splitting_gains_what_is_rounded(rate in (1..1_u64 << 30, 1..1_u64 << 30), other in (1..1_u64 << 45, 1..1_u64 << 45), cuts in prop::collection::vec(1..1000_u64, 1..6)) {
        let whole: u64 = cuts.iter().sum();
        let (divided, fills) = gain(rate, &cuts, other);
        let (once, one) = gain(rate, &[whole], other);
        let unit = i128::from(rate.0) + i128::from(rate.1);
        prop_assert!(divided <= once + (fills + one) * unit, "{} > {} in {} fills", divided, once, fills);
    }

    /// An offer that is taken back before anybody matched it has changed nothing.
    #[test]
    fn offering_and_cancelling_gains_nothing(offers in prop::collection::vec(asked(), 1..30), new in asked()) {
        let mut book = filled(&Book::default(), &offers);
        let before = all(&book);
        let mut purse = Purse::of(1..=PARTIES, 1000);
        let held = purse.clone();
        let id = offers.len() as u64 + 1;
        let placed = book.place(new.offer(id, 0), 0, &mut purse);
        if placed.is_ok_and(|p| p.deals.is_empty()) {
            book.set(id, None);
            prop_assert_eq!(all(&book), before);
            prop_assert_eq!(purse, held);
        }
    }
}

/// What offers of so many times `rate` gain of one that gives and wants `other`, counted at that
/// rate, and in how many fills.
fn gain(rate: (u64, u64), times: &[u64], other: (u64, u64)) -> (i128, i128) {
    let pair = Pair {
        gives: Resource::Cpu,
        wants: Resource::Disk,
    };
    let asked = |party, pair, give, want| Asked {
        party,
        pair,
        give,
        want,
        least: 1,
        lasts: None,
    };
    let (mut book, mut purse) = (Book::default(), Purse::of(1..=2, 1 << 80));
    let resting = asked(2, pair.opposite(), other.0, other.1).offer(1, 0);
    book.set(1, Some(resting));
    let (mut gain, mut fills) = (0, 0);
    for (id, n) in (2..).zip(times) {
        let offer = asked(1, pair, rate.0 * n, rate.1 * n).offer(id, 0);
        for deal in book.place(offer, 0, &mut purse).unwrap().deals {
            let (gave, got) = (deal.transfers[0].amount, deal.transfers[1].amount);
            gain += i128::from(got) * i128::from(rate.0) - i128::from(gave) * i128::from(rate.1);
            fills += 1;
        }
    }
    (gain, fills)
}
