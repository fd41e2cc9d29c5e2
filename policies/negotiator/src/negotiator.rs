// SPDX-License-Identifier: GPL-2.0-only
//! Trial and error (Sullivan §3.2.1).
//!
//! **A round.** While nothing is on trial the negotiator learns how the principal gets on, and what it waits for. Then it offers some of
//! one resource for some of another; nobody who takes that, and another pair is offered. Once it is matched, offers are withdrawn, and
//! after a while the principal is looked at again. It got on better: kept, and twice as much is tried next. Worse: undone, and half as
//! much is tried, later, and the opposite before that. Neither: kept, but soon not offered any more. What is noise its own samples say.
//!
//! **Who begins.** An offer of somebody else's for the same resources goes before any other pair, so two negotiators meet as soon as one
//! has offered what the other would do, too.
//!
//! **Why it ends.** A pair that was undone twice, by either party, is left alone; what was traded for is not traded away; and no more
//! than a part of anything is given. Only when needs have changed greatly, long after the last trade, all that is forgotten.

use crate::lane::{Lane, Pair, Scale};
use crate::news::waits;
use crate::window::{Level, Sample, Window};
use crate::{Amount, Deal, Each, Market, News, Reading, What};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Waiting for less of the time is no need.
const NEEDED: f64 = 0.05;
/// A great change of what is needed: so much of the time.
const GREATLY: f64 = 0.3;
/// Rounds after the last trade before a change can be somebody else's doing.
const LONG_AFTER: u32 = 30;
/// Nobody took it: it stays twice as long each time, from half a round up to that by 2 to this power.
const LONGEST: u32 = 5;
/// An offer outlives its time on the book by so much, should the negotiator be killed.
const SLACK: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The first trade: a part of what is given, above 0 … 1.
    pub step: f64,
    /// The most that is given of anything: a part of what is its own, above 0 … 1.
    pub most: f64,
    /// A round: how long an offer is out, and how long a trade is looked at; half of it is waited before that.
    pub every: Duration,
    /// Does the program say how far it has got?
    pub says: bool,
}

impl Settings {
    /// How often a reading is wanted.
    pub fn tick(&self) -> Duration {
        self.every / crate::window::SAMPLES as u32
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Put it on the book; what number it got [`Negotiator::placed`] is to be told.
    Offer {
        give: Amount,
        want: Amount,
        lasts: Duration,
    },
    Amend {
        id: u64,
        give: Amount,
        want: Amount,
        lasts: Duration,
    },
    /// Take an offer off the book, or end an exchange.
    Cancel { id: u64 },
}

/// What came of a step.
#[derive(Debug, Default)]
pub struct Out {
    pub acts: Vec<Act>,
    pub news: Vec<News>,
}

impl Out {
    fn say(&mut self, what: What, message: String) {
        self.news.push(News::new(what, message));
    }
}

/// What is offered.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// `None` while it is not on the book.
    id: Option<u64>,
    pair: Pair,
    give: Amount,
    want: Amount,
    /// Then it is another pair's turn.
    until: Duration,
    /// Then it asks for less, if others' offers ask for more.
    bends: Duration,
}

/// What is looked at.
#[derive(Debug, Clone)]
struct Trial {
    pair: Pair,
    exchanges: BTreeSet<u64>,
    before: Level,
}

/// Negotiates for one principal.
#[derive(Debug)]
pub struct Negotiator {
    settings: Settings,
    lanes: BTreeMap<Pair, Lane>,
    window: Window,
    last: Option<Reading>,
    open: Option<Open>,
    /// What was offered last, and before that: it may have been matched just before it was withdrawn.
    offered: [Option<Pair>; 2],
    trial: Option<Trial>,
    /// Exchanges that stay, and of which pair they are.
    held: BTreeMap<u64, Option<Pair>>,
    /// Offers and exchanges that are to go, and may still be there.
    going: BTreeSet<u64>,
    /// How it was before some trades of a pair that made no difference: together they might.
    anchor: Option<(Pair, Level)>,
    /// What was needed when it last stood still, and since when that is so.
    settled: Option<(Duration, Each<f64>)>,
    /// Since when that is greatly different.
    turning: Option<Duration>,
    has_begun: bool,
}

