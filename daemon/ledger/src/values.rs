// SPDX-License-Identifier: GPL-2.0-only
//! Values and entitlements (model.md §3): u128 with 64 fractional bits, rounded down, a pure
//! function of the graph and of who is active.
//!
//! They are cached and the caches invalidated as in Sullivan §4.3: any change moves an epoch on,
//! and a look-up in a later epoch computes the currency and what is above it again, at most
//! [`super::MAX_ANCESTOR_EDGES`] tickets, whatever the size of the ledger.
//!
//! A currency that has issued hard tickets funds its soft ones from a pool (Sullivan §2.4, Figure
//! 2). The pool is no node here: it is the part `soft / whole` of [`Parts`].

use super::currency::{Cached, Issued};
use super::{BASE, Cid, HARD_WHOLE, Kind, Ledger, Resource, SELF_TICKETS, Ticket};

/// With which tickets active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Those whose holders are.
    Now,
    /// All of them: the guarantee.
    Always,
}

/// How an issuer's value is divided: each hard ticket gets its part of `whole`, the soft ones
/// together `soft` of it.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// What there is to divide.
    value: u128,
    /// What rests with the soft pool beside its part of that.
    rest: i128,
    whole: u128,
    soft: u128,
    /// The soft tickets that divide `soft` among them, the hidden leaf's included.
    tickets: u64,
    /// What a hard ticket of one thousandth has of `whole`, as numerator and denominator.
    milli: (u128, u128),
    /// And one of one byte.
    byte: u128,
}

impl Parts {
    fn of(&self, t: &Ticket) -> u128 {
        match t.kind {
            Kind::Soft => self.soft(t.amount),
            Kind::Hard => self.hard(t.bytes, t.amount),
        }
    }

    fn hard(&self, bytes: bool, amount: u64) -> u128 {
        let part = match bytes {
            true => self.byte * u128::from(amount),
            false => self.milli.0 * u128::from(amount) / self.milli.1,
        };
        scaled(self.value, part, self.whole)
    }

    fn soft(&self, amount: u64) -> u128 {
        let pool = if self.soft == self.whole {
            self.value
        } else {
            scaled(self.value, self.soft, self.whole)
        };
        portion(with_rest(pool, self.rest), amount, self.tickets)
    }
}

/// `value · m / d`, rounded down, for m ≤ d < 2^63; all of it if m > d.
fn portion(value: u128, m: u64, d: u64) -> u128 {
    if d == 0 {
        return 0;
    }
    if m >= d {
        return value;
    }
    let (m, d) = (u128::from(m), u128::from(d));
    let (high, low) = (value >> 64, value & u128::from(u64::MAX));
    let (q, rest) = (high * m / d, high * m % d);
    (q << 64) + ((rest << 64) + low * m) / d
}

/// The same for numbers of any size, which lose their last bits beyond the sixty-second.
fn scaled(value: u128, m: u128, d: u128) -> u128 {
    if m >= d {
        return value;
    }
    let by = (128 - d.leading_zeros()).saturating_sub(62);
    let small = |n: u128| u64::try_from(n >> by).unwrap_or(u64::MAX);
    // The divisor is rounded up: parts never sum to more than the whole.
    let lost = d & ((1 << by) - 1) != 0;
    portion(value, small(m), small(d) + u64::from(lost))
}

/// `amount · m / d` for an amount of either sign.
pub(super) fn signed_part(amount: i128, m: u128, d: u128) -> i128 {
    let part = i128::try_from(scaled(amount.unsigned_abs(), m, d)).unwrap_or(i128::MAX);
    part * amount.signum()
}

/// A value as a fraction of `total` tickets.
pub fn fraction(value: u128, total: u64) -> f64 {
    let scale = 2f64.powi(64) * total as f64;
    (value as f64 / scale).clamp(0.0, 1.0)
}

