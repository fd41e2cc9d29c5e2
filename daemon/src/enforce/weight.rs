// SPDX-License-Identifier: GPL-2.0-only
//! Without sched_ext: `cpu.weight`, computed top-down (model.md §4). The weight of a cgroup among its siblings is proportional to the entitlement of the
//! principals below it, scaled so that a cgroup funded only by its parent keeps its own number. In a plain tree nothing is written.

use crate::ledger::{BASE, Cid, Ledger, Resource};
use std::collections::{BTreeMap, HashMap};

/// The `cpu.weight` that each cgroup should have where that is not its own funding.
///
/// Files cannot say that what one of a currency's cgroups leaves is for its others. For the currency `whole`, whose cgroups are to have
/// what they need rather than to share, each counts as if it had all of it.
pub fn weights(ledger: &Ledger, whole: Option<Cid>) -> BTreeMap<String, u64> {
    if ledger.is_plain(Resource::Cpu) {
        return BTreeMap::new();
    }
    let all = whole.map(|c| ledger.entitlement(c, Resource::Cpu));
    let entitled = |cid: Cid| match ledger.get(cid).and_then(|c| c.bound_to) {
        Some(name) if Some(name) == whole => all.unwrap_or(0),
        _ => ledger.entitlement(cid, Resource::Cpu),
    };
    let mut below: HashMap<Cid, u128> = HashMap::new();
    let mut special: HashMap<Cid, bool> = HashMap::new();
    sum(ledger, BASE, &entitled, &mut below, &mut special);
    let mut out = BTreeMap::new();
    for (_, parent) in ledger.iter() {
        let children: Vec<Cid> = parent.mirrored_children().collect();
        if !children
            .iter()
            .any(|c| special.get(c).copied().unwrap_or(false))
        {
            continue;
        }
        let weight = |c: &Cid| {
            ledger
                .get(*c)
                .and_then(|x| x.mirror.as_ref())
                .map_or(100, |m| m.weight)
        };
        let total = |c: &Cid| below.get(c).copied().unwrap_or(0);
        // A plain sibling sets the scale; without one, the largest gets 1,000 times what the smallest number can say.
        let plain = children
            .iter()
            .find(|c| !special.get(c).copied().unwrap_or(false) && total(c) > 0);
        let (num, den) = match plain {
            Some(c) => (u128::from(weight(c)), total(c) >> 32),
            None => (1_000, children.iter().map(total).max().unwrap_or(0) >> 32),
        };
        for c in children
            .iter()
            .filter(|c| special.get(*c).copied().unwrap_or(false))
        {
            let w = (((total(c) >> 32) * num) / den.max(1)).clamp(1, 10_000);
            if let (Some(x), Ok(w)) = (ledger.get(*c), u64::try_from(w)) {
                out.insert(x.name.clone(), w);
            }
        }
    }
    out
}

/// Entitlement of the principals in the cgroup subtree of `c`, and whether anything in it is funded by others than its parent.
fn sum(
    ledger: &Ledger,
    c: Cid,
    entitled: &dyn Fn(Cid) -> u128,
    below: &mut HashMap<Cid, u128>,
    special: &mut HashMap<Cid, bool>,
) -> (u128, bool) {
    let Some(x) = ledger.get(c) else {
        return (0, false);
    };
    let own = x.bound_to.is_some() || !x.grants(Resource::Cpu).is_empty();
    let (mut total, mut any) = (0, own);
    let children: Vec<Cid> = x.mirrored_children().collect();
    for k in &children {
        let (t, s) = sum(ledger, *k, entitled, below, special);
        total += t;
        any |= s;
    }
    if children.is_empty() {
        total = entitled(c);
    }
    below.insert(c, total);
    special.insert(c, any);
    (total, any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Caller, Cgroup, Op};

    #[test]
    fn a_plain_tree_needs_no_writing_and_a_bound_one_is_scaled_to_its_plain_sibling() {
        let mut l = Ledger::new(1, 0);
        for path in ["/a", "/b", "/c"] {
            l.cgroup_here(&Cgroup {
                path,
                id: 7,
                weight: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
        }
        assert!(weights(&l, None).is_empty());
        for op in [
            Op::Create {
                cid: l.next_cid(),
                name: "n".into(),
                owner: 0,
                group: 0,
                mode: 0o700,
            },
            Op::Fund {
                holder: "n".into(),
                issuer: "base".into(),
                resource: Resource::Cpu,
                amount: 300,
            },
            Op::Bind {
                name: "n".into(),
                path: "/a".into(),
            },
        ] {
            l.apply(&op, &Caller::ROOT).unwrap();
        }
        let w = weights(&l, None);
        assert_eq!(w.len(), 1);
        assert!((299..=300).contains(&w["/a"]), "{w:?}");

        // With a second one it is halves, unless each is to have it all.
        let bind = Op::Bind {
            name: "n".into(),
            path: "/b".into(),
        };
        l.apply(&bind, &Caller::ROOT).unwrap();
        let w = weights(&l, None);
        assert!((149..=150).contains(&w["/a"]), "{w:?}");
        let w = weights(&l, l.find("n"));
        assert!(
            (299..=300).contains(&w["/a"]) && w["/a"] == w["/b"],
            "{w:?}"
        );
    }
}
