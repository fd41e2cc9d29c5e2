// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the scheduler's funding graph in step with the ledger, and the scheduler in force.
//!
//! The kernel side mirrors the cgroup tree by itself. Pushed is only what differs from it: named currencies, grants and bindings. What is in force
//! at the start is adopted, compared with the ledger and repaired, so that no share moves while tixd is replaced.

use crate::ledger::{BASE, Cid, Ledger, Resource};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tix_bpf::{Edge, Force, NodeId, NodeState, Scheduler, Stats};

/// Pauses before the scheduler is loaded again after it was ejected; then it is given up.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// In force for this long, it has recovered.
const RECOVERED: Duration = Duration::from_secs(60);

type Funding = (bool, Vec<(u32, u32)>);

#[derive(Default)]
pub struct Cpu {
    pin_dir: PathBuf,
    scheduler: Option<Scheduler>,
    /// Named currencies' nodes.
    nodes: BTreeMap<Cid, NodeId>,
    /// What the kernel side has of what differs from the plain tree.
    pushed: HashMap<Cid, Funding>,
    failures: usize,
    retry_at: Option<Instant>,
    since: Option<Instant>,
    pub given_up: bool,
    /// Change nothing in the kernel.
    observe: bool,
    pub reason: Option<String>,
    pub reloads: u64,
    /// What could not be pushed, by currency.
    trouble: BTreeMap<Cid, String>,
}

/// What a poll found.
#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    Quiet,
    /// It is in force again: push everything.
    Loaded,
    /// It is out; why.
    Lost(String),
}

impl Cpu {
    pub fn new(pin_dir: PathBuf) -> Cpu {
        Cpu {
            pin_dir,
            ..Cpu::default()
        }
    }

    /// One that neither loads a scheduler nor has weights written.
    pub fn observer() -> Cpu {
        Cpu {
            observe: true,
            reason: Some("tixd runs with --observe: nothing is enforced".to_owned()),
            ..Cpu::default()
        }
    }

    /// Adopts what is in force, or loads. `known` says which node each named currency had.
    pub fn start(&mut self, known: &[(u64, u64)]) {
        if self.observe {
            return;
        }
        match Scheduler::adopt(&self.pin_dir) {
            Ok(Some(s)) => {
                match s.nodes() {
                    Ok(states) => self.take_over(&s, &states, known),
                    Err(e) => tracing::warn!("reading the scheduler's tables: {e}"),
                }
                tracing::info!("adopted the scheduler that is in force");
                self.scheduler = Some(s);
                self.since = Some(Instant::now());
            }
            Ok(None) => self.load(),
            Err(e) => {
                tracing::warn!("cannot adopt what is pinned: {e}");
                self.load();
            }
        }
    }

    fn take_over(&mut self, s: &Scheduler, states: &[NodeState], known: &[(u64, u64)]) {
        let named: BTreeSet<u32> = states
            .iter()
            .filter(|n| n.named)
            .map(|n| n.node.0)
            .collect();
        for (cid, node) in known {
            if let Ok(node) = u32::try_from(*node)
                && named.contains(&node)
            {
                self.nodes.insert(*cid, NodeId(node));
            }
        }
        let mapped: BTreeSet<u32> = self.nodes.values().map(|n| n.0).collect();
        for lost in named.difference(&mapped) {
            if let Err(e) = s.destroy_node(NodeId(*lost)) {
                tracing::warn!("node {lost}, which no currency has: {e}");
            }
        }
    }

    fn load(&mut self) {
        match Scheduler::load(&self.pin_dir) {
            Ok(s) => {
                self.scheduler = Some(s);
                self.nodes.clear();
                self.pushed.clear();
                self.since = Some(Instant::now());
                self.retry_at = None;
                tracing::info!("scheduler loaded");
            }
            Err(e) => {
                tracing::error!("cannot load the scheduler: {e}");
                self.reason = Some(e.to_string());
                if matches!(e, tix_bpf::Error::NoSchedExt) {
                    self.given_up = true;
                } else {
                    self.plan_retry();
                }
            }
        }
    }

