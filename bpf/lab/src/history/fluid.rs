// SPDX-License-Identifier: GPL-2.0-only
//! The ideal machine that the scheduler is compared with.
//!
//! It can be divided at will, so that everybody has its share at every moment (Parekh and
//! Gallager's GPS), and has CPUs, of which a thread can use one. It is given the same work as the
//! simulated machine, and is done with it in its own time. Shares are hierarchical (model.md, 2):
//! what an issuer has goes to its active tickets in proportion; what one of them cannot use goes
//! to its siblings, and to the issuer's siblings only where none of them can use it.
//!
//! Limits: it knows neither of CPUs that threads are bound to nor of a node's second issuer.

use super::{FOREVER, History, What};

/// FUND_SELF of core/funding.h: tickets of the threads that are directly in a node.
const SELF: f64 = 100.0;

/// Divides `all` by weight among those who can use so much at most: (weight, most).
fn divide(all: f64, among: &[(f64, f64)]) -> Vec<f64> {
    let mut got = vec![0.0; among.len()];
    let mut open: Vec<usize> = (0..among.len()).filter(|i| among[*i].1 > 0.0).collect();
    let mut left = all;
    loop {
        let weights: f64 = open.iter().map(|i| among[*i].0).sum();
        let part = |i: usize| left * among[i].0 / weights;
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|i| part(**i) >= among[**i].1);
        if full.is_empty() {
            rest.iter().for_each(|i| got[*i] = part(*i));
            return got;
        }
        for i in full {
            got[i] = among[i].1;
            left -= got[i];
        }
        left = left.max(0.0);
        open = rest;
    }
}

pub struct Fluid {
    cpus: f64,
    /// By node, base included: (issuer, tickets).
    nodes: Vec<(usize, f64)>,
    threads: Vec<usize>,
    /// By thread: ns of work yet to be done.
    work: Vec<f64>,
    /// By node: CPUs that its own threads have now, each of them as much as any other.
    rates: Vec<f64>,
    /// By node: ns of CPU that its own threads have had.
    pub served: Vec<f64>,
    at: f64,
}

impl Fluid {
    pub fn new(history: &History) -> Fluid {
        let mut nodes = vec![(0, 0.0)];
        let backed = history.nodes.iter();
        nodes.extend(backed.map(|n| (n.issuer as usize, f64::from(n.tickets))));
        Fluid {
            cpus: f64::from(history.cpus),
            threads: history.threads.iter().map(|t| t.node as usize).collect(),
            work: vec![0.0; history.threads.len()],
            rates: vec![0.0; nodes.len()],
            served: vec![0.0; nodes.len()],
            nodes,
            at: 0.0,
        }
    }

    pub fn happens(&mut self, at: u64, what: What) {
        self.advance(at);
        match what {
            What::Run { thread, work } => {
                let more = match work {
                    FOREVER.. => f64::INFINITY,
                    work => work as f64,
                };
                self.work[thread as usize] += more;
            }
            What::Share { node, tickets } => self.nodes[node as usize].1 = f64::from(tickets),
        }
        self.allocate();
    }

    /// CPUs that the threads directly in `node` have now.
    #[cfg(test)]
    pub fn rate(&self, node: u32) -> f64 {
        self.rates[node as usize]
    }

    fn runnable(&self) -> Vec<f64> {
        let mut of = vec![0.0; self.nodes.len()];
        for (node, work) in self.threads.iter().zip(&self.work) {
            of[*node] += f64::from(*work > 0.0);
        }
        of
    }

    fn allocate(&mut self) {
        let own = self.runnable();
        let mut most = own.clone();
        // A node comes after its issuer.
        for i in (1..self.nodes.len()).rev() {
            most[self.nodes[i].0] += most[i];
        }
        let mut all = vec![0.0; self.nodes.len()];
        all[0] = self.cpus;
        for issuer in 0..self.nodes.len() {
            let holders: Vec<usize> = (1..self.nodes.len())
                .filter(|i| self.nodes[*i].0 == issuer)
                .collect();
            let mut among = vec![(SELF, own[issuer])];
            among.extend(holders.iter().map(|i| (self.nodes[*i].1, most[*i])));
            let parts = divide(all[issuer], &among);
            self.rates[issuer] = parts[0];
            for (i, part) in holders.iter().zip(&parts[1..]) {
                all[*i] = *part;
            }
        }
    }

    /// CPUs that one thread of `node` has, of whom `runnable` are.
    fn each(&self, node: usize, runnable: &[f64]) -> f64 {
        self.rates[node] / runnable[node].max(1.0)
    }

