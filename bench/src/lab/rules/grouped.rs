// SPDX-License-Identifier: GPL-2.0-only
//! vtrr.h alone, with V as the caller knows it and the kernel's arithmetic (account.h): the inverse
//! of a Q62 share in Q32.32, tags summed up.

use tix_core_host as host;

/// Virtual ns.
pub const QUANTUM: u64 = 1_000_000;
/// Where virtual time begins: far from 0, so that tags may lie before it.
pub const START: u64 = 1 << 40;

/// How far the tag of one of `share` in `total` moves in a quantum, virtual ns: as account_slice()
/// has it.
pub fn period(share: u64, total: u64) -> u64 {
    host::mul_q32(QUANTUM, host::account::inverse(host::ratio(share, total)))
}

pub struct Grouped {
    queue: host::Queue,
    periods: Vec<host::Period>,
    clock: host::Clock,
}

impl Grouped {
    /// Clients by period and first tag, virtual ns.
    pub fn filed(clients: &[(u64, u64)]) -> Grouped {
        let mut queue = host::Queue::new(u32::try_from(clients.len()).unwrap_or(u32::MAX));
        for (client, (period, tag)) in (0..).zip(clients) {
            queue.link(client, *tag, host::group_of(*period), 0, false);
        }
        Grouped {
            queue,
            periods: clients.iter().map(|c| host::Period::new(c.0)).collect(),
            clock: host::Clock {
                now: START,
                decisions: 0,
            },
        }
    }

    /// So many decisions; who the last was for.
    pub fn run(&mut self, decisions: u64) -> u32 {
        let (queue, clock) = (&mut self.queue, &mut self.clock);
        queue.run(&self.periods, clock, QUANTUM, decisions)
    }

    /// What vtrr.h keeps, as cache lines.
    pub fn lines(&self) -> &[[u8; 64]] {
        self.queue.lines()
    }
}