    fn plan_retry(&mut self) {
        self.since = None;
        match PAUSES.get(self.failures) {
            Some(pause) => {
                self.retry_at = Some(Instant::now() + *pause);
                self.failures += 1;
            }
            None => {
                self.retry_at = None;
                self.given_up = true;
                tracing::error!(
                    "the scheduler did not stay in force after {} attempts: given up; restart tixd to try again",
                    PAUSES.len()
                );
            }
        }
    }

    /// Once a second: is it still in force?
    pub fn poll(&mut self) -> Poll {
        let out = match tix_bpf::in_force() {
            Force::InForce { .. } => None,
            Force::Other { ops } => Some(format!("another scheduler is in force: {ops}")),
            Force::Disabled => Some("the kernel's own scheduler is in force".to_owned()),
            Force::Unsupported(why) => Some(why),
        };
        match (&self.scheduler, out) {
            (Some(s), Some(out)) => {
                let reason = s.exit_reason().ok().flatten().unwrap_or(out);
                tracing::error!("the scheduler left: {reason}");
                self.reason = Some(reason.clone());
                self.scheduler = None;
                self.plan_retry();
                Poll::Lost(reason)
            }
            (Some(_), None) => {
                if self.since.is_some_and(|t| t.elapsed() >= RECOVERED) {
                    self.failures = 0;
                }
                Poll::Quiet
            }
            (None, _) => match self.retry_at {
                Some(at) if Instant::now() >= at => {
                    self.load();
                    if self.scheduler.is_some() {
                        self.reloads += 1;
                        return Poll::Loaded;
                    }
                    Poll::Quiet
                }
                _ => Poll::Quiet,
            },
        }
    }

    pub fn in_charge(&self) -> bool {
        self.scheduler.is_some()
    }

    /// No scheduler, and none to come.
    pub fn hopeless(&self) -> bool {
        self.scheduler.is_none() && self.given_up
    }

    pub fn stats(&self) -> Option<Stats> {
        self.scheduler.as_ref().and_then(|s| s.stats().ok())
    }

    /// The kernel side's tables.
    pub fn states(&self) -> Vec<NodeState> {
        self.scheduler
            .as_ref()
            .and_then(|s| s.nodes().ok())
            .unwrap_or_default()
    }

    /// For the store: which node each named currency has.
    pub fn nodes(&self) -> Vec<(u64, u64)> {
        self.nodes
            .iter()
            .map(|(c, n)| (*c, u64::from(n.0)))
            .collect()
    }

    /// What could not be pushed.
    pub fn trouble(&self) -> impl Iterator<Item = &str> {
        self.trouble.values().map(String::as_str)
    }

    /// Everything, after loading or adopting. True if a node came or went.
    pub fn push_all(&mut self, ledger: &Ledger) -> bool {
        if let Some(s) = &self.scheduler {
            self.pushed.clear();
            self.trouble.clear();
            let by_node: HashMap<u32, NodeState> = s
                .nodes()
                .unwrap_or_default()
                .into_iter()
                .map(|n| (n.node.0, n))
                .collect();
            for (cid, c) in ledger.iter() {
                let node = match &c.mirror {
                    Some(m) => s.node_of_cgroup(m.id).ok().flatten(),
                    None => self.nodes.get(&cid).copied(),
                };
                if let Some(state) = node.and_then(|n| by_node.get(&n.0)) {
                    let skip = usize::from(state.by_parent);
                    let edges = state
                        .edges
                        .iter()
                        .skip(skip)
                        .map(|e| (e.issuer, e.amount))
                        .collect();
                    self.pushed.insert(cid, (state.by_parent, edges));
                }
            }
        }
        let all: Vec<Cid> = ledger.iter().map(|(c, _)| c).collect();
        self.push(ledger, &all)
    }

