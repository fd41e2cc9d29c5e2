// SPDX-License-Identifier: GPL-2.0-only
//! `memory.min` and `memory.low` of cgroups from the guarantees of their currencies (model.md §4,
//! Sullivan §4.4).
//!
//! What comes to a principal by hard tickets alone, from base down, is never taken from it:
//! `memory.min`. What comes to it by a soft one anywhere on the way is taken last: `memory.low`.
//! The kernel compares both with the same usage, so `memory.low` has the hard part in it. Every
//! cgroup above covers what is below it, or the kernel would cut that. At least a twentieth of
//! memory is for everybody.

use std::collections::{BTreeMap, HashMap};
use tix_ledger::{BASE, Cid, HARD_WHOLE, Kind, Ledger, MAX_HARD_OF_BASE, Resource};

const MEMORY: Resource = Resource::Memory;

/// Bytes of one cgroup, a multiple of the page's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    /// `memory.min`
    pub min: u64,
    /// `memory.low`, at least `min`; 0: nothing beyond `min`.
    pub low: u64,
}

impl Protection {
    fn add(&mut self, other: Protection) {
        self.min += other.min;
        self.low += other.low;
    }
}

/// How the kernel shares out what protects a cgroup, among its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Bytes; a power of two.
    pub page: u64,
    /// cgroup2 is mounted with `memory_recursiveprot`: what no child claims protects all of them.
    pub recursive: bool,
}

/// What each cgroup that is guaranteed anything, or has such cgroups below it, should have, by
/// path.
///
/// `memory.min` and `memory.low` of the root's children sum to at most 95 % of the memory that the
/// ledger has. Without `memory_recursiveprot` a guarantee is handed down to the cgroups below.
pub fn protections(ledger: &Ledger, kernel: Kernel) -> BTreeMap<String, Protection> {
    let mut known = Known {
        ledger,
        caps: Caps::of(ledger),
        parts: HashMap::new(),
    };
    let order = ledger.cgroups();
    let mut own: HashMap<Cid, Protection> = order
        .iter()
        .filter(|c| **c != BASE)
        .map(|c| (*c, known.own(*c, kernel.page)))
        .filter(|(_, p)| *p != Protection::default())
        .collect();
    if own.is_empty() {
        return BTreeMap::new();
    }
    keep_within(most(ledger), kernel.page, &mut own);
    let mut all: HashMap<Cid, Protection> = HashMap::new();
    for c in order.iter().rev() {
        let mut sum = own.get(c).copied().unwrap_or_default();
        let below = ledger.get(*c).into_iter();
        for k in below.flat_map(|x| x.mirrored_children()) {
            sum.add(all.get(&k).copied().unwrap_or_default());
        }
        if sum != Protection::default() {
            all.insert(*c, sum);
        }
    }
    if !kernel.recursive {
        for c in &order {
            if let Some(own) = own.get(c) {
                hand_down(ledger, *c, *own, kernel.page, &mut all);
            }
        }
    }
    all.remove(&BASE);
    all.into_iter().map(|(c, p)| (ledger.name(c), p)).collect()
}

/// Bytes that may be protected in all.
fn most(ledger: &Ledger) -> u64 {
    ledger.total(MEMORY) / HARD_WHOLE * MAX_HARD_OF_BASE
}

/// Cuts all alike if together they are more than `most`: what is got in exchange is worth what it
/// says, whatever the giver's was.
fn keep_within(most: u64, page: u64, own: &mut HashMap<Cid, Protection>) {
    let sum: u64 = own.values().map(|p| p.low.max(p.min)).sum();
    if sum <= most {
        return;
    }
    let part = |n: u64| {
        let n = u128::from(n) * u128::from(most) / u128::from(sum.max(1));
        u64::try_from(n).unwrap_or(u64::MAX) & !(page - 1)
    };
    for p in own.values_mut() {
        (p.min, p.low) = (part(p.min), part(p.low));
    }
}

/// What protects `c` itself, for those below it that have nothing of their own. If nobody there
/// has, each gets all of it: the kernel shares out what is promised too often by who uses how much.
/// Otherwise that would take from those who have, and it is equal parts.
fn hand_down(
    ledger: &Ledger,
    c: Cid,
    own: Protection,
    page: u64,
    all: &mut HashMap<Cid, Protection>,
) {
    let children: Vec<Cid> = ledger
        .get(c)
        .into_iter()
        .flat_map(|x| x.mirrored_children())
        .collect();
    let plain: Vec<Cid> = children
        .iter()
        .copied()
        .filter(|k| !all.contains_key(k))
        .collect();
    let parts = match plain.len() == children.len() {
        true => 1,
        false => u64::try_from(plain.len()).unwrap_or(1).max(1),
    };
    let part = Protection {
        min: (own.min / parts) & !(page - 1),
        low: (own.low / parts) & !(page - 1),
    };
    if part == Protection::default() {
        return;
    }
    for k in plain {
        all.insert(k, part);
        hand_down(ledger, k, part, page, all);
    }
}

