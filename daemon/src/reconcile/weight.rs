// SPDX-License-Identifier: GPL-2.0-only
//! Weights of cgroups for what only knows a tree of them: `io.weight`, and `cpu.weight` without
//! sched_ext. Computed top-down (model.md §4): the weight of a cgroup among its siblings is
//! proportional to the summed value of the principals below it, scaled so that a cgroup funded only
//! by its parent keeps its own number. In a plain tree nothing is written.
//!
//! The tree cannot say what the graph says, so the weights that are right depend on who is active.
//! Among active siblings they are proportional to what their principals are worth now. Those of
//! idle siblings mean nothing to the kernel: they get what is right when all are active, so that
//! one that wakes up is not far off until it is noticed.

use std::collections::{BTreeMap, HashMap};
use tix_ledger::{BASE, Cid, Currency, Ledger, Resource};

/// The largest weight that the kernel takes.
pub const MOST: u64 = 10_000;
/// A weight of this size is at most 2 % off by being a whole number. Where one is smaller, all its
/// siblings' are made larger.
const FINE: u64 = 25;
/// Where nobody is funded by the parent alone the largest gets this, when all are active.
const LARGEST: u64 = 1_000;

/// Which weights are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub resource: Resource,
    /// For the currency whose cgroups are to have what they need rather than to share, each counts
    /// as if it had all of it: files cannot say that what one of a currency's cgroups leaves is for
    /// its others.
    pub whole: Option<Cid>,
    /// By what is worth how much now, with those idle that are; otherwise by what is guaranteed.
    pub live: bool,
    /// The largest weight that the files take.
    pub most: u64,
}

/// The weight that each cgroup should have where that is not its own funding, by path: 1 …
/// `terms.most`.
///
/// Among siblings they are as the values of what is active below them, each rounded by at most
/// half; no weight that is not somebody's own funding is smaller than 25, as long as none is due
/// more than `terms.most` / 25 times as much as another.
pub fn weights(ledger: &Ledger, terms: &Terms) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    if is_plain(ledger, terms.resource) {
        return out;
    }
    let sums = sums(ledger, terms);
    let none = Sum::default();
    for (cid, _) in sums.iter().filter(|(_, s)| s.special) {
        let Some(parent) = ledger.get(*cid) else {
            continue;
        };
        let siblings: Vec<Sibling<'_>> = parent
            .mirrored_children()
            .filter_map(|c| {
                let m = ledger.get(c)?.mirror.as_ref()?;
                let sum = sums.get(&c).unwrap_or(&none);
                Some(Sibling {
                    path: &m.path,
                    own: match terms.resource {
                        Resource::Cpu => m.weight,
                        _ => m.disk,
                    },
                    sum: *sum,
                })
            })
            .collect();
        if siblings.iter().any(|s| s.sum.special) {
            among(&siblings, terms.most, &mut out);
        }
    }
    out
}

/// The cgroups whose activity the weights follow, with their paths: among siblings of which one is
/// funded by others than its parent, each that has nobody so funded below it. Empty in a plain
/// tree.
pub fn units(ledger: &Ledger, r: Resource) -> Vec<(Cid, String)> {
    if is_plain(ledger, r) {
        return vec![];
    }
    let terms = Terms {
        resource: r,
        whole: None,
        live: false,
        most: MOST,
    };
    let sums = sums(ledger, &terms);
    let special = |c: &Cid| sums.get(c).is_some_and(|s| s.special);
    let (mut out, mut todo) = (Vec::new(), vec![BASE]);
    while let Some(c) = todo.pop() {
        let Some(x) = ledger.get(c) else { continue };
        let children: Vec<Cid> = x.mirrored_children().collect();
        if children.iter().any(special) {
            todo.extend(children);
        } else if c != BASE {
            out.push((c, x.name.clone()));
        }
    }
    out
}

