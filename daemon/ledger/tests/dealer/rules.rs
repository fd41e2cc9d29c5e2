// SPDX-License-Identifier: GPL-2.0-only
//! Each rule of the dealer by an example.

use crate::Purse;
use tix_ledger::Resource::{self, Cpu, Disk, Memory};
use tix_ledger::dealer::{Book, Gone, MAX_FILLS, Offer, Pair, Placed, Refused, Rest};

const ALICE: u64 = 1;
const BOB: u64 = 2;
const CAROL: u64 = 3;

struct Market {
    book: Book,
    purse: Purse,
    next: u64,
}

fn market() -> Market {
    Market {
        book: Book::default(),
        purse: Purse::of(1..200, 1000),
        next: 1,
    }
}

impl Market {
    fn offer(&self, party: u64, gives: (Resource, u64), wants: (Resource, u64)) -> Offer {
        Offer {
            id: self.next,
            turn: self.next,
            party,
            by: 0,
            pair: Pair {
                gives: gives.0,
                wants: wants.0,
            },
            give: gives.1,
            want: wants.1,
            left: wants.1,
            least: 1,
            expires: None,
        }
    }

    fn put(&mut self, offer: Offer) -> Result<Placed, Refused> {
        self.next += 1;
        self.book.place(offer, 0, &mut self.purse)
    }

    fn place(&mut self, party: u64, gives: (Resource, u64), wants: (Resource, u64)) -> Placed {
        let offer = self.offer(party, gives, wants);
        self.put(offer).unwrap()
    }

    fn has(&self, party: u64, r: Resource) -> i128 {
        self.purse.0[&(party, r)] - 1000
    }
}

#[test]
fn complementary_offers_are_matched_at_once_and_others_wait() {
    let mut m = market();
    assert_eq!(m.place(ALICE, (Cpu, 20), (Memory, 10)).rest, Rest::OnBook);
    // The paper's conflict: Bob would get 10 for what Alice wants 20 for (§3.2.1).
    let placed = m.place(BOB, (Memory, 5), (Cpu, 20));
    assert_eq!((placed.rest, placed.deals.len()), (Rest::OnBook, 0));
    let wanted = Pair {
        gives: Memory,
        wants: Cpu,
    };
    let conflicting: Vec<u64> = m.book.against(wanted).map(|o| o.id).collect();
    assert_eq!(conflicting, [1]);
    let placed = m.place(CAROL, (Memory, 10), (Cpu, 10));
    assert_eq!((placed.rest, placed.deals.len()), (Rest::Nothing, 1));
    assert_eq!((m.has(ALICE, Cpu), m.has(ALICE, Memory)), (-15, 10));
    assert_eq!((m.has(CAROL, Cpu), m.has(CAROL, Memory)), (15, -10));
}

#[test]
fn price_goes_before_time_and_time_before_everything_else() {
    let mut m = market();
    m.place(BOB, (Disk, 10), (Cpu, 10));
    m.place(CAROL, (Disk, 20), (Cpu, 10));
    m.place(4, (Disk, 10), (Cpu, 10));
    m.place(ALICE, (Cpu, 30), (Disk, 30));
    assert_eq!(m.has(CAROL, Cpu), 15);
    assert_eq!((m.has(BOB, Cpu), m.has(4, Cpu)), (10, 0));
}

#[test]
fn one_is_matched_with_many_and_the_rest_waits() {
    let mut m = market();
    for party in [BOB, CAROL, 4] {
        m.place(party, (Disk, 10), (Cpu, 10));
    }
    let placed = m.place(ALICE, (Cpu, 50), (Disk, 50));
    assert_eq!((placed.deals.len(), placed.rest), (3, Rest::OnBook));
    assert_eq!(m.has(ALICE, Disk), 30);
    assert_eq!(m.book.get(4).unwrap().left, 20);
}

#[test]
fn all_or_none_is_one_deal_or_none() {
    let mut m = market();
    m.place(BOB, (Disk, 10), (Cpu, 10));
    let whole = |m: &Market, n| Offer {
        least: n,
        ..m.offer(ALICE, (Cpu, n), (Disk, n))
    };
    let offer = whole(&m, 20);
    let placed = m.put(offer).unwrap();
    assert_eq!((placed.deals.len(), placed.rest), (0, Rest::OnBook));
    // Nor is it matched in part by who comes later.
    assert_eq!(m.place(CAROL, (Disk, 10), (Cpu, 10)).rest, Rest::OnBook);
    let amended = Offer {
        id: 2,
        ..whole(&m, 20)
    };
    m.book.set(2, None);
    let placed = m.put(amended).unwrap();
    // With two, and as one: it ends as a whole.
    assert_eq!((placed.deals.len(), placed.rest), (1, Rest::Nothing));
    assert_eq!(placed.deals[0].transfers.len(), 4);
    assert_eq!(m.has(ALICE, Disk), 20);
}