/// What base may promise of what it has issued: hard tickets before soft ones, 95 % in all.
#[derive(Debug, Clone, Copy)]
struct Caps {
    /// Parts of 2^32.
    hard: u128,
    soft: u128,
}

const WHOLE: u128 = 1 << 32;

impl Caps {
    fn of(ledger: &Ledger) -> Caps {
        let most = u128::from(most(ledger)) << 64;
        let mut issued = [0_u128; 2];
        for (_, t) in ledger.issued_by(BASE, MEMORY) {
            let kind = usize::from(t.kind == Kind::Hard);
            issued[kind] += ledger.ticket_value(&t, MEMORY, true);
        }
        let part = |of: u128, has: u128| match has.min(of) {
            _ if has <= of => WHOLE,
            some => some / (has >> 32).max(1),
        };
        let [soft, hard] = issued;
        Caps {
            hard: part(most, hard),
            soft: part(most.saturating_sub(hard), soft),
        }
    }
}

/// Of what a currency is entitled to: what is protected, in bytes with 64 fractional bits.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    hard: u128,
    soft: u128,
}

struct Known<'a> {
    ledger: &'a Ledger,
    caps: Caps,
    parts: HashMap<Cid, Part>,
}

impl Known<'_> {
    fn part(&mut self, c: Cid) -> Part {
        if let Some(known) = self.parts.get(&c) {
            return *known;
        }
        let Some(x) = self.ledger.get(c).filter(|_| c != BASE) else {
            return Part::default();
        };
        let tickets: Vec<_> = self.ledger.tickets(x, MEMORY).filter(|t| !t.kept).collect();
        let mut sum = Part::default();
        for (i, t) in tickets.into_iter().enumerate() {
            let worth = self.ledger.ticket_value(&t, MEMORY, true);
            // A binding is no ticket that somebody else could outbid: what the currency has, its
            // cgroups have.
            let firm = t.kind == Kind::Hard || i == 0 && x.bound_to == Some(t.issuer);
            let got = if t.issuer == BASE {
                match t.kind {
                    Kind::Hard => Part {
                        hard: times(worth, self.caps.hard),
                        soft: 0,
                    },
                    Kind::Soft => Part {
                        hard: 0,
                        soft: times(worth, self.caps.soft),
                    },
                }
            } else {
                let above = self.part(t.issuer);
                let has = self.ledger.entitlement(t.issuer, MEMORY);
                Part {
                    hard: of(above.hard, worth, has),
                    soft: of(above.soft, worth, has),
                }
            };
            match firm {
                true => sum.hard += got.hard,
                false => sum.soft += got.hard,
            }
            sum.soft += got.soft;
        }
        let part = exchanged(sum, x.delta(MEMORY));
        self.parts.insert(c, part);
        part
    }

    /// What protects the cgroup of `c` itself: all that it has not given to others.
    fn own(&mut self, c: Cid, page: u64) -> Protection {
        let part = self.part(c);
        if part.hard == 0 && part.soft == 0 {
            return Protection::default();
        }
        let has = self.ledger.entitlement(c, MEMORY);
        let given = self.ledger.issued_by(c, MEMORY);
        let given: u128 = given
            .map(|(_, t)| self.ledger.ticket_value(&t, MEMORY, true))
            .sum();
        let left = has.saturating_sub(given);
        let bytes = |v: u128| u64::try_from(v >> 64).unwrap_or(u64::MAX) & !(page - 1);
        let (hard, soft) = (of(part.hard, left, has), of(part.soft, left, has));
        let (min, both) = (bytes(hard), bytes(hard + soft));
        Protection {
            min,
            low: if both > min { both } else { 0 },
        }
    }
}

/// With what was got in exchange, which is worth what it says; what was given away is taken from
/// the soft part first.
fn exchanged(mut part: Part, milli: i64) -> Part {
    let amount = (u128::from(milli.unsigned_abs()) << 64) / 1000;
    if milli >= 0 {
        part.hard += amount;
    } else {
        let soft = part.soft.min(amount);
        part.soft -= soft;
        part.hard = part.hard.saturating_sub(amount - soft);
    }
    part
}

/// `value · part / 2^32`, rounded down.
fn times(value: u128, part: u128) -> u128 {
    (value >> 32) * part + (((value & (WHOLE - 1)) * part) >> 32)
}