/// Nothing is funded otherwise than by its parent.
fn is_plain(ledger: &Ledger, r: Resource) -> bool {
    let funded = |c: &Currency| c.is_funded_by_binding(r) || !c.grants(r).is_empty();
    let mut cgroups = ledger.cgroups().into_iter();
    ledger.resting_places(r).is_empty() && !cgroups.any(|c| ledger.get(c).is_some_and(funded))
}

/// What is below a cgroup, itself included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    /// Base tickets, 32 fractional bits: guaranteed, and now. 0: nobody is active.
    due: u128,
    now: u128,
    /// Something in it is funded by others than its parent.
    special: bool,
}

struct Sibling<'a> {
    path: &'a str,
    /// What its own weight says.
    own: u64,
    sum: Sum,
}

/// Of every cgroup's subtree.
fn sums(ledger: &Ledger, terms: &Terms) -> HashMap<Cid, Sum> {
    let order = ledger.cgroups();
    let mut sums: HashMap<Cid, Sum> = HashMap::with_capacity(order.len());
    for c in order.into_iter().rev() {
        let Some(x) = ledger.get(c) else { continue };
        let mut sum = own(ledger, c, x, terms);
        for k in x.mirrored_children().filter_map(|k| sums.get(&k)) {
            sum.due += k.due;
            sum.now += k.now;
            sum.special |= k.special;
        }
        if !sum.special && sum.due > 0 {
            // Its number speaks for all that it has, of which tickets of a cgroup that is away are
            // a part.
            sum.due = ledger.entitlement(c, terms.resource) >> 32;
        }
        sums.insert(c, sum);
    }
    sums
}

/// Of the threads directly in the cgroup of `c`.
fn own(ledger: &Ledger, c: Cid, x: &Currency, terms: &Terms) -> Sum {
    let r = terms.resource;
    let inner = x.mirrored_children().next().is_some();
    let foreign = |k: Cid| {
        let parent = ledger.get(k).and_then(|k| k.mirror.as_ref());
        parent.is_none_or(|m| m.parent != c)
    };
    let special = c != BASE
        && (x.is_funded_by_binding(r)
            || !x.grants(r).is_empty()
            || x.delta(r) != 0
            || ledger.funded(c, r).any(foreign));
    if c == BASE || (inner && !ledger.has_self(c, r)) {
        return Sum {
            special,
            ..Sum::default()
        };
    }
    let due = match x.bound_to {
        Some(name) if Some(name) == terms.whole => ledger.entitlement(name, r),
        _ => ledger.own_entitlement(c, r),
    };
    let now = if terms.live {
        ledger.own_value(c, r)
    } else {
        0
    };
    Sum {
        due: due >> 32,
        now: now >> 32,
        special,
    }
}

/// A weight that is no whole number yet: 32 fractional bits.
type Exact = u128;

fn exact(n: u64) -> Exact {
    u128::from(n) << 32
}

/// `value` where `unit` is worth `number`.
fn part(value: u128, number: Exact, unit: u128) -> Exact {
    // So far that their product fits. Beyond 2^48 times the largest weight it does not matter how
    // much it is.
    let bits = |n: u128| 128 - n.leading_zeros();
    let shift = (bits(value) + bits(number)).saturating_sub(127);
    ((value >> shift) * number / (unit >> shift).max(1)).min(1 << 80)
}

