// SPDX-License-Identifier: GPL-2.0-only
//! A hundred plots for each number of CPUs (src/adversary.rs): none takes a hundredth of alice's
//! share over ten seconds. How long carol waits is told, not judged.

use tix_lab::MS;
use tix_lab::adversary::Plot;

/// Plots 0 ... 99 on a machine of `cpus`. The same seed always ends the same.
fn nobody_is_robbed(cpus: u32) {
    let mut late = 0;
    for seed in 0..100 {
        let outcome = Plot::random(cpus, seed).outcome(10);
        assert!(
            outcome.alice > 0.99,
            "plot {seed} on {cpus} CPUs: alice has {:.4} of her due",
            outcome.alice
        );
        late += u32::from(outcome.longest > 5 * MS);
    }
    println!("{cpus} CPUs: carol waited for more than 5 ms in {late} of 100 plots");
}

#[test]
fn nobody_is_robbed_on_one_cpu() {
    nobody_is_robbed(1);
}

#[test]
fn nobody_is_robbed_on_two_cpus() {
    nobody_is_robbed(2);
}

#[test]
fn nobody_is_robbed_on_four_cpus() {
    nobody_is_robbed(4);
}

/// A plot that had all: each slice moved its account after the clock, and the clock is where its thread is, which was
/// behind its siblings; and time was cheap for it because clocks were apart.
#[test]
fn an_account_does_not_run_after_its_members() {
    let outcome = Plot::random(2, 1985).outcome(5);
    assert!(outcome.alice > 0.99, "{outcome:?}");
}

/// A CPU's clock was where a principal's own threads had got, and drew the account back for ever. As
/// bound threads begin alice has 0.92 of her due in 5 s, and more than that from then on.
#[test]
fn an_account_is_not_drawn_back_by_its_members() {
    let outcome = Plot::random(2, 3862).outcome(10);
    assert!(outcome.alice > 0.99, "{outcome:?}");
    assert!(outcome.longest < 1000 * MS, "{outcome:?}");
}

/// A CPU that took a thread over had the clock of who was behind, which others took from it.
#[test]
fn a_clock_that_is_behind_does_not_spread() {
    let outcome = Plot::random(4, 2602).outcome(5);
    assert!(outcome.longest < 1000 * MS, "{outcome:?}");
}

/// The debt of a principal that returns counts from the CPU's clock, however far behind the account
/// of the running thread is. (Else bob had all.)
#[test]
fn who_returns_beside_one_that_is_owed_much_gains_nothing() {
    let outcome = Plot::with_tickets(1, 262).outcome(5);
    assert!(outcome.alice > 0.99, "{:.4}", outcome.alice);
}

/// Plots in which bob changes tickets cost alice 3 % at most. Of a thousand some cost more
/// (docs/scheduler.md).
#[test]
fn changes_of_tickets_cost_little() {
    for cpus in [1, 2, 4] {
        for seed in 0..100 {
            let outcome = Plot::with_tickets(cpus, seed).outcome(5);
            assert!(
                outcome.alice > 0.97,
                "plot {seed} on {cpus} CPUs: alice has {:.4} of her due",
                outcome.alice
            );
        }
    }
}
