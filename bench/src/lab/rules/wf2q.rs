// SPDX-License-Identifier: GPL-2.0-only
//! Worst-case fair weighted fair queueing: of the clients whose next request would have begun in a fluid system, the one whose request
//! would end first. With requests of several quanta it is the kernel's rule.

use super::{Rule, virtual_time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

type Queue = BinaryHeap<Reverse<(u128, usize)>>;

pub struct Wf2q {
    shares: Vec<u64>,
    /// Quanta that each has had.
    runs: Vec<u64>,
    total: u64,
    given: u64,
    /// Quanta of a request.
    request: u64,
    /// By start, those who have had more than their due.
    ahead: Queue,
    /// By finish.
    eligible: Queue,
}

impl Wf2q {
    pub fn new(shares: &[u64], request: u64) -> Wf2q {
        let all = shares.iter().enumerate();
        Wf2q {
            shares: shares.to_vec(),
            runs: vec![0; shares.len()],
            total: shares.iter().sum(),
            given: 0,
            request,
            ahead: Queue::new(),
            eligible: all
                .map(|(i, s)| Reverse((virtual_time(request, *s), i)))
                .collect(),
        }
    }

    /// The end of the request that `i` is at.
    fn finish(&self, i: usize) -> u128 {
        let end = (self.runs[i] / self.request + 1) * self.request;
        virtual_time(end, self.shares[i])
    }
}

impl Rule for Wf2q {
    fn next(&mut self) -> usize {
        let now = virtual_time(self.given, self.total);
        while let Some(Reverse((start, i))) = self.ahead.peek().copied() {
            if start > now {
                break;
            }
            self.ahead.pop();
            let finish = self.finish(i);
            self.eligible.push(Reverse((finish, i)));
        }
        // Somebody always has had no more than the due.
        let i = self.eligible.pop().map_or(0, |Reverse((_, i))| i);
        self.runs[i] += 1;
        self.given += 1;
        let start = virtual_time(self.runs[i], self.shares[i]);
        self.ahead.push(Reverse((start, i)));
        i
    }
}
