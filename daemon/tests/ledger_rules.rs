// SPDX-License-Identifier: GPL-2.0-only
//! What the ledger allows and what becomes of it, case by case.

#![allow(clippy::unwrap_used)]

use tixd::ledger::{BASE, Ledger, Op, Refusal, Resource};

#[test]
fn roots_bindings_and_grants_wait_for_their_cgroup_and_users_do_not() {
    let mut l = Ledger::new(1);
    let mk = |l: &mut Ledger, id| {
        l.cgroup_created("/s", id, 100, 1000, false);
    };
    mk(&mut l, 5);
    for (name, owner) in [("root-s", 0), ("mine", 1000)] {
        l.apply(
            &Op::Create {
                cid: l.next_cid(),
                name: name.into(),
                owner,
            },
            owner,
        )
        .unwrap();
    }
    l.apply(
        &Op::Bind {
            name: "root-s".into(),
            path: "/s".into(),
        },
        0,
    )
    .unwrap();
    l.apply(
        &Op::Fund {
            holder: "mine".into(),
            issuer: "/s".into(),
            resource: Resource::Cpu,
            amount: 7,
        },
        1000,
    )
    .unwrap();
    l.apply(
        &Op::Fund {
            holder: "/s".into(),
            issuer: "base".into(),
            resource: Resource::Cpu,
            amount: 9,
        },
        0,
    )
    .unwrap();
    assert!(l.matters("/s"));
    for op in l.wilted("/s") {
        l.apply(&op, 0).unwrap();
    }
    l.cgroup_removed("/s");
    mk(&mut l, 6);
    let s = l.get(l.find("/s").unwrap()).unwrap();
    assert_eq!(s.bound_to, l.find("root-s"));
    assert_eq!(
        s.grants(Resource::Cpu)
            .iter()
            .map(|g| (g.issuer, g.amount))
            .collect::<Vec<_>>(),
        [(BASE, 9)]
    );
    assert!(
        l.get(l.find("mine").unwrap())
            .unwrap()
            .grants(Resource::Cpu)
            .is_empty()
    );
}

/// alice's slice beside bob's, and a currency of hers for it.
fn alice_and_bob() -> Ledger {
    let mut l = Ledger::new(1);
    for (path, id, owner) in [
        ("/u", 4, 0),
        ("/u/a", 5, 1000),
        ("/u/b", 6, 1001),
        ("/u/a/j", 7, 1000),
        ("/u/a/k", 8, 1000),
    ] {
        l.cgroup_created(path, id, 100, owner, false);
    }
    l.apply(
        &Op::Create {
            cid: l.next_cid(),
            name: "hers".into(),
            owner: 1000,
        },
        1000,
    )
    .unwrap();
    l
}

fn entitled(l: &Ledger, path: &str) -> f64 {
    let v = l.values(Resource::Cpu, &|_| true);
    tixd::ledger::fraction(v.entitlement[&l.find(path).unwrap()], v.total)
}

#[test]
fn a_ticket_that_a_binding_replaces_counts_only_if_the_binder_could_not_withdraw_it() {
    let bind = |path: &str| Op::Bind {
        name: "hers".into(),
        path: path.into(),
    };
    let unbind = Op::Unbind {
        name: "hers".into(),
        path: None,
    };
    // Base has issued 100 to its own threads and 100 to /u.
    let (mut root, mut alice) = (alice_and_bob(), alice_and_bob());
    assert_eq!(entitled(&root, "/u/b"), 0.25);
    root.apply(&bind("/u/a"), 0).unwrap();
    assert_eq!(
        entitled(&root, "/u/b"),
        0.5,
        "root took alice's ticket away"
    );
    alice.apply(&bind("/u/a"), 1000).unwrap();
    assert_eq!(entitled(&alice, "/u/b"), 0.25, "she may take it up again");
    alice.apply(&unbind, 1000).unwrap();
    assert_eq!(entitled(&alice, "/u/b"), 0.25);
    // Below what is hers she gives and takes as she likes.
    alice.apply(&bind("/u/a/j"), 1000).unwrap();
    assert_eq!(entitled(&alice, "/u/a/k"), 0.25);
    assert_eq!(alice.base_tickets(Resource::Cpu), 200);
    root.apply(&bind("/u"), 0).unwrap();
    assert_eq!(
        root.base_tickets(Resource::Cpu),
        1,
        "base has issued nothing any more"
    );
}

#[test]
fn what_root_bound_only_root_unbinds() {
    let bind = Op::Bind {
        name: "hers".into(),
        path: "/u/a".into(),
    };
    let unbind = Op::Unbind {
        name: "hers".into(),
        path: None,
    };
    let destroy = Op::Destroy {
        name: "hers".into(),
    };
    let mut l = alice_and_bob();
    l.apply(&bind, 0).unwrap();
    // Binding it again herself makes it no more hers.
    l.apply(&bind, 1000).unwrap();
    for op in [&unbind, &destroy] {
        assert!(
            matches!(l.check(op, 1000), Err(Refusal::NotPermitted { .. })),
            "{op:?}"
        );
    }
    l.apply(&unbind, 0).unwrap();
    l.apply(&bind, 1000).unwrap();
    l.apply(&unbind, 1000).unwrap();
    l.apply(&destroy, 1000).unwrap();
}

#[test]
fn a_run_goes_with_its_cgroup() {
    let mut l = Ledger::new(1);
    l.cgroup_created("/j", 5, 100, 1000, false);
    l.cgroup_created("/u", 6, 100, 1000, false);
    let run = Op::Run {
        cid: l.next_cid(),
        name: "run-1".into(),
        owner: 1000,
        issuer: "/u".into(),
        amount: 50,
        path: "/j".into(),
    };
    l.apply(&run, 1000).unwrap();
    assert_eq!(
        l.get(l.find("/j").unwrap()).unwrap().bound_to,
        l.find("run-1")
    );
    for op in l.wilted("/j") {
        l.apply(&op, 0).unwrap();
    }
    l.cgroup_removed("/j");
    assert_eq!(l.find("run-1"), None);
}

#[test]
fn limits() {
    let mut l = Ledger::new(1);
    let create = |l: &mut Ledger, n: &str| {
        l.apply(
            &Op::Create {
                cid: l.next_cid(),
                name: n.into(),
                owner: 0,
            },
            0,
        )
        .unwrap()
    };
    let fund = |l: &mut Ledger, h: &str, i: &str| {
        l.apply(
            &Op::Fund {
                holder: h.into(),
                issuer: i.into(),
                resource: Resource::Cpu,
                amount: 1,
            },
            0,
        )
    };
    create(&mut l, "sink");
    for i in 0..17 {
        let n = format!("f{i}");
        create(&mut l, &n);
        let done = fund(&mut l, "sink", &n);
        assert_eq!(done.is_ok(), i < 16, "funder {i}: {done:?}");
    }
    let mut above = "base".to_owned();
    for i in 0..33 {
        let n = format!("d{i}");
        create(&mut l, &n);
        let done = fund(&mut l, &n, &above);
        assert_eq!(done.is_ok(), i < 32, "depth {}: {done:?}", i + 1);
        above = n;
    }
    for bad in [
        "",
        "base",
        "A",
        "1a",
        "/a",
        "a b",
        "a.service",
        &"x".repeat(64),
    ] {
        assert!(
            matches!(
                l.check(
                    &Op::Create {
                        cid: 99,
                        name: bad.into(),
                        owner: 0
                    },
                    0
                ),
                Err(Refusal::BadName(_))
            ),
            "{bad}"
        );
    }
}
