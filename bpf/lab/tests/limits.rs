// SPDX-License-Identifier: GPL-2.0-only
//! cpu.max: threads below a limit have that, and all that it leaves is for others.

mod common;

use common::{groups, near};
use tix_lab::adversary::Random;
use tix_lab::{BASE, MS, Machine, NICE_0, SECOND, hog, periodic, run, run_with};

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

/// Two nodes divide a currency's limit, beside others that come and go. A thread that is let go where
/// a period begins counts before it runs: else it was taken for worth nothing, and its tag went
/// seconds ahead, so that the other node had nearly all, in one start of a hundred.
#[test]
fn those_below_one_limit_divide_it() {
    for seed in 0..100 {
        let shares = run_with(1, 3000, |m| {
            let mut random = Random(seed);
            let [lim, home] = [m.cgroup(0, 100), m.cgroup(0, 100)];
            let [a, b, beside] = [0; 3].map(|_| m.cgroup(lim, 100));
            let pool = m.currency();
            m.fund(pool, &[(BASE, 100, false)], 0);
            for cgroup in [a, b] {
                let own = m.currency();
                m.fund(own, &[(pool, 100, false)], 0);
                m.fund(m.node(cgroup), &[(own, 100, false)], 0);
            }
            for _ in 0..random.below(3) {
                let runs = random.within(5000, 100_000);
                m.kernel_thread(0, periodic(runs, random.within(MS, 20 * MS)));
            }
            for _ in 0..random.below(5) {
                let runs = random.within(20_000, 3 * MS);
                m.thread(home, periodic(runs, random.within(MS, 200 * MS)));
            }
            let hogs = [a, b, beside].map(|cgroup| {
                m.run(random.below(50 * MS));
                m.thread(cgroup, hog())
            });
            let limit = m.limit(100_000, 20_000);
            m.cap(a, limit);
            m.run(random.below(3 * MS));
            m.cap(b, limit);
            m.run(SECOND);
            m.shares(&[&hogs[..1], &hogs[1..2]], 18 * SECOND)
        });
        near(&shares, &[0.1, 0.1], 0.002);
    }
}

/// The longest that one of `threads` goes without CPU time in a minute, ns; looked at each 100 ms.
fn longest_without(m: &mut Machine, threads: &[u32]) -> u64 {
    let mut ran: Vec<(u64, u64)> = threads.iter().map(|t| (m.used(*t), m.now())).collect();
    let mut longest = 0;
    for _ in 0..600 {
        m.run(100 * MS);
        let now = m.now();
        for (thread, (used, since)) in threads.iter().zip(&mut ran) {
            if m.used(*thread) != *used {
                (*used, *since) = (m.used(*thread), now);
            }
            longest = longest.max(now - *since);
        }
    }
    longest
}

/// Thirty of next to no share wait on one CPU; on another one of their cgroup uses up their limit as soon as a period begins.
#[test]
fn below_a_limit_nobody_waits_for_longer_than_ten_seconds() {
    let longest = run(2, |m| {
        let g = groups(m, &[10_000, 1, 1]);
        m.set_limit(g[1], 1_000_000, 1000);
        for (cgroup, cpu, nr) in [(g[0], 0, 2), (g[1], 0, 30), (g[1], 1, 1), (g[2], 1, 1)] {
            for _ in 0..nr {
                m.thread_on(cgroup, 1 << cpu, NICE_0, hog());
            }
        }
        let small: Vec<u32> = (3..33).collect();
        longest_without(m, &small)
    });
    assert!(longest <= 10 * SECOND, "{} ms", longest / MS);
}
