// SPDX-License-Identifier: GPL-2.0-only
//! Two key-value stores beside four programs that only read, on one disk and one CPU: what each gets on with what it is entitled to, by
//! a model of the kernel. Amounts are as the ledger has them.

use tix_negotiate::{Pressure, Reading};

pub const M: f64 = 1024.0 * 1024.0;
const PAGE: f64 = 4096.0;
/// What both have, and what each is guaranteed of it, bytes.
pub const ALL: f64 = 26.0 * M;
pub const EACH: f64 = 12.0 * M;
/// CPU and disk tickets of each of the six.
pub const TICKETS: f64 = 1000.0;
const OTHERS: f64 = 4.0;
/// Of a disk-bound program the part of the time in which one of its threads waits.
const WAITS: f64 = 0.97;

#[derive(Debug, Clone, Copy)]
pub struct Store {
    /// Bytes of its data, and of what it needs besides.
    pub data: f64,
    pub fixed: f64,
    /// What is asked for: 1, anything; above, some more often than others, so that hits are concave in memory.
    pub skew: f64,
    /// What it has in memory, bytes.
    pub memory: f64,
    /// Requests served so far.
    pub served: f64,
    /// How much of what comes back soon the kernel takes for the working set: 1, all of it.
    pub seen: f64,
    some: [f64; 3],
    full: [f64; 3],
    refaults: f64,
}

impl Store {
    pub fn new(data: f64, fixed: f64, skew: f64) -> Store {
        Store {
            data,
            fixed,
            skew,
            memory: EACH,
            served: 0.0,
            seen: 1.0,
            some: [0.0; 3],
            full: [0.0; 3],
            refaults: 0.0,
        }
    }

    fn cached(&self) -> f64 {
        ((self.memory - self.fixed) / self.data).clamp(0.0, 1.0)
    }

    fn misses(&self) -> f64 {
        (1.0 - self.cached()).powf(self.skew)
    }

    pub fn reading(&self, at: f64, says: bool) -> Reading {
        let usec = |s: f64| (s * 1e6) as u64;
        Reading {
            at: std::time::Duration::from_secs_f64(at),
            progress: says.then_some(self.served as u64),
            pressure: [0, 1, 2].map(|i| Pressure {
                some: usec(self.some[i]),
                full: usec(self.full[i]),
            }),
            refaults: self.refaults as u64,
        }
    }
}

/// The machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Requests a second that the disk serves.
    pub iops: f64,
    /// CPU time of a request that is served from memory, seconds.
    pub cost: f64,
    /// The part of the CPU that each of the others uses if it can.
    pub others: f64,
}

/// What a store is entitled to: base tickets, and bytes.
#[derive(Debug, Clone, Copy)]
pub struct Has {
    pub cpu: f64,
    pub disk: f64,
    pub memory: f64,
}

/// What each of the wanting gets of `all`, by weights; the last wants as much as it can get.
fn shared(all: f64, wants: [f64; 3], weights: [f64; 3]) -> [f64; 3] {
    let (mut got, mut left) = ([0.0; 3], all);
    for _ in 0..3 {
        let open = |i: usize, got: &[f64; 3]| got[i] < wants[i] * 0.999_999;
        let sum: f64 = (0..3).filter(|i| open(*i, &got)).map(|i| weights[i]).sum();
        if left <= 1e-9 || sum <= 0.0 {
            break;
        }
        let part = left / sum;
        for i in 0..3 {
            if open(i, &got) {
                let more = (part * weights[i]).min(wants[i] - got[i]);
                got[i] += more;
                left -= more;
            }
        }
    }
    got
}

impl Machine {
    /// Lets `time` seconds pass; requests a second of each. `noise`: a factor for each.
    pub fn run(
        &self,
        stores: &mut [Store; 2],
        has: [Has; 2],
        time: f64,
        noise: [f64; 2],
    ) -> [f64; 2] {
        let misses = [stores[0].misses(), stores[1].misses()];
        let cpus = [has[0].cpu.max(1.0), has[1].cpu.max(1.0), OTHERS * TICKETS];
        let disks = [has[0].disk.max(1.0), has[1].disk.max(1.0), OTHERS * TICKETS];
        // What each could serve by the disk alone decides what CPU it wants, and that what disk.
        let mut rates = [1.0 / self.cost; 2];
        for _ in 0..8 {
            let wants = [rates[0] * misses[0], rates[1] * misses[1], f64::INFINITY];
            let disk = shared(self.iops, wants.map(|w| w.max(1e-9)), disks);
            // Nobody wants less of the disk because there is little of it.
            let fair = shared(self.iops, [f64::INFINITY; 3], disks);
            let by_disk = [0, 1].map(|i| match misses[i] {
                m if m < 1e-9 => f64::INFINITY,
                m => disk[i].max(fair[i]) / m,
            });
            let wants = [
                by_disk[0] * self.cost,
                by_disk[1] * self.cost,
                OTHERS * self.others,
            ];
            let cpu = shared(1.0, wants.map(|w| w.min(2.0)), cpus);
            rates = [0, 1].map(|i| by_disk[i].min(cpu[i] / self.cost));
        }
        for i in 0..2 {
            let store = &mut stores[i];
            rates[i] *= noise[i];
            store.served += rates[i] * time;
            let busy = (rates[i] * self.cost).min(1.0);
            let reads = rates[i] * misses[i];
            let disk_bound = misses[i] > 1e-9 && busy < 0.9 * cpus[i] / cpus.iter().sum::<f64>();
            let waits = if disk_bound {
                WAITS
            } else {
                (reads * 0.05).min(WAITS)
            };
            // The kernel takes for the working set what comes back soon.
            let soon = (store.cached() * store.seen).min(1.0);
            let some = [if disk_bound { 0.1 } else { 0.8 }, waits, waits * soon];
            let full = [0.0, waits * (1.0 - busy), waits * soon * (1.0 - busy)];
            for r in 0..3 {
                store.some[r] += some[r] * time;
                store.full[r] += full[r] * time;
            }
            store.refaults += reads * time;
            // What is read stays.
            let whole = store.data + store.fixed;
            store.memory = (store.memory + reads * PAGE * time).min(whole);
        }
        reclaim(stores, has);
        rates
    }
}

/// Takes what is too much from whoever has more than is guaranteed.
fn reclaim(stores: &mut [Store; 2], has: [Has; 2]) {
    let over = stores[0].memory + stores[1].memory - ALL;
    let beyond = [0, 1].map(|i| (stores[i].memory - has[i].memory).max(0.0));
    let sum = beyond[0] + beyond[1];
    if over > 0.0 && sum > 0.0 {
        for i in 0..2 {
            stores[i].memory -= over.min(sum) * beyond[i] / sum;
        }
    }
}
