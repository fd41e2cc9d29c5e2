// SPDX-License-Identifier: GPL-2.0-only
//! One thing for another: what trying that has taught so far.

use crate::market::{Amount, Market, Offered};
use crate::{Each, TRADED, index};
use std::time::Duration;
use tix_api::Resource;

/// Which resource for which, as numbers of [`TRADED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub give: usize,
    pub want: usize,
}

impl Pair {
    pub fn all() -> impl Iterator<Item = Pair> {
        let pairs = |give| (0..3).map(move |want| Pair { give, want });
        (0..3).flat_map(pairs).filter(|p| p.give != p.want)
    }

    pub fn back(self) -> Pair {
        Pair {
            give: self.want,
            want: self.give,
        }
    }

    /// How much more is waited for what it gets than for what it gives: −1 … 1.
    pub fn score(self, needs: &Each<f64>) -> f64 {
        needs[self.want] - needs[self.give]
    }

    /// How many rounds of what it would rather do come first: 0 if it waits longer for what it gets, more the longer it waits for what
    /// it gives. Waiting does not say what a little more is worth, so both ways are tried in the end; `None`: this one never.
    pub fn reluctance(self, needs: &Each<f64>) -> Option<u32> {
        let (give, want) = (needs[self.give], needs[self.want]);
        match want / give.max(f64::MIN_POSITIVE) {
            part if part >= 1.0 => Some(0),
            part if part > LEAST_NEED => Some((3.0 * (1.0 - part)).ceil() as u32),
            _ => None,
        }
    }

    /// Does an offer of somebody else's give what is wanted, for what is given?
    pub fn fits(self, offer: &Offered) -> bool {
        let sides = (index(offer.wants.resource), index(offer.gives.resource));
        !offer.mine && sides == (Some(self.give), Some(self.want))
    }

    /// Is an offer one for the same two resources, whichever way?
    pub fn is_of(self, offer: &Offered) -> bool {
        let sides = [index(offer.gives.resource), index(offer.wants.resource)];
        sides == [Some(self.give), Some(self.want)] || sides == [Some(self.want), Some(self.give)]
    }
}

/// What is waited for this part of the time that is waited for something else is not traded for that.
const LEAST_NEED: f64 = 0.25;
/// A little less than an even rate: two who hold the same meet, and the dealer divides the difference.
const FIRST_ASK: f64 = 0.98;
/// So much of an even rate is the least that is ever agreed to: what a trade is worth, trying it says.
const LOWEST_ASK: f64 = 0.25;
/// After a trade was undone as often it is not tried again, until needs change greatly.
const UNDONE: u32 = 2;
/// After as many in a row that made no difference it is not offered again, only agreed to.
const EVEN: u32 = 2;
/// How many rounds pass before a trade that was undone is tried again; each time twice as many.
const PAUSE: u32 = 3;
/// Of the part that is given away: trades are not divided further.
const LEAST_STEP: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lane {
    /// How much is traded next: a part of what is its own of what is given.
    pub step: f64,
    /// What is asked for that, as a multiple of the same part of what is its own of what is wanted (1: an even rate).
    pub ask: f64,
    /// No less is agreed to. It rises when a rate turns out not to be worth it (Sullivan §3.2.1: "experimenting with exchange rates").
    floor: f64,
    undone: u32,
    evens: u32,
    /// The last one did good, or the last of the opposite did harm.
    pub liked: bool,
    /// The last one stayed.
    pub stayed: bool,
    /// Offers in a row that nobody took.
    pub tries: u32,
    not_before: Duration,
}

impl Lane {
    pub fn new(step: f64) -> Lane {
        Lane {
            step,
            ask: FIRST_ASK,
            floor: LOWEST_ASK,
            undone: 0,
            evens: 0,
            liked: false,
            stayed: false,
            tries: 0,
            not_before: Duration::ZERO,
        }
    }

    /// May it be agreed to, if somebody else offers it?
    pub fn is_open(&self, now: Duration) -> bool {
        self.undone < UNDONE && now >= self.not_before
    }

    /// May it be offered?
    pub fn is_hopeful(&self) -> bool {
        self.evens < EVEN
    }

