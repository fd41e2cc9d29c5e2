// SPDX-License-Identifier: GPL-2.0-only
//! The dealer alone, on one core: offers at random prices around one against a book that stays as large as it was.

use std::time::{Duration, Instant};

use tixd::dealer::{Book, Deal, Offer, Pair, Venue};
use tixd::ledger::{Cid, Resource};

use crate::ledger::Spread;
use crate::ledger::fill::Random;

/// New offers that are timed.
const TIMED: u64 = 1_000_000;
const PARTIES: u64 = 10_000;

/// Everybody can deliver; what was dealt is counted.
struct Count(u64);

impl Venue for Count {
    fn carry_out(&mut self, deals: &[Deal]) -> Result<(), Cid> {
        self.0 += deals.len() as u64;
        Ok(())
    }
}

/// Of CPU, disk and network, at a price of 0.8 to 1.2; one in ten all or none. Givers of one resource are never those of another, so that
/// nobody meets an offer of its own.
fn offer(id: u64, random: &mut Random) -> Offer {
    let of = [Resource::Cpu, Resource::Disk, Resource::Net];
    let (gives, step) = (random.below(3), 1 + random.below(2));
    let pair = Pair {
        gives: of[gives as usize],
        wants: of[((gives + step) % 3) as usize],
    };
    let give = 1_000 + random.below(100_000);
    let want = give * (800 + random.below(400)) / 1_000;
    let least = if random.below(10) == 0 { want } else { 1 };
    Offer {
        id,
        turn: id,
        party: 1 + gives + 3 * random.below(PARTIES),
        by: 0,
        pair,
        give,
        want,
        left: want,
        least,
        expires: (random.below(4) == 0).then_some(u64::MAX),
    }
}

pub fn measure(resting: u64) -> super::Book {
    let (mut book, mut random, mut venue) = (Book::default(), Random(7), Count(0));
    // Put there without being matched: what rests is what does not cross, at prices that are out of the others' reach.
    for id in 1..=resting {
        let o = offer(id, &mut random);
        let want = o.want * 3 / 2;
        let least = o.least.min(want);
        book.set(
            id,
            Some(Offer {
                want,
                left: want,
                least,
                ..o
            }),
        );
    }
    let offers: Vec<Offer> = (1..=TIMED)
        .map(|n| offer(resting + n, &mut random))
        .collect();
    let mut times: Vec<Duration> = Vec::with_capacity(offers.len());
    let start = Instant::now();
    let mut last = start;
    for o in offers {
        // One that is refused, as it would meet its own, was worked on as well.
        let _ = book.place(o, 0, &mut venue);
        let now = Instant::now();
        times.push(now - last);
        last = now;
    }
    let took = start.elapsed();
    super::Book {
        resting,
        offers: TIMED,
        per_second: TIMED as f64 / took.as_secs_f64(),
        us: Spread::of(times),
        deals: venue.0,
    }
}
