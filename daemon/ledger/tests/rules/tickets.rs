// SPDX-License-Identifier: GPL-2.0-only
//! Soft tickets: given, given up, withdrawn.

use crate::common::*;
use tix_ledger::{Op, Refusal};

/// Two users funded by base with 100 each; /u has 100 and base's own threads have 100.
fn funded() -> It {
    let mut it = alice_and_bob();
    it.fund(0, "hers", "base", 100).unwrap();
    it.fund(0, "his", "base", 100).unwrap();
    assert_eq!(it.total(), 400);
    it
}

#[test]
fn given_up_base_tickets_count_until_root_withdraws_them() {
    let mut it = funded();
    it.unfund(ALICE, "hers", "base", Some(40)).unwrap();
    assert_eq!((it.total(), it.holds("hers", "base")), (400, 60));
    assert_eq!(it.lapsed("hers"), 40);
    assert_eq!(it.entitled("his"), 100.0, "she gains nobody anything");
    assert!(forbidden(it.unfund(BOB, "hers", "base", Some(1))));
    // She cannot take them up again.
    assert!(forbidden(it.fund(ALICE, "hers", "base", 1)));
    it.unfund(0, "hers", "base", Some(30)).unwrap();
    assert_eq!(
        (it.total(), it.holds("hers", "base"), it.lapsed("hers")),
        (370, 60, 10)
    );
    // First what nobody holds, then what she holds.
    it.unfund(0, "hers", "base", Some(20)).unwrap();
    assert_eq!(
        (it.total(), it.holds("hers", "base"), it.lapsed("hers")),
        (350, 50, 0)
    );
    it.unfund(0, "hers", "base", Some(50)).unwrap();
    let e = refused(it.unfund(0, "hers", "base", None));
    assert!(matches!(e, Refusal::NotFunded { .. }), "{e}");
}

#[test]
fn what_a_destroyed_currency_had_of_base_lapses_unless_root_destroys_it() {
    let mut it = funded();
    it.destroy(ALICE, "hers").unwrap();
    assert_eq!((it.total(), it.lapsed("hers")), (400, 100));
    // Another of that name has nothing to do with it.
    it.create(ALICE, "hers").unwrap();
    assert_eq!(it.entitled("hers"), 0.0);
    it.destroy(ALICE, "hers").unwrap();
    assert_eq!(it.total(), 400);
    let e = refused(it.unfund(0, "hers", "base", Some(101)));
    assert!(matches!(e, Refusal::TooFew { has: 100, .. }), "{e}");
    it.unfund(0, "hers", "base", None).unwrap();
    assert_eq!(it.total(), 300);
    it.destroy(0, "his").unwrap();
    assert_eq!(it.total(), 200);
}

#[test]
fn the_last_base_ticket_given_up_takes_nothing_from_t() {
    let mut it = It::new();
    it.create(ALICE, "hers").unwrap();
    it.fund(0, "hers", "base", 5).unwrap();
    assert_eq!(it.total(), 105);
    it.unfund(ALICE, "hers", "base", None).unwrap();
    assert_eq!(it.total(), 105);
}

#[test]
fn who_removes_a_cgroup_changes_nobodys_part() {
    let mut it = funded();
    it.fund(0, "/u/a/j", "base", 50).unwrap();
    let before = (it.total(), it.entitled("his"), it.entitled("/u/b"));
    it.rm("/u/a/j");
    assert_eq!(
        (it.total(), it.entitled("his"), it.entitled("/u/b")),
        before
    );
    it.mk("/u/a/j", ALICE);
    assert_eq!(
        (it.total(), it.entitled("his"), it.entitled("/u/b")),
        before
    );
    // A currency that goes with its cgroup leaves what base gave it.
    it.run(ALICE, "run-1", "/u/a", 5, "/u/a/k").unwrap();
    it.fund(0, "run-1", "base", 20).unwrap();
    let t = it.total();
    it.rm("/u/a/k");
    assert_eq!((it.total(), it.lapsed("run-1")), (t, 20));
}

#[test]
fn amounts() {
    let mut it = funded();
    for n in [0, -1, i64::MIN, i64::MAX, (1 << 31) + 1, 1 << 31] {
        let e = refused(it.fund(0, "hers", "base", n));
        assert!(matches!(e, Refusal::BadAmount(_)), "{n}: {e}");
    }
    it.fund(0, "hers", "base", (1 << 31) - 100).unwrap();
    let e = refused(
        it.unfund(0, "hers", "base", Some(1 << 31))
            .and(it.unfund(0, "hers", "base", None)),
    );
    assert!(matches!(e, Refusal::NotFunded { .. }), "{e}");
    it.fund(0, "hers", "base", 3).unwrap();
    let e = refused(it.unfund(0, "hers", "base", Some(4)));
    assert!(
        matches!(
            e,
            Refusal::TooFew {
                has: 3,
                asked: 4,
                ..
            }
        ),
        "{e}"
    );
}

/// Sullivan §3.2: a user's jobs all give their tickets' worth to one of them, or to the user's
/// currency: nobody else has less.
#[test]
fn children_that_give_their_parent_everything_take_nothing_from_others() {
    let mut it = alice_and_bob();
    let others = |it: &It| (it.entitled("/u/b"), it.entitled("/u/b/j"));
    let before = others(&it);
    // Their own parent's currency would be a cycle.
    for child in ["/u/a/j", "/u/a/k"] {
        let e = refused(it.fund(ALICE, "/u/a", child, 1 << 31));
        assert!(matches!(e, Refusal::WouldCycle { .. }), "{e}");
    }
    // A further currency that funds her slice by all she has is one, too, once it is funded by the
    // slice.
    it.fund(ALICE, "hers", "/u/a/j", 1 << 31).unwrap();
    it.fund(ALICE, "hers", "/u/a/k", 1 << 31).unwrap();
    let e = refused(it.bind(ALICE, "hers", "/u/a"));
    assert!(matches!(e, Refusal::WouldCycle { .. }), "{e}");
    assert!(forbidden(it.fund(ALICE, "/u/b/j", "hers", 1)));
    // All to one job of hers: it has at most what she has.
    it.mk("/u/a/l", ALICE);
    it.bind(ALICE, "hers", "/u/a/l").unwrap();
    assert_eq!(others(&it), before);
    let hers: f64 = ["/u/a/j", "/u/a/k"].iter().map(|n| it.entitled(n)).sum();
    assert!(it.entitled("/u/a/l") <= hers && hers <= it.entitled("/u/a") + 1e-9);
    it.awake(&["/u/a/l", "/u/b/j"]);
    assert!(close(it.value("/u/a"), it.value("/u/b")), "one against one");
}

#[test]
fn a_number_or_a_name_is_given_once() {
    let mut it = alice_and_bob();
    let cid = it.cid("his").unwrap();
    let op = Op::Create {
        cid,
        name: "other".to_owned(),
        owner: ALICE,
        group: ALICE,
        mode: 0o700,
    };
    assert!(matches!(it.does(ALICE, op), Err(Refusal::AlreadyExists(_))));
    assert!(matches!(
        it.create(BOB, "his"),
        Err(Refusal::AlreadyExists(_))
    ));
    let e = refused(it.destroy(0, "/u"));
    assert!(matches!(e, Refusal::NotNamed(..)), "{e}");
}
