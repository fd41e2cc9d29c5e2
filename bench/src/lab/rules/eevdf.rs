// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own rule (EEVDF, Stoica and Abdel-Wahab 1995; kernel/sched/fair.c): requests of several ticks, of which the one that has
//! begun goes on until it is over or its client has had more than its due (RUN_TO_PARITY).

use super::Rule;
use super::wf2q::Wf2q;

/// Ticks of 1 ms in a request of 2.8 ms, the kernel's base slice on eight CPUs and more.
const REQUEST: u64 = 3;

pub struct Eevdf(Wf2q);

impl Eevdf {
    pub fn new(shares: &[u64]) -> Eevdf {
        Eevdf(Wf2q::new(shares, REQUEST))
    }
}

impl Rule for Eevdf {
    fn next(&mut self) -> usize {
        self.0.next()
    }
}
