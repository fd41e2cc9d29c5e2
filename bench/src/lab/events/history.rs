// SPDX-License-Identifier: GPL-2.0-only
//! A history: a machine, who is on it, and what happens to them when. As text it is one line each, and `#` begins a comment:
//!
//! ```text
//! cpus 2
//! node 1 in 0 tickets 300             node 0 is base
//! thread 0 of 1                       optionally: bound to a CPU, `on 1`; yielding after so many ns, `yields 100000`;
//!                                     never letting go while it has something to do, `stuck`; before
//!                                     all others on its CPU, as the kernel's own do, `first`
//! end 1000000000                      ns
//! 0 run 0 forever
//! 5000000 run 0 250000                ns of CPU: it becomes runnable, and sleeps when all that it was given to do is done
//! 9000000 share 1 50                  tickets, from now on
//! ```

use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;

/// More than anybody can use: who has this to do never sleeps.
pub const FOREVER: u64 = u64::MAX / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// A node before this one, or 0, base.
    pub issuer: u32,
    pub tickets: u32,
    /// Of a second one, so many, always; the oracle knows nothing of those.
    pub also: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub node: u32,
    pub on: Option<u32>,
    /// Yields whenever it has run for so long, ns.
    pub yields: Option<u64>,
    /// Does all that it has to do without ever letting go of the CPU, as in a long stretch of the kernel's code.
    pub stuck: bool,
    /// Goes before all others, as the kernel's own threads do that use next to nothing; for one that is bound.
    pub first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread has so much more to do, ns of CPU.
    Run { thread: u32, work: u64 },
    /// A node's issuer backs it with so many tickets instead.
    Share { node: u32, tickets: u32 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub cpus: u32,
    /// Node 0, base, is not among them: these are 1, 2, …
    pub nodes: Vec<Node>,
    pub threads: Vec<Thread>,
    /// By time, ns.
    pub events: Vec<(u64, What)>,
    /// ns.
    pub end: u64,
}

impl History {
    /// A node more; its number.
    pub fn node(&mut self, issuer: u32, tickets: u32) -> u32 {
        self.nodes.push(Node {
            issuer,
            tickets,
            also: None,
        });
        self.nodes.len() as u32
    }

    /// Another node before it backs `node`, too.
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