impl Ledger {
    /// T: all soft tickets that base has issued and not withdrawn, active or not, at least 1. Of
    /// memory: the bytes there are.
    pub fn total(&self, r: Resource) -> u64 {
        if r == Resource::Memory {
            return self.memory.max(1);
        }
        let lapsed = self.lapsed_total[r.index()];
        (self.soft_issued(BASE, r) + lapsed).max(1)
    }

    /// Soft tickets that `c` has issued, active or not, those of its hidden leaf included.
    pub fn soft_issued(&self, c: Cid, r: Resource) -> u64 {
        let own = if self.has_self(c, r) { SELF_TICKETS } else { 0 };
        self.get(c).map_or(0, |x| x.side(r).issued.soft + own)
    }

    /// The active part of those.
    pub fn soft_active(&self, c: Cid, r: Resource) -> u64 {
        let own = if self.runs_in_self(c, r) {
            SELF_TICKETS
        } else {
            0
        };
        self.get(c).map_or(0, |x| x.side(r).active.soft + own)
    }

    fn runs_in_self(&self, c: Cid, r: Resource) -> bool {
        self.has_self(c, r) && self.get(c).is_some_and(|x| x.side(r).running)
    }

    /// What `c` is worth now, in base tickets; 0 while it is not active.
    pub fn value(&self, c: Cid, r: Resource) -> u128 {
        let Some(x) = self.get(c) else { return 0 };
        let cell = &x.side(r).value;
        if cell.get().epoch == self.epoch {
            return cell.get().value;
        }
        let value = match (self.active(c, r), c) {
            (_, BASE) => u128::from(self.total(r)) << 64,
            (true, _) => self.sum(c, r, When::Now),
            (false, _) => 0,
        };
        cell.set(Cached {
            epoch: self.epoch,
            value,
        });
        value
    }

    /// What `c` is guaranteed, in base tickets: its value with every ticket active.
    pub fn entitlement(&self, c: Cid, r: Resource) -> u128 {
        let Some(x) = self.get(c) else { return 0 };
        let cell = &x.side(r).entitlement;
        if cell.get().epoch == self.shape_epoch {
            return cell.get().value;
        }
        let value = match c {
            BASE => u128::from(self.total(r)) << 64,
            _ => self.sum(c, r, When::Always),
        };
        cell.set(Cached {
            epoch: self.shape_epoch,
            value,
        });
        value
    }

    /// What is left for the threads directly in the cgroup of `c`.
    pub fn own_value(&self, c: Cid, r: Resource) -> u128 {
        match (
            self.get(c).is_some_and(|x| x.side(r).running),
            self.has_self(c, r),
        ) {
            (false, _) => 0,
            (true, false) => self.value(c, r),
            (true, true) => self.parts(c, r, When::Now).soft(SELF_TICKETS),
        }
    }

    /// What of that is left for the threads directly in its cgroup: what `c` has not issued to
    /// others.
    pub fn own_entitlement(&self, c: Cid, r: Resource) -> u128 {
        match self.has_self(c, r) {
            false => self.entitlement(c, r),
            true => self.parts(c, r, When::Always).soft(SELF_TICKETS),
        }
    }

    fn sum(&self, c: Cid, r: Resource, when: When) -> u128 {
        let Some(x) = self.get(c) else { return 0 };
        let backed: u128 = self
            .tickets(x, r)
            .filter(|t| !t.kept)
            .map(|t| self.worth(&t, r, when))
            .sum();
        with_delta(backed, x.side(r).delta)
    }

    /// What one ticket brings its holder, which is active, now; or what it guarantees.
    pub fn ticket_value(&self, t: &Ticket, r: Resource, guaranteed: bool) -> u128 {
        self.worth(t, r, if guaranteed { When::Always } else { When::Now })
    }

    fn worth(&self, t: &Ticket, r: Resource, when: When) -> u128 {
        self.parts(t.issuer, r, when).of(t)
    }

    /// What `t` would guarantee if its issuer were entitled to `value`.
    pub(super) fn guaranteed_part(&self, t: &Ticket, r: Resource, value: u128) -> u128 {
        Parts {
            value,
            ..self.parts(t.issuer, r, When::Always)
        }
        .of(t)
    }

