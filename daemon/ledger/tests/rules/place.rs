// SPDX-License-Identifier: GPL-2.0-only
//! Root takes nothing from the place that it speaks from that it could not take back.

use crate::common::*;
use tix_ledger::{Caller, Hard, Op, Refusal, Resource};

const SHELL: &str = "/system.slice/shell.service";

/// A machine with services and a busy cgroup.
fn machine() -> It {
    let mut it = It::new();
    for path in ["/system.slice", "/user.slice", SHELL, "/big"] {
        it.mk(path, 0);
    }
    it
}

fn root(place: &str) -> Caller {
    Caller {
        place: Some(place.to_owned()),
        ..Caller::ROOT
    }
}

fn fund(holder: &str, amount: i64) -> Op {
    Op::Fund {
        holder: holder.into(),
        issuer: "base".into(),
        resource: Resource::Cpu,
        amount,
    }
}

#[test]
fn what_leaves_it_next_to_nothing_is_refused_until_it_has_tickets_of_its_own() {
    // 100 of 400 tickets, and of those all; a cgroup below one that is not followed; base's own.
    for place in [SHELL, "/system.slice/shell.service/a/b", "/"] {
        let mut it = machine();
        let (rows, mark) = (it.l.rows(), it.l.mark());
        let done = it.l.apply(&fund("/big", 262_144), &root(place));
        let Err(Refusal::OwnPlace { percent, .. }) = &done else {
            panic!("{place}: {done:?}");
        };
        // 100 of 262,544.
        assert_eq!(percent, "0.0381");
        assert_eq!((it.l.rows(), it.l.mark()), (rows, mark));
        it.sound();
    }
    let mut it = machine();
    it.l.apply(&fund(SHELL, 1000), &root(SHELL)).unwrap();
    it.l.apply(&fund("/big", 262_144), &root(SHELL)).unwrap();
    it.sound();
}

#[test]
fn what_leaves_it_enough_is_done() {
    let mut it = machine();
    // A thousandth of 100,000 tickets in all is what it has.
    it.l.apply(&fund("/big", 99_000), &root(SHELL)).unwrap();
    // It has little by now, but this is not what takes it.
    it.l.apply(&fund("/user.slice", 50_000), &root(SHELL))
        .unwrap();
    let reserve = Op::Reserve {
        holder: "/big".into(),
        issuer: "base".into(),
        resource: Resource::Cpu,
        amount: Hard::Milli(900),
    };
    let refused = it.l.apply(&reserve, &root(SHELL));
    assert!(
        matches!(refused, Err(Refusal::OwnPlace { .. })),
        "{refused:?}"
    );
}

#[test]
fn tixd_the_policy_and_users_are_not_asked() {
    for caller in [Caller::ROOT, Caller::POLICY] {
        let mut it = machine();
        it.l.apply(&fund("/big", 262_144), &caller).unwrap();
    }
    let mut it = machine();
    it.create(ALICE, "hers").unwrap();
    it.chown(0, "/big", Some(ALICE)).unwrap();
    let alice = Caller {
        place: Some("/big".to_owned()),
        ..Caller::user(ALICE)
    };
    let all = Op::Fund {
        holder: "1000/hers".into(),
        issuer: "/big".into(),
        resource: Resource::Cpu,
        amount: 1 << 30,
    };
    it.l.apply(&all, &alice).unwrap();
}
