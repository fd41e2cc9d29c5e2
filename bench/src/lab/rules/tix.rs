// SPDX-License-Identifier: GPL-2.0-only
//! A CPU's queue as the kernel runs it (core/queue.h): V is the mean of the tags. Of principals that
//! base funds, a thread each.

use super::Rule;
use tix_core_host as host;

const SLICE_NS: u32 = 1_000_000;
/// Base tickets that values are counted against, as fund_init() has them.
const SCALE_LOG: u32 = 23;
/// Where virtual time begins: far from 0, so that tags may lie before it.
const START: u64 = 1 << 50;
/// Time stands still: it is for who has waited too long, which no share is about.
const NOW: u64 = 0;

pub struct Tix {
    cpu: host::Cpu,
    running: Option<u32>,
}

impl Tix {
    pub fn new(shares: &[u64]) -> Tix {
        let mut cpu = host::Cpu::new(u32::try_from(shares.len()).unwrap_or(u32::MAX), START);
        for (i, share) in (0..).zip(shares) {
            let inverse = host::account::inverse(share << (62 - SCALE_LOG));
            let period = host::mul_q32(SLICE_NS.into(), inverse);
            cpu.place(i, START, period, SLICE_NS);
            cpu.link(i, NOW);
        }
        Tix { cpu, running: None }
    }
}

impl Rule for Tix {
    fn next(&mut self) -> usize {
        self.running = self.cpu.run(self.running, NOW, 1);
        self.running.map_or(0, |i| i as usize)
    }
}
