// SPDX-License-Identifier: GPL-2.0-only
//! Thousands of threads of one principal, whose slices are short.

mod common;

use common::{groups, near};
use tix_lab::{Action, MS, SECOND, periodic, run};

#[test]
fn a_crowd_of_thousands_has_its_share() {
    let (shares, longest) = run(1, |m| {
        let crowd = m.cgroup(0, 100);
        let other = m.cgroup(0, 1000);
        let sleeps = m.cgroup(0, 100);
        let many = m.hogs(crowd, 3000);
        let one = m.hogs(other, 1);
        let t = m.thread(sleeps, periodic(MS / 10, 50 * MS));
        m.run(10 * SECOND);
        m.forget_waits();
        let shares = m.shares(&[&many, &one], 20 * SECOND);
        (shares, m.waits(t).longest)
    });
    near(&shares, &[1.0 / 11.0, 10.0 / 11.0], 0.01);
    assert!(longest < 30 * MS, "{longest}");
}

/// They begin one after the other, as few at first, sleep, and are woken at once. Nobody is late for that, or early.
#[test]
fn a_crowd_that_begins_at_once_has_its_share() {
    let shares = run(1, |m| {
        let cgroups = groups(m, &[300, 100]);
        let mut many = Vec::new();
        for i in 0..3000 {
            let mut step = 0;
            let program = move |_| {
                step += 1;
                match step {
                    1 => Action::Sleep(30_000 * i + 1),
                    2 => Action::Run(50_000),
                    3 => Action::Wait,
                    _ => Action::Run(SECOND),
                }
            };
            many.push(m.thread(cgroups[1], Box::new(program)));
        }
        m.run(SECOND);
        let one = m.hogs(cgroups[0], 1);
        many.iter().for_each(|t| m.wake(*t));
        m.shares(&[&one, &many], 2 * SECOND)
    });
    near(&shares, &[0.75, 0.25], 0.01);
}
