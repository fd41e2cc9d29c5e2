// SPDX-License-Identifier: GPL-2.0-only
//! The model, a negotiator for each store, and the ledger and the dealer of tixd between them.

use crate::model::{EACH, Has, M, Machine, Store, TICKETS};
use std::collections::BTreeMap;
use std::time::Duration;
use tix_negotiate::{
    Act, Amount, Deal, Holding, Market, Negotiator, News, Offered, Settings, TRADED,
};
use tixd::ledger::{Caller, Event, Hard, Ledger, Op, Resource, Terms};

/// What the small store gives, and what it gets.
type What = (Resource, Resource);

pub const NAMES: [&str; 2] = ["small", "big"];

pub fn of_ledger(r: tix_api::Resource) -> Resource {
    match r {
        tix_api::Resource::Cpu => Resource::Cpu,
        tix_api::Resource::Disk => Resource::Disk,
        tix_api::Resource::Memory => Resource::Memory,
        tix_api::Resource::Net => Resource::Net,
    }
}

fn of_api(r: Resource) -> tix_api::Resource {
    match r {
        Resource::Cpu => tix_api::Resource::Cpu,
        Resource::Disk => tix_api::Resource::Disk,
        Resource::Memory => tix_api::Resource::Memory,
        Resource::Net => tix_api::Resource::Net,
    }
}

fn amount(r: Resource, milli: u64) -> Amount {
    Amount {
        resource: of_api(r),
        milli,
    }
}

pub fn settings(says: bool) -> Settings {
    Settings {
        step: 0.1,
        most: 0.6,
        every: Duration::from_secs(10),
        says,
    }
}

pub struct World {
    pub machine: Machine,
    pub stores: [Store; 2],
    pub ledger: Ledger,
    pub random: fastrand::Rng,
    /// Standard deviation of what is served in a second, as a part of it.
    pub noise: f64,
    pub now: f64,
    pub says: bool,
    pub news: Vec<(usize, News)>,
    /// Exchanges by what the small store gives and gets: made, revoked, and made right after one was revoked.
    pub made: BTreeMap<What, u32>,
    pub revoked: BTreeMap<What, u32>,
    pub redone: BTreeMap<What, u32>,
    /// When one was made or revoked last.
    pub changed: f64,
    what: BTreeMap<u64, What>,
    /// Was the last one of each revoked?
    off: BTreeMap<What, bool>,
}

impl World {
    pub fn new(seed: u64, machine: Machine, stores: [Store; 2], noise: f64) -> World {
        let mut ledger = Ledger::new(1, 1 << 30);
        let others = ["io1", "io2", "io3", "io4"];
        for name in NAMES.into_iter().chain(others) {
            let op = Op::Create {
                cid: ledger.next_cid(),
                name: name.to_owned(),
                owner: 1000,
                group: 1000,
                mode: 0o700,
            };
            root(&mut ledger, &op);
            for resource in [Resource::Cpu, Resource::Disk] {
                let op = Op::Fund {
                    holder: name.to_owned(),
                    issuer: "base".to_owned(),
                    resource,
                    amount: TICKETS as i64,
                };
                root(&mut ledger, &op);
            }
        }
        for name in NAMES {
            let op = Op::Reserve {
                holder: name.to_owned(),
                issuer: "base".to_owned(),
                resource: Resource::Memory,
                amount: Hard::Bytes(EACH as u64),
            };
            root(&mut ledger, &op);
        }
        ledger.settle();
        let mut world = World {
            machine,
            stores,
            ledger,
            random: fastrand::Rng::with_seed(seed),
            noise: 0.0,
            now: 0.0,
            says: true,
            news: vec![],
            made: BTreeMap::new(),
            revoked: BTreeMap::new(),
            redone: BTreeMap::new(),
            changed: 0.0,
            what: BTreeMap::new(),
            off: BTreeMap::new(),
        };
        world.run(600.0);
        world.noise = noise;
        world
    }

    fn entitled(&self, name: &str, r: Resource) -> f64 {
        let cid = self.ledger.find(name).unwrap();
        self.ledger.entitlement(cid, r) as f64 / 2f64.powi(64)
    }

    pub fn has(&self) -> [Has; 2] {
        NAMES.map(|name| Has {
            cpu: self.entitled(name, Resource::Cpu),
            disk: self.entitled(name, Resource::Disk),
            memory: self.entitled(name, Resource::Memory),
        })
    }

    /// Root gives the big one so many disk tickets more.
    pub fn enrich(&mut self, amount: i64) {
        let op = Op::Fund {
            holder: NAMES[1].to_owned(),
            issuer: "base".to_owned(),
            resource: Resource::Disk,
            amount,
        };
        root(&mut self.ledger, &op);
        self.ledger.settle();
        self.run(100.0);
    }

