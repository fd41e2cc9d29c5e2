// SPDX-License-Identifier: GPL-2.0-only
//! Bindings, and what waits for its cgroup.

use crate::common::*;
use tix_ledger::{Cgroup, Hard, Op, Refusal, Resource};

#[test]
fn roots_bindings_and_grants_wait_for_their_cgroup_and_users_do_not() {
    let mut it = It::new();
    it.mk("/s", ALICE);
    it.create(0, "roots").unwrap();
    it.create(ALICE, "mine").unwrap();
    it.bind(0, "roots", "/s").unwrap();
    it.fund(ALICE, "mine", "/s", 7).unwrap();
    it.fund(0, "/s", "base", 9).unwrap();
    it.reserve(0, "/s", "roots", CPU, Hard::Milli(100)).unwrap();
    let (rows, t) = (it.l.rows(), it.total());
    it.rm("/s");
    assert_eq!(it.holds("mine", "/s"), 0);
    assert_eq!(it.l.waiting(), 3);
    // What waits stays issued: who removes the cgroup and makes it again changes nobody's part. The
    // weight ticket is withdrawn: root bound it.
    assert_eq!(it.total(), t);
    let left = refused(it.reserve(0, "mine", "roots", CPU, Hard::Milli(900)));
    assert!(matches!(left, Refusal::TooMuch { left: 899, .. }), "{left}");
    it.mk("/s", ALICE);
    let s = it.l.find("/s").unwrap();
    assert_eq!(it.l.get(s).unwrap().bound_to, it.cid("roots"));
    assert_eq!(it.holds("/s", "base"), 9);
    assert_eq!(it.holds("mine", "/s"), 0);
    assert_eq!(it.l.rows().len(), rows.len() - 1);
}

#[test]
fn a_ticket_that_a_binding_replaces_counts_only_if_the_binder_could_not_withdraw_it() {
    // Base has issued 100 to its own threads and 100 to /u.
    let (mut root, mut alice) = (alice_and_bob(), alice_and_bob());
    assert_eq!(root.entitled("/u/b"), 50.0);
    root.bind(0, "hers", "/u/a").unwrap();
    assert_eq!(
        root.entitled("/u/b"),
        100.0,
        "root took alice's ticket away"
    );
    alice.bind(ALICE, "hers", "/u/a").unwrap();
    assert_eq!(alice.entitled("/u/b"), 50.0, "she may take it up again");
    alice.unbind(ALICE, "hers").unwrap();
    assert_eq!(alice.entitled("/u/b"), 50.0);
    // Below what is hers she gives and takes as she likes.
    assert_eq!(alice.entitled("/u/a/k"), 25.0);
    alice.bind(ALICE, "hers", "/u/a/j").unwrap();
    assert_eq!(alice.entitled("/u/a/k"), 50.0);
    assert_eq!(alice.total(), 200);
    root.bind(0, "hers", "/u").unwrap();
    assert_eq!(root.total(), 1, "base has issued nothing any more");
}

#[test]
fn the_ticket_for_the_disk_is_withdrawn_by_who_may_and_comes_back_by_who_may() {
    let disk = Resource::Disk;
    let total = |it: &It| it.l.total(disk);
    let mut it = It::new();
    it.mk("/x", ALICE);
    it.mk("/y", BOB);
    it.create(ALICE, "hers").unwrap();
    it.create(0, "roots").unwrap();
    it.chmod(0, "roots", 0o777).unwrap();
    it.bind(0, "hers", "/x").unwrap();
    assert_eq!(total(&it), 200);
    // Her first tickets put the parent's aside, and her last bring it back: what base has issued is
    // the same.
    it.reserve(ALICE, "hers", "roots", disk, Hard::Milli(1))
        .unwrap();
    assert_eq!(total(&it), 200);
    it.unreserve(ALICE, "hers", "roots", disk).unwrap();
    assert_eq!(total(&it), 200);
    // Root's replace it.
    it.fund_of(0, "hers", "base", disk, 50).unwrap();
    assert_eq!(total(&it), 150);
    // She gives them up: they lapse, and root withdrew the other.
    let given_up = Op::Unfund {
        holder: "hers".into(),
        issuer: "base".into(),
        resource: disk,
        amount: None,
    };
    it.does(ALICE, given_up).unwrap();
    assert_eq!(total(&it), 150);
    it.rm("/x");
    it.mk("/x", ALICE);
    assert_eq!(total(&it), 150);
    // Whoever may issue the parent's takes notice as soon as something is done to it.
    it.reserve(0, "hers", "roots", disk, Hard::Milli(2))
        .unwrap();
    assert_eq!(total(&it), 150);
    it.destroy(0, "roots").unwrap();
    assert_eq!(total(&it), 250, "with the 50 that lapsed");
    it.fund_of(0, "hers", "base", disk, 1).unwrap();
    assert_eq!(total(&it), 151);
    it.unbind(0, "hers").unwrap();
    assert_eq!(total(&it), 251);
}

