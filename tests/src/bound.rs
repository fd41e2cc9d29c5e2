// SPDX-License-Identifier: GPL-2.0-only
//! How far from what is due a right scheduler may be: what the bounds of guest tests follow from.
//!
//! The problem: service is given in quanta, so whoever looks at a moment sees it ahead of its due
//! or behind. The rule (docs/scheduler.md, derived for one CPU): ahead by less than 9/8 - S/T
//! quanta, behind by less than 3/2 + 1/8 + S/T. Between two moments the error moves by less than
//! the sum, 22/8 quanta, however far apart they are: a longer look is a more exact one.
//!
//! An example: of 3 s that alice and bob had together, alice is due 2,250 ms. She may have
//! 20.2 ms more or less (her own error, and her part of those of eight others), which is 0.9 %.
//!
//! No chance is in it: the bound holds for every history, so a right scheduler is failed with
//! probability 0. On several CPUs it follows from when one takes over from another, which is no
//! proof. tests/BOUNDS.md lists what each test's bound follows from.

use anyhow::{Result, ensure};

use crate::load::nice::{Nice, hundredths};
use crate::load::shares::Shares;

/// The longest that a thread runs while others wait, ms: `slice_ns` of `bpf/tix.bpf.c`.
pub const QUANTUM_MS: f64 = 1.0;
/// A run ends that part of a quantum late: the timer's interrupt, a decision and a switch are some
/// 5,000 instructions, of 8 ns each on the slowest clock of these tests (`--icount 3`).
const LATE: f64 = 0.05;
/// The most that an error moves by between two moments, quanta.
const MOVES: f64 = 9.0 / 8.0 + 3.0 / 2.0 + 1.0 / 8.0;
/// Principals beside those that are measured which are awake at some time, in a guest with tixd:
/// the kernel's threads, tixd, the test, and what a login and systemd have running.
pub const OTHERS: f64 = 8.0;
/// And where tix-load is alone, which goes before all: the kernel's threads, and who quarrels.
pub const FEW_OTHERS: f64 = 2.0;
/// No thread waits longer, whatever its tickets, ms: docs/scheduler.md. After 30 s the kernel takes
/// a scheduler out.
pub const STARVED_MS: f64 = 10_000.0;
/// The kernel's tick at 250 Hz, ms. On other CPUs than the reader's, CPU time of whoever runs is
/// counted up to the last one.
pub const TICK_MS: f64 = 4.0;
/// On several CPUs a clock may be behind another's by so many ms of the machine before a thread is
/// taken over, and an account is owed by so many more at most: `APART_NS` of the scheduler, and twice.
const BEHIND_MS: f64 = 15.0 + 30.0;

/// On one CPU, ms: who is due `part` of what all those measured had is so far from that at most.
/// Their errors add up to what so many others are behind or ahead, of which it bears its part.
pub fn stray_ms(part: f64, others: f64) -> f64 {
    MOVES * QUANTUM_MS * (1.0 + LATE) * (1.0 + part * others)
}

/// The same, for a look of so many seconds, as a part of what is due.
pub fn of_several(seconds: f64) -> f64 {
    2.0 * BEHIND_MS / (seconds * 1e3)
}

/// By `cpu.weight` under the kernel's own scheduler (EEVDF), on one CPU, ms: the lag that it lets a
/// cgroup have is two slices of 3 ms, and whoever runs goes on until the next tick. At each end.
pub fn stray_by_weight_ms(part: f64) -> f64 {
    2.0 * (2.0 * 3.0 + TICK_MS) * (1.0 + part * FEW_OTHERS)
}

/// On so many CPUs, ms: who is due `due_ms` in so many seconds is behind with its CPU at one end,
/// and ahead at the other; and it strays on each as on one.
pub fn stray_of_several_ms(due_ms: f64, seconds: f64, cpus: usize) -> f64 {
    due_ms * of_several(seconds) + MOVES * QUANTUM_MS * cpus as f64
}

/// Of a quota in each period, ms that are had or not because of where the periods lie: at the ends
/// of a look that of one may be in or out, and what a run took too much comes off the next.
pub fn limit_ms(quota_ms: f64) -> f64 {
    quota_ms + QUANTUM_MS * (1.0 + LATE)
}

