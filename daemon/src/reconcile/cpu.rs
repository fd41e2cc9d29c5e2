// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the scheduler's funding graph in step with the ledger, and the scheduler in force.
//!
//! The kernel side mirrors the cgroup tree by itself. Pushed is only what differs from it: named
//! currencies, grants and bindings. What is in force at the start is adopted, compared with the
//! ledger and repaired, so that no share moves while tixd is replaced.

use super::limit::{Limits, Throttles};
use super::presence::{Outlook, Poll, Presence};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use tix_bpf::{Edge, Funding, NodeId, NodeState, Scheduler, Stats};
use tix_ledger::{BASE, Cid, Event, Kind, Ledger, Resource};

// What the ledger allows is what the scheduler has room for.
const _: () = assert!(tix_model::MAX_FUNDERS == tix_bpf::FUNDERS);

#[derive(Default)]
pub struct Cpu {
    presence: Presence,
    /// Named currencies' nodes.
    nodes: BTreeMap<Cid, NodeId>,
    /// What the kernel side has of what differs from the plain tree.
    pushed: HashMap<Cid, Funding>,
    /// What exchange tickets are counted against, as the kernel side has it; 0 while there are
    /// none.
    total: u64,
    /// What could not be pushed, by currency.
    trouble: BTreeMap<Cid, String>,
    limits: Limits,
    /// Currencies that are to be pushed, and those that are gone.
    touched: Vec<Cid>,
    removed: Vec<Cid>,
}

impl Cpu {
    pub fn new(pin_dir: PathBuf, options: tix_bpf::Options) -> Cpu {
        Cpu {
            presence: Presence::new(pin_dir, options),
            ..Cpu::default()
        }
    }

    /// One that neither loads a scheduler nor has weights written.
    pub fn observer() -> Cpu {
        Cpu {
            presence: Presence::observer(Outlook::Observing, "tixd runs with --observe"),
            ..Cpu::default()
        }
    }

    /// One that has weights hold shares, without a scheduler, and why.
    pub fn without_scheduler(why: &str) -> Cpu {
        Cpu {
            presence: Presence::unsupported(why),
            ..Cpu::default()
        }
    }

    /// One that changes nothing, where there is no cgroup v2, and why not.
    pub fn without_cgroups(why: &str) -> Cpu {
        Cpu {
            presence: Presence::observer(Outlook::NoCgroups, why),
            ..Cpu::default()
        }
    }

    /// Adopts what is in force, or begins to load.
    pub fn start(&mut self) {
        if self.presence.start()
            && let Some(s) = self.presence.scheduler()
        {
            match s.nodes() {
                Ok(states) => self.nodes = take_over(&states),
                Err(e) => tracing::warn!("reading the scheduler's tables: {e}"),
            }
        }
    }