    /// The currencies `touched`. True if a node came or went.
    pub fn push(&mut self, ledger: &Ledger, touched: &[Cid]) -> bool {
        let Some(s) = &self.scheduler else {
            return false;
        };
        let mut changed = false;
        for cid in touched
            .iter()
            .filter(|c| ledger.get(**c).is_some_and(|x| !x.is_mirror()))
        {
            if !self.nodes.contains_key(cid) {
                match s.create_node() {
                    Ok(node) => {
                        self.nodes.insert(*cid, node);
                        self.pushed.remove(cid);
                        changed = true;
                    }
                    Err(e) => {
                        self.trouble
                            .insert(*cid, format!("{}: {e}", name(ledger, *cid)));
                    }
                }
            }
        }
        for &cid in touched.iter().filter(|c| **c != BASE) {
            if let Some((holder, funding)) = self.desired(s, ledger, cid) {
                let plain = funding == (true, vec![]);
                if self.pushed.get(&cid) == Some(&funding)
                    || (plain && !self.pushed.contains_key(&cid))
                {
                    self.trouble.remove(&cid);
                    continue;
                }
                let edges: Vec<Edge> = funding
                    .1
                    .iter()
                    .map(|(i, a)| Edge::new(NodeId(*i), *a))
                    .collect();
                match s.set_funding(holder, funding.0, &edges) {
                    Ok(()) => {
                        self.trouble.remove(&cid);
                        if plain {
                            self.pushed.remove(&cid)
                        } else {
                            self.pushed.insert(cid, funding)
                        };
                    }
                    Err(e) => {
                        self.trouble
                            .insert(cid, format!("{}: {e}", name(ledger, cid)));
                    }
                }
            }
        }
        let gone: Vec<Cid> = self
            .nodes
            .keys()
            .copied()
            .filter(|c| ledger.get(*c).is_none())
            .collect();
        for cid in gone {
            if let Some(node) = self.nodes.remove(&cid) {
                changed = true;
                if let Err(e) = s.destroy_node(node) {
                    tracing::warn!("dropping the node of a destroyed currency: {e}");
                }
            }
        }
        self.pushed.retain(|c, _| ledger.get(*c).is_some());
        self.trouble.retain(|c, _| ledger.get(*c).is_some());
        changed
    }

    fn node(&self, s: &Scheduler, ledger: &Ledger, cid: Cid) -> Option<NodeId> {
        if cid == BASE {
            return Some(tix_bpf::BASE);
        }
        match &ledger.get(cid)?.mirror {
            Some(m) => s.node_of_cgroup(m.id).ok().flatten(),
            None => self.nodes.get(&cid).copied(),
        }
    }

    /// The node of `cid` and what should back it; `None` if the kernel side has no node for it (it shares its parent's, or is going).
    fn desired(&self, s: &Scheduler, ledger: &Ledger, cid: Cid) -> Option<(NodeId, Funding)> {
        let c = ledger.get(cid)?;
        let by_parent = c.is_mirror() && c.bound_to.is_none();
        let parent = c.mirror.as_ref().map(|m| m.parent);
        let mut edges: BTreeMap<u32, u64> = BTreeMap::new();
        let mut first = true;
        for t in ledger.tickets(c, Resource::Cpu) {
            let weight_ticket = by_parent && first && parent == Some(t.issuer);
            first = false;
            if t.kept || weight_ticket {
                continue;
            }
            let issuer = self.node(s, ledger, t.issuer)?;
            *edges.entry(issuer.0).or_insert(0) += t.amount;
        }
        if by_parent && edges.is_empty() && !self.pushed.contains_key(&cid) {
            // A plain cgroup: nothing to say, and no node to look up.
            return None;
        }
        let holder = self.node(s, ledger, cid)?;
        let edges = edges
            .into_iter()
            .map(|(i, a)| (i, u32::try_from(a).unwrap_or(u32::MAX)))
            .collect();
        Some((holder, (by_parent, edges)))
    }
}

fn name(ledger: &Ledger, cid: Cid) -> String {
    ledger.get(cid).map(|c| c.name.clone()).unwrap_or_default()
}

/// Gives the machine back to the kernel's own scheduler. False: there was nothing to stop.
pub fn stop(pin_dir: &std::path::Path) -> Result<bool, tix_bpf::Error> {
    match Scheduler::adopt(pin_dir)? {
        Some(s) => s.stop().map(|()| true),
        None => Ok(false),
    }
}
