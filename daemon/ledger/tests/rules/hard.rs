// SPDX-License-Identifier: GPL-2.0-only
//! Hard tickets (Sullivan §2.4), and memory (§4.4, model.md §4).

use crate::common::*;
use tix_ledger::{Hard, Refusal, Resource};

#[test]
fn a_hard_share_stays_what_it_is_whatever_else_is_issued() {
    // Figure 2: bob gives D 20 %, and the others share the rest by soft tickets.
    let mut it = It::new();
    it.create(BOB, "bob").unwrap();
    it.fund(0, "bob", "base", 900).unwrap();
    for n in ["c", "d", "e"] {
        it.create(BOB, n).unwrap();
    }
    it.reserve(BOB, "d", "bob", CPU, Hard::Milli(200)).unwrap();
    it.fund(BOB, "c", "bob", 100).unwrap();
    assert!(close(it.entitled("d"), 180.0) && close(it.entitled("c"), 720.0));
    it.fund(BOB, "e", "bob", 300).unwrap();
    assert!(close(it.entitled("d"), 180.0) && close(it.entitled("e"), 540.0));
    // Whatever the issuer does later: the rest alone changes.
    it.reserve(BOB, "e", "bob", CPU, Hard::Milli(700)).unwrap();
    assert!(close(it.entitled("d"), 180.0) && close(it.entitled("c"), 900.0 * 0.1 / 4.0));
}

#[test]
fn work_conserving() {
    let mut it = It::new();
    for p in ["/a", "/b", "/c"] {
        it.mk(p, 0);
        it.create(0, &p[1..]).unwrap();
        it.bind(0, &p[1..], p).unwrap();
    }
    it.create(0, "all").unwrap();
    it.fund(0, "all", "base", 100).unwrap();
    it.reserve(0, "a", "all", CPU, Hard::Milli(100)).unwrap();
    it.reserve(0, "b", "all", CPU, Hard::Milli(300)).unwrap();
    it.fund(0, "c", "all", 7).unwrap();
    let t = it.total() as f64;
    it.awake(&["/a", "/b"]);
    assert!(close(it.value("/a"), t / 4.0) && close(it.value("/b"), t * 3.0 / 4.0));
    it.awake(&["/a"]);
    assert!(close(it.value("/a"), t));
    it.awake(&["/a", "/c"]);
    assert!(close(it.value("/a"), t / 7.0), "a tenth against six tenths");
}

#[test]
fn over_issue_is_refused_with_what_is_left() {
    let mut it = It::new();
    for n in ["i", "x", "y"] {
        it.create(0, n).unwrap();
    }
    let left = |d: Done| match refused(d) {
        Refusal::TooMuch { left, asked, .. } => (asked, left),
        e => panic!("{e}"),
    };
    it.reserve(0, "x", "i", CPU, Hard::Milli(600)).unwrap();
    assert_eq!(
        left(it.reserve(0, "y", "i", CPU, Hard::Milli(400))),
        (400, 399)
    );
    it.reserve(0, "y", "i", CPU, Hard::Milli(399)).unwrap();
    // What it has is not in its own way.
    assert_eq!(
        left(it.reserve(0, "x", "i", CPU, Hard::Milli(601))),
        (601, 600)
    );
    it.reserve(0, "x", "i", CPU, Hard::Milli(1)).unwrap();
    it.reserve(0, "x", "i", CPU, Hard::Milli(600)).unwrap();
    it.unreserve(0, "x", "i", CPU).unwrap();
    it.reserve(0, "x", "i", CPU, Hard::Milli(600)).unwrap();
    // Of base at most 95 %.
    for r in [CPU, Resource::Disk, Resource::Net] {
        assert_eq!(
            left(it.reserve(0, "x", "base", r, Hard::Milli(951))),
            (951, 950)
        );
        it.reserve(0, "x", "base", r, Hard::Milli(900)).unwrap();
        assert_eq!(
            left(it.reserve(0, "y", "base", r, Hard::Milli(51))),
            (51, 50)
        );
    }
    for bad in [Hard::Milli(0), Hard::Milli(1000), Hard::Bytes(5)] {
        assert!(matches!(
            it.reserve(0, "x", "i", CPU, bad),
            Err(Refusal::BadHard(_))
        ));
    }
}

#[test]
fn what_waits_is_not_given_away_meanwhile() {
    let mut it = It::new();
    it.mk("/s", 0);
    it.create(0, "i").unwrap();
    it.create(0, "y").unwrap();
    it.reserve(0, "/s", "i", CPU, Hard::Milli(600)).unwrap();
    it.rm("/s");
    let e = refused(it.reserve(0, "y", "i", CPU, Hard::Milli(400)));
    assert!(matches!(e, Refusal::TooMuch { left: 399, .. }), "{e}");
    it.reserve(0, "y", "i", CPU, Hard::Milli(399)).unwrap();
    it.mk("/s", 0);
    // Also when the issuer was away.
    it.reserve(0, "y", "/s", CPU, Hard::Milli(900)).unwrap();
    it.rm("/s");
    it.mk("/s", 0);
    let e = refused(it.reserve(0, "i", "/s", CPU, Hard::Milli(100)));
    assert!(matches!(e, Refusal::WouldCycle { .. }), "{e}");
    it.create(0, "z").unwrap();
    let e = refused(it.reserve(0, "z", "/s", CPU, Hard::Milli(100)));
    assert!(matches!(e, Refusal::TooMuch { left: 99, .. }), "{e}");
}

