// SPDX-License-Identifier: GPL-2.0-only
//! Limits of the graph, and quotas.

use crate::common::*;
use tix_ledger::{
    MAX_ANCESTOR_EDGES, MAX_BINDINGS, MAX_DEPTH, MAX_FUNDERS, MAX_GIVEN, MAX_OWNED, Part, Refusal,
};

fn too_many(d: Done) -> bool {
    matches!(d, Err(Refusal::LimitReached(_)))
}

#[test]
fn funders_and_depth() {
    let mut it = It::new();
    it.create(0, "sink").unwrap();
    for i in 0..=MAX_FUNDERS {
        let n = format!("f{i}");
        it.create(0, &n).unwrap();
        assert_eq!(too_many(it.fund(0, "sink", &n, 1)), i == MAX_FUNDERS);
    }
    let mut above = "base".to_owned();
    for i in 0..=MAX_DEPTH {
        let n = format!("d{i}");
        it.create(0, &n).unwrap();
        assert_eq!(too_many(it.fund(0, &n, &above, 1)), i == MAX_DEPTH, "{i}");
        above = n;
    }
    // From below, too: what hangs on d0 would be deeper.
    it.create(0, "top").unwrap();
    it.fund(0, "top", "base", 1).unwrap();
    assert!(too_many(it.fund(0, "d0", "top", 1)));
}

#[test]
fn a_cgroup_with_sixteen_funders_is_bound_to_no_more() {
    let mut it = It::new();
    it.mk("/j", 0);
    it.create(0, "giver").unwrap();
    it.fund(0, "giver", "base", 100).unwrap();
    for i in 1..MAX_FUNDERS {
        let n = format!("f{i}");
        it.create(0, &n).unwrap();
        it.fund(0, "/j", &n, 1).unwrap();
    }
    assert!(too_many(it.bind(0, "giver", "/j")));
    assert!(too_many(it.run(0, "run-1", "giver", 1, "/j")));
    assert!(too_many(it.nice(
        0,
        "nice-1",
        "giver",
        Part::Tickets(1),
        "/j"
    )));
}

#[test]
fn edges_above() {
    let mut it = It::new();
    // Layers of 8, each funded by all of the layer above: 64 tickets between two layers.
    let name = |layer: usize, i: usize| format!("l{layer}-{i}");
    for layer in 0..6 {
        for i in 0..8 {
            it.create(0, &name(layer, i)).unwrap();
            for above in 0..8 {
                let n = above + 1;
                let (issuer, edges) = match layer {
                    0 if above > 0 => continue,
                    0 => ("base".to_owned(), 1),
                    1 => (name(0, above), n + n),
                    _ => (name(layer - 1, above), 8 + 64 * (layer - 2) + 8 * n + n),
                };
                let done = it.fund(0, &name(layer, i), &issuer, 1);
                assert_eq!(too_many(done), edges > MAX_ANCESTOR_EDGES, "{edges}");
            }
        }
    }
}

#[test]
fn quotas() {
    let mut it = It::new();
    it.mk("/u", ALICE);
    it.mk("/v", ALICE);
    let sink = |n: usize| format!("1000/n{n}");
    for n in 0..MAX_OWNED {
        let op = tix_ledger::Op::Create {
            cid: it.l.next_cid(),
            name: format!("n{n}"),
            owner: ALICE,
            group: ALICE,
            mode: 0o700,
        };
        it.l.apply(&op, &user(ALICE)).unwrap();
    }
    assert!(too_many(it.create(ALICE, "more")));
    assert!(
        too_many(it.run(ALICE, "run-1", "/u", 1, "/v")),
        "a run is one"
    );
    it.create(BOB, "his").unwrap();
    assert!(too_many(it.chown(0, "his", Some(ALICE))), "nor by gift");
    it.destroy(ALICE, &sink(0)).unwrap();
    it.chown(0, "his", Some(ALICE)).unwrap();
    let mut given = 0;
    'all: for r in tix_ledger::Resource::ALL {
        for i in 1..4 {
            for h in 10..MAX_OWNED {
                if given == MAX_GIVEN {
                    break 'all;
                }
                let op = tix_ledger::Op::Fund {
                    holder: sink(h),
                    issuer: sink(i),
                    resource: r,
                    amount: 1,
                };
                it.l.apply(&op, &user(ALICE)).unwrap();
                given += 1;
            }
        }
    }
    it.sound();
    let [a, b, c, d, e] = [11, 4, 1, 12, 5].map(sink);
    assert!(too_many(it.fund(ALICE, &a, &b, 1)));
    it.unfund(ALICE, &a, &c, None).unwrap();
    it.fund(ALICE, &a, &b, 1).unwrap();
    // Root has none.
    it.fund(0, &d, &e, 1).unwrap();
}

#[test]
fn bindings_of_one_currency() {
    let mut it = It::new();
    it.create(0, "one").unwrap();
    for i in 0..=MAX_BINDINGS {
        let path = format!("/c{i}");
        it.mk(&path, 0);
        assert_eq!(too_many(it.bind(0, "one", &path)), i == MAX_BINDINGS);
    }
    it.bind(0, "one", "/c0").unwrap();
}

#[test]
fn names() {
    let mut it = It::new();
    let long = "x".repeat(64);
    for bad in [
        "",
        "base",
        "A",
        "1a",
        "/a",
        "a b",
        "a.service",
        "-a",
        "ä",
        "a/B",
        "a/",
        "a/b/c",
        "a//b",
        &long,
    ] {
        for uid in [0, ALICE] {
            let e = refused(it.create(uid, bad));
            assert!(matches!(e, Refusal::BadName(_)), "{bad}: {e}");
        }
    }
    it.create(0, &long[..63]).unwrap();
    it.create(0, "a-b_9").unwrap();
}
