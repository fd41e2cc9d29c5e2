// SPDX-License-Identifier: GPL-2.0-only
//! Weighted round-robin.

use super::Rule;

pub struct Wrr {
    shares: Vec<u64>,
    at: usize,
    left: u64,
}

impl Wrr {
    pub fn new(shares: &[u64]) -> Wrr {
        Wrr {
            shares: shares.to_vec(),
            at: 0,
            left: shares[0],
        }
    }
}

impl Rule for Wrr {
    fn next(&mut self) -> usize {
        if self.left == 0 {
            self.at = (self.at + 1) % self.shares.len();
            self.left = self.shares[self.at];
        }
        self.left -= 1;
        self.at
    }
}
