// SPDX-License-Identifier: GPL-2.0-only
//! What is done and taken back, and what nothing takes back.

use super::super::{Caller, Cgroup, DEFAULT_MODE};
use super::*;

fn create(ledger: &mut Ledger, name: &str) {
    let op = Op::Create {
        cid: ledger.next_cid(),
        name: name.into(),
        owner: 0,
        group: 0,
        mode: DEFAULT_MODE,
    };
    ledger.apply(&op, &Caller::ROOT).unwrap();
}

fn ticket(amount: Option<i64>) -> (Op, Op) {
    let (holder, issuer) = ("a".to_owned(), "base".to_owned());
    let resource = Resource::Cpu;
    let (h, i) = (holder.clone(), issuer.clone());
    (
        Op::Fund {
            holder,
            issuer,
            resource,
            amount: amount.unwrap_or(5),
        },
        Op::Unfund {
            holder: h,
            issuer: i,
            resource,
            amount,
        },
    )
}

fn reserve(milli: u64) -> Op {
    Op::Reserve {
        holder: "a".into(),
        issuer: "base".into(),
        resource: Resource::Cpu,
        amount: Hard::Milli(milli),
    }
}

fn limit_to(milli: i64) -> Op {
    Op::Limit {
        name: "a".into(),
        resource: Resource::Cpu,
        milli,
    }
}

/// Each is done, and taken back by what its inverse says: all is as it was.
#[test]
fn an_inverse_takes_it_back() {
    let mut ledger = Ledger::new(1, 1 << 30);
    create(&mut ledger, "a");
    let (fund, unfund) = ticket(Some(7));
    ledger.apply(&fund, &Caller::ROOT).unwrap();
    ledger.apply(&reserve(100), &Caller::ROOT).unwrap();
    ledger.apply(&limit_to(300), &Caller::ROOT).unwrap();
    let name = "a".to_owned();
    let (_, all) = ticket(None);
    let unreserve = Op::Unreserve {
        holder: name.clone(),
        issuer: "base".into(),
        resource: Resource::Cpu,
    };
    let unlimit = Op::Unlimit {
        name: name.clone(),
        resource: Resource::Cpu,
    };
    let chmod = Op::Chmod {
        name: name.clone(),
        mode: 0o777,
    };
    let chown = Op::Chown {
        name,
        owner: Some(7),
        group: None,
    };
    let ops = [
        fund,
        unfund,
        all,
        reserve(200),
        unreserve,
        limit_to(20),
        unlimit,
        chmod,
        chown,
    ];
    for op in ops {
        let before = ledger.rows();
        let inverse = op.inverse(&ledger, &Caller::ROOT).unwrap();
        ledger.apply(&op, &Caller::ROOT).unwrap();
        assert_ne!(ledger.rows(), before, "{op:?}");
        assert!(!inverse.is_empty(), "{op:?}");
        for back in inverse {
            ledger.apply(&back, &Caller::ROOT).unwrap();
        }
        assert_eq!(ledger.rows(), before, "{op:?}");
    }
}

fn cgroup(ledger: &mut Ledger, path: &str, id: u64) {
    ledger.cgroup_here(&Cgroup {
        path,
        id,
        weight: 100,
        disk: 100,
        owner: 1000,
        group: 1000,
        inner_threads: false,
    });
}

fn bind(path: &str) -> Op {
    Op::Bind {
        name: "a".into(),
        path: path.into(),
    }
}

fn unbind(path: Option<&str>) -> Op {
    Op::Unbind {
        name: "a".into(),
        path: path.map(str::to_owned),
    }
}

/// What changes nothing, and what would be too much for one turn, has none.
#[test]
fn what_has_no_inverse() {
    let mut ledger = Ledger::new(1, 1 << 30);
    create(&mut ledger, "a");
    let back = |op: Op, ledger: &Ledger| op.inverse(ledger, &Caller::ROOT);
    for (id, path) in [(7, "/x"), (8, "/y")] {
        cgroup(&mut ledger, path, id);
        assert_eq!(back(bind(path), &ledger), Ok(vec![unbind(Some(path))]));
        ledger.apply(&bind(path), &Caller::ROOT).unwrap();
        assert_eq!(back(bind(path), &ledger), Ok(vec![]));
    }
    assert_eq!(back(unbind(Some("/x")), &ledger), Ok(vec![bind("/x")]));
    let why = back(unbind(None), &ledger).unwrap_err();
    assert!(why.starts_with("a was bound to several cgroups"), "{why}");
}

