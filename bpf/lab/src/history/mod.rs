// SPDX-License-Identifier: GPL-2.0-only
//! Histories: who is on a machine, and what happens to them when. [`replay`] has the scheduler
//! serve one, [`fluid`] an ideal machine, and [`judge`] says how far apart they are.
//! [`scenarios`] draws histories at random.
//!
//! As text a history is one line each, and `#` begins a comment:
//!
//! ```text
//! cpus 2
//! node 1 in 0 tickets 300         a cgroup in that of node 0, base
//! also 1 in 0 tickets 50          another node before it funds it, too
//! thread 0 of 1                   optionally: bound to a CPU, `on 1`; yielding after so many ns,
//!                                 `yields 100000`; never interrupted while it has something to
//!                                 do, `holds`; one of the kernel's own for that CPU, `kernel`
//! end 1000000000                  ns
//! 0 run 0 forever
//! 5000000 run 0 250000            ns of CPU time more to be used; a thread without any sleeps
//! 9000000 share 1 50              tickets, from now on
//! ```

pub mod fluid;
pub mod judge;
pub mod replay;
pub mod scenarios;
mod text;

pub const US: u64 = 1_000;

/// More than anybody can use: a thread that has this to do never sleeps.
pub const FOREVER: u64 = u64::MAX / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// A node before this one, or 0, base.
    pub issuer: u32,
    pub tickets: u32,
    /// Tickets of a second issuer, which do not change; the ideal machine does not know of them.
    pub also: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// 0 for one of the kernel's own.
    pub node: u32,
    pub on: Option<u32>,
    /// Yields whenever it has run for so long, ns.
    pub yields: Option<u64>,
    /// Is not interrupted while it has something to do.
    pub holds: bool,
    /// One of the kernel's own that does the work of the CPU that it is bound to.
    pub kernel: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread has so much more to do, ns of CPU time.
    Run { thread: u32, work: u64 },
    /// A node's issuer backs it with so many tickets instead.
    Share { node: u32, tickets: u32 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub cpus: u32,
    /// Node 0, base, is not among them: these are 1, 2, ...
    pub nodes: Vec<Node>,
    pub threads: Vec<Thread>,
    /// By time, ns.
    pub events: Vec<(u64, What)>,
    /// ns.
    pub end: u64,
}

impl History {
    pub fn new(cpus: u32, end: u64) -> History {
        History {
            cpus,
            end,
            ..History::default()
        }
    }

    /// A node more; its number.
    pub fn node(&mut self, issuer: u32, tickets: u32) -> u32 {
        self.nodes.push(Node {
            issuer,
            tickets,
            also: None,
        });
        self.nodes.len() as u32
    }

    /// Another node before it funds `node`, too.
    pub fn also(&mut self, node: u32, issuer: u32, tickets: u32) {
        self.nodes[node as usize - 1].also = Some((issuer, tickets));
    }

    /// A thread more; its number.
    pub fn thread(&mut self, node: u32) -> u32 {
        self.threads.push(Thread {
            node,
            ..Thread::default()
        });
        self.threads.len() as u32 - 1
    }

    /// A thread of the kernel's own on each CPU; their numbers.
    pub fn kernel_threads(&mut self) -> Vec<u32> {
        (0..self.cpus)
            .map(|cpu| {
                let thread = self.thread(0);
                let t = &mut self.threads[thread as usize];
                (t.on, t.kernel) = (Some(cpu), true);
                thread
            })
            .collect()
    }

    /// A principal of one thread that always wants the CPU.
    pub fn hog(&mut self, issuer: u32, tickets: u32) -> u32 {
        let node = self.node(issuer, tickets);
        let thread = self.thread(node);
        self.run(0, thread, FOREVER);
        node
    }

    pub fn run(&mut self, at: u64, thread: u32, work: u64) {
        self.events.push((at, What::Run { thread, work }));
    }

    pub fn share(&mut self, at: u64, node: u32, tickets: u32) {
        self.events.push((at, What::Share { node, tickets }));
    }

    /// The nodes that have threads of their own.
    pub fn principals(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.threads.iter().map(|t| t.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