impl Negotiator {
    pub fn new(settings: Settings) -> Negotiator {
        Negotiator {
            lanes: Pair::all().map(|p| (p, Lane::new(settings.step))).collect(),
            settings,
            window: Window::default(),
            last: None,
            open: None,
            offered: [None; 2],
            trial: None,
            held: BTreeMap::new(),
            going: BTreeSet::new(),
            anchor: None,
            settled: None,
            turning: None,
            has_begun: false,
        }
    }

    /// What to do now. `market`: `None` while tixd is away; the principal is watched all the same.
    pub fn step(&mut self, reading: &Reading, market: Option<&Market>) -> Out {
        let mut out = Out::default();
        let now = reading.at;
        self.watch(reading);
        let Some(market) = market else { return out };
        self.catch_up(now, market, &mut out);
        match self.trial.is_some() {
            true => self.judge(now, &mut out),
            false => self.trade(now, market, &mut out),
        }
        // Whatever did not go yet goes now, once each.
        let there = market.offers.iter().filter(|o| o.mine).map(|o| o.id);
        let there: BTreeSet<u64> = there.chain(market.deals.iter().map(|d| d.id)).collect();
        self.going.retain(|id| there.contains(id));
        out.acts
            .extend(self.going.iter().map(|id| Act::Cancel { id: *id }));
        out
    }

    /// What was offered last is on the book as number `id`, or was.
    pub fn placed(&mut self, id: u64) {
        if let Some(open) = &mut self.open {
            open.id = Some(id);
        }
    }

    /// tixd refused what was to be offered: another pair, then.
    pub fn refused(&mut self, now: Duration) {
        if let Some(open) = self.open.take() {
            let until = now + self.settings.every * 2;
            self.lane(open.pair).pause(until);
            self.going.extend(open.id);
        }
    }

    /// The end: offers go, exchanges stay, but for what was to be undone already.
    pub fn leave(&mut self) -> Vec<Act> {
        self.withdraw();
        let going = self.going.iter();
        going.map(|id| Act::Cancel { id: *id }).collect()
    }

    fn lane(&mut self, pair: Pair) -> &mut Lane {
        let step = self.settings.step;
        self.lanes.entry(pair).or_insert_with(|| Lane::new(step))
    }

    /// From here on it is another time: what was before is not compared with it.
    fn disturbed(&mut self, now: Duration) {
        self.window.begin(now + self.settings.every / 2);
    }

    fn watch(&mut self, reading: &Reading) {
        // A program that is just writing its progress says nothing for a moment.
        if self.settings.says && reading.progress.is_none() {
            return;
        }
        if let Some(last) = self.last.replace(*reading) {
            let late = reading.at.saturating_sub(last.at) > self.settings.every;
            match Sample::between(&last, reading, self.settings.says) {
                Some(sample) if !late => self.window.push(reading.at, sample),
                _ => self.disturbed(reading.at),
            }
        }
    }

    /// What has happened on the market since it was last looked at.
    fn catch_up(&mut self, now: Duration, market: &Market, out: &mut Out) {
        let known = |me: &Negotiator, id: &u64| {
            let tried = me.trial.as_ref().is_some_and(|t| t.exchanges.contains(id));
            tried || me.held.contains_key(id) || me.going.contains(id)
        };
        let new: Vec<_> = (market.deals.iter())
            .filter(|d| !known(self, &d.id))
            .collect();
        for deal in new {
            self.is_new(now, deal, out);
        }
        self.has_begun = true;
        let there: BTreeSet<u64> = market.deals.iter().map(|d| d.id).collect();
        let mut gone: Vec<(u64, Option<Pair>)> = Vec::new();
        self.held.retain(|id, pair| {
            let stays = there.contains(id);
            if !stays {
                gone.push((*id, *pair));
            }
            stays
        });
        if let Some(trial) = &mut self.trial {
            let over = trial.exchanges.iter().filter(|id| !there.contains(id));
            gone.extend(over.map(|id| (*id, Some(trial.pair))));
            trial.exchanges.retain(|id| there.contains(id));
            if trial.exchanges.is_empty() {
                self.trial = None;
            }
        }
        if !gone.is_empty() {
            self.were_revoked(now, gone, out);
        }
        // It has expired, or its party could not deliver.
        let gone = |o: &Open| {
            o.id.is_some_and(|id| market.offers.iter().all(|x| x.id != id))
        };
        if let Some(open) = self.open.take_if(|o| gone(o)) {
            let until = now + self.settings.every;
            self.lane(open.pair).pause(until);
        }
    }

