// SPDX-License-Identifier: GPL-2.0-only
//! cpu.max: threads below a limit have that, and all that it leaves is for others.

mod common;

use common::{groups, near};
use tix_lab::{SECOND, run};

/// What `threads` hogs have below a limit of `quota_us` in 100 ms, and what one beside them has, parts of a CPU.
fn beside_a_limit(threads: usize, quota_us: u64) -> Vec<f64> {
    run(1, |m| {
        let g = groups(m, &[100, 100]);
        m.set_limit(g[0], 100_000, quota_us);
        let limited = m.hogs(g[0], threads);
        let other = m.hogs(g[1], 1);
        m.run(SECOND);
        m.shares(&[&limited, &other], 10 * SECOND)
    })
}

#[test]
fn a_limit_is_had_and_not_exceeded() {
    near(&beside_a_limit(3, 20_000), &[0.2, 0.8], 0.003);
}

/// Most of fifty threads find the period used up when it is their turn. Nobody else waits for that.
#[test]
fn a_crowd_below_a_limit_leaves_the_rest_to_others() {
    near(&beside_a_limit(50, 5000), &[0.05, 0.95], 0.005);
}
