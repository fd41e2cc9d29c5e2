// SPDX-License-Identifier: GPL-2.0-only
//! The writer has the ledger: where it panics the ledger may be half changed, and nobody goes on
//! with that. What is on the disk is whole.

use crate::machine::{Machine, does, funded};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