    /// Waits until loading has come to an end; true: it is in force, and everything is to be
    /// pushed. May be cancelled.
    pub async fn loaded(&mut self) -> bool {
        let loaded = self.presence.loaded().await;
        if loaded {
            self.nodes.clear();
            self.pushed.clear();
            self.total = 0;
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

    /// Why what is in force is not this version's.
    pub fn fault(&self) -> Option<&str> {
        self.presence.fault.as_deref()
    }

    /// The layout of another version's scheduler that is in force and cannot be spoken with: it
    /// holds shares as they were.
    pub fn stranger(&self) -> Option<&str> {
        self.presence.stranger.as_deref()
    }

    /// Who decides who runs, in a few words.
    pub fn line(&self) -> String {
        if self.stranger().is_some() {
            return "another version's scheduler in force: shares stay as they were".to_owned();
        }
        match self.outlook() {
            Outlook::InForce => "scheduler in force".to_owned(),
            Outlook::Waiting => self.reason().unwrap_or_default().to_owned(),
            Outlook::Observing | Outlook::NoCgroups => "nothing is enforced".to_owned(),
            _ => "scheduler not in force: cpu.weight only".to_owned(),
        }
    }

    /// It has only the threads that ask for it.
    pub fn is_partial(&self) -> bool {
        self.presence.is_partial()
    }

    pub fn reloads(&self) -> u64 {
        self.presence.reloads
    }

    pub fn in_charge(&self) -> bool {
        self.presence.scheduler().is_some()
    }

    /// No scheduler now, so `cpu.weight` has to do. Another one may heed it, too. To one of tix's
    /// it would come on top of the tickets that it was told of.
    pub fn by_weight(&self) -> bool {
        self.outlook() != Outlook::InForce && self.outlook().enforces() && self.stranger().is_none()
    }

    pub fn stats(&self) -> Option<Stats> {
        self.presence.scheduler().and_then(|s| s.stats().ok())
    }

    /// Bytes of the scheduler's maps; 0 while there is none.
    pub fn memory(&self) -> u64 {
        self.presence.scheduler().map_or(0, |s| s.memory())
    }

    /// The kernel side's tables.
    pub fn states(&self) -> Vec<NodeState> {
        self.presence
            .scheduler()
            .and_then(|s| s.nodes().ok())
            .unwrap_or_default()
    }

    /// What could not be pushed.
    pub fn trouble(&self) -> impl Iterator<Item = &str> {
        let tickets = self.trouble.values().map(String::as_str);
        tickets.chain(self.limits.trouble())
    }

    /// What `states` say of limits; cgroups' currencies by their cgroups' numbers.
    pub fn throttles(&self, cgroups: &HashMap<u64, Cid>, states: &[NodeState]) -> Throttles {
        self.limits.throttles(cgroups, states)
    }

    /// Everything, after loading or adopting.
    pub fn push_all(&mut self, ledger: &Ledger) {
        if let Some(s) = self.presence.scheduler() {
            self.pushed.clear();
            self.trouble.clear();
            // Not known of a scheduler that was adopted: told again.
            self.total = u64::MAX;
            let states = s.nodes().unwrap_or_default();
            self.limits.adopt(s, ledger, &states);
            let by_node: HashMap<NodeId, NodeState> =
                states.into_iter().map(|n| (n.node, n)).collect();
            for (cid, c) in ledger.iter() {
                let node = match &c.mirror {
                    Some(m) => s.node_of_cgroup(m.id).ok().flatten(),
                    None => self.nodes.get(&cid).copied(),
                };
                if let Some(state) = node.and_then(|n| by_node.get(&n)) {
                    self.pushed.insert(cid, told(state.funding.clone()));
                }
            }
        }
        let all = ledger.cids();
        let known = self.nodes.keys().chain(self.pushed.keys());
        let removed: Vec<Cid> = known
            .copied()
            .filter(|c| ledger.get(*c).is_none())
            .collect();
        self.push(ledger, &all, &removed);
    }

    /// What these events are of is to be pushed.
    pub fn has_touched(&mut self, events: &[Event]) {
        self.touched.extend(events.iter().flat_map(Event::touched));
        self.removed
            .extend(events.iter().filter_map(Event::removed));
    }

    /// At once, for all events since this was done last: it looks at whatever exchanges may rest
    /// with. False: there were none.
    pub fn push_touched(&mut self, ledger: &Ledger) -> bool {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let removed = std::mem::take(&mut self.removed);
        let any = !touched.is_empty() || !removed.is_empty();
        if any {
            self.push(ledger, &touched, &removed);
        }
        any
    }

    /// The currencies `touched`, and the going of those `removed`. Costs what those are, not what
    /// there is.
    fn push(&mut self, ledger: &Ledger, touched: &[Cid], removed: &[Cid]) {
        if self.presence.scheduler().is_none() {
            return;
        }
        self.make_nodes(ledger, touched);
        let resting = ledger.resting_places(Resource::Cpu);
        let total = if resting.is_empty() {
            0
        } else {
            ledger.total(Resource::Cpu)
        };
        self.push_total(total);
        // Where exchange tickets rest is a matter of entitlements, which others' tickets change.
        let mut due: BTreeSet<Cid> = resting.iter().copied().collect();
        due.extend(touched);
        due.remove(&BASE);
        // The lifeline's rise goes before what it is for: tixd runs on it.
        let first = ledger.lifeline().filter(|l| due.remove(l));
        for cid in first.into_iter().chain(due) {
            self.push_one(ledger, cid, resting.contains(&cid));
        }
        let Some(s) = self.presence.scheduler() else {
            return;
        };
        self.limits.push(s, ledger);
        for cid in removed {
            self.pushed.remove(cid);
            self.trouble.remove(cid);
            if let Some(node) = self.nodes.remove(cid)
                && let Err(e) = s.destroy_node(node)
            {
                tracing::warn!("dropping the node of a destroyed currency: {e}");
            }
        }
    }

    fn make_nodes(&mut self, ledger: &Ledger, touched: &[Cid]) {
        let Some(s) = self.presence.scheduler() else {
            return;
        };
        let named = |c: &Cid| ledger.get(*c).is_some_and(|x| !x.is_mirror());
        for &cid in touched.iter().filter(|c| named(c)) {
            if self.nodes.contains_key(&cid) {
                continue;
            }
            match s.create_node(cid) {
                Ok(node) => {
                    self.nodes.insert(cid, node);
                    self.pushed.remove(&cid);
                }
                Err(e) => {
                    let what = format!("{}: {e}", ledger.name(cid));
                    self.trouble.insert(cid, what);
                }
            }
        }
    }

    fn push_total(&mut self, total: u64) {
        if self.total == total {
            return;
        }
        match self.presence.scheduler().map(|s| s.set_total(total)) {
            Some(Ok(())) => self.total = total,
            Some(Err(e)) => tracing::warn!("{e}"),
            None => {}
        }
    }

    fn push_one(&mut self, ledger: &Ledger, cid: Cid, rests: bool) {
        let Some(s) = self.presence.scheduler() else {
            return;
        };
        let Some((holder, funding)) = self.desired(s, ledger, cid, rests) else {
            return;
        };
        let plain = funding == told(Funding::default());
        if self.pushed.get(&cid) == Some(&funding) || (plain && !self.pushed.contains_key(&cid)) {
            self.trouble.remove(&cid);
            return;
        }
        match s.set_funding(holder, &funding) {
            Ok(()) => {
                self.trouble.remove(&cid);
                match plain {
                    true => self.pushed.remove(&cid),
                    false => self.pushed.insert(cid, funding),
                };
            }
            Err(e) => {
                self.trouble
                    .insert(cid, format!("{}: {e}", ledger.name(cid)));
            }
        }
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

    /// The node of `cid` and what should back it; `None` if the kernel side has no node for it (it
    /// shares its parent's, or is going).
    fn desired(
        &self,
        s: &Scheduler,
        ledger: &Ledger,
        cid: Cid,
        rests: bool,
    ) -> Option<(NodeId, Funding)> {
        let c = ledger.get(cid)?;
        let by_parent = c.is_mirror() && c.bound_to.is_none();
        let tickets: Vec<_> = ledger.tickets(c, Resource::Cpu).collect();
        let delta = c.delta(Resource::Cpu);
        if by_parent && tickets.len() == 1 && delta == 0 && !rests {
            // A plain cgroup: nothing to say, and no node to look up.
            if !self.pushed.contains_key(&cid) {
                return None;
            }
        }
        let worth = |t| match rests {
            true => ledger.ticket_value(t, Resource::Cpu, true),
            false => 0,
        };
        let live: Vec<_> = tickets.iter().filter(|t| !t.kept).collect();
        let all: u128 = live.iter().map(|t| worth(t)).sum();
        let part = |w: u128| {
            let shift = 128u32
                .saturating_sub(all.leading_zeros())
                .saturating_sub(64);
            let (w, all) = (w >> shift, (all >> shift).max(1));
            u16::try_from(w * 65_535 / all).unwrap_or(u16::MAX)
        };
        let mut edges: Vec<Edge> = Vec::with_capacity(live.len());
        for (i, t) in live.into_iter().enumerate() {
            let weight = by_parent && i == 0;
            let edge = Edge {
                issuer: match weight {
                    true => tix_bpf::BASE,
                    false => self.node(s, ledger, t.issuer)?,
                },
                amount: match weight {
                    true => 1,
                    false => u32::try_from(t.amount).unwrap_or(u32::MAX),
                },
                hard: t.kind == Kind::Hard,
                part: part(worth(t)),
            };
            match edges
                .iter_mut()
                .skip(usize::from(by_parent))
                .find(|e| e.issuer == edge.issuer && e.hard == edge.hard && !weight)
            {
                Some(same) => {
                    same.amount = same.amount.saturating_add(edge.amount);
                    same.part = same.part.saturating_add(edge.part);
                }
                None => edges.push(edge),
            }
        }
        let holder = self.node(s, ledger, cid)?;
        Some((
            holder,
            Funding {
                by_parent,
                edges,
                delta,
            },
        ))
    }
}

/// As [`Cpu::desired`] says it: the kernel side fills in the parent's ticket.
fn told(mut funding: Funding) -> Funding {
    if funding == Funding::default() {
        funding.by_parent = true;
        funding.edges.push(Edge::soft(tix_bpf::BASE, 1));
    }
    if funding.by_parent
        && let Some(weight) = funding.edges.first_mut()
    {
        (weight.issuer, weight.amount) = (tix_bpf::BASE, 1);
    }
    funding
}

/// The nodes that named currencies had in a scheduler that was adopted.
fn take_over(states: &[NodeState]) -> BTreeMap<Cid, NodeId> {
    let named = states.iter().filter(|n| n.named);
    named.map(|n| (n.cid, n.node)).collect()
}

/// Gives the machine back to the kernel's own scheduler. False: there was nothing to stop.
pub fn stop(pin_dir: &Path) -> Result<bool, tix_bpf::Error> {
    tix_bpf::clear(pin_dir)
}
