// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the scheduler's funding graph in step with the ledger, and the scheduler in force.
//!
//! The kernel side mirrors the cgroup tree by itself. Pushed is only what differs from it: named currencies, grants and bindings. What is in force
//! at the start is adopted, compared with the ledger and repaired, so that no share moves while tixd is replaced.

use super::presence::{Outlook, Poll, Presence};
use crate::ledger::{BASE, Cid, Ledger, Resource};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use tix_bpf::{Edge, NodeId, NodeState, Scheduler, Stats};

type Funding = (bool, Vec<(u32, u32)>);

#[derive(Default)]
pub struct Cpu {
    presence: Presence,
    /// Named currencies' nodes.
    nodes: BTreeMap<Cid, NodeId>,
    /// What the kernel side has of what differs from the plain tree.
    pushed: HashMap<Cid, Funding>,
    /// What could not be pushed, by currency.
    trouble: BTreeMap<Cid, String>,
}

impl Cpu {
    pub fn new(pin_dir: PathBuf) -> Cpu {
        Cpu {
            presence: Presence::new(pin_dir),
            ..Cpu::default()
        }
    }

    /// One that neither loads a scheduler nor has weights written.
    pub fn observer() -> Cpu {
        Cpu {
            presence: Presence::observer(),
            ..Cpu::default()
        }
    }

    /// Adopts what is in force, or begins to load. `known` says which node each named currency had.
    pub fn start(&mut self, known: &[(u64, u64)]) {
        if self.presence.start()
            && let Some(s) = self.presence.scheduler()
        {
            match s.nodes() {
                Ok(states) => self.nodes = take_over(s, &states, known),
                Err(e) => tracing::warn!("reading the scheduler's tables: {e}"),
            }
        }
    }

    /// Waits until loading has come to an end; true: it is in force, and everything is to be pushed. May be cancelled.
    pub async fn loaded(&mut self) -> bool {
        let loaded = self.presence.loaded().await;
        if loaded {
            self.nodes.clear();
            self.pushed.clear();
        }
        loaded
    }

    /// Once a second: is it still in force?
    pub fn poll(&mut self) -> Poll {
        self.presence.poll()
    }

    pub fn outlook(&self) -> Outlook {
        self.presence.outlook()
    }

    /// Why it last left, or could not be loaded.
    pub fn reason(&self) -> Option<&str> {
        self.presence.reason.as_deref()
    }

    pub fn reloads(&self) -> u64 {
        self.presence.reloads
    }

    pub fn in_charge(&self) -> bool {
        self.presence.scheduler().is_some()
    }

    /// No scheduler now, so `cpu.weight` has to do.
    pub fn by_weight(&self) -> bool {
        !matches!(self.outlook(), Outlook::InForce | Outlook::Observing)
    }

    pub fn stats(&self) -> Option<Stats> {
        self.presence.scheduler().and_then(|s| s.stats().ok())
    }

    /// The kernel side's tables.
    pub fn states(&self) -> Vec<NodeState> {
        self.presence
            .scheduler()
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
        if let Some(s) = self.presence.scheduler() {
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
                    let by_parent = state.funding.by_parent;
                    let edges = state.funding.edges.iter().skip(usize::from(by_parent));
                    let edges = edges.map(|e| (e.issuer.0, e.amount)).collect();
                    self.pushed.insert(cid, (by_parent, edges));
                }
            }
        }
        let all: Vec<Cid> = ledger.iter().map(|(c, _)| c).collect();
        let known = self.nodes.keys().chain(self.pushed.keys());
        let removed: Vec<Cid> = known
            .copied()
            .filter(|c| ledger.get(*c).is_none())
            .collect();
        self.push(ledger, &all, &removed)
    }

    /// The currencies `touched`, and the going of those `removed`. True if a node came or went. Costs what those are, not what there is.
    pub fn push(&mut self, ledger: &Ledger, touched: &[Cid], removed: &[Cid]) -> bool {
        let Some(s) = self.presence.scheduler() else {
            return false;
        };
        let mut changed = false;
        for cid in touched
            .iter()
            .filter(|c| ledger.get(**c).is_some_and(|x| !x.is_mirror()))
        {
            if !self.nodes.contains_key(cid) {
                match s.create_node(*cid) {
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
                let weight = funding.0.then(|| Edge::soft(tix_bpf::BASE, 1));
                let others = funding.1.iter().map(|(i, a)| Edge::soft(NodeId(*i), *a));
                let backed = tix_bpf::Funding {
                    by_parent: funding.0,
                    edges: weight.into_iter().chain(others).collect(),
                    delta: 0,
                };
                match s.set_funding(holder, &backed) {
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
        for cid in removed {
            self.pushed.remove(cid);
            self.trouble.remove(cid);
            if let Some(node) = self.nodes.remove(cid) {
                changed = true;
                if let Err(e) = s.destroy_node(node) {
                    tracing::warn!("dropping the node of a destroyed currency: {e}");
                }
            }
        }
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

/// The nodes that named currencies had in a scheduler that was adopted; what no currency has is dropped.
fn take_over(s: &Scheduler, states: &[NodeState], known: &[(u64, u64)]) -> BTreeMap<Cid, NodeId> {
    let named: BTreeSet<u32> = states
        .iter()
        .filter(|n| n.named)
        .map(|n| n.node.0)
        .collect();
    let nodes: BTreeMap<Cid, NodeId> = known
        .iter()
        .filter_map(|(cid, node)| Some((*cid, u32::try_from(*node).ok()?)))
        .filter(|(_, node)| named.contains(node))
        .map(|(cid, node)| (cid, NodeId(node)))
        .collect();
    let mapped: BTreeSet<u32> = nodes.values().map(|n| n.0).collect();
    for lost in named.difference(&mapped) {
        if let Err(e) = s.destroy_node(NodeId(*lost)) {
            tracing::warn!("node {lost}, which no currency has: {e}");
        }
    }
    nodes
}

/// Gives the machine back to the kernel's own scheduler. False: there was nothing to stop.
pub fn stop(pin_dir: &Path) -> Result<bool, tix_bpf::Error> {
    tix_bpf::clear(pin_dir)
}
