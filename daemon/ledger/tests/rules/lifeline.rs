// SPDX-License-Identifier: GPL-2.0-only
//! The lifeline is raised in the step that makes it worth less, and what cannot keep it is refused.

use crate::common::*;
use tix_ledger::{
    End, Hard, Key, Kind, MAX_AMOUNT, MAX_HARD_OF_BASE, Op, Part, Refusal, Resource, Terms,
};

const DISK: Resource = Resource::Disk;
const TIXD: &str = "/system.slice/tixd.service";
const INIT: &str = "/init.scope";

/// A machine with services, users and a lifeline.
fn machine() -> It {
    let mut it = It::new();
    for path in ["/system.slice", "/user.slice", INIT, TIXD, "/big"] {
        it.mk(path, 0);
    }
    it.mk("/user.slice/a", ALICE);
    it.create(0, "lifeline").unwrap();
    it.create(ALICE, "hers").unwrap();
    let cid = it.l.find("lifeline").unwrap();
    it.l.keep_lifeline(cid, [INIT, TIXD].map(str::to_owned));
    it.bind(0, "lifeline", INIT).unwrap();
    it.bind(0, "lifeline", TIXD).unwrap();
    it
}

/// Of the machine, in percent.
fn part(it: &It, r: Resource) -> f64 {
    let c = it.l.find("lifeline").unwrap();
    let part = it.l.entitlement(c, r) as f64 / 2f64.powi(64) / it.l.total(r) as f64;
    part * 100.0
}

fn unfund(holder: &str, resource: Resource) -> Op {
    Op::Unfund {
        holder: holder.into(),
        issuer: "base".into(),
        resource,
        amount: None,
    }
}

#[test]
fn the_step_that_makes_it_less_raises_it() {
    let mut it = machine();
    let done = it.fund(0, "/big", "base", 262_144).unwrap();
    assert!(part(&it, CPU) >= 10.0, "{}", part(&it, CPU));
    assert_eq!(done.len(), 2, "both are told: {done:?}");
    // Taken back as one step, and lowered with the tickets.
    it.does(0, unfund("/big", CPU)).unwrap();
    assert!((10.0..13.0).contains(&part(&it, CPU)));
}

#[test]
fn undone_with_the_step() {
    let mut it = machine();
    let (rows, mark) = (it.l.rows(), it.l.mark());
    it.fund(0, "/big", "base", 262_144).unwrap();
    it.reserve(0, "hers", "base", CPU, Hard::Milli(500))
        .unwrap();
    let kept = it.l.changes();
    let raised = Key::Ticket {
        issuer: End::Cid(0),
        holder: End::Cid(it.l.find("lifeline").unwrap()),
        resource: CPU,
        kind: Kind::Soft,
    };
    assert!(kept.iter().any(|(k, _)| *k == raised), "{kept:?}");
    it.l.undo(mark);
    it.sound();
    assert_eq!(it.l.rows(), rows);
}

#[test]
fn beside_guarantees() {
    for (reserved, least) in [(1, 10.0), (500, 10.0), (800, 10.0), (900, 5.0), (950, 2.5)] {
        let mut it = machine();
        it.reserve(0, "hers", "base", CPU, Hard::Milli(reserved))
            .unwrap();
        it.fund(0, "/big", "base", 262_144).unwrap();
        let part = part(&it, CPU);
        assert!(part > least - 1e-9, "{reserved} thousandths: {part} %");
        let hers = it.entitled("hers") / it.total() as f64;
        assert!(close(hers, reserved as f64 / 1000.0), "{hers}");
        it.unreserve(0, "hers", "base", CPU).unwrap();
        assert!(self::part(&it, CPU) < 13.0);
    }
}

#[test]
fn beside_cgroups_that_somebody_else_makes_and_weighs() {
    let mut it = machine();
    for i in 0..200 {
        it.mk_as(&format!("/pod{i}"), 0, 10_000);
        assert!(part(&it, CPU) >= 10.0, "{i}");
    }
    for i in 0..200 {
        it.rm(&format!("/pod{i}"));
    }
    assert!((10.0..13.0).contains(&part(&it, CPU)), "{}", part(&it, CPU));
    // Below another cgroup they are no matter of base's.
    let holds = it.holds("lifeline", "base");
    it.mk_as("/user.slice/a/k", ALICE, 10_000);
    assert_eq!(it.holds("lifeline", "base"), holds);
}

#[test]
fn what_would_need_more_than_a_ticket_can_say_is_refused_and_can_be_undone() {
    let mut it = machine();
    let most = i64::try_from(MAX_AMOUNT).unwrap();
    let mut refused = 0;
    for i in 0..8 {
        let name = format!("n{i}");
        it.create(0, &name).unwrap();
        match it.fund(0, &name, "base", most) {
            Ok(_) => {}
            Err(Refusal::LimitReached(why)) => {
                assert!(why.contains("lifeline"), "{why}");
                refused += 1;
            }
            Err(e) => panic!("{e}"),
        }
        assert!(part(&it, CPU) >= 10.0);
    }
    assert!((1..8).contains(&refused), "{refused}");
    // What the tree does cannot be refused, and there is room for it.
    it.mk_as("/pod", 0, 10_000);
    assert!(part(&it, CPU) >= 10.0);
    it.fund(0, "hers", "base", 1).unwrap();
    let reserved = it.reserve(0, "hers", "base", CPU, Hard::Milli(MAX_HARD_OF_BASE));
    assert!(
        matches!(reserved, Err(Refusal::LimitReached(_))),
        "{reserved:?}"
    );
    it.does(0, unfund("n0", CPU)).unwrap();
}