#[test]
fn tickets_for_the_disk_from_somebody_else_take_nothing_from_what_is_bound() {
    // Users who may give `hers` tickets and no more: by mode, and by owning what pays for them.
    for resource in [Resource::Disk, Resource::Memory, CPU] {
        for (binder, kind) in [(0, "soft"), (0, "hard"), (ALICE, "soft"), (ALICE, "hard")] {
            let mut it = alice_and_bob();
            it.bind(binder, "hers", "/u/a").unwrap();
            it.chmod(ALICE, "hers", 0o704).unwrap();
            let entitled = |it: &It, name: &str| {
                let c = it.cid(name).unwrap();
                it.l.entitlement(c, resource)
            };
            let all = ["/u", "/u/a", "/u/a/j", "/u/a/k", "/u/b", "hers"];
            let before = all.map(|name| entitled(&it, name));
            let t = it.l.total(resource);
            match kind {
                "soft" => it.fund_of(BOB, "hers", "his", resource, 1),
                _ => it.reserve(BOB, "hers", "his", resource, Hard::Milli(1)),
            }
            .unwrap();
            assert_eq!(it.l.total(resource), t);
            for (name, was) in all.iter().zip(before) {
                let is = entitled(&it, name);
                assert!(is >= was, "{resource:?} of {name}: {is}, and was {was}");
            }
            let given = all.map(|name| entitled(&it, name));
            match kind {
                "soft" => it.does(
                    BOB,
                    Op::Unfund {
                        holder: "hers".into(),
                        issuer: "his".into(),
                        resource,
                        amount: None,
                    },
                ),
                _ => it.unreserve(BOB, "hers", "his", resource),
            }
            .unwrap();
            assert_eq!(it.l.total(resource), t);
            assert_eq!(all.map(|name| entitled(&it, name)), before, "{given:?}");
        }
    }
}

#[test]
fn what_root_bound_only_root_unbinds() {
    let mut it = alice_and_bob();
    it.bind(0, "hers", "/u/a").unwrap();
    // Binding it again herself makes it no more hers.
    it.bind(ALICE, "hers", "/u/a").unwrap();
    assert!(forbidden(it.unbind(ALICE, "hers")));
    assert!(forbidden(it.destroy(ALICE, "hers")));
    it.unbind(0, "hers").unwrap();
    it.bind(ALICE, "hers", "/u/a").unwrap();
    it.unbind(ALICE, "hers").unwrap();
    it.destroy(ALICE, "hers").unwrap();
}

#[test]
fn to_unbind_is_to_issue_the_parents_ticket_again() {
    let mut it = alice_and_bob();
    // bob may issue what is hers, and she has bound it where her slice's ticket is withdrawn.
    it.chmod(ALICE, "hers", 0o707).unwrap();
    it.bind(ALICE, "hers", "/u/a/j").unwrap();
    let k = it.entitled("/u/a/k");
    assert!(forbidden(it.unbind(BOB, "hers")));
    assert!(forbidden(it.destroy(BOB, "hers")));
    assert_eq!(it.entitled("/u/a/k"), k);
    it.unbind(ALICE, "hers").unwrap();
}

#[test]
fn who_may_fund_a_cgroup_may_bind_it() {
    let mut it = alice_and_bob();
    assert!(forbidden(it.bind(BOB, "his", "/u/a/j")));
    it.chmod(ALICE, "/u/a/j", 0o703).unwrap();
    assert!(forbidden(it.bind(BOB, "his", "/u/a/j")));
    it.chmod(ALICE, "/u/a/j", 0o704).unwrap();
    it.fund(BOB, "/u/a/j", "his", 5).unwrap();
    it.bind(BOB, "his", "/u/a/j").unwrap();
    // She has c on the cgroup, but he could not withdraw, so it is put aside and counts.
    it.unbind(ALICE, "his").unwrap();
}

