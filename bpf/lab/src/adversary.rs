// SPDX-License-Identifier: GPL-2.0-only
//! A search for programs that take somebody's share, or keep a sleeper waiting.
//!
//! bob has threads in cgroups of his own that do whatever threads can do. alice has three times
//! his weight and computes; carol, of bob's weight, sleeps most of the time and is measured by how
//! long she waits. A [`Plot`] is what bob does: drawn at random.

use crate::{ANY, Action, MS, Machine, Node, SECOND, cycle, periodic, run};

/// A generator of random numbers (splitmix64): the same seed gives the same plot anywhere.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 ... end - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Both included.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// 50 us ... 26 ms, small ones as often as large ones.
    fn time(&mut self) -> u64 {
        50_000 << self.below(10) | self.below(50_000)
    }
}

/// One of bob's threads.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Which of his cgroups it is in.
    pub cgroup: u32,
    pub nice: u32,
    pub cpus: u64,
    /// What it does, again and again. Cgroups and threads are bob's own, counted from 0.
    pub actions: Vec<Action>,
}

/// Tickets of one of bob's nodes, which change. His nodes are, in this order, the cgroup that he owns,
/// two currencies, and his cgroups; a node is funded by nodes before it, of the first three.
#[derive(Clone, Debug)]
pub struct Change {
    /// How often, ns.
    pub every: u64,
    /// Whose tickets.
    pub node: usize,
    /// By which nodes, with how many, and whether they are hard: at first, and then.
    pub tickets: [Vec<(usize, u32, bool)>; 2],
}

/// What bob does on a machine of `cpus`.
#[derive(Clone, Debug)]
pub struct Plot {
    pub cpus: u32,
    /// How many threads alice has.
    pub alice: usize,
    /// Weights of his cgroups, the second half below the first of them.
    pub cgroups: Vec<u32>,
    pub threads: Vec<Thread>,
    pub changes: Vec<Change>,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Alice's share of what she is due: below 1 she lost something.
    pub alice: f64,
    /// The longest that carol waited for a CPU, ns.
    pub longest: u64,
    /// Carol's wait in 99 of 100 cases, ns.
    pub p99: u64,
}

const WEIGHTS: [u32; 5] = [1, 20, 100, 500, 10_000];

fn action(random: &mut Random, threads: u64, cgroups: u64, cpus: u32) -> Action {
    match random.below(20) {
        0..=6 => Action::Run(random.time()),
        7..=11 => Action::Sleep(random.time()),
        12 => Action::Yield,
        13 | 14 => Action::Lock(random.below(2) as u32),
        15 => Action::Unlock(random.below(2) as u32),
        16 => Action::Wake(random.below(threads) as u32),
        17 => Action::Move(random.below(cgroups) as u32),
        18 => Action::Nice([15, 100, 1000, 8876][random.below(4) as usize]),
        _ => Action::Cpus(1 + random.below((1 << cpus) - 1)),
    }
}

fn thread(random: &mut Random, threads: u64, cgroups: u64, cpus: u32) -> Thread {
    let mut actions: Vec<_> = (0..1 + random.below(6))
        .map(|_| action(random, threads, cgroups, cpus))
        .collect();
    // Whatever else it does, it computes.
    let run = Action::Run(random.time());
    actions.push(run);
    Thread {
        cgroup: random.below(cgroups) as u32,
        nice: if random.below(4) == 0 { 1000 } else { 100 },
        cpus: if random.below(4) == 0 {
            1 + random.below((1 << cpus) - 1)
        } else {
            ANY
        },
        actions,
    }
}

const CURRENCIES: usize = 2;

fn change(random: &mut Random, cgroups: usize) -> Change {
    let node = 1 + random.below((CURRENCIES + cgroups) as u64) as usize;
    let mut tickets = || -> Vec<_> {
        let mut issuers: Vec<usize> = (0..node.min(1 + CURRENCIES)).collect();
        (0..1 + random.below(2))
            .take(issuers.len())
            .map(|_| {
                let issuer = issuers.swap_remove(random.below(issuers.len() as u64) as usize);
                let is_hard = random.below(4) == 0;
                let amount = [10, 50, 100][random.below(3) as usize];
                (issuer, amount, is_hard)
            })
            .collect()
    };
    let tickets = [tickets(), tickets()];
    Change {
        every: random.time(),
        node,
        tickets,
    }
}

impl Plot {
    /// One in which bob changes tickets, too.
    pub fn with_tickets(cpus: u32, seed: u64) -> Plot {
        let mut random = Random(!seed);
        let mut plot = Plot::random(cpus, seed);
        let cgroups = plot.cgroups.len();
        plot.changes = (0..1 + random.below(4))
            .map(|_| change(&mut random, cgroups))
            .collect();
        plot
    }

    pub fn random(cpus: u32, seed: u64) -> Plot {
        let mut random = Random(seed);
        let threads = 1 + random.below(12);
        let cgroups = 1 + random.below(6);
        Plot {
            cpus,
            alice: cpus as usize,
            cgroups: (0..cgroups)
                .map(|_| WEIGHTS[random.below(5) as usize])
                .collect(),
            threads: (0..threads)
                .map(|_| thread(&mut random, threads, cgroups, cpus))
                .collect(),
            changes: Vec::new(),
        }
    }