    /// The nodes that have threads of their own.
    pub fn principals(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.threads.iter().map(|t| t.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    pub fn write(&self) -> String {
        let mut out = format!("cpus {}\n", self.cpus);
        // Writing to a string cannot fail.
        for (i, n) in (1..).zip(&self.nodes) {
            let _ = writeln!(out, "node {i} in {} tickets {}", n.issuer, n.tickets);
            if let Some((issuer, tickets)) = n.also {
                let _ = writeln!(out, "also {i} in {issuer} tickets {tickets}");
            }
        }
        for (i, t) in self.threads.iter().enumerate() {
            let _ = write!(out, "thread {i} of {}", t.node);
            let _ = t.on.map(|cpu| write!(out, " on {cpu}"));
            let _ = t.yields.map(|ns| write!(out, " yields {ns}"));
            out.push_str(if t.stuck { " stuck" } else { "" });
            out.push_str(if t.first { " first\n" } else { "\n" });
        }
        let _ = writeln!(out, "end {}", self.end);
        for (at, what) in &self.events {
            let _ = match what {
                What::Run { thread, work } if *work >= FOREVER => {
                    writeln!(out, "{at} run {thread} forever")
                }
                What::Run { thread, work } => writeln!(out, "{at} run {thread} {work}"),
                What::Share { node, tickets } => writeln!(out, "{at} share {node} {tickets}"),
            };
        }
        out
    }

    pub fn read(text: &str) -> Result<History> {
        let mut history = History::default();
        for (no, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            history
                .line(&words)
                .with_context(|| format!("line {no}: {line}"))?;
        }
        history.events.sort_by_key(|(at, _)| *at);
        ensure!(
            (1..=64).contains(&history.cpus),
            "there are 1 … 64 CPUs; say `cpus N`"
        );
        ensure!(
            history.end > 0,
            "when it ends is missing; say `end NS`, in ns"
        );
        Ok(history)
    }

    fn line(&mut self, words: &[&str]) -> Result<()> {
        match words {
            [] => (),
            ["cpus", n] => self.cpus = n.parse()?,
            ["end", at] => self.end = at.parse()?,
            ["node", no, "in", issuer, "tickets", tickets] => {
                let issuer = self.known(issuer)?;
                self.is_next(no, self.nodes.len() + 1)?;
                self.node(issuer, positive(tickets)?);
            }
            ["also", node, "in", issuer, "tickets", tickets] => {
                let (node, issuer) = (self.known(node)?, self.known(issuer)?);
                ensure!(issuer < node, "a node's issuers come before it");
                self.also(node, issuer, positive(tickets)?);
            }
            ["thread", no, "of", node, rest @ ..] => {
                let node = self.known(node)?;
                self.is_next(no, self.threads.len())?;
                let (mut on, mut yields) = (None, None);
                let (first, rest) = ends_with(rest, "first");
                let (stuck, rest) = ends_with(rest, "stuck");
                for pair in rest.chunks(2) {
                    match pair {
                        ["on", cpu] => on = Some(cpu.parse()?),
                        ["yields", ns] => yields = Some(ns.parse::<u64>()?.max(1)),
                        _ => bail!(
                            "a thread may say `on CPU`, `yields NS` and at last `stuck` or `first`"
                        ),
                    }
                }
                ensure!(on.is_none_or(|cpu| cpu < self.cpus), "there is no such CPU");
                let bound = on.is_some();
                ensure!(bound || !first, "`first` is for a thread that is bound");
                self.threads.push(Thread {
                    node,
                    on,
                    yields,
                    stuck,
                    first,
                });
            }
            [at, "run", thread, work] => {
                let thread: u32 = thread.parse()?;
                ensure!(
                    (thread as usize) < self.threads.len(),
                    "there is no such thread"
                );
                let work = match *work {
                    "forever" => FOREVER,
                    ns => ns.parse()?,
                };
                self.run(at.parse()?, thread, work);
            }
            [at, "share", node, tickets] => {
                let node = self.known(node)?;
                ensure!(node > 0, "base has no issuer");
                let tickets = positive(tickets)?;
                self.events
                    .push((at.parse()?, What::Share { node, tickets }));
            }
            _ => bail!("not a line of a history"),
        }
        Ok(())
    }

    fn known(&self, node: &str) -> Result<u32> {
        let node: u32 = node.parse()?;
        ensure!(node as usize <= self.nodes.len(), "there is no such node");
        Ok(node)
    }

    fn is_next(&self, no: &str, next: usize) -> Result<()> {
        ensure!(no.parse() == Ok(next), "the next one is number {next}");
        Ok(())
    }
}

fn ends_with<'a, 'b>(words: &'a [&'b str], last: &str) -> (bool, &'a [&'b str]) {
    match words {
        [rest @ .., word] if *word == last => (true, rest),
        _ => (false, words),
    }
}

fn positive(tickets: &str) -> Result<u32> {
    let tickets = tickets.parse()?;
    ensure!((1..=1 << 31).contains(&tickets), "tickets are 1 … 2^31");
    Ok(tickets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut history = History {
            cpus: 2,
            end: 1_000,
            ..History::default()
        };
        let user = history.node(0, 300);
        history.hog(user, 1);
        let thread = history.thread(user);
        history.threads[thread as usize].on = Some(1);
        history.threads[thread as usize].yields = Some(50);
        history.threads[thread as usize].stuck = true;
        history.threads[thread as usize].first = true;
        history.run(70, thread, 100);
        let share = What::Share {
            node: user,
            tickets: 50,
        };
        history.events.push((500, share));
        assert_eq!(History::read(&history.write()).expect("read"), history);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let err = History::read("cpus 1\nnode 1 in 2 tickets 3\n").expect_err("no node 2");
        assert!(format!("{err:#}").contains("line 2"), "{err:#}");
        assert!(History::read("cpus 0\nend 5\n").is_err());
        assert!(History::read("cpus 1\n").is_err());
    }
}