    /// Serve until `to`, ns.
    pub fn advance(&mut self, to: u64) {
        let to = to as f64;
        while self.at < to {
            let runnable = self.runnable();
            let done = |(node, work): (&usize, &f64)| match self.each(*node, &runnable) {
                rate if *work > 0.0 && rate > 0.0 => work / rate,
                _ => f64::INFINITY,
            };
            let soonest = (self.threads.iter().zip(&self.work))
                .map(done)
                .fold(f64::INFINITY, f64::min);
            let step = soonest.min(to - self.at);
            for t in 0..self.threads.len() {
                let used = step * self.each(self.threads[t], &runnable);
                // Less than a thousandth of a ns is an error of rounding.
                if self.work[t] > 0.0 {
                    self.work[t] = Some(self.work[t] - used)
                        .filter(|w| *w > 1e-3)
                        .unwrap_or(0.0);
                }
            }
            for (served, rate) in self.served.iter_mut().zip(&self.rates) {
                *served += step * rate;
            }
            self.at += step;
            if soonest <= step {
                self.allocate();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs that nodes of (issuer, tickets, hogs) have of so many.
    fn rates(cpus: u32, nodes: &[(u32, u32, u32)]) -> Vec<f64> {
        let mut history = History::new(cpus, 1);
        for (issuer, tickets, threads) in nodes {
            let node = history.node(*issuer, *tickets);
            for _ in 0..*threads {
                let thread = history.thread(node);
                history.run(0, thread, FOREVER);
            }
        }
        let mut fluid = Fluid::new(&history);
        for (at, what) in &history.events {
            fluid.happens(*at, *what);
        }
        (1..=nodes.len() as u32).map(|n| fluid.rate(n)).collect()
    }

    #[track_caller]
    fn same(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(got.iter().zip(expected).all(near), "{got:?} {expected:?}");
    }

    #[test]
    fn one_cpu_is_divided_by_tickets() {
        same(
            &rates(1, &[(0, 3, 1), (0, 2, 1), (0, 1, 5)]),
            &[0.5, 1.0 / 3.0, 1.0 / 6.0],
        );
    }

    #[test]
    fn one_thread_has_one_cpu() {
        same(&rates(2, &[(0, 90, 1), (0, 10, 1)]), &[1.0, 1.0]);
        same(
            &rates(2, &[(0, 90, 1), (0, 6, 1), (0, 4, 1)]),
            &[1.0, 0.6, 0.4],
        );
        same(&rates(4, &[(0, 90, 3), (0, 10, 1)]), &[3.0, 1.0]);
        same(&rates(4, &[(0, 1, 1), (0, 1, 1)]), &[1.0, 1.0]);
    }

    #[test]
    fn who_is_full_fills_others() {
        // Of 4 CPUs the first would have 3.2; of the three that are left the second 1.5.
        same(
            &rates(4, &[(0, 80, 1), (0, 10, 1), (0, 10, 4)]),
            &[1.0, 1.0, 2.0],
        );
    }

    #[test]
    fn the_surplus_stays_with_the_siblings_first() {
        // alice (2/3 of 3 CPUs: 2) has issued 9 and 1 to one thread each, bob has the rest.
        let alice = [(0, 200, 0), (0, 100, 4), (1, 9, 1), (1, 1, 1)];
        same(&rates(3, &alice), &[0.0, 1.0, 1.0, 1.0]);
        // Flat, the 0.7 of the first would be divided by value, 0.1 : 1.
        let three = [(0, 100, 0), (0, 100, 4), (1, 8, 1), (1, 1, 1), (1, 1, 1)];
        same(&rates(4, &three), &[0.0, 2.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn it_goes_up_when_all_siblings_are_full() {
        let alice = [(0, 300, 0), (0, 100, 4), (1, 1, 1), (1, 1, 1)];
        same(&rates(4, &alice), &[0.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn threads_directly_in_an_issuer_hold_a_hundred_tickets() {
        same(&rates(1, &[(0, 1, 1), (1, 300, 1)]), &[0.25, 0.75]);
    }

    #[test]
    fn work_is_done_and_the_rest_goes_to_others() {
        let mut history = History::new(1, 100);
        history.hog(0, 1);
        let sleeper = history.node(0, 3);
        let thread = history.thread(sleeper);
        history.run(10, thread, 30);
        let mut fluid = Fluid::new(&history);
        for (at, what) in &history.events {
            fluid.happens(*at, *what);
        }
        // 10 alone; 40 with a quarter; 50 alone.
        fluid.advance(100);
        same(&fluid.served, &[0.0, 70.0, 30.0]);
    }
}