/// `value · m / d`, rounded down to 32 fractional bits; all of it if m > d.
fn of(value: u128, m: u128, d: u128) -> u128 {
    if m >= d {
        return value;
    }
    // Of at most 2^53 bytes none of these has more than 85 bits now.
    let (value, m, d) = (value >> 32, m >> 32, (d >> 32).max(1));
    let shift = (128 - d.leading_zeros()).saturating_sub(42);
    let (m, d) = (m >> shift, (d >> shift).max(1));
    (value * m.min(d) / d) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_ledger::{Caller, Cgroup, Hard, Op};

    const M: u64 = 1 << 20;
    const RECURSIVE: Kernel = Kernel {
        page: 4096,
        recursive: true,
    };

    /// With 1,000 M of memory, and currencies bound to these cgroups.
    fn ledger(paths: &[&str], bound: &[(&str, &str)]) -> Ledger {
        let mut l = Ledger::new(1, 1_000 * M);
        for path in paths {
            l.cgroup_here(&Cgroup {
                path,
                id: 7,
                weight: 100,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
        }
        for (name, path) in bound {
            let create = Op::Create {
                cid: l.next_cid(),
                name: (*name).into(),
                owner: 0,
                group: 0,
                mode: 0o700,
            };
            let bind = Op::Bind {
                name: (*name).into(),
                path: (*path).into(),
            };
            for op in [create, bind] {
                l.apply(&op, &Caller::ROOT).unwrap();
            }
        }
        l
    }

    fn reserve(l: &mut Ledger, holder: &str, issuer: &str, amount: Hard) {
        let op = Op::Reserve {
            holder: holder.into(),
            issuer: issuer.into(),
            resource: MEMORY,
            amount,
        };
        l.apply(&op, &Caller::ROOT).unwrap();
    }

    fn fund(l: &mut Ledger, holder: &str, issuer: &str, amount: i64) {
        let op = Op::Fund {
            holder: holder.into(),
            issuer: issuer.into(),
            resource: MEMORY,
            amount,
        };
        l.apply(&op, &Caller::ROOT).unwrap();
    }

    /// In whole M, which a page or two are not.
    fn found(l: &Ledger, kernel: Kernel) -> Vec<(String, u64, u64)> {
        let near = |n: u64| (n + 64 * 1024) / M;
        protections(l, kernel)
            .into_iter()
            .map(|(path, p)| (path, near(p.min), near(p.low)))
            .collect()
    }

    fn all(wanted: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        let own = |(path, min, low): &(&str, u64, u64)| ((*path).to_owned(), *min, *low);
        wanted.iter().map(own).collect()
    }

    #[test]
    fn hard_is_min_and_those_above_cover_it() {
        let paths = ["/s", "/s/a", "/s/b", "/s/c", "/t"];
        let mut l = ledger(&paths, &[("a", "/s/a"), ("b", "/s/b")]);
        assert!(protections(&l, RECURSIVE).is_empty());
        reserve(&mut l, "a", "base", Hard::Bytes(200 * M));
        reserve(&mut l, "b", "base", Hard::Bytes(140 * M));
        assert_eq!(
            found(&l, RECURSIVE),
            all(&[("/s", 340, 0), ("/s/a", 200, 0), ("/s/b", 140, 0)])
        );
    }

    #[test]
    fn a_part_of_a_guarantee_is_one_and_tickets_are_not() {
        let paths = ["/u", "/u/x", "/u/y"];
        let bound = [("u", "/u"), ("x", "/u/x"), ("y", "/u/y")];
        let mut l = ledger(&paths, &bound);
        reserve(&mut l, "u", "base", Hard::Bytes(400 * M));
        // A quarter for x. Of the rest, y has as many tickets as the slice itself.
        reserve(&mut l, "x", "u", Hard::Milli(250));
        fund(&mut l, "y", "u", 100);
        assert_eq!(
            found(&l, RECURSIVE),
            all(&[("/u", 250, 150), ("/u/x", 100, 0), ("/u/y", 0, 150)])
        );
    }

    #[test]
    fn soft_tickets_of_base_are_for_what_is_left_of_95_per_cent() {
        let mut l = ledger(&["/a", "/b"], &[("a", "/a"), ("b", "/b")]);
        fund(&mut l, "a", "base", 100);
        assert_eq!(found(&l, RECURSIVE), all(&[("/a", 0, 950)]));
        reserve(&mut l, "b", "base", Hard::Bytes(450 * M));
        let both = all(&[("/a", 0, 500), ("/b", 450, 0)]);
        assert_eq!(found(&l, RECURSIVE), both);
        // Hard and soft for one: the kernel compares both with the same usage.
        reserve(&mut l, "a", "base", Hard::Bytes(100 * M));
        let both = all(&[("/a", 100, 500), ("/b", 450, 0)]);
        assert_eq!(found(&l, RECURSIVE), both);
    }

    #[test]
    fn without_recursiveprot_it_is_handed_down() {
        let kernel = Kernel {
            recursive: false,
            ..RECURSIVE
        };
        let paths = ["/u", "/u/x", "/u/y", "/u/y/z", "/v"];
        let mut l = ledger(&paths, &[("u", "/u"), ("x", "/u/x")]);
        reserve(&mut l, "u", "base", Hard::Bytes(400 * M));
        let whole = all(&[
            ("/u", 400, 0),
            ("/u/x", 400, 0),
            ("/u/y", 400, 0),
            ("/u/y/z", 400, 0),
        ]);
        assert_eq!(found(&l, kernel), whole);
        // What one has of its own is not to be had by the others.
        reserve(&mut l, "x", "base", Hard::Bytes(100 * M));
        let apart = all(&[
            ("/u", 500, 0),
            ("/u/x", 100, 0),
            ("/u/y", 400, 0),
            ("/u/y/z", 400, 0),
        ]);
        assert_eq!(found(&l, kernel), apart);
    }
}
