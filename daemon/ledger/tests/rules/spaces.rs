// SPDX-License-Identifier: GPL-2.0-only
//! Whose names are whose: what a user makes is called by the user's space, and nobody adopts what
//! somebody else has made.

use crate::common::*;
use std::collections::BTreeMap;
use tix_ledger::{
    Caller, End, EndedLeg, Key, Kind, Ledger, Op, Part, Refusal, Renamed, Resource, Row, TIXD,
    Withdrawn,
};

const CAROL: u32 = 1002;

fn create(name: &str, cid: u64, owner: u32) -> Op {
    Op::Create {
        cid,
        name: name.to_owned(),
        owner,
        group: owner,
        mode: 0o700,
    }
}

/// `uid`, whom the users' database calls `user`, creates `name`.
fn creates(l: &mut Ledger, uid: u32, user: Option<&str>, name: &str) -> Result<String, Refusal> {
    let caller = Caller {
        user: user.map(str::to_owned),
        ..Caller::user(uid)
    };
    let cid = l.next_cid();
    l.apply(&create(name, cid, uid), &caller)?;
    assert_eq!(l.verify(), Vec::<String>::new());
    Ok(l.name(cid))
}

fn other_space(done: Result<String, Refusal>) -> String {
    match done {
        Err(e @ Refusal::OtherSpace { .. }) => e.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Names that tixd, the ready-made policies or somebody's habits rely on.
const COVETED: [&str; 9] = [
    "lifeline",
    "users",
    "user-1001",
    "gold",
    "alice",
    "bob",
    "run-0",
    "run-1",
    "nice-1",
];

#[test]
fn a_name_that_is_taken_first_is_nobody_elses() {
    let mut it = It::new();
    it.mk("/hers", ALICE);
    it.mk("/his", BOB);
    it.create(0, "mine").unwrap();
    it.fund(0, "mine", "base", 100).unwrap();
    for name in COVETED {
        let hers = format!("{ALICE}/{name}");
        it.create(ALICE, name).unwrap();
        // She has given its tickets away before it is anybody's.
        it.fund(ALICE, "/hers", &hers, 1000).unwrap();
        assert_eq!(it.l.find(name), None, "{name}");
        let refused = it.l.apply(
            &Op::Fund {
                holder: name.to_owned(),
                issuer: "base".to_owned(),
                resource: CPU,
                amount: 600,
            },
            &Caller::POLICY,
        );
        assert!(matches!(refused, Err(Refusal::NoSuchCurrency(_))), "{name}");
        // The user who is meant to have it has another one, which owes nothing to anybody.
        let cid = it.l.next_cid();
        it.does(0, create(name, cid, 0)).unwrap();
        it.does(
            0,
            Op::Fund {
                holder: name.to_owned(),
                issuer: "base".to_owned(),
                resource: CPU,
                amount: 600,
            },
        )
        .unwrap();
        let plain = it.l.find(name).unwrap();
        assert_eq!((it.l.name(plain).as_str(), plain), (name, cid));
        assert_eq!(it.l.get(plain).unwrap().issued(CPU).0.count, 0, "{name}");
        assert!(close(it.entitled(&hers), 0.0), "{name}");
        assert!(close(it.entitled("/hers"), 100.0), "{name}");
        it.destroy(0, name).unwrap();
    }
}

#[test]
fn everybody_may_have_a_currency_of_one_name() {
    let mut it = It::new();
    for (uid, full) in [(ALICE, "1000/gold"), (BOB, "1001/gold"), (0, "gold")] {
        it.create(uid, "gold").unwrap();
        assert!(it.l.find(full).is_some(), "{full}");
        let again = refused(it.create(uid, "gold"));
        assert_eq!(again, Refusal::AlreadyExists(full.to_owned()));
    }
    let meant = |uid, name: &str| it.l.meant(name, uid);
    for (uid, name, full) in [
        (ALICE, "gold", Some("1000/gold")),
        (BOB, "gold", Some("1001/gold")),
        (CAROL, "gold", Some("gold")),
        (0, "gold", Some("gold")),
        (BOB, "1000/gold", Some("1000/gold")),
        (0, "1000/gold", Some("1000/gold")),
        (ALICE, "01000/gold", None),
        (ALICE, "1002/gold", None),
        (ALICE, "/gold", None),
        (ALICE, "1000/", None),
        (ALICE, "/", Some("/")),
        (ALICE, "base", Some("base")),
    ] {
        assert_eq!(meant(uid, name).as_deref(), full, "{uid} {name}");
    }
    it.destroy(ALICE, "1000/gold").unwrap();
    assert_eq!(it.l.meant("gold", ALICE).as_deref(), Some("gold"));
    it.destroy(0, "gold").unwrap();
    assert_eq!(it.l.meant("gold", ALICE), None);
    assert_eq!(it.l.meant_or_gone("gold", ALICE), "1000/gold");
    assert_eq!(it.l.meant_or_gone("gold", CAROL), "gold");
}

#[test]
fn a_label_is_the_users_name_unless_it_is_not_to_be_had_and_stays() {
    let l = &mut Ledger::new(1, GIB);
    let long = "a".repeat(33);
    for (uid, user, name, full) in [
        (ALICE, Some("alice"), "a", "alice/a"),
        // Called otherwise now, or not known any more: the label is what it was.
        (ALICE, Some("anne"), "b", "alice/b"),
        (ALICE, None, "c", "alice/c"),
        // Another uid has the name now.
        (BOB, Some("alice"), "a", "1001/a"),
        (BOB, Some("bob"), "b", "1001/b"),
        (CAROL, None, "a", "1002/a"),
        (1003, Some("root"), "a", "1003/a"),
        (1004, Some("1000"), "a", "1004/a"),
        (1005, Some("Alice"), "a", "1005/a"),
        (1006, Some("../a"), "a", "1006/a"),
        (1007, Some("a b"), "a", "1007/a"),
        (1008, Some(&long), "a", "1008/a"),
        (1009, Some(""), "a", "1009/a"),
        (1010, Some("a.b-c_d"), "a", "a.b-c_d/a"),
        // In full, by the label or by the number.
        (ALICE, None, "alice/d", "alice/d"),
        (ALICE, None, "1000/e", "alice/e"),
        (1011, Some("dave"), "dave/a", "dave/a"),
    ] {
        assert_eq!(
            creates(l, uid, user, name).as_deref(),
            Ok(full),
            "{uid} {name}"
        );
    }
    assert_eq!(l.meant("1000/a", CAROL).as_deref(), Some("alice/a"));
    assert_eq!(l.meant("alice/a", CAROL).as_deref(), Some("alice/a"));
    // A label is kept when all that it labelled is gone.
    let name = "alice/a".to_owned();
    for name in ["alice/b", "alice/c", "alice/d", "alice/e"] {
        let op = Op::Destroy {
            name: name.to_owned(),
        };
        l.apply(&op, &Caller::ROOT).unwrap();
    }
    l.apply(&Op::Destroy { name }, &Caller::ROOT).unwrap();
    assert_eq!(l.label(ALICE), Some("alice"));
    assert_eq!(
        creates(l, 1012, Some("alice"), "a").as_deref(),
        Ok("1012/a")
    );
}

#[test]
fn nobody_makes_anything_in_anothers_space() {
    let l = &mut Ledger::new(1, GIB);
    creates(l, ALICE, Some("alice"), "gold").unwrap();
    creates(l, BOB, Some("bob"), "gold").unwrap();
    let before = l.rows();
    for name in ["bob/x", "1001/x", "carol/x", "1002/x", "root/x", "0/x"] {
        let why = other_space(creates(l, ALICE, Some("alice"), name));
        assert!(why.contains(name) && why.contains("alice/NAME"), "{why}");
    }
    // Nor who is to have a first currency, nor root.
    for name in ["alice/x", "1000/x", "bob/x"] {
        other_space(creates(l, CAROL, Some("carol"), name));
        other_space(creates(l, 0, None, name));
    }
    // What is refused has opened no space.
    assert!(matches!(
        creates(l, CAROL, Some("carol"), "Not A Name"),
        Err(Refusal::BadName(_))
    ));
    let for_bob = create("x", l.next_cid(), BOB);
    assert!(l.apply(&for_bob, &Caller::user(CAROL)).is_err());
    assert_eq!(l.rows(), before);
    assert_eq!(l.label(CAROL), None);
}

#[test]
fn the_space_is_the_makers_and_another_owner_renames_nothing() {
    let mut it = It::new();
    it.create(ALICE, "gold").unwrap();
    it.chown(0, "1000/gold", Some(BOB)).unwrap();
    assert_eq!(
        it.l.get(it.l.find("1000/gold").unwrap()).unwrap().owner,
        BOB
    );
    it.create(BOB, "gold").unwrap();
    assert_eq!(it.l.meant("gold", BOB).as_deref(), Some("1001/gold"));
    // What root has made for alice is plain, and she says it plainly.
    let cid = it.l.next_cid();
    it.does(0, create("hers", cid, ALICE)).unwrap();
    assert_eq!(it.l.name(cid), "hers");
    assert_eq!(it.l.meant("hers", ALICE).as_deref(), Some("hers"));
}

#[test]
fn a_job_is_in_the_space_of_who_runs_it() {
    let mut it = alice_and_bob();
    it.fund(0, "/u/a", "base", 100).unwrap();
    it.run(ALICE, "web", "/u/a", 10, "/u/a/j").unwrap();
    it.nice(ALICE, "less", "/u/a", Part::Tickets(1), "/u/a/k")
        .unwrap();
    it.mk("/s", 0);
    it.run(0, "web", "base", 10, "/s").unwrap();
    for name in ["1000/web", "1000/less", "web"] {
        assert!(it.l.find(name).is_some(), "{name}");
    }
    let cgroup = |path: &str| it.l.get(it.l.find(path).unwrap()).unwrap();
    assert_eq!(cgroup("/u/a/j").bound_to, it.l.find("1000/web"));
    assert_eq!(cgroup("/s").bound_to, it.l.find("web"));
}

#[test]
fn a_base_ticket_that_lapsed_in_a_space_is_not_a_plain_currencys() {
    let mut it = It::new();
    it.create(ALICE, "gold").unwrap();
    it.fund(0, "1000/gold", "base", 100).unwrap();
    it.destroy(ALICE, "1000/gold").unwrap();
    assert_eq!(it.l.lapsed("1000/gold", CPU), 100);
    let cid = it.l.next_cid();
    it.does(0, create("gold", cid, 0)).unwrap();
    it.does(
        0,
        Op::Fund {
            holder: "gold".to_owned(),
            issuer: "base".to_owned(),
            resource: CPU,
            amount: 600,
        },
    )
    .unwrap();
    it.does(
        0,
        Op::Unfund {
            holder: "gold".to_owned(),
            issuer: "base".to_owned(),
            resource: CPU,
            amount: Some(100),
        },
    )
    .unwrap();
    assert_eq!(it.holds("gold", "base"), 500);
    assert_eq!(it.l.lapsed("1000/gold", CPU), 100);
}

/// As it was kept when all names were plain.
fn old_rows() -> Vec<(Key, Row)> {
    let currency = |cid, name: &str, owner, by| {
        let row = Row::Currency {
            name: name.to_owned(),
            owner,
            group: owner,
            mode: 0o700,
            transient: None,
            by,
        };
        (Key::Currency(cid), row)
    };
    let ticket = |issuer, holder, amount, by| {
        let key = Key::Ticket {
            issuer: End::Cid(issuer),
            holder,
            resource: CPU,
            kind: Kind::Soft,
        };
        let row = Row::Ticket {
            amount,
            bytes: false,
            by,
        };
        (key, row)
    };
    let leg = |name: &str, amount| EndedLeg {
        name: name.to_owned(),
        resource: CPU,
        amount,
    };
    let hers = End::Path("/hers".to_owned());
    vec![
        currency(1, "gold", ALICE, ALICE),
        currency(2, "lifeline", BOB, BOB),
        currency(3, "alice", ALICE, 0),
        currency(4, "users", 0, tix_ledger::POLICY),
        // Given away by root since.
        currency(5, "silver", CAROL, ALICE),
        (
            Key::Binding("/hers".to_owned()),
            Row::Binding {
                cid: 1,
                by: ALICE,
                withdrawn: Withdrawn::Nothing,
            },
        ),
        ticket(0, End::Cid(1), 300, 0),
        ticket(1, hers, 50, ALICE),
        ticket(0, End::Cid(4), 600, tix_ledger::POLICY),
        (
            Key::Lapsed("gold".to_owned(), CPU),
            Row::Lapsed { amount: 7 },
        ),
        (
            Key::Lapsed("users".to_owned(), CPU),
            Row::Lapsed { amount: 8 },
        ),
        (
            Key::Ended(1),
            Row::Ended {
                legs: vec![leg("gold", -5), leg("users", 5)],
                why: "it was cancelled".to_owned(),
            },
        ),
        (
            Key::Limit(End::Cid(1), CPU),
            Row::Limit {
                milli: 500,
                by: ALICE,
            },
        ),
    ]
}

#[test]
fn what_users_made_before_moves_into_their_spaces() {
    let anew = || {
        let mut it = It::new();
        it.l.number_from(6, 2);
        it.mk("/hers", ALICE);
        it
    };
    let mut it = anew();
    it.l.load(old_rows());
    it.l.settle();
    assert!(!it.l.verify().is_empty(), "plain names of users are wrong");
    let makers: Vec<u32> = it.l.without_space().into_iter().collect();
    assert_eq!(makers, [ALICE, BOB]);
    let entitled =
        |it: &It| Resource::ALL.map(|r| (1..6).map(|c| it.l.entitlement(c, r)).collect::<Vec<_>>());
    let (before, total) = (entitled(&it), it.total());
    // Two uids of one name: the first has it.
    let users = BTreeMap::from([(ALICE, "alice".to_owned()), (BOB, "alice".to_owned())]);
    let mark = it.l.mark();
    let renamed = it.l.move_into_spaces(&users, &["lifeline"]);
    let moved = |was: &str, name: &str, maker, owner| Renamed {
        was: was.to_owned(),
        name: name.to_owned(),
        maker,
        owner,
        events: vec![],
    };
    assert_eq!(
        renamed,
        [
            moved("gold", "alice/gold", ALICE, ALICE),
            moved("lifeline", "1001/lifeline", BOB, BOB),
            moved("silver", "alice/silver", ALICE, CAROL),
        ]
    );
    it.sound();
    let names: Vec<String> = (1..6).map(|c| it.l.name(c)).collect();
    assert_eq!(
        names,
        [
            "alice/gold",
            "1001/lifeline",
            "alice",
            "users",
            "alice/silver"
        ]
    );
    for free in ["gold", "lifeline", "silver"] {
        assert_eq!(it.l.find(free), None);
    }
    assert_eq!((entitled(&it), it.total()), (before, total));
    let lapsed: Vec<_> =
        it.l.all_lapsed()
            .map(|(n, _, a)| (n.to_owned(), a))
            .collect();
    assert_eq!(
        lapsed,
        [("alice/gold".to_owned(), 7), ("users".to_owned(), 8)]
    );
    let legs = &it.l.ended_one(1).unwrap().legs;
    let legs: Vec<&str> = legs.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(legs, ["alice/gold", "users"]);
    // What is kept of it, read again, is the same, and nothing is left to do.
    let mut again = anew();
    let mut rows: BTreeMap<Key, Row> = old_rows().into_iter().collect();
    for (key, row) in it.l.changes() {
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }
    again.l.load(rows);
    again.sound();
    assert_eq!(again.l.rows(), it.l.rows());
    assert!(again.l.without_space().is_empty());
    assert!(
        again
            .l
            .move_into_spaces(&BTreeMap::new(), &["lifeline"])
            .is_empty()
    );
    // If it cannot be kept, all is as before.
    it.l.undo(mark);
    let mut old = anew();
    old.l.load(old_rows());
    assert_eq!(it.l.rows(), old.l.rows());
    assert_eq!(it.l.find("gold"), Some(1));
}

/// Alice came first, and a policy and tixd took hers for their own: that is over, and what root
/// gave her in person she keeps.
#[test]
fn what_was_given_to_a_name_does_not_move_with_it() {
    let mut it = It::new();
    it.l.number_from(6, 2);
    for path in ["/hers", "/bobs", "/init.scope"] {
        it.mk(path, 0);
    }
    let before = it.total();
    it.l.load(old_rows());
    let grant = |issuer, cid, resource, kind, amount, by| {
        let key = Key::Ticket {
            issuer,
            holder: End::Cid(cid),
            resource,
            kind,
        };
        let row = Row::Ticket {
            amount,
            bytes: false,
            by,
        };
        (key, row)
    };
    let bound = |path: &str, cid, by| {
        let row = Row::Binding {
            cid,
            by,
            withdrawn: Withdrawn::Cpu,
        };
        (Key::Binding(path.to_owned()), row)
    };
    let (base, gone) = (|| End::Cid(0), || End::Path("/gone".to_owned()));
    let policy = tix_ledger::POLICY;
    it.l.load([
        bound("/bobs", 1, policy),
        bound("/init.scope", 2, 0),
        bound("/not-there", 1, policy),
        // Beside root's 300.
        grant(End::Cid(4), 1, CPU, Kind::Soft, 100, policy),
        grant(base(), 1, CPU, Kind::Hard, 750, policy),
        grant(base(), 1, Resource::Disk, Kind::Soft, 600, policy),
        grant(gone(), 1, CPU, Kind::Soft, 5, policy),
        grant(base(), 2, CPU, Kind::Soft, 50, 0),
        grant(base(), 5, CPU, Kind::Soft, 20, 0),
    ]);
    it.l.settle();
    let renamed = it.l.move_into_spaces(&BTreeMap::new(), &["lifeline"]);
    it.sound();
    let taken: Vec<usize> = renamed.iter().map(|r| r.events.len()).collect();
    assert_eq!(taken, [5, 2, 0], "{renamed:?}");
    let grants = |name: &str| {
        let c = it.l.get(it.l.find(name).unwrap()).unwrap();
        let all = Resource::ALL.iter().flat_map(|r| c.grants(*r));
        all.map(|g| (g.amount, g.by)).collect::<Vec<_>>()
    };
    assert_eq!(grants("1000/gold"), [(300, 0)]);
    assert_eq!(grants("1001/lifeline"), []);
    assert_eq!(grants("1000/silver"), [(20, 0)]);
    let bindings: Vec<&str> = it.l.bindings().map(|(path, _)| path).collect();
    assert_eq!(bindings, ["/hers"]);
    assert_eq!(it.l.waiting(), 0);
    // 300 and 20 of root's, 600 of the policy's for users, and 15 that have lapsed.
    assert_eq!(it.total(), before + 300 + 20 + 600 + 15);
}

#[test]
fn a_document_takes_no_label_and_makes_no_plain_name_of_a_users() {
    let mut it = It::new();
    creates(&mut it.l, ALICE, Some("alice"), "gold").unwrap();
    let space = |uid, label: &str| {
        let label = label.to_owned();
        (Key::Space(uid), Some(Row::Space { label }))
    };
    let currency = |name: &str, by| {
        let row = Row::Currency {
            name: name.to_owned(),
            owner: ALICE,
            group: ALICE,
            mode: 0o700,
            transient: None,
            by,
        };
        (Key::Currency(77), Some(row))
    };
    for bad in [
        vec![space(BOB, "alice")],
        vec![space(ALICE, "anne")],
        vec![space(BOB, "1000")],
        vec![space(BOB, "Not A Label")],
        vec![space(0, "bob")],
        vec![currency("silver", ALICE)],
        vec![currency("bob/silver", ALICE)],
        vec![currency("alice/silver", BOB)],
        vec![currency("alice/silver", 0)],
        vec![currency("silver", TIXD)],
    ] {
        let before = it.l.rows();
        assert!(it.l.restore(&bad).is_err(), "{bad:?}");
        assert_eq!(it.l.rows(), before);
    }
    it.l.restore(&[space(BOB, "bob"), currency("alice/silver", ALICE)])
        .unwrap();
    it.sound();
    // What a document does not say of spaces stays.
    let changes = it.l.difference(&BTreeMap::new());
    assert!(changes.iter().all(|(k, _)| !matches!(k, Key::Space(_))));
}
