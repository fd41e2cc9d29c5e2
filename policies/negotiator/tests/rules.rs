// SPDX-License-Identifier: GPL-2.0-only
//! What one negotiator does, second by second, whatever the others do.

#![allow(clippy::unwrap_used)]

use std::time::Duration;
use tix_api::Resource;
use tix_negotiate::{
    Act, Amount, Deal, Each, Holding, Market, Negotiator, Offered, Out, Pressure, Reading,
    Settings, What,
};

const SETTINGS: Settings = Settings {
    step: 0.1,
    most: 0.6,
    every: Duration::from_secs(10),
    says: true,
};

/// Waits for the disk, and for nothing else.
const DISK: Each<f64> = [0.0, 0.9, 0.0];
/// The opposite.
const CPU: Each<f64> = [0.9, 0.0, 0.0];

struct It {
    n: Negotiator,
    reading: Reading,
    market: Market,
}

impl It {
    fn new() -> It {
        let hold = Holding {
            own: 1_000_000,
            all: 6_000_000,
        };
        let progress = Some(0);
        It {
            n: Negotiator::new(SETTINGS),
            reading: Reading {
                progress,
                ..Reading::default()
            },
            market: Market {
                holds: [hold; 3],
                ..Market::default()
            },
        }
    }

    /// A second in which so much was done, and so much waited for.
    fn second(&mut self, done: u64, needs: Each<f64>) -> Out {
        self.pass(done, needs);
        self.n.step(&self.reading, Some(&self.market))
    }

    fn pass(&mut self, done: u64, needs: Each<f64>) {
        self.reading.at += Duration::from_secs(1);
        self.reading.progress = self.reading.progress.map(|p| p + done);
        for (p, need) in self.reading.pressure.iter_mut().zip(needs) {
            p.some += (need * 1e6) as u64;
        }
    }

    fn seconds(&mut self, count: u32, done: u64, needs: Each<f64>) -> Vec<Act> {
        (0..count)
            .flat_map(|_| self.second(done, needs).acts)
            .collect()
    }

    /// Until it offers something, which gets the number `id`.
    fn offers(&mut self, id: u64, done: u64, needs: Each<f64>) -> (Amount, Amount) {
        for _ in 0..1000 {
            let out = self.second(done, needs);
            if let [Act::Offer { give, want, .. }] = out.acts[..] {
                self.n.placed(id);
                self.market.offers.push(Offered {
                    id,
                    mine: true,
                    gives: give,
                    wants: want,
                    least: 1,
                });
                return (give, want);
            }
        }
        panic!("nothing was offered");
    }

    /// What it offered is taken, as exchange `id`.
    fn matched(&mut self, id: u64) {
        let offer = self.market.offers.pop().unwrap();
        self.market.deals.push(Deal {
            id,
            gives: vec![offer.gives],
            gets: vec![offer.wants],
        });
    }
}

fn of(resource: Resource, milli: u64) -> Amount {
    Amount { resource, milli }
}

#[test]
fn what_is_needed_least_for_what_is_needed_most() {
    let mut it = It::new();
    // Ten samples first.
    assert_eq!(it.seconds(10, 100, DISK), []);
    let (give, want) = it.offers(1, 100, DISK);
    assert_eq!(give, of(Resource::Cpu, 100_000));
    assert_eq!(want, of(Resource::Disk, 98_000));
    // Nobody takes it: memory, then, and in the end the CPU again, for longer.
    let acts = it.seconds(5, 100, DISK);
    assert!(
        matches!(acts[..], [Act::Amend { id: 1, give, .. }] if give.resource == Resource::Memory)
    );
    let acts = it.seconds(5, 100, DISK);
    assert!(matches!(acts[..], [Act::Amend { id: 1, give, .. }] if give.resource == Resource::Cpu));
    assert_eq!(it.seconds(9, 100, DISK), []);
}

#[test]
fn what_helps_is_kept_and_what_hurts_is_not() {
    let mut it = It::new();
    it.offers(1, 100, DISK);
    it.matched(2);
    assert_eq!(
        it.seconds(20, 120, DISK),
        [Act::Offer {
            give: of(Resource::Cpu, 200_000),
            want: of(Resource::Disk, 196_000),
            lasts: Duration::from_secs(70),
        }]
    );
    let mut it = It::new();
    it.offers(1, 100, DISK);
    it.matched(2);
    assert_eq!(it.seconds(15, 90, DISK), [Act::Cancel { id: 2 }]);
    // Until it has gone.
    assert_eq!(it.seconds(1, 90, DISK), [Act::Cancel { id: 2 }]);
}

#[test]
fn what_made_no_difference_is_kept_unless_it_adds_up() {
    let mut it = It::new();
    let (mut rate, mut id) = (1000, 1);
    let mut ended = vec![];
    // A little less each time.
    for _ in 0..8 {
        it.market.offers = vec![Offered {
            id: 100,
            mine: false,
            gives: of(Resource::Disk, 10_000_000),
            wants: of(Resource::Cpu, 10_000_000),
            least: 1,
        }];
        it.n.step(&it.reading, Some(&it.market));
        it.offers(id, rate, DISK);
        it.matched(id + 1);
        rate = rate * 99 / 100;
        let acts = it.seconds(20, rate, DISK);
        ended.extend(
            acts.iter()
                .filter(|a| matches!(a, Act::Cancel { .. }))
                .copied(),
        );
        if !ended.is_empty() {
            break;
        }
        it.n.leave();
        id += 2;
    }
    assert!(!ended.is_empty() && id <= 7, "{id} {ended:?}");
}