#[test]
fn hard_all_the_way_is_a_fixed_part() {
    let mut it = It::new();
    it.create(0, "tier").unwrap();
    it.create(0, "db").unwrap();
    it.reserve(0, "tier", "base", CPU, Hard::Milli(500))
        .unwrap();
    it.reserve(0, "db", "tier", CPU, Hard::Milli(500)).unwrap();
    let part = |it: &It| it.entitled("db") / it.total() as f64;
    assert!(close(part(&it), 0.25));
    it.mk("/x", 0);
    it.create(0, "greedy").unwrap();
    it.fund(0, "greedy", "base", 1 << 31).unwrap();
    it.fund(0, "greedy", "tier", 1 << 31).unwrap();
    it.reserve(0, "greedy", "base", CPU, Hard::Milli(450))
        .unwrap();
    assert!(close(part(&it), 0.25));
}

#[test]
fn memory_in_parts_and_in_bytes() {
    let mut it = It::new();
    it.create(ALICE, "alice").unwrap();
    it.create(ALICE, "db").unwrap();
    it.create(ALICE, "web").unwrap();
    it.create(BOB, "bob").unwrap();
    // A part of base is bytes: 16 GiB are there.
    it.reserve(0, "alice", "base", MEM, Hard::Milli(250))
        .unwrap();
    assert_eq!(it.bytes("alice"), 4 * GIB);
    it.reserve(ALICE, "db", "alice", MEM, Hard::Bytes(GIB))
        .unwrap();
    it.reserve(ALICE, "web", "alice", MEM, Hard::Milli(500))
        .unwrap();
    let near = |a: u64, b: u64| a.abs_diff(b) < 16;
    assert!(near(it.bytes("db"), GIB) && near(it.bytes("web"), 2 * GIB));
    // 999 thousandths may be reserved.
    let e = refused(it.reserve(ALICE, "db", "alice", MEM, Hard::Bytes(2 * GIB)));
    assert!(matches!(e, Refusal::TooMuch { .. }), "{e}");
    // Soft shares have the rest.
    it.create(ALICE, "rest").unwrap();
    it.fund_of(ALICE, "rest", "alice", MEM, 5).unwrap();
    assert!(near(it.bytes("rest"), GIB));
    // At most 95 % of all.
    let most = 16 * GIB * 95 / 100 - 4 * GIB;
    it.reserve(0, "bob", "base", MEM, Hard::Bytes(most))
        .unwrap();
    let e = refused(it.reserve(0, "bob", "base", MEM, Hard::Bytes(most + 1)));
    assert!(
        matches!(e, Refusal::TooMuch { left, .. } if left == most),
        "{e}"
    );
    assert!(forbidden(it.reserve(
        ALICE,
        "alice",
        "base",
        MEM,
        Hard::Bytes(1)
    )));
    assert_eq!(it.l.unheld(), []);
}

#[test]
fn who_gave_bytes_and_shrinks_is_told() {
    let mut it = It::new();
    for n in ["alice", "db", "web"] {
        it.create(ALICE, n).unwrap();
    }
    it.reserve(0, "alice", "base", MEM, Hard::Bytes(4 * GIB))
        .unwrap();
    it.reserve(ALICE, "db", "alice", MEM, Hard::Bytes(3 * GIB))
        .unwrap();
    it.reserve(ALICE, "web", "alice", MEM, Hard::Bytes(GIB / 2))
        .unwrap();
    assert_eq!(it.l.unheld(), []);
    it.reserve(0, "alice", "base", MEM, Hard::Bytes(7 * GIB / 4))
        .unwrap();
    let unheld = it.l.unheld();
    assert_eq!(unheld.len(), 2, "{unheld:?}");
    for u in &unheld {
        // Cut alike, to half.
        assert!(u.worth.abs_diff(u.bytes / 2) < 16, "{u:?}");
        assert_eq!(Some(u.issuer), it.cid("alice"));
    }
    it.reserve(0, "alice", "base", MEM, Hard::Bytes(4 * GIB))
        .unwrap();
    assert_eq!(it.l.unheld(), []);
}

#[test]
fn another_ticket_of_the_same_issuer_does_not_hide_what_is_unheld() {
    let mut it = It::new();
    for n in ["alice", "db"] {
        it.create(ALICE, n).unwrap();
    }
    it.reserve(0, "alice", "base", MEM, Hard::Bytes(4 * GIB))
        .unwrap();
    it.reserve(ALICE, "db", "alice", MEM, Hard::Bytes(3 * GIB))
        .unwrap();
    it.fund(ALICE, "db", "alice", 5).unwrap();
    it.unfund(ALICE, "db", "alice", None).unwrap();
    it.reserve(0, "alice", "base", MEM, Hard::Bytes(GIB))
        .unwrap();
    assert_eq!(it.l.unheld().len(), 1);
}
