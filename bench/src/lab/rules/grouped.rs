// SPDX-License-Identifier: GPL-2.0-only
//! vtrr.h itself, with the kernel's arithmetic (share.bpf.h): the inverse of a Q62 share in Q32.32, tags summed up.

use super::Rule;
use tix_core_host as host;

const QUANTUM: u64 = 1_000_000;

pub struct Grouped {
    queue: host::Queue,
    periods: Vec<u64>,
    tags: Vec<u64>,
    now: u64,
    given: u64,
}

impl Grouped {
    pub fn new(shares: &[u64]) -> Grouped {
        let total = shares.iter().sum();
        // As refresh_locked() has it.
        let period = |s: &u64| {
            let inverse = ((1u128 << 94) / u128::from(host::ratio(*s, total))) as u64;
            host::mul_q32(QUANTUM, inverse)
        };
        let mut all = Grouped {
            queue: host::Queue::new(u32::try_from(shares.len()).unwrap_or(u32::MAX)),
            periods: shares.iter().map(period).collect(),
            tags: vec![1 << 40; shares.len()],
            now: 1 << 40,
            given: 0,
        };
        for i in 0..shares.len() {
            all.file(i);
        }
        all
    }

    fn file(&mut self, i: usize) {
        let group = host::group_of(self.periods[i]);
        let client = u32::try_from(i).unwrap_or(u32::MAX);
        (self.queue).link(client, self.tags[i], group, false, self.given);
    }
}

impl Rule for Grouped {
    fn next(&mut self) -> usize {
        let (choice, client) = self.queue.peek(self.now);
        if choice.eligible == 0 {
            self.now = choice.head;
        }
        self.queue.unlink(client);
        self.now += QUANTUM;
        self.given += 1;
        let i = client as usize;
        self.tags[i] += self.periods[i];
        self.file(i);
        i
    }
}
