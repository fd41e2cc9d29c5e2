// SPDX-License-Identifier: GPL-2.0-only
//! Virtual-time round-robin as published (Nieh, Vaill and Zhong 2001 §3), with clients that always want to run: a queue by share, largest
//! first, that is walked from its head as long as virtual time lets it.

use super::Rule;

struct Client {
    /// Its number as it was given.
    number: usize,
    share: u64,
    /// Quanta left in this cycle: the time counter.
    counter: u64,
    /// Quanta that it has had; its virtual finishing time is one more of them, divided by its share.
    runs: u64,
}

pub struct Vtrr {
    queue: Vec<Client>,
    total: u64,
    given: u64,
    /// Who ran last.
    at: Option<usize>,
}

impl Vtrr {
    pub fn new(shares: &[u64]) -> Vtrr {
        let client = |(number, share): (usize, &u64)| Client {
            number,
            share: *share,
            counter: *share,
            runs: 0,
        };
        let mut queue: Vec<Client> = shares.iter().enumerate().map(client).collect();
        queue.sort_by_key(|c| std::cmp::Reverse(c.share));
        Vtrr {
            queue,
            total: shares.iter().sum(),
            given: 0,
            at: None,
        }
    }

    fn choose(&self) -> usize {
        let Some(at) = self.at else { return 0 };
        let (Some(next), current) = (self.queue.get(at + 1), &self.queue[at]) else {
            return 0;
        };
        // Its finishing time is before that of a client with nothing but its due, F - QVT(t + Q) < Q / S (eq. 6), or the time counter
        // invariant would not hold.
        let behind = u128::from(next.runs) * u128::from(self.total)
            < u128::from(self.given + 1) * u128::from(next.share);
        match next.counter > current.counter || behind {
            true => at + 1,
            false => 0,
        }
    }
}

impl Rule for Vtrr {
    fn next(&mut self) -> usize {
        let at = self.choose();
        self.at = Some(at);
        let c = &mut self.queue[at];
        c.counter = c.counter.saturating_sub(1);
        c.runs += 1;
        let number = c.number;
        self.given += 1;
        if self.given.is_multiple_of(self.total) {
            // The cycle is over: all counters are 0.
            for c in &mut self.queue {
                c.counter = c.share;
            }
            self.at = None;
        }
        number
    }
}
