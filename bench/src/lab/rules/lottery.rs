// SPDX-License-Identifier: GPL-2.0-only
//! Lottery scheduling: each quantum to whose ticket is drawn.

use super::Rule;

pub struct Lottery {
    /// The tickets of each client and of those before it.
    upto: Vec<u64>,
    random: fastrand::Rng,
}

impl Lottery {
    pub fn new(shares: &[u64], seed: u64) -> Lottery {
        let mut sum = 0;
        let add = |s: &u64| {
            sum += s;
            sum
        };
        Lottery {
            upto: shares.iter().map(add).collect(),
            random: fastrand::Rng::with_seed(seed),
        }
    }
}

impl Rule for Lottery {
    fn next(&mut self) -> usize {
        let total = self.upto.last().copied().unwrap_or(1);
        let drawn = self.random.u64(..total);
        self.upto.partition_point(|upto| *upto <= drawn)
    }
}