    /// It helped: more of it.
    pub fn helped(&mut self, most: f64) {
        self.step = (self.step * 2.0).min(most);
        (self.evens, self.liked, self.stayed) = (0, true, true);
    }

    /// The opposite has hurt one of the two: this is the first to try now, whatever is waited for.
    pub fn is_promising(&mut self) {
        self.liked = self.undone == 0;
    }

    /// It was too little to tell: more at once, up to half of what may be given.
    pub fn made_no_difference(&mut self, most: f64) {
        self.step = (self.step * 2.0).min(most / 2.0).max(self.step);
        self.evens += 1;
        (self.liked, self.stayed) = (false, true);
    }

    /// It hurt, so it was undone: less of it, later, and at a better rate.
    pub fn hurt(&mut self, now: Duration, every: Duration) {
        self.floor = self.ask.max(LOWEST_ASK) * 1.25;
        self.ask = self.floor;
        self.was_undone(now, every);
    }

    /// The other party undid it: less of it, later, and at a rate that is better for that one.
    pub fn was_refused(&mut self, now: Duration, every: Duration) {
        self.ask = (self.ask * 0.8).max(self.floor);
        self.was_undone(now, every);
    }

    fn was_undone(&mut self, now: Duration, every: Duration) {
        self.undone += 1;
        self.step = (self.step / 2.0).max(LEAST_STEP);
        (self.liked, self.stayed) = (false, false);
        let rounds = PAUSE.saturating_mul(1 << self.undone.min(8)) / 2;
        self.not_before = now + every * rounds;
    }

    /// Not for so long.
    pub fn pause(&mut self, until: Duration) {
        self.not_before = self.not_before.max(until);
    }

    /// Asks for less, towards the rate `theirs` at which somebody else would agree: half of the way, the last bit at once.
    pub fn bend(&mut self, theirs: f64) {
        let ask = match theirs >= self.ask * 0.9 {
            // A little below, so that rounding does not keep them apart.
            true => theirs * 0.999,
            false => (self.ask * theirs).sqrt(),
        };
        self.ask = ask.clamp(self.floor.min(self.ask), self.ask);
    }

    /// Is a rate one that could be agreed to?
    pub fn bears(&self, rate: f64) -> bool {
        rate >= self.floor
    }
}

/// The two resources of a pair, and what of them is the principal's own. Thousandths of base tickets.
pub struct Scale {
    pair: Pair,
    give: f64,
    want: f64,
    /// What may still be given away.
    room: f64,
}

impl Scale {
    /// `None` if nothing may be given away: there is nothing, or `most` of it (a part of what is its own) has been given.
    pub fn new(pair: Pair, market: &Market, most: f64) -> Option<Scale> {
        let [give, want] = [pair.give, pair.want].map(|r| market.holds[r]);
        let got = market.got(pair.give);
        // What it has traded for it does not trade away: so nothing goes round in circles.
        if got > 0 || give.own == 0 || give.all == 0 {
            return None;
        }
        let room = give.own as f64 * most + got as f64;
        if room < give.own as f64 * LEAST_STEP {
            return None;
        }
        let own = give.own as f64;
        Some(Scale {
            pair,
            give: own,
            // Of what it has nothing of, the same part of the machine is as much.
            want: match want.own {
                0 => own / give.all as f64 * want.all as f64,
                n => n as f64,
            },
            room,
        })
        .filter(|s| s.want >= 1.0)
    }

    /// At which multiple of an even rate somebody else's offer agrees; 0 if it asks for more at once than may be given.
    pub fn rate(&self, offer: &Offered) -> f64 {
        if offer.least as f64 > self.room || offer.wants.milli == 0 {
            return 0.0;
        }
        (offer.gives.milli as f64 / self.want) / (offer.wants.milli as f64 / self.give)
    }

    /// What to give for what: at least `least`, thousandths of base tickets.
    pub fn terms(&self, lane: &Lane, least: u64) -> (Amount, Amount) {
        let give = (lane.step * self.give).max(least as f64).min(self.room);
        let want = give / self.give * self.want * lane.ask;
        (amount(self.pair.give, give), amount(self.pair.want, want))
    }
}

