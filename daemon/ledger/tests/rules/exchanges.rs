// SPDX-License-Identifier: GPL-2.0-only
//! Exchange tickets: `nice` (Sullivan §3.3, §3.4, §4.6) under the rules of model.md §5.

use crate::common::*;
use tix_ledger::{Event, Hard, Part, Refusal, Resource};

const NAMES: [&str; 4] = ["/u/a", "/u/a/j", "/u/a/k", "/u/b"];

/// What the entitlements of alice's and of bob's jobs sum to.
fn sums(it: &It) -> (f64, f64) {
    let hers = ["/u/a/j", "/u/a/k"].iter().map(|n| it.entitled(n)).sum();
    let his = ["/u/b/j", "/u/b/k"].iter().map(|n| it.entitled(n)).sum();
    (hers, his)
}

fn revoked(events: &[Event]) -> Vec<u64> {
    let of = |e: &Event| match e {
        Event::Exchanged {
            id,
            revoked: Some(_),
            ..
        } => Some(*id),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn rights_are_what_they_were_at_every_moment_and_come_back() {
    let mut it = alice_and_bob();
    let before: Vec<f64> = NAMES.iter().map(|n| it.entitled(n)).collect();
    let (hers, his) = sums(&it);
    it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(10), "/u/a/j")
        .unwrap();
    assert!(close(it.entitled("/u/a/j"), 10.0));
    let now = sums(&it);
    assert!(close(now.0, hers) && close(now.1, his), "{now:?}");
    assert!(close(it.entitled("/u/a"), 40.0));
    assert_eq!(it.total(), 200);
    it.nice(ALICE, "nice-2", "/u/a", Part::Milli(500), "/u/a/k")
        .unwrap();
    assert!(close(it.entitled("nice-2"), 20.0));
    it.rm("/u/a/k");
    assert_eq!(it.cid("nice-2"), None);
    it.rm("/u/a/j");
    assert_eq!(it.l.exchanges().count(), 0);
    it.mk("/u/a/j", ALICE);
    it.mk("/u/a/k", ALICE);
    let after: Vec<f64> = NAMES.iter().map(|n| it.entitled(n)).collect();
    assert_eq!(after, before);
}

#[test]
fn too_much_is_refused() {
    let mut it = alice_and_bob();
    let e = refused(it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(51), "/u/a/j"));
    assert!(
        matches!(
            e,
            Refusal::TooLittle {
                has: 50,
                asked: 51,
                ..
            }
        ),
        "{e}"
    );
    it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(30), "/u/a/j")
        .unwrap();
    // What came by an exchange cannot be given away again.
    let e = refused(it.nice(ALICE, "nice-2", "nice-1", Part::Tickets(1), "/u/a/k"));
    assert!(matches!(e, Refusal::TooLittle { .. }), "{e}");
    let e = refused(it.nice(ALICE, "nice-2", "/u/a", Part::Tickets(21), "/u/a/k"));
    assert!(matches!(e, Refusal::TooLittle { has: 20, .. }), "{e}");
    // Nor what is given away above it.
    let e = refused(it.nice(ALICE, "nice-2", "/u/a/k", Part::Tickets(21), "/u/a/j"));
    assert!(matches!(e, Refusal::AlreadyBound { .. }), "{e}");
    assert!(forbidden(it.nice(
        ALICE,
        "nice-2",
        "/u",
        Part::Tickets(1),
        "/u/a/k"
    )));
    let e = refused(it.nice(0, "nice-2", "base", Part::Tickets(1), "/u/a/k"));
    assert!(matches!(e, Refusal::NotNamed(..)), "{e}");
}

#[test]
fn the_job_may_not_take_the_giver_with_it() {
    let mut it = alice_and_bob();
    // Binding /u/a would take from it what it gives.
    let e = refused(it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(10), "/u/a"));
    assert!(matches!(e, Refusal::TooLittle { .. }), "{e}");
}

#[test]
fn the_newest_go_first_and_no_more_than_must() {
    let mut it = alice_and_bob();
    it.fund(0, "hers", "base", 100).unwrap();
    it.mk("/u/a/l", ALICE);
    for (n, job) in ["j", "k", "l"].iter().enumerate() {
        let (name, path) = (format!("nice-{n}"), format!("/u/a/{job}"));
        it.nice(ALICE, &name, "hers", Part::Tickets(30), &path)
            .unwrap();
    }
    let ids: Vec<u64> = it.l.exchanges().map(|(id, _)| id).collect();
    assert!(revoked(&it.unfund(0, "hers", "base", Some(10)).unwrap()).is_empty());
    assert_eq!(
        revoked(&it.unfund(0, "hers", "base", Some(10)).unwrap()),
        [ids[2]]
    );
    assert!(revoked(&it.unfund(0, "hers", "base", Some(20)).unwrap()).is_empty());
    assert_eq!(
        revoked(&it.unfund(0, "hers", "base", Some(40)).unwrap()),
        [ids[1], ids[0]]
    );
    assert_eq!(it.entitled("hers"), 20.0);
    assert_eq!(
        it.entitled("/u/a/j"),
        0.0,
        "the job keeps its cgroup, and has nothing"
    );
}

