// SPDX-License-Identifier: GPL-2.0-only
//! Weighted fair queueing among clients that always want to run: a heap by virtual finishing time.

use super::{Rule, virtual_time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub struct Wfq {
    shares: Vec<u64>,
    runs: Vec<u64>,
    queue: BinaryHeap<Reverse<(u128, usize)>>,
}

impl Wfq {
    pub fn new(shares: &[u64]) -> Wfq {
        let all = shares.iter().enumerate();
        Wfq {
            queue: all
                .map(|(i, s)| Reverse((virtual_time(1, *s), i)))
                .collect(),
            shares: shares.to_vec(),
            runs: vec![0; shares.len()],
        }
    }
}

impl Rule for Wfq {
    fn next(&mut self) -> usize {
        let Some(Reverse((_, i))) = self.queue.pop() else {
            return 0;
        };
        self.runs[i] += 1;
        let finish = virtual_time(self.runs[i] + 1, self.shares[i]);
        self.queue.push(Reverse((finish, i)));
        i
    }
}
