// SPDX-License-Identifier: GPL-2.0-only
//! One job, three ways: the clients by virtual time in vtrr.h, in a binary heap, in a red-black tree.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use intrusive_collections::{KeyAdapter, RBTree, RBTreeLink, intrusive_adapter};
use serde::{Deserialize, Serialize};

use super::jit::Jit;
use super::queue::Queue;
use crate::lab::rules::grouped::{Grouped, START, period};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// vtrr.h, compiled by the C compiler at -O2, grouped virtual time.
    Tix,
    /// The same as the kernel compiles it, where it lets this process load BPF programs.
    Bpf,
    /// The standard library's, by virtual finishing time (WFQ).
    Heap,
    /// An intrusive red-black tree by virtual finishing time, each client a piece of memory of its own, like the kernel's.
    Tree,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Tix, Kind::Bpf, Kind::Heap, Kind::Tree];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Tix => "vtrr.h",
            Kind::Bpf => "vtrr.h in BPF",
            Kind::Heap => "binary heap",
            Kind::Tree => "red-black tree",
        }
    }

    /// None where this machine has none.
    pub fn of(self, clients: &[(u64, u64)]) -> Option<Box<dyn Queue>> {
        Some(match self {
            Kind::Tix => Box::new(Grouped::filed(clients)),
            Kind::Bpf => Box::new(Jit::of(clients).ok()?),
            Kind::Heap => Box::new(Heap::of(clients)),
            Kind::Tree => Box::new(Tree::of(clients)),
        })
    }
}

/// How the clients' weights are drawn, 1 … 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Any is as likely as any other.
    Uniform,
    /// Any order of magnitude is as likely as any other.
    Log,
    /// A thousand of them, evenly spaced, in turn: fewer clients have one each.
    Thousand,
}

impl Weights {
    pub const ALL: [Weights; 3] = [Weights::Uniform, Weights::Log, Weights::Thousand];

    /// Clients as period and first tag, virtual ns. They are in the midst of it: each somewhere in its period.
    pub fn clients(self, n: usize, seed: u64) -> Vec<(u64, u64)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let weight = |i: usize, random: &mut fastrand::Rng| match self {
            Weights::Uniform => random.u64(1..=10_000),
            Weights::Log => 10_000f64.powf(random.f64()) as u64,
            Weights::Thousand => {
                let steps = n.clamp(2, 1_000) - 1;
                1 + (i % (steps + 1)) as u64 * 9_999 / steps as u64
            }
        };
        let weights: Vec<u64> = (0..n).map(|i| weight(i, &mut random)).collect();
        let total = weights.iter().sum();
        let client = |w: &u64| {
            let period = period(*w, total);
            (period, START + random.u64(0..period))
        };
        weights.iter().map(client).collect()
    }
}

impl Queue for Grouped {
    fn run(&mut self, decisions: u64) -> u32 {
        Grouped::run(self, decisions)
    }
}

/// Finishing times and numbers.
struct Heap {
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    periods: Vec<u64>,
}

impl Heap {
    fn of(clients: &[(u64, u64)]) -> Heap {
        let all = (0..).zip(clients);
        Heap {
            waiting: all.map(|(c, (p, tag))| Reverse((tag + p, c))).collect(),
            periods: clients.iter().map(|c| c.0).collect(),
        }
    }
}

impl Queue for Heap {
    fn run(&mut self, decisions: u64) -> u32 {
        let mut last = u32::MAX;
        for _ in 0..decisions {
            let Some(Reverse((finish, client))) = self.waiting.pop() else {
                break;
            };
            last = black_box(client);
            let finish = finish + self.periods[client as usize];
            self.waiting.push(Reverse((finish, client)));
        }
        last
    }
}

#[derive(Default)]
struct Client {
    link: RBTreeLink,
    finish: u64,
    period: u64,
    number: u32,
}

intrusive_adapter!(ByFinish = Box<Client>: Client { link => RBTreeLink });

impl<'a> KeyAdapter<'a> for ByFinish {
    type Key = u64;
    fn get_key(&self, client: &'a Client) -> u64 {
        client.finish
    }
}

struct Tree(RBTree<ByFinish>);

impl Tree {
    fn of(clients: &[(u64, u64)]) -> Tree {
        let mut tree = RBTree::new(ByFinish::new());
        for (number, (period, tag)) in (0..).zip(clients) {
            tree.insert(Box::new(Client {
                finish: tag + period,
                period: *period,
                number,
                ..Client::default()
            }));
        }
        Tree(tree)
    }
}

impl Queue for Tree {
    fn run(&mut self, decisions: u64) -> u32 {
        let mut last = u32::MAX;
        for _ in 0..decisions {
            let Some(mut client) = self.0.front_mut().remove() else {
                break;
            };
            last = black_box(client.number);
            client.finish += client.period;
            self.0.insert(client);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_and_tree_agree() {
        for weights in Weights::ALL {
            let clients = weights.clients(100, 1);
            let (mut heap, mut tree) = (Heap::of(&clients), Tree::of(&clients));
            let of = |queue: &mut dyn Queue| (0..1_000).map(|_| queue.run(1)).collect::<Vec<_>>();
            assert_eq!(of(&mut heap), of(&mut tree), "{weights:?}");
        }
    }

    #[test]
    fn each_does_the_same_job() {
        for weights in Weights::ALL {
            let clients = weights.clients(20, 2);
            let ran = |kind: Kind| {
                let (mut queue, mut ran) = (kind.of(&clients)?, vec![0i64; clients.len()]);
                for _ in 0..100_000 {
                    ran[queue.run(1) as usize] += 1;
                }
                Some(ran)
            };
            let tix = ran(Kind::Tix).expect("it is everywhere");
            if let Some(bpf) = ran(Kind::Bpf) {
                assert_eq!(tix, bpf, "{weights:?}: in C and in BPF");
            }
            // By finishing time alone, who has much of it all may be ahead by half as many quanta as there are clients.
            for (a, b) in tix.iter().zip(ran(Kind::Heap).expect("likewise")) {
                assert!((a - b).abs() <= 12, "{weights:?}: {a} and {b} quanta");
            }
        }
    }
}