    fn is_new(&mut self, now: Duration, deal: &Deal, out: &mut Out) {
        let id = deal.id;
        let pair = deal.pair().map(|(give, want)| Pair { give, want });
        let before = self.window.level();
        let offered = pair.filter(|p| self.offered.contains(&Some(*p)));
        let (what, word) = match (&mut self.trial, offered, before) {
            // More of what is on trial, before the offer was off the book.
            (Some(trial), _, _) if Some(trial.pair) == pair => {
                trial.exchanges.insert(id);
                (What::Matched, "on trial, too")
            }
            (None, Some(pair), Some(before)) => {
                self.withdraw();
                for lane in self.lanes.values_mut() {
                    lane.tries = 0;
                }
                self.trial = Some(Trial {
                    pair,
                    exchanges: [id].into(),
                    before,
                });
                (What::Matched, "on trial")
            }
            _ => {
                self.held.insert(id, pair);
                (What::Found, "in force, and stays")
            }
        };
        let message = format!("exchange {id}, {}: {word}", deal.told());
        out.news.push(News {
            exchanges: vec![id],
            ..News::new(what, message)
        });
        if self.has_begun {
            self.disturbed(now);
        }
    }

    fn were_revoked(&mut self, now: Duration, gone: Vec<(u64, Option<Pair>)>, out: &mut Out) {
        let every = self.settings.every;
        let pairs: BTreeSet<Pair> = gone.iter().filter_map(|(_, pair)| *pair).collect();
        for pair in pairs {
            self.lane(pair).was_refused(now, every);
            self.lane(pair.back()).is_promising();
        }
        for (id, _) in gone {
            let message = format!("exchange {id} was revoked by somebody else");
            out.news.push(News {
                exchanges: vec![id],
                ..News::new(What::Revoked, message)
            });
        }
        self.anchor = None;
        self.disturbed(now);
    }

    /// Is the principal better off with what is on trial?
    fn judge(&mut self, now: Duration, out: &mut Out) {
        let (Some(after), Some(needs)) = (self.window.level(), self.window.needs()) else {
            return;
        };
        let Some(trial) = &self.trial else { return };
        let (pair, before) = (trial.pair, trial.before);
        let (noise, gain) = (after.noise(&before), after.median - before.median);
        // Trades that make no difference one by one must not make one together.
        let anchor = self.anchor.filter(|(of, _)| *of == pair);
        let anchor = anchor.map_or(before, |(_, level)| level);
        let worse = gain < -noise || after.median - anchor.median < -after.noise(&anchor);
        if gain <= noise && self.window.is_rising() {
            return;
        }
        let Some(trial) = self.trial.take() else {
            return;
        };
        let ids: Vec<u64> = trial.exchanges.into_iter().collect();
        let (every, most) = (self.settings.every, self.settings.most);
        self.anchor = None;
        let (what, word) = if worse {
            self.lane(pair).hurt(now, every);
            self.lane(pair.back()).is_promising();
            self.going.extend(&ids);
            self.settled = None;
            self.disturbed(now);
            (What::Undone, "worse, undone")
        } else {
            self.held.extend(ids.iter().map(|id| (*id, Some(pair))));
            self.settled = Some((now, needs));
            if gain > noise {
                self.lane(pair).helped(most);
                (What::Kept, "better, kept")
            } else {
                self.lane(pair).made_no_difference(most);
                self.anchor = Some((pair, anchor));
                (What::Kept, "no difference, kept")
            }
        };
        let of: Vec<String> = ids.iter().map(u64::to_string).collect();
        let percent = |part: f64| 100.0 * part / before.median;
        let message = format!(
            "exchange {}: {word} ({:+.1} %, where less than {:.1} % is noise)",
            of.join(", "),
            percent(gain),
            percent(noise)
        );
        out.news.push(News {
            exchanges: ids,
            before: Some(before.median),
            after: Some(after.median),
            noise: Some(noise),
            ..News::new(what, message)
        });
    }

