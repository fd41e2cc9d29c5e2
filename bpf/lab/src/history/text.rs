// SPDX-License-Identifier: GPL-2.0-only
//! Histories as text, which mod.rs describes.

use super::{FOREVER, History, Thread, What};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;

impl History {
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
            out.push_str(if t.holds { " holds" } else { "" });
            out.push_str(if t.kernel { " kernel\n" } else { "\n" });
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
            "there are 1 ... 64 CPUs; say `cpus N`"
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
                let (kernel, rest) = ends_with(rest, "kernel");
                let (holds, rest) = ends_with(rest, "holds");
                for pair in rest.chunks(2) {
                    match pair {
                        ["on", cpu] => on = Some(cpu.parse()?),
                        ["yields", ns] => yields = Some(ns.parse::<u64>()?.max(1)),
                        _ => bail!(
                            "a thread may say `on CPU`, `yields NS` and at last `holds` or `kernel`"
                        ),
                    }
                }
                ensure!(on.is_none_or(|cpu| cpu < self.cpus), "there is no such CPU");
                let bound = on.is_some();
                ensure!(
                    !kernel || (bound && node == 0),
                    "`kernel` is for a thread of node 0 that is bound"
                );
                self.threads.push(Thread {
                    node,
                    on,
                    yields,
                    holds,
                    kernel,
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
                self.share(at.parse()?, node, tickets);
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
    ensure!((1..=1 << 31).contains(&tickets), "tickets are 1 ... 2^31");
    Ok(tickets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut history = History::new(2, 1_000);
        let user = history.node(0, 300);
        history.hog(user, 1);
        let thread = history.thread(user);
        history.threads[thread as usize].on = Some(1);
        history.threads[thread as usize].yields = Some(50);
        history.threads[thread as usize].holds = true;
        history.run(70, thread, 100);
        history.share(500, user, 50);
        history.kernel_threads();
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