#[test]
fn what_those_above_gave_goes_before_what_is_older_below() {
    let mut it = alice_and_bob();
    it.fund(0, "hers", "base", 100).unwrap();
    it.create(ALICE, "part").unwrap();
    it.fund(ALICE, "part", "hers", 10).unwrap();
    it.nice(ALICE, "nice-1", "part", Part::Tickets(60), "/u/a/j")
        .unwrap();
    // hers may give at most what part does not need.
    let e = refused(it.nice(ALICE, "nice-2", "hers", Part::Tickets(41), "/u/a/k"));
    assert!(matches!(e, Refusal::TooLittle { .. }), "{e}");
    it.nice(ALICE, "nice-2", "hers", Part::Tickets(40), "/u/a/k")
        .unwrap();
    let gone = revoked(&it.unfund(0, "hers", "base", Some(20)).unwrap());
    let left: Vec<u64> = it.l.exchanges().map(|(id, _)| id).collect();
    assert_eq!((gone.len(), left.len()), (1, 1));
    assert!(gone[0] > left[0], "the newer one, which is given above");
}

#[test]
fn whoever_only_keeps_a_ticket_is_not_at_fault() {
    let mut it = alice_and_bob();
    it.fund(0, "hers", "base", 20).unwrap();
    it.mk("/m", 0);
    it.bind(ALICE, "hers", "/u/a/j").unwrap();
    it.nice(ALICE, "nice-1", "/u/a/j", Part::Tickets(15), "/u/a/k")
        .unwrap();
    // The newer one is given by /u, which funds /u/a, which keeps its ticket of j.
    it.nice(0, "nice-2", "/u", Part::Tickets(5), "/m").unwrap();
    let gone = revoked(&it.unfund(0, "hers", "base", Some(10)).unwrap());
    assert_eq!(gone.len(), 1);
    assert!(it.l.exchanges().any(|(id, _)| id != gone[0]));
    assert!(it.entitled("nice-2") > 0.0);
}

#[test]
fn a_new_neighbour_may_cost_an_exchange() {
    let mut it = alice_and_bob();
    it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(40), "/u/a/j")
        .unwrap();
    let events = it.mk_as("/u/c", 0, 100);
    assert_eq!(revoked(&events).len(), 1, "33 are left of 50: {events:?}");
}

/// Sullivan §3.3, Figure 4: a job that is to be small stays small when the user's other jobs sleep.
#[test]
fn the_niced_job_stays_small_and_the_others_have_what_they_would_have() {
    let mut it = alice_and_bob();
    let plain = |it: &mut It, awake: &[&str]| {
        it.awake(awake);
        (it.value("/u/b"), it.value("/u/a"))
    };
    // Without: k alone has all of alice's.
    let (_, alone) = plain(&mut it, &["/u/a/k", "/u/b/j"]);
    assert!(close(alone, 100.0));
    it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(10), "/u/a/j")
        .unwrap();
    it.awake(&["/u/a/j", "/u/b/j"]);
    assert!(close(it.value("/u/a/j"), 10.0), "{}", it.value("/u/a/j"));
    assert!(close(it.value("/u/b"), 190.0), "{}", it.value("/u/b"));
    // The other of hers wakes: bob has what he would have had without the exchange.
    it.awake(&["/u/a/j", "/u/a/k", "/u/b/j"]);
    assert!(close(it.value("/u/b"), 100.0));
    assert!(close(it.value("/u/a/k"), 90.0));
    // The niced one sleeps: its part rests with base, of which alice gave it.
    it.awake(&["/u/a/k", "/u/b/j"]);
    let sum = it.value("/u/a/k") + it.value("/u/b");
    assert!(close(sum, 200.0), "{sum}");
    assert!(it.value("/u/b") >= 100.0 - 1e-9);
}

#[test]
fn nice_needs_all_rights_to_what_it_gives() {
    let mut it = alice_and_bob();
    it.fund(0, "hers", "base", 100).unwrap();
    // bob may fund and change it, so take tickets away; but not have them.
    it.chmod(ALICE, "hers", 0o706).unwrap();
    assert!(forbidden(it.nice(
        BOB,
        "nice-1",
        "hers",
        Part::Tickets(10),
        "/u/b/j"
    )));
    it.chmod(ALICE, "hers", 0o707).unwrap();
    it.nice(BOB, "nice-1", "hers", Part::Tickets(10), "/u/b/j")
        .unwrap();
    // Others fund it, too: their part is as safe as it was from whoever may issue hers.
    assert!(close(it.entitled("hers"), 90.0));
    it.destroy(ALICE, "hers").unwrap();
    assert_eq!(it.l.exchanges().count(), 0);
}

#[test]
fn who_gave_and_sleeps_takes_nothing_from_a_guarantee() {
    let mut it = alice_and_bob();
    for path in ["/hard", "/soft"] {
        it.mk(path, 0);
    }
    it.create(0, "guarded").unwrap();
    it.reserve(0, "guarded", "base", Resource::Cpu, Hard::Milli(100))
        .unwrap();
    it.bind(0, "guarded", "/hard").unwrap();
    it.nice(ALICE, "nice-1", "/u/a", Part::Tickets(10), "/u/a/j")
        .unwrap();
    // What /u/a gave rests with base's soft tickets, of which only /soft's are active.
    it.awake(&["/u/a/j", "/hard", "/soft"]);
    let total = it.total() as f64;
    assert!(close(it.value("/hard"), it.entitled("/hard")));
    assert!(close(it.value("/u/a/j"), 10.0));
    assert!(close(it.value("/soft"), total - 10.0 - it.value("/hard")));
}