    /// Offers what is least needed for what is most.
    fn trade(&mut self, now: Duration, market: &Market, out: &mut Out) {
        let (level, needs) = (self.window.level(), self.window.needs());
        let (Some(level), Some(needs)) = (level, needs) else {
            // A match could not be judged.
            self.withdraw();
            return;
        };
        if level.median <= 0.0 {
            self.withdraw();
            return;
        }
        if self.open.is_none() && self.window.is_rising() {
            return;
        }
        let (since, was) = *self.settled.get_or_insert((now, needs));
        if now.saturating_sub(since) >= self.settings.every * LONG_AFTER {
            self.turn(now, was, needs, out);
        }
        if let Some(open) = self.open
            && now >= open.until
        {
            self.nobody_took(now, open, market);
        }
        let chosen = self.choose(now, &needs, market);
        match (chosen, self.open) {
            (None, _) => self.withdraw(),
            (Some(pair), Some(open)) if pair == open.pair && now < open.until => {
                self.bend(now, open, market, out);
            }
            (Some(pair), _) => self.offer(now, pair, &needs, market, out),
        }
    }

    fn withdraw(&mut self) {
        self.going.extend(self.open.take().and_then(|o| o.id));
    }

    /// An offer's time is over.
    fn nobody_took(&mut self, now: Duration, open: Open, market: &Market) {
        let stay = self.stay(open.pair);
        let contested = market.offers.iter().any(|o| open.pair.fits(o));
        let lane = self.lane(open.pair);
        lane.tries += 1;
        if contested {
            // They do not come together: something else first.
            lane.pause(now + stay);
        }
    }

    /// How long an offer of `pair` is out.
    fn stay(&self, pair: Pair) -> Duration {
        let tries = self.lanes.get(&pair).map_or(0, |l| l.tries);
        self.settings.every * (1 << tries.min(LONGEST)) / 2
    }

    /// The pair to offer now.
    fn choose(&self, now: Duration, needs: &Each<f64>, market: &Market) -> Option<Pair> {
        // What is offered by hand is somebody else's business.
        let own = self.open.and_then(|o| o.id);
        let by_hand =
            |o: &&crate::Offered| o.mine && Some(o.id) != own && !self.going.contains(&o.id);
        let possible = |(pair, lane): (&Pair, &Lane)| {
            let free = !market.offers.iter().filter(by_hand).any(|o| pair.is_of(o));
            let tried = lane.is_open(now) && needs[pair.want] >= NEEDED && free;
            let scale = Scale::new(*pair, market, self.settings.most).filter(|_| tried)?;
            Some((*pair, *lane, scale))
        };
        let possible: Vec<(Pair, Lane, Scale)> = self.lanes.iter().filter_map(possible).collect();
        // How often everything that it would rather do has been offered in vain.
        let rather = possible
            .iter()
            .filter(|(pair, lane, _)| pair.reluctance(needs) == Some(0) && lane.is_hopeful());
        let rounds = rather.map(|(_, lane, _)| lane.tries).min();
        let rounds = rounds.unwrap_or(u32::MAX);
        let mut best: Option<((bool, u32, bool), f64, Pair)> = None;
        for (pair, lane, scale) in &possible {
            let wanted = (market.offers.iter()).any(|o| pair.fits(o) && lane.bears(scale.rate(o)));
            let willing = pair.reluctance(needs).is_some_and(|r| r <= rounds);
            // What did no harm is agreed to again without going round.
            if !(willing || lane.liked || wanted && lane.stayed) {
                continue;
            }
            if !wanted && !lane.is_hopeful() {
                continue;
            }
            // While its time lasts, what is offered stays, unless others want something else.
            let stays = self.open.is_some_and(|o| o.pair == *pair && now < o.until);
            let tries = if stays { 0 } else { lane.tries + 1 };
            let order = ((!wanted, tries, !lane.liked), pair.score(needs));
            if best.is_some_and(|(o, score, _)| (o, -score) <= (order.0, -order.1)) {
                continue;
            }
            best = Some((order.0, order.1, *pair));
        }
        best.map(|(_, _, pair)| pair)
    }

