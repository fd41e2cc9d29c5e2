// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU threads are on.

use tix_lab::{Action, Counts, MS, SECOND, cycle, hog, run_with};

/// What 32 threads that yield each few us do in a second on two CPUs, beside so many hogs that are bound to the first.
fn beside_bound(hogs: u64) -> Counts {
    run_with(2, 2000, |m| {
        let all: Vec<u32> = (0..33).map(|_| m.cgroup(0, 100)).collect();
        for (i, cgroup) in (0..32).zip(&all) {
            let turn = [Action::Run(2000 + 100 * i), Action::Yield];
            m.thread(*cgroup, cycle(turn.to_vec()));
        }
        m.run(10 * MS);
        for _ in 0..hogs {
            let thread = m.thread(all[32], hog());
            m.set_cpus(thread, 1);
        }
        m.run(SECOND / 2);
        let before = m.counts();
        m.run(SECOND);
        let after = m.counts();
        Counts {
            picks: after.picks - before.picks,
            keeps: after.keeps - before.keeps,
            taken_over: after.taken_over - before.taken_over,
            ..after
        }
    })
}

/// They are on both CPUs. All on one, the last of them yields to nobody on the other, and all are moved to and fro.
#[test]
fn who_may_use_both_cpus_is_on_both() {
    for hogs in [1, 3, 7, 20, 40] {
        let had = beside_bound(hogs);
        assert!(had.keeps * 100 < had.picks, "beside {hogs}: {had:?}");
        assert!(had.taken_over * 1000 < had.picks, "beside {hogs}: {had:?}");
    }
}
