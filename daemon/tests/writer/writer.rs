// SPDX-License-Identifier: GPL-2.0-only
//! The writer has the ledger: where it panics the ledger may be half changed, and nobody goes on
//! with that. What is on the disk is whole.

use crate::machine::{Machine, does, funded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tix_ledger::{DEFAULT_MODE, Op};
use tix_model::LIFELINE;

#[test]
fn a_writer_that_panics_takes_tixd_with_it_and_the_ledger_is_whole() {
    let machine = Machine::new();
    machine.cgroup("/a", 100);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        machine.tixd(async |tixd| {
            does(&tixd, |cid| funded("n", cid, 300, &["/a"])).await;
            let job = tixd.call(|_| panic!("no sense"));
            // Nobody answers.
            let _: Result<(), _> = job.await;
            std::future::pending::<()>().await;
        });
    }));
    let payload = ended.unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"no sense"));
    machine.tixd(async |tixd| {
        let there = tixd.call(|core| core.ledger.find("n").is_some());
        assert!(there.await.unwrap());
    });
}

/// Root is told what tixd did to what is root's, but not that it keeps the lifeline.
#[test]
fn that_tixd_keeps_the_lifeline_is_no_notice_to_root() {
    let create = |cid, name: &str| Op::Create {
        cid,
        name: name.to_owned(),
        owner: 0,
        group: 0,
        mode: DEFAULT_MODE,
    };
    Machine::new().tixd(async |tixd| {
        does(&tixd, move |cid| vec![create(cid, LIFELINE)]).await;
        does(&tixd, move |cid| vec![create(cid, "n")]).await;
        let told = tixd.call(|core| {
            let subjects = core
                .commits
                .notices
                .of(0)
                .map(|record| record.subject.clone());
            subjects.collect::<Vec<_>>()
        });
        assert_eq!(told.await.unwrap(), ["n"]);
    });
}