    /// Requests a second of each on average.
    pub fn run(&mut self, seconds: f64) -> [f64; 2] {
        let (has, steps) = (self.has(), (seconds * 4.0).round() as u32);
        let mut sum = [0.0; 2];
        for _ in 0..steps {
            // A second's noise is that of its four quarters.
            let noise = [0, 1].map(|_| 1.0 + 2.0 * self.noise * self.normal());
            let rates = self.machine.run(&mut self.stores, has, 0.25, noise);
            for i in 0..2 {
                sum[i] += rates[i] / f64::from(steps);
            }
            self.now += 0.25;
        }
        sum
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// As the program around the negotiator would see it.
    pub fn market(&self, who: usize) -> Market {
        let (l, name) = (&self.ledger, NAMES[who]);
        let cid = l.find(name).unwrap();
        let deals: Vec<Deal> = (l.exchanges_of(cid))
            .map(|(id, x)| {
                let side = |given: bool| {
                    let its = x
                        .legs
                        .iter()
                        .filter(move |(p, _, n)| *p == cid && (*n < 0) == given);
                    its.map(|(_, r, n)| amount(*r, n.unsigned_abs())).collect()
                };
                Deal {
                    id,
                    gives: side(true),
                    gets: side(false),
                }
            })
            .collect();
        let offers = l.book().iter_from(0).map(|o| Offered {
            id: o.id,
            mine: o.party == cid,
            gives: amount(o.pair.gives, o.gives()),
            wants: amount(o.pair.wants, o.left),
            least: o.least,
        });
        let mut market = Market {
            offers: offers.collect(),
            deals,
            ..Default::default()
        };
        for (i, r) in TRADED.into_iter().enumerate() {
            let r = of_ledger(r);
            let has = i128::try_from((l.entitlement(cid, r) * 1000) >> 64).unwrap();
            market.holds[i] = Holding {
                own: u64::try_from(has - market.got(i)).unwrap(),
                all: l.total(r) * 1000,
            };
        }
        market
    }

    pub fn act(&mut self, who: usize, act: Act, negotiator: &mut Negotiator) {
        let now = (self.now * 1e6) as u64;
        let terms = |give: Amount, want: Amount, lasts: Duration| Terms {
            gives: of_ledger(give.resource),
            give: give.milli,
            wants: of_ledger(want.resource),
            want: want.milli,
            least: 1,
            expires: Some(now + lasts.as_micros() as u64),
        };
        let (op, number) = match act {
            Act::Offer { give, want, lasts } => {
                let id = self.ledger.next_number();
                let op = Op::Offer {
                    id,
                    party: NAMES[who].to_owned(),
                    terms: terms(give, want, lasts),
                    now,
                };
                (op, Some(id))
            }
            Act::Amend {
                id,
                give,
                want,
                lasts,
            } => {
                let op = Op::Amend {
                    offer: id,
                    terms: terms(give, want, lasts),
                    now,
                };
                (op, None)
            }
            Act::Cancel { id } => (Op::Cancel { id }, None),
        };
        match self.ledger.apply(&op, &Caller::user(1000)) {
            Ok(events) => {
                if let Some(id) = number {
                    negotiator.placed(id);
                }
                self.count(&events);
            }
            Err(_) if !matches!(act, Act::Cancel { .. }) => {
                negotiator.refused(Duration::from_secs_f64(self.now));
            }
            Err(_) => {}
        }
    }

    fn count(&mut self, events: &[Event]) {
        let small = self.ledger.find(NAMES[0]).unwrap();
        for e in events {
            let Event::Exchanged { id, revoked, .. } = e else {
                continue;
            };
            if let Some(x) = self.ledger.exchange_of(*id) {
                let its = |given: bool| {
                    let mut its = x
                        .legs
                        .iter()
                        .filter(|(p, _, n)| *p == small && (*n < 0) == given);
                    its.next().unwrap().1
                };
                self.what.insert(*id, (its(true), its(false)));
            }
            let what = self.what[id];
            let was_off = self.off.insert(what, revoked.is_some()).unwrap_or(false);
            self.changed = self.now;
            match revoked {
                None => *self.made.entry(what).or_default() += 1,
                Some(_) => *self.revoked.entry(what).or_default() += 1,
            }
            if revoked.is_none() && was_off {
                *self.redone.entry(what).or_default() += 1;
            }
        }
    }

    /// A second with negotiators; what was served in it.
    pub fn negotiate(&mut self, both: &mut [Negotiator; 2]) -> [f64; 2] {
        let rates = self.run(1.0);
        let first = usize::from(self.random.bool());
        for who in [first, 1 - first] {
            let reading = self.stores[who].reading(self.now, self.says);
            let out = both[who].step(&reading, Some(&self.market(who)));
            for act in out.acts {
                self.act(who, act, &mut both[who]);
            }
            self.news.extend(out.news.into_iter().map(|n| (who, n)));
        }
        rates
    }

    /// The best total of requests a second that exchanges of so many disk tickets for so many MiB bring, without noise, and which.
    pub fn best(&self) -> (f64, (u32, u32)) {
        let mut best = (0.0, (0, 0));
        for disk in (0..=800).step_by(100) {
            for memory in 0..=8 {
                let (d, m) = (f64::from(disk), f64::from(memory) * M);
                let [small, big] = self.has();
                let has = [(small, 1.0), (big, -1.0)].map(|(has, sign)| Has {
                    cpu: has.cpu,
                    disk: has.disk - sign * d,
                    memory: has.memory + sign * m,
                });
                let mut stores = self.stores;
                let mut sum = 0.0;
                for n in 0..1200 {
                    let rates = self.machine.run(&mut stores, has, 0.5, [1.0; 2]);
                    if n >= 1180 {
                        sum += (rates[0] + rates[1]) / 20.0;
                    }
                }
                if sum > best.0 {
                    best = (sum, (disk, memory));
                }
            }
        }
        best
    }
}

fn root(ledger: &mut Ledger, op: &Op) {
    assert!(ledger.apply(op, &Caller::ROOT).is_ok(), "{op:?}");
}