    fn parts(&self, c: Cid, r: Resource, when: When) -> Parts {
        let (issued, active) = self
            .get(c)
            .map(|x| x.issued(r))
            .unwrap_or((Issued::default(), Issued::default()));
        let (value, rest, tickets, hard) = match when {
            When::Now => {
                let (rest, tickets) = (self.resting(c, r), self.soft_active(c, r));
                // Nobody's soft tickets: it is the issuer's.
                let (whole, pool) = match tickets {
                    0 => (rest.whole + rest.pool, 0),
                    _ => (rest.whole, rest.pool),
                };
                (with_rest(self.value(c, r), whole), pool, tickets, active)
            }
            When::Always => (
                self.entitlement(c, r),
                0,
                match c {
                    // Lapsed tickets count though nobody holds them.
                    BASE => self.soft_issued(c, r) + self.lapsed_total[r.index()],
                    _ => self.soft_issued(c, r),
                },
                issued,
            ),
        };
        if !issued.has_hard() {
            return Parts {
                value,
                rest,
                whole: 1,
                soft: 1,
                tickets,
                milli: (0, 1),
                byte: 0,
            };
        }
        let (all, milli, byte) = self.hard_scale(c, r);
        let sum = |i: &Issued| u128::from(i.milli) * milli.0 / milli.1 + u128::from(i.bytes) * byte;
        let soft = all.saturating_sub(sum(&issued));
        let whole = match when {
            // The pool lends its part when no soft ticket is active, and a hard ticket its own when
            // its holder is not.
            When::Now => sum(&hard) + if tickets > 0 { soft } else { 0 },
            When::Always => all.max(sum(&issued)),
        };
        let soft = if tickets > 0 || when == When::Always {
            soft
        } else {
            0
        };
        Parts {
            value,
            rest,
            whole: whole.max(1),
            soft,
            tickets,
            milli,
            byte,
        }
    }

    /// What `c` has to divide among hard tickets and the soft pool, and what a ticket of a
    /// thousandth (as a fraction) and one of a byte take of that. Thousandths of 1,000; of memory,
    /// where bytes can be had too, of what `c` is entitled to.
    fn hard_scale(&self, c: Cid, r: Resource) -> (u128, (u128, u128), u128) {
        let whole = u128::from(HARD_WHOLE);
        if r != Resource::Memory {
            return (whole, (1, 1), 0);
        }
        let all = self.entitlement(c, r) >> 32;
        (all, (all, whole), 1 << 32)
    }

    /// Hard tickets of `c` that are taken, and all there are to take: thousandths, or bytes of
    /// memory. For admission (model.md §3).
    pub(super) fn hard_taken(&self, c: Cid, r: Resource) -> (u64, u64) {
        let issued = self.get(c).map(|x| x.side(r).issued).unwrap_or_default();
        if r != Resource::Memory {
            return (issued.milli, HARD_WHOLE);
        }
        let (all, milli, byte) = self.hard_scale(c, r);
        let sum = u128::from(issued.milli) * milli.0 / milli.1 + u128::from(issued.bytes) * byte;
        let bytes = |v: u128| u64::try_from(v >> 32).unwrap_or(u64::MAX);
        (bytes(sum), bytes(all))
    }
}

/// A value of tickets in 64 fractional bits and thousandths of tickets.
pub(super) fn of_milli(milli: i64) -> i128 {
    // Rounded towards zero, so that two that sum to zero do here, too.
    (i128::from(milli) << 64) / 1000
}

fn with_delta(value: u128, delta: i64) -> u128 {
    if delta == 0 {
        return value;
    }
    with_rest(value, of_milli(delta))
}

fn with_rest(value: u128, rest: i128) -> u128 {
    match u128::try_from(rest) {
        Ok(more) => value + more,
        Err(_) => value.saturating_sub(rest.unsigned_abs()),
    }
}