#[test]
fn the_other_party_may_undo_it_too() {
    let mut it = It::new();
    let first = it.offers(1, 100, DISK);
    it.matched(2);
    it.seconds(5, 100, DISK);
    it.market.deals.clear();
    let out = it.second(100, DISK);
    assert_eq!(out.news[0].what, What::Revoked);
    // Not the same again at once, and then half as much.
    let next = it.offers(3, 100, DISK);
    assert_ne!(next.0.resource, first.0.resource);
    it.market.offers.clear();
    for id in 4..12 {
        let (give, want) = it.offers(id, 100, DISK);
        if (give.resource, want.resource) == (Resource::Cpu, Resource::Disk) {
            assert_eq!(give.milli, 50_000);
            return;
        }
        it.market.offers.clear();
    }
    panic!("not again");
}

#[test]
fn after_a_restart_what_is_there_stays() {
    let mut it = It::new();
    it.market.deals = vec![Deal {
        id: 7,
        gives: vec![of(Resource::Cpu, 550_000)],
        gets: vec![of(Resource::Disk, 100_000)],
    }];
    it.market.offers = vec![Offered {
        id: 8,
        mine: true,
        gives: of(Resource::Memory, 1_000_000),
        wants: of(Resource::Disk, 1_000),
        least: 1,
    }];
    let out = it.second(100, DISK);
    assert_eq!(out.news[0].what, What::Found);
    // 60 % of the CPU are nearly given; for memory somebody offers by hand.
    let (give, want) = it.offers(9, 100, DISK);
    assert_eq!(
        (give, want.resource),
        (of(Resource::Cpu, 50_000), Resource::Disk)
    );
    assert_eq!(
        it.seconds(100, 100, DISK)
            .iter()
            .filter(|a| matches!(a, Act::Cancel { .. }))
            .count(),
        0
    );
}

#[test]
fn nothing_is_done_while_tixd_is_away_or_nobody_says_how_it_gets_on() {
    let mut it = It::new();
    for _ in 0..30 {
        it.pass(100, DISK);
        assert!(it.n.step(&it.reading, None).acts.is_empty());
    }
    // It was watched all the same.
    assert_eq!(it.second(100, DISK).acts.len(), 1);

    let mut silent = It::new();
    silent.reading.progress = None;
    assert_eq!(silent.seconds(60, 100, DISK), []);
    let mut idle = It::new();
    assert_eq!(idle.seconds(60, 0, DISK), []);
    let mut content = It::new();
    assert_eq!(content.seconds(60, 100, [0.0; 3]), []);
}

#[test]
fn at_the_end_offers_go_and_exchanges_stay() {
    let mut it = It::new();
    it.offers(1, 100, DISK);
    assert_eq!(it.n.leave(), [Act::Cancel { id: 1 }]);
    let mut it = It::new();
    it.offers(1, 100, DISK);
    it.matched(2);
    it.second(120, DISK);
    assert_eq!(it.n.leave(), []);
}

#[test]
fn when_needs_turn_what_was_given_comes_back() {
    let mut it = It::new();
    it.offers(1, 100, DISK);
    it.matched(2);
    it.seconds(14, 120, DISK);
    let undone = |acts: Vec<Act>| acts.contains(&Act::Cancel { id: 2 });
    it.market.holds = [Holding::default(); 3];
    assert!(!undone(it.seconds(400, 120, DISK)));
    assert!(undone(it.seconds(25, 120, CPU)));
}

#[test]
fn a_program_that_began_anew_is_learned_anew() {
    let mut it = It::new();
    it.offers(1, 100, DISK);
    it.reading.progress = Some(0);
    let acts = it.seconds(1, 0, DISK);
    assert_eq!(acts, [Act::Cancel { id: 1 }]);
    it.market.offers.clear();
    assert_eq!(it.seconds(13, 100, DISK), []);
    assert_eq!(it.seconds(2, 100, DISK).len(), 1);
}

#[test]
fn hostile_numbers_do_no_harm() {
    let mut it = It::new();
    let most = Amount {
        resource: Resource::Memory,
        milli: u64::MAX,
    };
    it.market.holds = [Holding {
        own: u64::MAX,
        all: u64::MAX,
    }; 3];
    for id in 0..20 {
        let none = of(Resource::Disk, 0);
        it.market.offers.push(Offered {
            id: 1000 + id,
            mine: false,
            gives: if id % 2 == 0 { most } else { none },
            wants: if id % 3 == 0 {
                none
            } else {
                of(Resource::Cpu, u64::MAX)
            },
            least: u64::MAX,
        });
        it.market.deals.push(Deal {
            id,
            gives: vec![most, most],
            gets: vec![none; id as usize % 3],
        });
    }
    for n in 0..100 {
        it.reading.at += Duration::from_secs(1);
        it.reading.progress = Some(u64::MAX - n % 3);
        it.reading.pressure = [Pressure {
            some: u64::MAX,
            full: n,
        }; 3];
        it.reading.refaults = u64::MAX;
        it.n.step(&it.reading, Some(&it.market));
    }
}