/// What another gave comes back as the other's, or not at all.
#[test]
fn nothing_comes_back_as_anothers() {
    let mut ledger = Ledger::new(1, 1 << 30);
    create(&mut ledger, "a");
    let all = Op::Chmod {
        name: "a".into(),
        mode: 0o777,
    };
    ledger.apply(&all, &Caller::ROOT).unwrap();
    for (path, id) in [("/x", 7), ("/y", 8)] {
        cgroup(&mut ledger, path, id);
    }
    let (root, policy, user) = (Caller::ROOT, Caller::POLICY, Caller::user(1000));
    let of_y = |amount: Option<i64>| {
        let (fund, unfund) = ticket(amount);
        [fund, unfund].map(|op| match op {
            Op::Fund {
                resource, amount, ..
            } => Op::Fund {
                holder: "a".into(),
                issuer: "/y".into(),
                resource,
                amount,
            },
            Op::Unfund {
                resource, amount, ..
            } => Op::Unfund {
                holder: "a".into(),
                issuer: "/y".into(),
                resource,
                amount,
            },
            other => other,
        })
    };
    let unlimit = Op::Unlimit {
        name: "a".into(),
        resource: Resource::Cpu,
    };
    let ([fund, some], [_, all]) = (of_y(Some(5)), of_y(None));
    for op in [&bind("/x"), &fund, &limit_to(300)] {
        ledger.apply(op, &user).unwrap();
    }
    let others = [
        unbind(Some("/x")),
        unbind(None),
        bind("/x"),
        fund.clone(),
        all.clone(),
        limit_to(20),
        unlimit,
    ];
    for op in &others {
        let why = op.inverse(&ledger, &root).unwrap_err();
        assert!(
            why.ends_with("that uid 1000 gave would come back as root's"),
            "{op:?}: {why}"
        );
        assert!(op.inverse(&ledger, &user).is_ok(), "{op:?}");
    }
    // A part of what root gave is root's still, whoever else takes and gives it.
    ledger.apply(&all, &user).unwrap();
    ledger.apply(&fund, &policy).unwrap();
    ledger.apply(&fund, &policy).unwrap();
    assert_eq!(some.inverse(&ledger, &root), Ok(vec![fund.clone()]));
    let why = all.inverse(&ledger, &root).unwrap_err();
    assert!(why.contains("a policy gave"), "{why}");
}

#[test]
fn an_owner_is_named_who_was_one() {
    let mut ledger = Ledger::new(1, 1 << 30);
    create(&mut ledger, "a");
    cgroup(&mut ledger, "/x", 7);
    let give = |name: &str, owner: u32| Op::Chown {
        name: name.into(),
        owner: Some(owner),
        group: None,
    };
    let back = |op: &Op, ledger: &Ledger| op.inverse(ledger, &Caller::ROOT);
    assert_eq!(back(&give("a", 7), &ledger), Ok(vec![give("a", 0)]));
    // Whose a cgroup is its directory says, until somebody else has said it.
    let why = back(&give("/x", 7), &ledger).unwrap_err();
    assert!(why.contains("`tixctl chown 1000 /x`"), "{why}");
    ledger.apply(&give("/x", 7), &Caller::ROOT).unwrap();
    assert_eq!(back(&give("/x", 8), &ledger), Ok(vec![give("/x", 7)]));
    // What a user has said of a cgroup goes with it, unless root says something.
    cgroup(&mut ledger, "/y", 8);
    let permit = Op::Chmod {
        name: "/y".into(),
        mode: 0o770,
    };
    ledger.apply(&permit, &Caller::user(1000)).unwrap();
    let why = back(&permit, &ledger).unwrap_err();
    assert!(why.contains("that uid 1000 gave"), "{why}");
    assert_eq!(
        permit.inverse(&ledger, &Caller::user(1000)),
        Ok(vec![permit.clone()])
    );
}

/// What nobody holds any more goes first, and for good.
#[test]
fn what_has_lapsed_is_not_given_back() {
    let mut ledger = Ledger::new(1, 1 << 30);
    create(&mut ledger, "a");
    let (fund, some) = ticket(Some(5));
    ledger.apply(&fund, &Caller::ROOT).unwrap();
    ledger.apply(&fund, &Caller::ROOT).unwrap();
    let give = Op::Chown {
        name: "a".into(),
        owner: Some(1000),
        group: None,
    };
    ledger.apply(&give, &Caller::ROOT).unwrap();
    assert_eq!(some.inverse(&ledger, &Caller::ROOT), Ok(vec![fund.clone()]));
    ledger.apply(&some, &Caller::user(1000)).unwrap();
    assert_eq!(ledger.lapsed("a", Resource::Cpu), 5);
    let (_, all) = ticket(None);
    for op in [&fund, &some, &all] {
        let why = op.inverse(&ledger, &Caller::ROOT).unwrap_err();
        assert!(
            why.contains("had given up tickets of base"),
            "{op:?}: {why}"
        );
    }
    // Of another issuer there is nothing that has lapsed.
    let other = Op::Unfund {
        holder: "a".into(),
        issuer: "b".into(),
        resource: Resource::Cpu,
        amount: Some(5),
    };
    assert_eq!(other.inverse(&ledger, &Caller::ROOT), Ok(vec![]));
}

#[test]
fn what_sets_overrides_and_what_adds_does_not() {
    let (fund, unfund) = ticket(Some(7));
    let other = Op::Reserve {
        holder: "a".into(),
        issuer: "b".into(),
        resource: Resource::Cpu,
        amount: Hard::Milli(1),
    };
    let destroy = Op::Destroy { name: "a".into() };
    for (earlier, later, overrides) in [
        (&fund, &unfund, false),
        (&fund, &destroy, true),
        (&reserve(100), &reserve(200), true),
        (&reserve(100), &other, false),
        (&limit_to(20), &limit_to(30), true),
        (&limit_to(20), &fund, false),
        (&fund, &limit_to(20), false),
    ] {
        assert_eq!(later.overrides(earlier), overrides, "{earlier:?} {later:?}");
    }
}
