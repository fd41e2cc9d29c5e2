// SPDX-License-Identifier: GPL-2.0-only
//! What memory is protected for whom (model.md §4), against a sum over the paths of the oracle's
//! graph.

use crate::model::{MEMORY, Model};
use crate::oracle::{Graph, Q, Size, Solved, Ticket, q};
use crate::random::{Do, NAMES, PATHS, any_do, any_hard, any_name, any_path, any_ref, any_start};
use crate::world::World;
use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use tix_ledger::{Op, Resource};
use tixd::reconcile::protection::{Kernel, Protection, protections};

const PAGE: u64 = 4096;

fn is_soft(t: &Ticket) -> bool {
    matches!(t.size, Size::Soft(_))
}

/// Of what base has issued: how much of each kind fits into 95 %, hard before soft.
fn fitting(g: &Graph, s: &Solved<'_>) -> (Q, Q) {
    let most = q(MEMORY / 1000 * 950);
    let sum = |soft: bool| {
        let its = g
            .tickets
            .iter()
            .filter(|t| t.live && t.issuer == "base" && is_soft(t) == soft);
        its.fold(q(0), |a, t| a + s.worth(t))
    };
    let (soft, hard) = (sum(true), sum(false));
    let part = |of: Q, has: &Q| if *has <= of { q(1) } else { of / has };
    let left = (&most - &hard).max(q(0));
    (part(most, &hard), part(left, &soft))
}

struct Paths<'a> {
    m: &'a Model,
    g: &'a Graph,
    s: &'a Solved<'a>,
    fit: (Q, Q),
}

impl Paths<'_> {
    /// What comes to `n` along every path from base, of `share` of it, into `out`; firm: by hard
    /// tickets and bindings alone.
    fn sum(&self, n: &str, share: &Q, firm: bool, out: &mut (Q, Q)) {
        let all = || self.g.tickets.iter().filter(|t| t.live && t.holder == n);
        let bound = self.m.bound.get(n);
        // Whatever else its currency gives it, the binding's ticket comes last.
        let binding = bound.and_then(|b| all().rfind(|t| t.issuer == b.name && is_soft(t)));
        for t in all() {
            let worth = self.s.worth(t) * share;
            let has = &self.s.entitlement[&t.issuer];
            if *has == q(0) {
                continue;
            }
            let binds = binding.is_some_and(|b| std::ptr::eq(b, t));
            let firm = firm && (!is_soft(t) || binds);
            if t.issuer == "base" {
                let fit = if is_soft(t) { &self.fit.1 } else { &self.fit.0 };
                match firm {
                    true => out.0 += worth * fit,
                    false => out.1 += worth * fit,
                }
            } else {
                self.sum(&t.issuer, &(worth / has), firm, out);
            }
        }
    }
}

fn near(got: u64, want: &Q) -> bool {
    let want = want.to_integer();
    let slack = BigInt::from(PAGE + 64 * 1024);
    BigInt::from(got) <= &want + BigInt::from(64 * 1024) && BigInt::from(got) + slack >= want
}

fn check(w: &World) -> Result<(), TestCaseError> {
    let (r, m) = (Resource::Memory, &w.m);
    let kernel = Kernel {
        page: PAGE,
        recursive: true,
    };
    let out = protections(&w.l, kernel);
    let at = |p: &str| out.get(p).copied().unwrap_or_default();
    let below = |p: &str| {
        m.children(p)
            .iter()
            .map(|k| at(k))
            .fold(Protection::default(), |a, k| Protection {
                min: a.min + k.min,
                low: a.low + k.low,
            })
    };
    let g = m.graph(r);
    let s = g.solve();
    let paths = Paths {
        m,
        g: &g,
        s: &s,
        fit: fitting(&g, &s),
    };
    for path in m.dirs.keys() {
        let (all, below) = (at(path), below(path));
        prop_assert!(
            all.min >= below.min && all.low >= below.low,
            "{path} does not cover what is below"
        );
        prop_assert!(all.min % PAGE == 0 && all.low % PAGE == 0);
        let mut part = (q(0), q(0));
        let given = g
            .tickets
            .iter()
            .filter(|t| t.counted && t.live && t.issuer == *path && !t.holder.ends_with("/.self"));
        let given = given.fold(q(0), |a, t| a + s.worth(t));
        let has = &s.entitlement[path];
        let left = if *has > given && *has > q(0) {
            (has - &given) / has
        } else {
            q(0)
        };
        paths.sum(path, &left, true, &mut part);
        let own = (all.min - below.min, all.low - below.low);
        prop_assert!(near(own.0, &part.0), "{path}: min {own:?}, due {part:?}");
        if part.1 > q(2 * PAGE) {
            let both = &part.0 + &part.1;
            prop_assert!(near(own.1, &both), "{path}: low {own:?}, due {part:?}");
        }
    }
    let top = below("base");
    prop_assert!(
        top.min <= MEMORY / 1000 * 950 && top.low <= MEMORY / 1000 * 950,
        "{top:?}"
    );
    Ok(())
}

/// All cgroups and names, and then memory given, guaranteed and bound.
fn any_memory() -> impl Strategy<Value = Vec<Do>> {
    let root = |op| Do::Op(0, op);
    let mut start: Vec<Do> = (0..PATHS.len())
        .map(|p| Do::Mkdir(p, 100, 0, p == 7))
        .collect();
    start.extend(NAMES[..8].iter().map(|name| {
        root(Op::Create {
            cid: 0,
            name: (*name).to_owned(),
            owner: 0,
            group: 0,
            mode: 0o700,
        })
    }));
    let resource = Resource::Memory;
    let op = prop_oneof![
        3 => (any_ref(), any_ref(), 1i64..500).prop_map(move |(holder, issuer, amount)| Op::Fund {
            holder, issuer, resource, amount
        }),
        4 => (any_ref(), any_ref(), any_hard()).prop_map(move |(holder, issuer, amount)| Op::Reserve {
            holder, issuer, resource, amount
        }),
        3 => (any_name(), any_hard()).prop_map(move |(holder, amount)| Op::Reserve {
            holder, issuer: "base".to_owned(), resource, amount
        }),
        4 => (any_name(), any_path()).prop_map(|(name, path)| Op::Bind { name, path }),
    ];
    prop::collection::vec(op, 1..40).prop_map(move |ops| {
        let ops = ops.into_iter().map(root);
        start.iter().cloned().chain(ops).collect()
    })
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn protected_is_what_is_guaranteed(start in any_start(), dos in prop::collection::vec(any_do(), 1..120)) {
        check(&World::built(&start, &dos))?;
    }

    #[test]
    fn protected_is_what_is_guaranteed_of_much(memory in any_memory()) {
        check(&World::built(&memory, &[]))?;
    }
}