    fn offer(
        &mut self,
        now: Duration,
        pair: Pair,
        needs: &Each<f64>,
        market: &Market,
        out: &mut Out,
    ) {
        let Some(scale) = Scale::new(pair, market, self.settings.most) else {
            return;
        };
        let lane = *self.lane(pair);
        let theirs = market.offers.iter().filter(|o| pair.fits(o));
        let theirs = theirs.filter(|o| lane.bears(scale.rate(o)));
        let least = theirs.map(|o| o.least).min().unwrap_or(1);
        let (give, want) = scale.terms(&lane, least);
        let stay = self.stay(pair);
        let lasts = stay * 2 + SLACK;
        let id = self.open.and_then(|o| o.id);
        out.acts.push(match id {
            Some(id) => Act::Amend {
                id,
                give,
                want,
                lasts,
            },
            None => Act::Offer { give, want, lasts },
        });
        if self.offered[0] != Some(pair) {
            self.offered = [Some(pair), self.offered[0]];
        }
        let waits = waits(needs);
        let message = format!("offering {give} for {want} (it waits for {waits} of the time)");
        out.say(What::Offered, message);
        self.open = Some(Open {
            id,
            pair,
            give,
            want,
            until: now + stay,
            bends: now + self.settings.every / 4,
        });
    }

    /// Others offer the same on other terms: half of the way towards them.
    fn bend(&mut self, now: Duration, open: Open, market: &Market, out: &mut Out) {
        let Some(id) = open.id.filter(|_| now >= open.bends) else {
            return;
        };
        let Some(scale) = Scale::new(open.pair, market, self.settings.most) else {
            return;
        };
        let theirs = market.offers.iter().filter(|o| open.pair.fits(o));
        let rates = theirs.map(|o| (scale.rate(o), o.least));
        let Some((best, least)) = rates.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return;
        };
        if best <= 0.0 {
            return;
        }
        let lane = self.lane(open.pair);
        lane.bend(best);
        let (give, want) = scale.terms(lane, least);
        let every = self.settings.every;
        let mut new = Open {
            give,
            want,
            bends: now + every / 4,
            ..open
        };
        let changed = (give, want) != (open.give, open.want);
        if changed {
            // As long as they come nearer it is worth waiting.
            new.until = open.until.max(now + every / 2);
        }
        self.open = Some(new);
        if !changed {
            return;
        }
        let lasts = new.until.saturating_sub(now) + SLACK;
        out.acts.push(Act::Amend {
            id,
            give,
            want,
            lasts,
        });
        let message = format!("others ask for more: offering {give} for {want}");
        out.say(What::Lowered, message);
    }

    /// Long after the last trade needs are different: what was learned no longer holds, and what was given for what is not needed any
    /// more is taken back.
    fn turn(&mut self, now: Duration, was: Each<f64>, needs: Each<f64>, out: &mut Out) {
        let changed = (0..3).any(|i| (needs[i] - was[i]).abs() >= GREATLY);
        if !changed {
            self.turning = None;
            return;
        }
        // It has to last: at first the samples are of both.
        let since = *self.turning.get_or_insert(now);
        if now.saturating_sub(since) < self.settings.every {
            return;
        }
        self.turning = None;
        for lane in self.lanes.values_mut() {
            *lane = Lane::new(self.settings.step);
        }
        self.settled = Some((now, needs));
        let turned = |pair: Pair| {
            let (now, was) = (-pair.score(&needs), -pair.score(&was));
            now >= GREATLY && now - was >= GREATLY
        };
        let its = self.held.iter();
        let back = its.filter_map(|(id, pair)| pair.filter(|p| turned(*p)).map(|_| *id));
        let back: Vec<u64> = back.collect();
        let (was, is) = (waits(&was), waits(&needs));
        let message = format!("it waited for {was} of the time, and now for {is}");
        out.news.push(News {
            exchanges: back.clone(),
            ..News::new(What::Turned, message)
        });
        if !back.is_empty() {
            self.withdraw();
            self.held.retain(|id, _| !back.contains(id));
            self.going.extend(back);
            self.disturbed(now);
        }
    }
}