#[test]
fn offers_that_are_all_or_none_do_not_keep_others_from_matching() {
    let mut m = market();
    for _ in 0..100 {
        let large = Offer {
            least: 900,
            ..m.offer(BOB, (Disk, 1000), (Cpu, 900))
        };
        m.put(large).unwrap();
    }
    m.place(CAROL, (Disk, 5), (Cpu, 5));
    let placed = m.place(ALICE, (Cpu, 5), (Disk, 5));
    assert_eq!(placed.rest, Rest::Nothing);
    assert_eq!(m.has(CAROL, Cpu), 5);
}

#[test]
fn three_are_matched_where_no_pair_is() {
    let mut m = market();
    m.place(ALICE, (Cpu, 10), (Disk, 10));
    m.place(BOB, (Disk, 10), (Memory, 10));
    let placed = m.place(CAROL, (Memory, 20), (Cpu, 10));
    assert_eq!((placed.rest, placed.deals.len()), (Rest::Nothing, 1));
    assert_eq!((m.has(ALICE, Cpu), m.has(ALICE, Disk)), (-10, 10));
    assert_eq!((m.has(BOB, Disk), m.has(BOB, Memory)), (-10, 15));
    assert_eq!((m.has(CAROL, Memory), m.has(CAROL, Cpu)), (-15, 10));
    // A pair goes before a ring.
    m.place(ALICE, (Cpu, 10), (Disk, 10));
    m.place(BOB, (Disk, 10), (Memory, 10));
    m.place(4, (Cpu, 10), (Memory, 10));
    m.place(CAROL, (Memory, 10), (Cpu, 10));
    assert_eq!(m.has(4, Memory), 10);
}

#[test]
fn nobody_trades_with_itself() {
    let mut m = market();
    m.place(ALICE, (Cpu, 10), (Disk, 10));
    let own = m.offer(ALICE, (Disk, 10), (Cpu, 5));
    assert_eq!(m.put(own), Err(Refused::SelfTrade(1)));
    let accepted = m.book.accept(1, ALICE, 0, &mut m.purse);
    assert_eq!(accepted, Err(Refused::SelfTrade(1)));
    // Nor as two of three.
    m.place(ALICE, (Disk, 10), (Memory, 10));
    let placed = m.place(BOB, (Memory, 10), (Cpu, 10));
    assert_eq!((placed.rest, placed.deals.len()), (Rest::OnBook, 0));
}

#[test]
fn who_cannot_deliver_is_taken_off_the_book_and_the_next_is_matched() {
    let mut m = market();
    m.place(BOB, (Disk, 500), (Cpu, 10));
    m.place(CAROL, (Disk, 20), (Cpu, 10));
    m.purse.0.insert((BOB, Disk), 3);
    let placed = m.place(ALICE, (Cpu, 10), (Disk, 10));
    assert_eq!(placed.rest, Rest::Nothing);
    assert_eq!(placed.gone.len(), 1);
    assert_eq!(
        (placed.gone[0].0.party, &placed.gone[0].1),
        (BOB, &Gone::Unable)
    );
    assert_eq!(m.has(CAROL, Cpu), 10);
    assert!(m.book.is_empty());
    m.purse.0.insert((ALICE, Cpu), 3);
    m.place(CAROL, (Disk, 20), (Cpu, 10));
    let short = m.offer(ALICE, (Cpu, 10), (Disk, 10));
    assert_eq!(m.put(short), Err(Refused::Unable));
    assert_eq!(m.book.len(), 1);
}

#[test]
fn what_has_expired_is_not_matched() {
    let mut m = market();
    let old = Offer {
        expires: Some(50),
        ..m.offer(BOB, (Disk, 30), (Cpu, 10))
    };
    m.put(old).unwrap();
    m.place(CAROL, (Disk, 10), (Cpu, 10));
    assert_eq!(m.book.expired(49).count(), 0);
    assert_eq!(m.book.expired(50).collect::<Vec<_>>(), [1]);
    let offer = m.offer(ALICE, (Cpu, 10), (Disk, 10));
    let placed = m.book.place(offer, 50, &mut m.purse).unwrap();
    assert_eq!(
        (placed.gone[0].0.id, &placed.gone[0].1),
        (1, &Gone::Expired)
    );
    assert_eq!((m.has(CAROL, Cpu), m.has(BOB, Cpu)), (10, 0));
}

#[test]
fn what_one_offer_costs_is_bounded() {
    let mut m = market();
    for party in 2..=(MAX_FILLS as u64 + 5) {
        m.place(party, (Disk, 1), (Cpu, 1));
    }
    let placed = m.place(ALICE, (Cpu, 500), (Disk, 500));
    assert_eq!(
        (placed.deals.len(), placed.rest),
        (MAX_FILLS, Rest::NotTried)
    );
    assert_eq!(m.book.len(), 4);
}

#[test]
fn accepting_is_for_exactly_what_is_asked() {
    let mut m = market();
    m.place(ALICE, (Cpu, 20), (Disk, 10));
    let placed = m.book.accept(1, BOB, 0, &mut m.purse).unwrap();
    assert_eq!(placed.deals.len(), 1);
    assert_eq!((m.has(BOB, Cpu), m.has(BOB, Disk)), (20, -10));
    assert_eq!(m.book.accept(1, BOB, 0, &mut m.purse), Err(Refused::Gone));
}