/// Memory in whole KiB, which is finer than the kernel's pages and can be read.
fn amount(resource: usize, milli: f64) -> Amount {
    let resource = TRADED[resource];
    let unit = match resource {
        Resource::Memory => 1024.0 * 1000.0,
        _ => 1.0,
    };
    Amount {
        resource,
        milli: ((milli / unit).floor().max(1.0) * unit) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::{Deal, Holding};

    const PAIR: Pair = Pair { give: 1, want: 2 };
    const M: u64 = (1 << 20) * 1000;

    fn market() -> Market {
        let hold = |own, all| Holding { own, all };
        Market {
            holds: [
                hold(1_000_000, 6_000_000),
                hold(1_000_000, 6_000_000),
                hold(12 * M, 1000 * M),
            ],
            ..Default::default()
        }
    }

    fn of(resource: Resource, milli: u64) -> Amount {
        Amount { resource, milli }
    }

    #[test]
    fn a_step_for_as_large_a_part() {
        let scale = Scale::new(PAIR, &market(), 0.5).unwrap();
        let (give, want) = scale.terms(&Lane::new(0.1), 1);
        assert_eq!(give, of(Resource::Disk, 100_000));
        // 98 % of 1.2 MiB.
        assert_eq!(want.to_string(), "1204K of memory");
        assert_eq!(scale.terms(&Lane::new(0.1), 300_000).0.milli, 300_000);
        assert_eq!(scale.terms(&Lane::new(0.1), 900_000).0.milli, 500_000);
    }

    #[test]
    fn no_more_than_it_may_and_nothing_that_it_got() {
        let mut market = market();
        market.deals = vec![Deal {
            id: 1,
            gives: vec![of(Resource::Disk, 450_000)],
            gets: vec![of(Resource::Memory, M)],
        }];
        let scale = Scale::new(PAIR, &market, 0.5).unwrap();
        assert_eq!(scale.terms(&Lane::new(0.1), 1).0.milli, 50_000);
        assert!(Scale::new(PAIR, &market, 0.45).is_none());
        let back = Pair { give: 2, want: 0 };
        assert!(Scale::new(back, &market, 0.5).is_none());
    }

    #[test]
    fn of_what_it_has_nothing_the_machine_is_the_measure() {
        let mut market = market();
        market.holds[2].own = 0;
        let scale = Scale::new(PAIR, &market, 0.5).unwrap();
        let (_, want) = scale.terms(
            &Lane {
                ask: 1.0,
                ..Lane::new(0.1)
            },
            1,
        );
        // A sixtieth of the machine.
        assert_eq!(want.milli / M, 16);
    }

    #[test]
    fn two_who_bend_meet() {
        let (mut mine, mut theirs) = (
            Lane::new(0.1),
            Lane {
                ask: 2.0,
                ..Lane::new(0.1)
            },
        );
        let mut rounds = 0;
        while mine.ask * theirs.ask > 1.0 {
            let (a, b) = (1.0 / theirs.ask, 1.0 / mine.ask);
            mine.bend(a);
            theirs.bend(b);
            rounds += 1;
            assert!(rounds < 5, "{mine:?} {theirs:?}");
        }
        assert!(mine.ask > 0.6 && theirs.ask > 1.3, "{mine:?} {theirs:?}");
        let mut mine = Lane::new(0.1);
        for _ in 0..20 {
            mine.bend(0.01);
        }
        assert_eq!(mine.ask, LOWEST_ASK);
    }

    #[test]
    fn what_was_undone_twice_is_over() {
        let every = Duration::from_secs(10);
        let mut lane = Lane::new(0.4);
        lane.hurt(Duration::ZERO, every);
        assert!(lane.step == 0.2 && lane.ask > 1.2);
        assert!(!lane.is_open(Duration::from_secs(29)) && lane.is_open(Duration::from_secs(30)));
        lane.was_refused(Duration::from_secs(40), every);
        assert!(!lane.is_open(Duration::from_secs(1 << 40)));
        let mut lane = Lane::new(0.2);
        lane.helped(0.3);
        assert!(lane.step == 0.3 && lane.liked);
        lane.made_no_difference(0.8);
        lane.made_no_difference(0.8);
        assert_eq!(lane.step, 0.4);
        assert!(lane.is_open(Duration::ZERO) && !lane.is_hopeful());
    }
}
