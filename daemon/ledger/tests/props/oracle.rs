// SPDX-License-Identifier: GPL-2.0-only
//! The oracle: model.md §2, §3 and §5 sentence by sentence over a list of tickets, in unbounded
//! rationals. It shares no code with the ledger.

use num_bigint::BigInt;
use num_rational::BigRational;
use std::collections::{BTreeMap, BTreeSet};

pub type Q = BigRational;

pub fn q(n: u64) -> Q {
    Q::from_integer(BigInt::from(n))
}

pub fn ratio(n: i64, d: u64) -> Q {
    Q::new(BigInt::from(n), BigInt::from(d))
}

fn zero() -> Q {
    q(0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Soft(u64),
    /// Thousandths of the issuer.
    Hard(u64),
    /// A hard ticket of memory.
    Bytes(u64),
}

/// A ticket of one resource.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub issuer: String,
    pub holder: String,
    pub size: Size,
    /// It can be active: not put aside, and its holder is there.
    pub live: bool,
    /// It is issued: not withdrawn.
    pub counted: bool,
}

/// One resource of the whole graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub nodes: BTreeSet<String>,
    pub tickets: Vec<Ticket>,
    /// Base tickets that count though nobody holds them.
    pub lapsed: u64,
    /// Bytes of memory, if it is memory.
    pub memory: Option<u64>,
    /// Thousandths of base tickets that a party holds: received, and given away (negative).
    pub exchanged: BTreeMap<String, (i64, i64)>,
    /// Whose threads want the resource. `NAME/.self` for those beside what NAME issues.
    pub running: BTreeSet<String>,
}

/// What an issuer divides: the whole, the pool of its soft tickets, and how many of those there
/// are.
struct Division {
    whole: Q,
    pool: Q,
    soft: Q,
}

pub struct Solved<'a> {
    g: &'a Graph,
    held: BTreeMap<&'a str, Vec<&'a Ticket>>,
    issued: BTreeMap<&'a str, Vec<&'a Ticket>>,
    active: BTreeMap<String, bool>,
    pub entitlement: BTreeMap<String, Q>,
    pub least: BTreeMap<String, Q>,
    pub rest: BTreeMap<String, Q>,
    pub value: BTreeMap<String, Q>,
}

impl Graph {
    pub fn total(&self) -> Q {
        if let Some(bytes) = self.memory {
            return q(bytes.max(1));
        }
        let soft = self
            .tickets
            .iter()
            .filter(|t| t.issuer == "base" && t.counted)
            .map(|t| match t.size {
                Size::Soft(n) => n,
                _ => 0,
            });
        q((soft.sum::<u64>() + self.lapsed).max(1))
    }

    pub fn solve(&self) -> Solved<'_> {
        let mut s = Solved {
            g: self,
            held: BTreeMap::new(),
            issued: BTreeMap::new(),
            active: BTreeMap::new(),
            entitlement: BTreeMap::new(),
            least: BTreeMap::new(),
            rest: BTreeMap::new(),
            value: BTreeMap::new(),
        };
        for t in &self.tickets {
            if t.live {
                s.held.entry(&t.holder).or_default().push(t);
            }
            s.issued.entry(&t.issuer).or_default().push(t);
        }
        let leaves = self.running.iter().filter(|n| n.ends_with("/.self"));
        let all: Vec<&String> = self.nodes.iter().chain(leaves).collect();
        for n in &all {
            s.find_active(n);
        }
        for n in &all {
            s.find_entitlement(n);
            s.find_least(n);
        }
        for (party, (got, given)) in &self.exchanged {
            if !s.active(party) {
                s.lay_to_rest(party, ratio(got + given, 1000));
            }
        }
        for n in &all {
            s.find_value(n);
        }
        s
    }
}

