// SPDX-License-Identifier: GPL-2.0-only
//! Values and entitlements (model.md §3, soft tickets): u128 with 64 fractional bits, rounded down, a pure function of the graph and of
//! which principals are active.

use super::{BASE, Cid, Ledger, Resource, SELF_TICKETS, Ticket};
use std::collections::{HashMap, HashSet};

/// Values in base tickets, 64 fractional bits.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// T: what base has issued, at least 1.
    pub total: u64,
    /// V of every currency; inactive: 0.
    pub value: HashMap<Cid, u128>,
    /// V with every ticket active.
    pub entitlement: HashMap<Cid, u128>,
    /// What is left for the hidden leaf of a currency's own threads, where it has one.
    pub own_value: HashMap<Cid, u128>,
    pub active: HashSet<Cid>,
    /// Soft tickets issued: active, and all.
    pub issued: HashMap<Cid, (u64, u64)>,
}

/// `value · m / d`, rounded down, for m ≤ d < 2^63.
fn portion(value: u128, m: u64, d: u64) -> u128 {
    if d == 0 {
        return 0;
    }
    let (m, d) = (u128::from(m), u128::from(d));
    let (high, low) = (value >> 64, value & u128::from(u64::MAX));
    let (q, rest) = (high * m / d, high * m % d);
    (q << 64) + ((rest << 64) + low * m) / d
}

/// A value as a fraction of `total` tickets.
pub fn fraction(value: u128, total: u64) -> f64 {
    let scale = 2f64.powi(64) * total as f64;
    (value as f64 / scale).clamp(0.0, 1.0)
}

impl Ledger {
    /// T: all soft tickets that base has issued and not withdrawn, active or not.
    pub fn base_tickets(&self, r: Resource) -> u64 {
        self.issued_all(BASE, r).max(1)
    }

    fn issued_all(&self, cid: Cid, r: Resource) -> u64 {
        let own = if r == Resource::Cpu && self.has_self(cid) {
            SELF_TICKETS
        } else {
            0
        };
        own + self
            .issued_by(cid, r)
            .filter(|(_, t)| t.counted)
            .map(|(_, t)| t.amount)
            .sum::<u64>()
    }

    /// The tickets that `cid` has issued, with their holders.
    pub fn issued_by(&self, cid: Cid, r: Resource) -> impl Iterator<Item = (Cid, Ticket)> {
        self.funded(cid, r).flat_map(move |h| {
            let tickets = self.get(h).map(|c| self.tickets(c, r)).unwrap_or_default();
            tickets
                .into_iter()
                .filter(move |t| t.issuer == cid)
                .map(move |t| (h, t))
        })
    }

    /// Values of all currencies while exactly those principals are active whose own threads are runnable, as `running` says.
    pub fn values(&self, r: Resource, running: &dyn Fn(Cid) -> bool) -> Values {
        let order = self.order(r);
        let mut v = Values {
            total: self.base_tickets(r),
            ..Values::default()
        };
        for &c in order.iter().rev() {
            let own = running(c);
            let mut active = own;
            let mut issued_active = if own && self.has_self(c) {
                SELF_TICKETS
            } else {
                0
            };
            for (h, t) in self.issued_by(c, r) {
                if !t.kept && v.active.contains(&h) {
                    active = true;
                    issued_active += t.amount;
                }
            }
            v.issued.insert(c, (issued_active, self.issued_all(c, r)));
            if active {
                v.active.insert(c);
            }
        }
        for &c in &order {
            let Some(currency) = self.get(c) else {
                continue;
            };
            let (mut value, mut entitlement) = (0u128, 0u128);
            if c == BASE {
                entitlement = u128::from(v.total) << 64;
                value = entitlement;
            }
            for t in self.tickets(currency, r) {
                if t.kept {
                    continue;
                }
                let (issued_active, issued_all) =
                    v.issued.get(&t.issuer).copied().unwrap_or((0, 0));
                if v.active.contains(&c) {
                    value += portion(
                        v.value.get(&t.issuer).copied().unwrap_or(0),
                        t.amount,
                        issued_active,
                    );
                }
                entitlement += portion(
                    v.entitlement.get(&t.issuer).copied().unwrap_or(0),
                    t.amount,
                    issued_all,
                );
            }
            if running(c) {
                let (issued_active, _) = v.issued.get(&c).copied().unwrap_or((0, 0));
                let own = if self.has_self(c) {
                    portion(value, SELF_TICKETS, issued_active)
                } else {
                    value
                };
                v.own_value.insert(c, own);
            }
            v.value.insert(c, value);
            v.entitlement.insert(c, entitlement);
        }
        v
    }

    /// All currencies, issuers before holders.
    fn order(&self, r: Resource) -> Vec<Cid> {
        let mut waiting: HashMap<Cid, usize> = HashMap::new();
        let mut ready: Vec<Cid> = Vec::new();
        for (cid, _) in self.iter() {
            let n = self.funders(cid, r).len();
            waiting.insert(cid, n);
            if n == 0 {
                ready.push(cid);
            }
        }
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(c) = ready.pop() {
            order.push(c);
            for h in self.funded(c, r) {
                if let Some(n) = waiting.get_mut(&h) {
                    *n -= 1;
                    if *n == 0 {
                        ready.push(h);
                    }
                }
            }
        }
        order
    }
}