/// Each leaf had what it is due, on so many CPUs.
pub fn shares(what: &str, shares: &Shares, cpus: usize) -> Result<()> {
    let all_ms = shares.used * shares.seconds * 1e3 * cpus as f64;
    ensure!(!shares.leaves.is_empty() && all_ms > 0.0, "{what}: nobody");
    for leaf in &shares.leaves {
        let due_ms = leaf.ideal * all_ms;
        let most = match cpus {
            1 => stray_ms(leaf.ideal, FEW_OTHERS),
            _ => stray_of_several_ms(due_ms, shares.seconds, cpus),
        };
        let off = leaf.share * all_ms - due_ms;
        let path = &leaf.path;
        eprintln!("       {what} {path}: {off:+.2} ms off of {due_ms:.0}, {most:.2} at most");
        ensure!(
            off.abs() <= most,
            "{what}: {off} ms off, not {most}: {leaf:?}"
        );
        // At any moment, too, from the beginning on. Only on one CPU nobody runs while it is
        // looked.
        let furthest = leaf.ahead_ms.max(-leaf.behind_ms);
        ensure!(
            cpus > 1 || furthest <= most,
            "{what}: at times {furthest} ms off, not {most}: {leaf:?}"
        );
    }
    Ok(())
}

/// Threads of each nice value had what they are due. The kernel tells a sched_ext scheduler their
/// weights in whole hundredths of nice 0's. Inside a cgroup each thread strays by itself.
pub fn nice(nice: &Nice, cpus: usize) -> Result<()> {
    let all_ms = nice.used_ms;
    let weights: f64 = nice.levels.iter().map(|l| hundredths(l.nice)).sum();
    ensure!(weights > 0.0 && all_ms > 0.0, "nobody");
    for level in &nice.levels {
        let due_ms = hundredths(level.nice) / weights * all_ms;
        let most = match cpus {
            1 => stray_ms(level.ideal, FEW_OTHERS) * level.threads as f64,
            _ => stray_of_several_ms(due_ms, nice.seconds, cpus) * level.threads as f64,
        };
        let off = level.share * all_ms - due_ms;
        let value = level.nice;
        eprintln!("       nice {value}: {off:+.2} ms off of {due_ms:.0}, {most:.2} at most");
        ensure!(off.abs() <= most, "nice {value}: {off} ms off: {level:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::shares::Service;
    use crate::load::tickets::Mechanism;

    fn two(share: f64, ahead_ms: f64) -> Shares {
        let leaf = |ideal: f64, share: f64| Service {
            path: "leaf".into(),
            weight: 100,
            ideal,
            share,
            relative_error: share / ideal - 1.0,
            behind_ms: 0.0,
            ahead_ms,
            threads: 1,
            ran: 1,
            least_ms: 1.0,
            most_ms: 1.0,
            longest_wait_ms: 1.0,
        };
        Shares {
            mechanism: Mechanism::Weight,
            seconds: 10.0,
            sample_ms: 10,
            leaves: vec![leaf(0.75, share), leaf(0.25, 1.0 - share)],
            largest_relative_error: 0.0,
            largest_service_error_ms: 0.0,
            used: 1.0,
            switches_per_s: 0.0,
            migrations_per_s: 0.0,
        }
    }

    #[test]
    fn what_strays_further_than_theory_allows_fails() {
        // Of 10 s: who is due a quarter may have 4.33 ms less.
        let most = stray_ms(0.25, FEW_OTHERS);
        assert!((most - 4.33).abs() < 0.01, "{most}");
        for (share, ahead_ms, holds) in [
            (0.75, 0.0, true),
            (0.7504, 0.0, true),
            (0.7505, 0.0, false),
            (0.7495, 0.0, false),
            (0.75, 4.3, true),
            (0.75, 4.4, false),
        ] {
            let judged = super::shares("test", &two(share, ahead_ms), 1);
            assert_eq!(judged.is_ok(), holds, "{share} {ahead_ms}: {judged:?}");
        }
        let nobody = Shares {
            leaves: vec![],
            ..two(0.75, 0.0)
        };
        assert!(super::shares("test", &nobody, 1).is_err());
    }
}