impl Solved<'_> {
    pub fn active(&self, n: &str) -> bool {
        self.active.get(n).copied().unwrap_or(false)
    }

    fn find_active(&mut self, n: &str) -> bool {
        if let Some(known) = self.active.get(n) {
            return *known;
        }
        let holders: Vec<String> = (self.issued.get(n).into_iter().flatten())
            .filter(|t| t.live)
            .map(|t| t.holder.clone())
            .collect();
        let is = self.g.running.contains(n) || holders.iter().any(|h| self.find_active(h));
        self.active.insert(n.to_owned(), is);
        is
    }

    /// Of H or, for memory, of the bytes that the issuer is entitled to.
    fn hard_size(&self, t: &Ticket, entitled: &Q) -> Q {
        match (t.size, self.g.memory) {
            (Size::Soft(_), _) => zero(),
            (Size::Hard(n), None) => q(n),
            (Size::Hard(n), Some(_)) => entitled * q(n) / q(1000),
            (Size::Bytes(n), _) => q(n),
        }
    }

    /// With all tickets active.
    fn guaranteed(&self, issuer: &str, entitled: &Q) -> Division {
        let all = match self.g.memory {
            None => q(1000),
            Some(_) => entitled.clone(),
        };
        let mut hard = zero();
        let mut soft = if issuer == "base" { self.g.lapsed } else { 0 };
        for t in self.issued.get(issuer).into_iter().flatten() {
            if t.counted {
                hard += self.hard_size(t, entitled);
                if let Size::Soft(n) = t.size {
                    soft += n;
                }
            }
        }
        // Guarantees in bytes that the issuer no longer has are cut alike.
        let (whole, pool) = match hard > all {
            true => (hard, zero()),
            false => (all.clone(), all - hard),
        };
        let soft = q(soft);
        Division { whole, pool, soft }
    }

    fn part(&self, t: &Ticket, d: &Division, entitled: &Q, value: &Q) -> Q {
        if d.whole == zero() {
            return zero();
        }
        match t.size {
            Size::Soft(_) if d.soft == zero() => zero(),
            Size::Soft(n) => value * &d.pool / &d.whole * q(n) / &d.soft,
            _ => value * self.hard_size(t, entitled) / &d.whole,
        }
    }

    /// What a ticket is worth with all tickets active.
    pub fn worth(&self, t: &Ticket) -> Q {
        let entitled = &self.entitlement[&t.issuer];
        let d = self.guaranteed(&t.issuer, entitled);
        self.part(t, &d, entitled, entitled)
    }

    fn tickets_of(&self, n: &str) -> Vec<Ticket> {
        let its = self.held.get(n).into_iter().flatten();
        its.map(|t| (*t).clone()).collect()
    }

    fn find_entitlement(&mut self, n: &str) -> Q {
        if let Some(known) = self.entitlement.get(n) {
            return known.clone();
        }
        let mut sum = zero();
        if n == "base" {
            sum = self.g.total();
        }
        for t in self.tickets_of(n) {
            let above = self.find_entitlement(&t.issuer);
            let d = self.guaranteed(&t.issuer, &above);
            sum += self.part(&t, &d, &above, &above);
        }
        let (got, given) = self.g.exchanged.get(n).copied().unwrap_or_default();
        sum += ratio(got + given, 1000);
        self.entitlement.insert(n.to_owned(), sum.clone());
        sum
    }

    /// E⁻.
    fn find_least(&mut self, n: &str) -> Q {
        if let Some(known) = self.least.get(n) {
            return known.clone();
        }
        let mut sum = zero();
        if n == "base" {
            sum = self.g.total();
        }
        for t in self.tickets_of(n) {
            let above = self.find_least(&t.issuer).max(zero());
            let entitled = self.find_entitlement(&t.issuer);
            let d = self.guaranteed(&t.issuer, &entitled);
            sum += self.part(&t, &d, &entitled, &above);
        }
        let (_, given) = self.g.exchanged.get(n).copied().unwrap_or_default();
        sum += ratio(given, 1000);
        self.least.insert(n.to_owned(), sum.clone());
        sum
    }

    fn soft_active(&self, issuer: &str) -> u64 {
        let its = self.issued.get(issuer).into_iter().flatten();
        its.filter(|t| t.live && self.active(&t.holder))
            .map(|t| match t.size {
                Size::Soft(n) => n,
                _ => 0,
            })
            .sum()
    }

    /// What holders of soft tickets leave rests with `ISSUER.soft`.
    fn lay_to_rest(&mut self, n: &str, amount: Q) {
        let mut parts = Vec::new();
        for t in self.tickets_of(n) {
            let above = self.find_entitlement(&t.issuer);
            let d = self.guaranteed(&t.issuer, &above);
            let pool = matches!(t.size, Size::Soft(_)) && self.soft_active(&t.issuer) > 0;
            let with = match pool {
                true => format!("{}.soft", t.issuer),
                false => t.issuer.clone(),
            };
            parts.push((t.issuer.clone(), with, self.part(&t, &d, &above, &above)));
        }
        let total = parts.iter().fold(zero(), |a, (_, _, w)| a + w);
        if total == zero() {
            parts = vec![("base".to_owned(), "base".to_owned(), q(1))];
        }
        let total = parts.iter().fold(zero(), |a, (_, _, w)| a + w);
        for (issuer, with, w) in parts {
            let part = &amount * w / &total;
            if issuer == "base" || self.active(&issuer) {
                *self.rest.entry(with).or_insert_with(zero) += part;
            } else {
                self.lay_to_rest(&issuer, part);
            }
        }
    }

    fn resting(&self, with: &str) -> Q {
        self.rest.get(with).cloned().unwrap_or_else(zero)
    }

    /// P(c).
    fn whole(&mut self, n: &str) -> Q {
        self.find_value(n) + self.resting(n)
    }

    /// P(c), with what rests with its soft pool.
    pub fn divisible(&mut self, n: &str) -> Q {
        self.whole(n) + self.resting(&format!("{n}.soft"))
    }

    fn find_value(&mut self, n: &str) -> Q {
        if let Some(known) = self.value.get(n) {
            return known.clone();
        }
        let mut sum = zero();
        if n == "base" {
            sum = self.g.total();
        } else if self.active(n) {
            for t in self.tickets_of(n) {
                let value = self.whole(&t.issuer);
                let entitled = self.find_entitlement(&t.issuer);
                let pool = self.guaranteed(&t.issuer, &entitled).pool;
                let mut hard = zero();
                for x in self.issued.get(t.issuer.as_str()).into_iter().flatten() {
                    if x.live && self.active(&x.holder) {
                        hard += self.hard_size(x, &entitled);
                    }
                }
                let soft = self.soft_active(&t.issuer);
                if let Size::Soft(n) = t.size {
                    sum += self.resting(&format!("{}.soft", t.issuer)) * q(n) / q(soft);
                }
                let pool = if soft > 0 { pool } else { zero() };
                let d = Division {
                    whole: hard + &pool,
                    pool,
                    soft: q(soft),
                };
                sum += self.part(&t, &d, &entitled, &value);
            }
            let (got, given) = self.g.exchanged.get(n).copied().unwrap_or_default();
            sum += ratio(got + given, 1000);
        }
        self.value.insert(n.to_owned(), sum.clone());
        sum
    }
}