    /// Bob's threads in `bob`, on that machine. The result: his nodes.
    fn begin(&self, m: &mut Machine, bob: u32) -> Vec<Node> {
        let mut cgroups = Vec::new();
        for (i, weight) in self.cgroups.iter().enumerate() {
            let above = if i > self.cgroups.len() / 2 {
                cgroups[0]
            } else {
                bob
            };
            cgroups.push(m.cgroup(above, *weight));
        }
        // alice's threads and carol's came before.
        let first = self.alice as u32 + 2;
        for t in &self.threads {
            let actions = t.actions.iter().map(|a| match a {
                Action::Move(to) => Action::Move(cgroups[*to as usize % cgroups.len()]),
                Action::Wake(whom) => Action::Wake(first + whom),
                other => *other,
            });
            let program = cycle(actions.collect());
            m.thread_on(
                cgroups[t.cgroup as usize % cgroups.len()],
                t.cpus,
                t.nice,
                program,
            );
        }
        let own = m.node(bob);
        let mut nodes = vec![own];
        if !self.changes.is_empty() {
            nodes.extend((0..CURRENCIES).map(|_| m.currency()));
            for currency in &nodes[1..] {
                m.fund(*currency, &[(own, 100, false)], 0);
            }
            nodes.extend(cgroups.iter().map(|c| m.node(*c)));
        }
        nodes
    }

    /// Let so much time pass. Tickets change where the time is a multiple of `every`.
    fn pass(&self, m: &mut Machine, nodes: &[Node], ns: u64) {
        let end = m.now() + ns;
        loop {
            let next = |c: &Change| (m.now() / c.every + 1) * c.every;
            let change = self.changes.iter().min_by_key(|c| next(c));
            let Some((change, at)) = change.map(|c| (c, next(c))).filter(|(_, at)| *at < end)
            else {
                break;
            };
            m.run(at - m.now());
            let tickets: Vec<_> = change.tickets[(at / change.every % 2) as usize]
                .iter()
                .map(|(issuer, amount, is_hard)| (nodes[*issuer], *amount, *is_hard))
                .collect();
            m.fund(nodes[change.node], &tickets, 0);
        }
        m.run(end - m.now());
    }

    /// Run it until carol has waited for so many ns, and tell what the scheduler keeps then.
    pub fn dump_when_late(&self, seconds: u64, late: u64) {
        run(self.cpus, |m| {
            let sleeper = self.set_up(m).1;
            m.run(2 * SECOND);
            let mut since = m.now();
            for _ in 0..seconds * 10_000 {
                m.run(MS / 10);
                if !m.is_runnable(sleeper) || m.is_running(sleeper) {
                    since = m.now();
                } else if m.now() - since > late {
                    m.dump();
                    m.run(late / 2);
                    m.dump();
                    return;
                }
            }
        });
    }

    /// Tell what the scheduler keeps every `step` ns between these moments.
    pub fn trace(&self, from: u64, to: u64, step: u64) {
        run(self.cpus, |m| {
            let nodes = self.set_up(m).2;
            self.pass(m, &nodes, from);
            for _ in 0..(to - from) / step {
                self.pass(m, &nodes, step);
                m.trace();
            }
        });
    }

    /// alice's threads, and carol's, and bob's nodes.
    fn set_up(&self, m: &mut Machine) -> (Vec<u32>, u32, Vec<Node>) {
        let alice = m.cgroup(0, 300);
        let bob = m.cgroup(0, 100);
        let carol = m.cgroup(0, 100);
        let hogs = m.hogs(alice, self.alice);
        let sleeper = m.thread(carol, periodic(MS / 10, 20 * MS));
        let nodes = self.begin(m, bob);
        (hogs, sleeper, nodes)
    }

    /// Try it for so many seconds, after two.
    pub fn outcome(&self, seconds: u64) -> Outcome {
        run(self.cpus, |m| {
            let (hogs, sleeper, nodes) = self.set_up(m);
            self.pass(m, &nodes, 2 * SECOND);
            m.forget_waits();
            let used = |m: &Machine| [m.used_by(&hogs), m.used(sleeper)];
            let before = used(m);
            self.pass(m, &nodes, seconds * SECOND);
            let all = seconds * SECOND * u64::from(self.cpus);
            let shares = [0, 1].map(|i| (used(m)[i] - before[i]) as f64 / all as f64);
            // alice and bob divide 3:1 the time that carol leaves; time that bob leaves is alice's.
            Outcome {
                alice: shares[0] / ((1.0 - shares[1]) * 0.75),
                longest: m.waits(sleeper).longest,
                p99: m.waits(sleeper).quantile(0.99),
            }
        })
    }
}

/// The smallest plot that can be had from `plot` by leaving things out of which `is_bad` still
/// holds.
pub fn reduced(plot: &Plot, is_bad: impl Fn(&Outcome) -> bool, seconds: u64) -> Plot {
    let mut best = plot.clone();
    loop {
        let mut tries: Vec<Plot> = Vec::new();
        for i in 0..best.changes.len() {
            let mut less = best.clone();
            less.changes.remove(i);
            tries.push(less);
        }
        for i in 0..best.threads.len() {
            if best.threads.len() > 1 {
                let mut less = best.clone();
                less.threads.remove(i);
                tries.push(less);
            }
            for a in 0..best.threads[i].actions.len() {
                let mut less = best.clone();
                less.threads[i].actions.remove(a);
                let runs = |a: &Action| matches!(a, Action::Run(_));
                if less.threads[i].actions.iter().any(runs) {
                    tries.push(less);
                }
            }
            let mut plain = best.clone();
            plain.threads[i].nice = 100;
            plain.threads[i].cpus = ANY;
            if plain.threads[i].nice != best.threads[i].nice
                || plain.threads[i].cpus != best.threads[i].cpus
            {
                tries.push(plain);
            }
        }
        match tries.into_iter().find(|t| is_bad(&t.outcome(seconds))) {
            Some(less) => best = less,
            None => return best,
        }
    }
}