#[test]
fn another_owner_of_the_directory_ends_what_the_old_one_bound() {
    let mut it = alice_and_bob();
    it.bind(ALICE, "hers", "/u/a/j").unwrap();
    let id = |it: &It, p: &str| {
        let c = it.l.get(it.l.find(p).unwrap()).unwrap();
        c.mirror.as_ref().unwrap().id
    };
    let id = id(&it, "/u/a/j");
    // Saying that it is hers, or chmod, does not pin it.
    it.chown(ALICE, "/u/a/j", Some(ALICE)).unwrap();
    assert!(forbidden(it.chown(BOB, "/u/a/j", Some(ALICE))));
    assert!(forbidden(it.chown(BOB, "/u/a/j", None)));
    it.l.cgroup_here(&Cgroup {
        path: "/u/a/j",
        id,
        weight: 100,
        disk: 100,
        owner: BOB,
        group: BOB,
        inner_threads: false,
    });
    it.sound();
    let j = it.l.get(it.l.find("/u/a/j").unwrap()).unwrap();
    assert_eq!((j.owner, j.bound_to), (BOB, None));
}

#[test]
fn a_run_goes_with_its_cgroup() {
    let mut it = alice_and_bob();
    it.run(ALICE, "run-1", "/u/a", 50, "/u/a/j").unwrap();
    let j = it.l.get(it.l.find("/u/a/j").unwrap()).unwrap();
    assert_eq!(j.bound_to, it.cid("run-1"));
    // It goes with that cgroup, so it is for that cgroup.
    assert!(matches!(
        it.bind(ALICE, "run-1", "/u/a/k"),
        Err(Refusal::LimitReached(_))
    ));
    it.rm("/u/a/j");
    assert_eq!(it.cid("run-1"), None);
    assert_eq!(it.l.rows().len(), 4, "hers and his, and their spaces");
}

#[test]
fn one_cgroup_one_binding() {
    let mut it = alice_and_bob();
    it.bind(ALICE, "hers", "/u/a/j").unwrap();
    it.create(ALICE, "more").unwrap();
    for d in [
        it.bind(ALICE, "more", "/u/a/j"),
        it.run(ALICE, "run-1", "/u/a", 5, "/u/a/j"),
        it.nice(
            ALICE,
            "nice-1",
            "/u/a",
            tix_ledger::Part::Tickets(1),
            "/u/a/j",
        ),
    ] {
        assert!(matches!(d, Err(Refusal::AlreadyBound { .. })), "{d:?}");
    }
}

/// A controller that is switched off and on again takes nothing from anybody; a cgroup that goes
/// meanwhile does.
#[test]
fn what_a_cgroup_was_given_waits_for_its_controller_whoever_gave_it() {
    let mut it = It::new();
    it.mk("/u", ALICE);
    it.mk("/u/a", ALICE);
    it.mk("/u/b", ALICE);
    it.create(0, "n").unwrap();
    it.fund(0, "n", "base", 300).unwrap();
    it.chown(0, "n", Some(ALICE)).unwrap();
    it.bind(ALICE, "n", "/u/a").unwrap();
    it.run(ALICE, "job", "n", 50, "/u/b").unwrap();
    it.limit(ALICE, "/u/a", 300).unwrap();
    let rows = it.l.rows();
    let entitled = |it: &It, name: &str| it.l.entitlement(it.l.find(name).unwrap(), CPU);
    let before = ["n", "/u/a", "/u/b"].map(|name| entitled(&it, name));
    it.off("/u");
    assert!(it.l.find("/u/a").is_none() && it.cid("job").is_some());
    assert_eq!(it.l.rows(), rows, "nothing durable has changed");
    let waits: Vec<&str> = it.l.waited_for().into_iter().collect();
    assert_eq!(waits, ["/u/a", "/u/b"]);
    for path in ["/u", "/u/a", "/u/b"] {
        it.mk(path, ALICE);
    }
    let after = ["n", "/u/a", "/u/b"].map(|name| entitled(&it, name));
    assert_eq!(after, before);
    assert!(it.l.waited_for().is_empty());
    assert_eq!(it.l.limits_over(it.l.find("/u/a").unwrap()).len(), 1);
    it.off("/u");
    it.rm("/u/a");
    it.rm("/u/b");
    assert!(it.l.waited_for().is_empty() && it.cid("job").is_none());
}
