// SPDX-License-Identifier: GPL-2.0-only
//! core/account.h, as far as it is arithmetic. A unit of what is served is 2^-24 ns for a ticket.

use crate::Thread;

unsafe extern "C" {
    safe fn core_served_by(ns: u64, tickets: u64) -> u64;
    safe fn core_ahead_ns(served: u64, mean: u64, tickets: u64) -> i64;
    safe fn core_in_vtime(ns: i64, inverse: u64) -> i64;
    safe fn core_unweighed(v: i64, inverse: u64) -> i64;
    safe fn core_scaled(x: i64, a: u64, b: u64) -> i64;
    safe fn core_inverse(value: u64) -> u64;
    safe fn core_vtime(ns: u64, rate: u64, nr_cpus: u32) -> u64;
    safe fn core_join_mean(
        served: &mut u64,
        mean: &mut u64,
        others: u64,
        tickets: u64,
        credit: u64,
    );
    safe fn core_leave_mean(served: u64, mean: &mut u64, others: u64, tickets: u64);
    safe fn core_forgive(
        served: &mut u64,
        mean: &mut u64,
        tickets: u64,
        all: u64,
        most: i64,
    ) -> i64;
    safe fn core_slice(
        inverse: u64,
        load: u32,
        weight: u32,
        is_one_of: bool,
        slice_ns: u64,
        round: u64,
    ) -> Thread;
    safe fn core_return(
        vtime: u64,
        slept_ns: u64,
        clock: u64,
        early: u64,
        credit: u64,
        most: u64,
        now: u64,
        join: u32,
    ) -> u64;
}

pub fn served_by(ns: u64, tickets: u64) -> u64 {
    core_served_by(ns, tickets)
}

pub fn ahead_ns(served: u64, mean: u64, tickets: u64) -> i64 {
    core_ahead_ns(served, mean, tickets)
}

pub fn in_vtime(ns: i64, inverse: u64) -> i64 {
    core_in_vtime(ns, inverse)
}

pub fn unweighed(v: i64, inverse: u64) -> i64 {
    core_unweighed(v, inverse)
}

pub fn scaled(x: i64, a: u64, b: u64) -> i64 {
    core_scaled(x, a, b)
}

/// 1 / value in Q32.32, of a value in Q62 below 2.
pub fn inverse(value: u64) -> u64 {
    assert!(value < 1 << 63);
    core_inverse(value)
}

pub fn vtime(ns: u64, rate: u64, nr_cpus: u32) -> u64 {
    core_vtime(ns, rate, nr_cpus)
}

/// Members of a currency, or threads of a principal: what each ticket has had on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mean(pub u64);

impl Mean {
    /// One that has had `served` joins those with `others` tickets: what it counts as having had.
    pub fn join(&mut self, mut served: u64, others: u64, tickets: u64, credit: u64) -> u64 {
        core_join_mean(&mut served, &mut self.0, others, tickets, credit);
        served
    }

    /// One leaves, and those with `others` tickets stay.
    pub fn leave(&mut self, served: u64, others: u64, tickets: u64) {
        core_leave_mean(served, &mut self.0, others, tickets);
    }

    /// One of those with `all` tickets is no further behind than `behind` ns, nor too far ahead: by how
    /// many ns it is ahead then, as the core says.
    pub fn forgive(&mut self, served: &mut u64, tickets: u64, all: u64, behind: i64) -> i64 {
        core_forgive(served, &mut self.0, tickets, all, behind)
    }
}

/// A thread of `weight`, of a principal whose threads have `load` together.
pub fn slice(
    inverse: u64,
    load: u32,
    weight: u32,
    is_one_of: bool,
    slice_ns: u64,
    round: u64,
) -> Thread {
    assert!((1 << 16..1 << 32).contains(&slice_ns));
    core_slice(inverse, load, weight, is_one_of, slice_ns, round)
}

/// An account that slept, and a CPU on which it comes back.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    pub vtime: u64,
    pub slept_ns: u64,
    pub clock: u64,
    /// No later than the clock: what it is owed counts from there.
    pub early: u64,
    pub now: u64,
}

impl Sleeper {
    pub fn comes_back(self, credit: u64, most: u64, join: u32) -> u64 {
        let Sleeper {
            vtime,
            slept_ns,
            clock,
            early,
            now,
        } = self;
        core_return(vtime, slept_ns, clock, early, credit, most, now, join)
    }
}