#[test]
fn of_the_disk_once_root_shares_it_and_not_when_a_user_does() {
    let mut it = machine();
    let t = it.l.total(DISK);
    assert_eq!(part(&it, DISK), 0.0);
    // A user's tickets: nobody is worth another part of the disk.
    it.create(ALICE, "more").unwrap();
    it.fund_of(ALICE, "more", "hers", DISK, 10).unwrap();
    it.reserve(ALICE, "hers", "/user.slice/a", DISK, Hard::Milli(100))
        .unwrap();
    it.fund(0, "/big", "base", 100).unwrap();
    it.mk("/elsewhere", 0);
    it.rm("/elsewhere");
    assert_eq!((it.l.total(DISK), part(&it, DISK)), (t, 0.0));
    it.fund_of(0, "hers", "base", DISK, 10_000).unwrap();
    assert!(part(&it, DISK) >= 10.0, "{}", part(&it, DISK));
    // She gives them up: they lapse, and count until root takes them.
    let t = it.l.total(DISK);
    it.does(ALICE, unfund("hers", DISK)).unwrap();
    assert_eq!(it.l.total(DISK), t);
    it.does(0, unfund("hers", DISK)).unwrap();
    assert_eq!(part(&it, DISK), 0.0);
}

#[test]
fn nothing_is_done_to_it() {
    let mut it = machine();
    it.create(0, "other").unwrap();
    it.mk("/system.slice/mine.service", 0);
    it.fund(0, "other", "base", 1).unwrap();
    let op = |name: &str| name.to_owned();
    let name = op("lifeline");
    let terms = Terms {
        gives: CPU,
        give: 1000,
        wants: DISK,
        want: 1000,
        least: 1,
        expires: None,
    };
    let hard = Hard::Milli(1);
    let nice = it.nice(0, "nice-1", "lifeline", Part::Milli(500), "/big");
    let all = [
        it.destroy(0, "lifeline"),
        it.does(0, unfund("lifeline", CPU)),
        it.unfund(0, "lifeline", "base", Some(1)),
        it.chmod(0, "lifeline", 0o777),
        it.chown(0, "lifeline", Some(ALICE)),
        it.limit(0, "lifeline", 100),
        it.limit(0, TIXD, 100),
        it.limit(0, "/system.slice", 100),
        it.unbind(0, "lifeline"),
        it.does(
            0,
            Op::Unbind {
                name: name.clone(),
                path: Some(op(TIXD)),
            },
        ),
        it.bind(0, "lifeline", "/big"),
        it.fund(0, "/big", "lifeline", 262_144),
        it.reserve(0, "/big", "lifeline", CPU, hard),
        it.fund(0, "lifeline", "other", 1),
        it.fund(0, "lifeline", "base", 1),
        it.reserve(0, "lifeline", "other", CPU, hard),
        it.run(0, "run-1", "lifeline", 10, "/big"),
        nice,
        it.does(
            0,
            Op::Offer {
                id: 1,
                party: name,
                terms,
                now: 0,
            },
        ),
    ];
    for (i, done) in all.into_iter().enumerate() {
        assert!(matches!(done, Err(Refusal::Lifeline(_))), "{i}: {done:?}");
    }
    // Nor by a limit of what its cgroup would be below.
    it.limit(0, "other", 100).unwrap();
    let done = it.bind(0, "other", "/system.slice");
    assert!(matches!(done, Err(Refusal::Lifeline(_))), "{done:?}");
    // Beside it what root likes.
    it.limit(0, "/system.slice/mine.service", 100).unwrap();
    it.limit(0, "/user.slice", 100).unwrap();
    it.reserve(0, "lifeline", "base", CPU, hard).unwrap();
    it.unreserve(0, "lifeline", "base", CPU).unwrap();
    assert!(forbidden(it.destroy(ALICE, "lifeline")));
}

#[test]
fn a_ledger_that_is_handed_in_leaves_it_alone() {
    let mut it = machine();
    let wanted = it.l.rows().into_iter().collect();
    it.fund(0, "/big", "base", 262_144).unwrap();
    it.fund(0, "hers", "base", 262_144).unwrap();
    let back = it.l.difference(&wanted);
    it.l.restore(&back).unwrap();
    it.sound();
    assert_eq!(it.holds("/big", "base"), 0);
    assert!(part(&it, CPU) >= 10.0);
    // One that knows of none.
    let none = it.l.difference(&Default::default());
    it.l.restore(&none).unwrap();
    it.sound();
    assert!(it.l.find("hers").is_none());
    assert!(part(&it, CPU) >= 10.0);
    let bound = it.l.bindings().map(|(path, _)| path.to_owned());
    assert_eq!(bound.collect::<Vec<_>>(), [INIT, TIXD]);
}