/// What these siblings should have, into `out`.
fn among(siblings: &[Sibling<'_>], most: u64, out: &mut BTreeMap<String, u64>) {
    // What a plain one's number is worth sets the scale: the most valuable is the least rounded.
    let plain = |of: fn(&Sum) -> u128| {
        let plain = siblings.iter().filter(|s| !s.sum.special && of(&s.sum) > 0);
        plain
            .max_by_key(|s| of(&s.sum))
            .map(|s| (exact(s.own), of(&s.sum)))
    };
    let due_scale = plain(|s| s.due).unwrap_or_else(|| {
        let most = siblings.iter().map(|s| s.sum.due).max();
        (exact(LARGEST), most.unwrap_or(0).max(1))
    });
    let due = |s: &Sibling<'_>| part(s.sum.due, due_scale.0, due_scale.1);
    let now_scale = plain(|s| s.now).unwrap_or_else(|| {
        let active = || siblings.iter().filter(|s| s.sum.now > 0);
        let now: u128 = active().map(|s| s.sum.now).sum();
        (active().map(due).sum(), now.max(1))
    });
    let wanted: Vec<Exact> = siblings
        .iter()
        .map(|s| match (s.sum.special, s.sum.now) {
            (false, _) => exact(s.own),
            (true, 0) => due(s),
            (true, now) => part(now, now_scale.0, now_scale.1),
        })
        .collect();
    let largest = wanted.iter().copied().max().unwrap_or(0);
    let funded = siblings.iter().zip(&wanted);
    let smallest = funded
        .filter(|(s, w)| s.sum.special && **w > 0)
        .map(|(_, w)| *w)
        .min()
        .unwrap_or(largest);
    let (most, fine) = (exact(most), exact(FINE));
    // By how much all of them grow or shrink, as a fraction.
    let (up, down) = if largest > most || smallest < fine && largest * fine > most * smallest {
        (most, largest)
    } else if smallest < fine {
        (fine, smallest)
    } else {
        (1, 1)
    };
    for (s, w) in siblings.iter().zip(wanted) {
        let scaled = match down {
            1 => w,
            _ => part(w, up, down),
        };
        let rounded = (scaled + exact(1) / 2) >> 32;
        let weight = u64::try_from(rounded).unwrap_or(u64::MAX);
        let weight = weight.clamp(1, u64::try_from(most >> 32).unwrap_or(MOST));
        if weight != s.own {
            out.insert(s.path.to_owned(), weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_ledger::{Caller, Cgroup, Hard, Op};

    const DISK: Terms = Terms {
        resource: Resource::Disk,
        whole: None,
        live: true,
        most: MOST,
    };

    fn tree(disk: &[(&str, u64)]) -> Ledger {
        let mut l = Ledger::new(1, 0);
        for (path, disk) in disk {
            l.cgroup_here(&Cgroup {
                path,
                id: 7,
                weight: 100,
                disk: *disk,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
        }
        l
    }

    fn apply(l: &mut Ledger, op: &Op) {
        l.apply(op, &Caller::ROOT).unwrap();
    }

    fn create(l: &mut Ledger, name: &str) {
        let op = Op::Create {
            cid: l.next_cid(),
            name: name.into(),
            owner: 0,
            group: 0,
            mode: 0o700,
        };
        apply(l, &op);
    }

    fn fund(l: &mut Ledger, holder: &str, issuer: &str, resource: Resource, amount: i64) {
        let op = Op::Fund {
            holder: holder.into(),
            issuer: issuer.into(),
            resource,
            amount,
        };
        apply(l, &op);
    }

    fn bind(l: &mut Ledger, name: &str, path: &str) {
        let op = Op::Bind {
            name: name.into(),
            path: path.into(),
        };
        apply(l, &op);
    }

    fn wanted<const N: usize>(all: [(&str, u64); N]) -> BTreeMap<String, u64> {
        all.map(|(path, w)| (path.to_owned(), w)).into()
    }

    fn idle(l: &mut Ledger, path: &str) {
        let c = l.find(path).unwrap();
        l.set_running(c, Resource::Disk, false);
    }

    #[test]
    fn a_plain_tree_needs_no_writing_and_a_bound_one_is_scaled_to_its_plain_sibling() {
        let cpu = |whole| Terms {
            resource: Resource::Cpu,
            whole,
            live: false,
            most: MOST,
        };
        let mut l = tree(&[("/a", 100), ("/b", 100), ("/c", 100)]);
        assert!(weights(&l, &cpu(None)).is_empty());
        assert!(weights(&l, &DISK).is_empty());
        create(&mut l, "n");
        fund(&mut l, "n", "base", Resource::Cpu, 300);
        bind(&mut l, "n", "/a");
        assert_eq!(weights(&l, &cpu(None)), wanted([("/a", 300)]));

        // With a second one it is halves, unless each is to have it all.
        bind(&mut l, "n", "/b");
        let half = weights(&l, &cpu(None));
        assert_eq!(half, wanted([("/a", 150), ("/b", 150)]));
        let whole = weights(&l, &cpu(l.find("n")));
        assert_eq!(whole, wanted([("/a", 300), ("/b", 300)]));
    }

    /// Sullivan §5.4: half of the disk, however many of the others, who are equal, want it.
    #[test]
    fn a_hard_share_is_what_it_is_whoever_of_the_others_is_idle() {
        let mut l = tree(&[("/h", 100), ("/1", 100), ("/2", 100), ("/3", 100)]);
        create(&mut l, "half");
        let reserve = Op::Reserve {
            holder: "half".into(),
            issuer: "base".into(),
            resource: Resource::Disk,
            amount: Hard::Milli(500),
        };
        apply(&mut l, &reserve);
        bind(&mut l, "half", "/h");
        assert_eq!(weights(&l, &DISK), wanted([("/h", 300)]));
        idle(&mut l, "/1");
        assert_eq!(weights(&l, &DISK), wanted([("/h", 200)]));
        idle(&mut l, "/2");
        // Its own number is right, so there is nothing to write.
        assert!(weights(&l, &DISK).is_empty());
        idle(&mut l, "/h");
        assert_eq!(weights(&l, &DISK), wanted([("/h", 300)]));
    }

    #[test]
    fn who_is_bound_for_the_cpu_keeps_the_own_weight_for_the_disk() {
        let mut l = tree(&[("/a", 200), ("/b", 100)]);
        create(&mut l, "n");
        fund(&mut l, "n", "base", Resource::Cpu, 300);
        bind(&mut l, "n", "/a");
        assert!(weights(&l, &DISK).is_empty() && units(&l, Resource::Disk).is_empty());
        fund(&mut l, "/b", "base", Resource::Disk, 100);
        assert_eq!(weights(&l, &DISK).get("/a"), None);
        fund(&mut l, "n", "base", Resource::Disk, 100);
        assert_eq!(weights(&l, &DISK), wanted([("/a", 500), ("/b", 1_000)]));
    }

    #[test]
    fn two_funders_are_one_value() {
        let mut l = tree(&[("/u", 100), ("/u/a", 100), ("/u/b", 100), ("/s", 100)]);
        for (name, amount) in [("a", 300), ("b", 100)] {
            create(&mut l, name);
            fund(&mut l, name, "base", Resource::Disk, amount);
            bind(&mut l, name, &format!("/u/{name}"));
        }
        let w = weights(&l, &DISK);
        assert_eq!(w, wanted([("/u", 400), ("/u/a", 1_000), ("/u/b", 333)]));
        // a gives half of its 300 to b.
        fund(&mut l, "/u/b", "a", Resource::Disk, 100);
        let w = weights(&l, &DISK);
        assert_eq!(w, wanted([("/u", 400), ("/u/a", 600), ("/u/b", 1_000)]));
        // While its cgroup sleeps all that a has is b's; without both nobody's.
        idle(&mut l, "/u/a");
        assert_eq!(weights(&l, &DISK)["/u"], 400);
        idle(&mut l, "/u/b");
        assert_eq!(weights(&l, &DISK)["/u"], 400);
    }

    #[test]
    fn what_does_not_fit_is_scaled_with_its_siblings() {
        let many = wanted([("/a", 1_000), ("/b", 1)]);
        let few = wanted([("/a", 25), ("/b", 833)]);
        for (amount, most, all) in [(3, MOST, few), (1_000_000, 1_000, many)] {
            let mut l = tree(&[("/a", 100), ("/b", 100)]);
            create(&mut l, "n");
            fund(&mut l, "n", "base", Resource::Disk, amount);
            bind(&mut l, "n", "/a");
            assert_eq!(weights(&l, &Terms { most, ..DISK }), all);
        }
    }
}
