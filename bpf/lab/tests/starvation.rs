// SPDX-License-Identifier: GPL-2.0-only
//! The starvation bound (docs/scheduler.md): a runnable thread runs within 10 s, whatever its tickets.

mod common;

use common::{groups, near};
use tix_lab::{Action, MS, Machine, NICE_0, SECOND, hog, run};

#[test]
fn all_run_within_ten_seconds() {
    run(1, |m| {
        let large = m.cgroup(0, 10000);
        let small = m.cgroup(0, 1);
        m.hogs(large, 1);
        let t = m.thread(small, hog());
        for _ in 0..6 {
            let before = m.used(t);
            m.run(10 * SECOND);
            assert!(m.used(t) > before, "nothing in 10 s");
        }
    });
}

/// Threads that are made to wait anew again and again: by another nice value each second, or by a limit that another
/// thread of theirs uses up on another CPU. The longest that one of them had nothing, in seconds, of 30.
fn longest_without(reniced: bool) -> u32 {
    run(2, |m| {
        let top = m.cgroup(0, 100);
        let large = m.cgroup(top, 10000);
        for _ in 0..2 {
            m.thread_on(large, 1, NICE_0, hog());
        }
        let small = m.cgroup(top, 1);
        let threads: Vec<u32> = (0..10)
            .map(|_| m.thread_on(small, 1, NICE_0, hog()))
            .collect();
        if !reniced {
            m.set_limit(small, 1_000_000, 1000);
            m.thread_on(small, 2, NICE_0, hog());
        }
        let other = m.cgroup(top, 1);
        m.thread_on(other, 2, NICE_0, hog());
        let mut without = [0; 10];
        let mut longest = 0;
        for second in 0..30 {
            let before: Vec<u64> = threads.iter().map(|t| m.used(*t)).collect();
            m.run(SECOND);
            for (i, t) in threads.iter().enumerate() {
                if reniced {
                    m.set_nice(*t, NICE_0 + second % 2);
                }
                without[i] = if m.used(*t) > before[i] {
                    0
                } else {
                    without[i] + 1
                };
                longest = longest.max(without[i]);
            }
        }
        longest
    })
}

#[test]
fn who_is_put_back_has_waited_on() {
    assert!(longest_without(true) <= 10, "{}", longest_without(true));
    assert!(longest_without(false) <= 10, "{}", longest_without(false));
}

/// When a thread of next to no share runs that has waited for 5 s, and how long it is until it runs
/// again, ns. One of the kernel's threads interrupts whoever runs at the time `at`, for 300 ms.
fn after_a_long_wait(at: u64) -> (u64, u64) {
    const STEP: u64 = MS / 100;
    run(1, |m| {
        let [large, small] = [10_000, 1].map(|weight| m.cgroup(0, weight));
        m.hogs(large, 1);
        let small = m.thread(small, hog());
        let interrupt = move |now| match now < at {
            true => Action::Sleep(at - now),
            false => Action::Run(300 * MS),
        };
        m.kernel_thread(0, Box::new(interrupt));
        let waits = |m: &mut Machine| {
            let (used, since) = (m.used(small), m.now());
            while m.used(small) == used {
                m.run(STEP);
                assert!(m.now() - since < 20 * SECOND, "it waits for ever");
            }
            m.now() - since
        };
        while waits(m) < 4 * SECOND {}
        let began = m.now();
        m.run(2 * STEP);
        (began, waits(m))
    })
}

/// A thread that is interrupted as it begins goes on afterwards: it does not wait for 5 s more.
#[test]
fn who_is_interrupted_as_it_begins_has_waited_on() {
    let (began, next) = after_a_long_wait(1000 * SECOND);
    assert!(next < MS, "it ran for a moment: {} us", next / 1000);
    let (again, next) = after_a_long_wait(began);
    assert_eq!(again, began);
    assert!(next < 10 * MS, "{} us", next / 1000);
}

/// One of little worth waits while others take turns, and is worth as much as they from now on.
#[test]
fn who_waits_is_placed_anew_when_it_is_worth_more() {
    run(1, |m| {
        let others = groups(m, &[10_000; 6]);
        others.iter().for_each(|g| _ = m.hogs(*g, 1));
        let small = m.cgroup(0, 1);
        let thread = m.hogs(small, 1);
        m.run(SECOND);
        m.set_weight(small, 10_000);
        near(&m.shares(&[&thread], SECOND / 5), &[1.0 / 7.0], 0.01);
    });
}
