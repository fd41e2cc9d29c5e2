// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the limits of currencies in step with the ledger: each is a node of its own in the
//! scheduler's tables (`bpf/limit.bpf.h`), and caps the cgroups that are funded below it. The
//! kernel's own scheduler knows nothing of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use tix_bpf::{Error, NodeId, NodeState, Scheduler, Throttle};
use tix_ledger::{Caps, Cid, Ledger};

/// Periods are as systemd's: 100 ms, unless the quota would be less than the 1 ms that `cpu.max`
/// takes.
const PERIOD_USEC: u64 = 100_000;
const LONG_PERIOD_USEC: u64 = 1_000_000;

/// What a limit of so many thousandths of one CPU is: microseconds of CPU time, and of the period.
pub fn quota(milli: u64) -> (u64, u64) {
    let period = match milli {
        0..10 => LONG_PERIOD_USEC,
        _ => PERIOD_USEC,
    };
    (milli.saturating_mul(period) / 1000, period)
}

/// As the kernel side knows a limit again after tixd was replaced: a named currency by its number;
/// a cgroup, whose currency's number is new then, by its own.
fn label(ledger: &Ledger, cid: Cid) -> u64 {
    const CGROUP: u64 = 1 << 63;
    match ledger.get(cid).and_then(|c| c.mirror.as_ref()) {
        Some(m) => m.id | CGROUP,
        None => cid,
    }
}

/// What holds of which currency's own limits, by the scheduler's tables.
#[derive(Debug, Clone, Default)]
pub struct Throttles {
    /// `cpu.max` of its cgroup.
    pub cpu_max: HashMap<Cid, Throttle>,
    pub own: HashMap<Cid, Throttle>,
    /// The currencies of cgroups whose own threads wait for a limit's next period.
    pub waiting: HashSet<Cid>,
}

#[derive(Default)]
pub struct Limits {
    /// The limits' nodes.
    nodes: BTreeMap<Cid, NodeId>,
    /// What the kernel side has of them and of the cgroups they cap.
    pushed: Caps,
    /// The ledger's shape when that was all there was to push.
    shape: Option<u64>,
    /// Why it is not, by currency.
    trouble: BTreeMap<Cid, String>,
}

impl Limits {
    /// What could not be pushed.
    pub fn trouble(&self) -> impl Iterator<Item = &str> {
        self.trouble.values().map(String::as_str)
    }

    /// Takes over what the kernel side has.
    pub fn adopt(&mut self, s: &Scheduler, ledger: &Ledger, states: &[NodeState]) {
        *self = Limits::default();
        let labels: HashMap<u64, Cid> = (ledger.caps().limits.into_keys())
            .map(|cid| (label(ledger, cid), cid))
            .collect();
        let limits = || states.iter().filter(|n| n.limit);
        let mut by_node: HashMap<NodeId, Cid> = HashMap::new();
        for n in limits() {
            match labels.get(&n.cid) {
                Some(cid) => {
                    by_node.insert(n.node, *cid);
                    self.nodes.insert(*cid, n.node);
                }
                None => drop_limit(s, n.node),
            }
        }
        for n in limits() {
            let (t, above) = (&n.throttle, n.cap.and_then(|c| by_node.get(&c)));
            if let Some(cid) = by_node.get(&n.node) {
                let milli = t.quota_ns.saturating_mul(1000) / t.period_ns.max(1);
                self.pushed.limits.insert(*cid, (milli, above.copied()));
            }
        }
        let capped: HashMap<u64, Cid> = (states.iter())
            .filter_map(|n| Some((n.cgid, *by_node.get(&n.cap?)?)))
            .collect();
        for (cid, c) in ledger.iter() {
            if let Some(cap) = c.mirror.as_ref().and_then(|m| capped.get(&m.id)) {
                self.pushed.cgroups.insert(cid, *cap);
            }
        }
    }

    /// What is not there yet. Costs nothing while there are no limits, or nothing has changed.
    pub fn push(&mut self, s: &Scheduler, ledger: &Ledger) {
        if self.shape == Some(ledger.shape()) {
            return;
        }
        let wanted = ledger.caps();
        self.trouble.clear();
        for (&cid, limit) in &wanted.limits {
            if !self.nodes.contains_key(&cid) {
                let made = s.create_limit(label(ledger, cid));
                if let Some(node) = self.noted(ledger, cid, made) {
                    self.nodes.insert(cid, node);
                    self.pushed.limits.remove(&cid);
                }
            }
            if limit.1.is_none() {
                self.push_limit(s, ledger, cid, limit);
            }
        }
        // Those that name another after all of them have nodes.
        for (&cid, limit) in wanted.limits.iter().filter(|(_, l)| l.1.is_some()) {
            self.push_limit(s, ledger, cid, limit);
        }
        for (&cid, cap) in &wanted.cgroups {
            if self.pushed.cgroups.get(&cid) != Some(cap) {
                self.push_cap(s, ledger, cid, Some(*cap));
            }
        }
        let known: Vec<Cid> = self.pushed.cgroups.keys().copied().collect();
        for cid in known.iter().filter(|c| !wanted.cgroups.contains_key(c)) {
            self.push_cap(s, ledger, *cid, None);
        }
        let known: Vec<Cid> = self.nodes.keys().copied().collect();
        for cid in known.iter().filter(|c| !wanted.limits.contains_key(c)) {
            self.pushed.limits.remove(cid);
            if let Some(node) = self.nodes.remove(cid) {
                drop_limit(s, node);
            }
        }
        // What could not be done is tried again with the next change.
        self.shape = self.trouble.is_empty().then(|| ledger.shape());
    }

    fn push_limit(&mut self, s: &Scheduler, ledger: &Ledger, cid: Cid, limit: &(u64, Option<Cid>)) {
        let above = limit.1.and_then(|c| self.nodes.get(&c).copied());
        if self.pushed.limits.get(&cid) == Some(limit) {
            return;
        }
        if let Some(node) = self.nodes.get(&cid).copied() {
            let set = s.set_limit(node, quota(limit.0), above);
            if self.noted(ledger, cid, set).is_some() {
                self.pushed.limits.insert(cid, *limit);
            }
        }
    }

    fn push_cap(&mut self, s: &Scheduler, ledger: &Ledger, cgroup: Cid, cap: Option<Cid>) {
        self.pushed.cgroups.remove(&cgroup);
        let mirror = ledger.get(cgroup).and_then(|c| c.mirror.as_ref());
        // It shares its parent's place in the tables, or is going.
        let Some(node) = mirror.and_then(|m| s.node_of_cgroup(m.id).ok().flatten()) else {
            return;
        };
        let limit = cap.and_then(|c| self.nodes.get(&c).copied());
        let set = s.set_cap(node, limit);
        if self.noted(ledger, cgroup, set).is_some()
            && let (Some(cap), true) = (cap, limit.is_some())
        {
            self.pushed.cgroups.insert(cgroup, cap);
        }
    }

    fn noted<T>(&mut self, ledger: &Ledger, cid: Cid, done: Result<T, Error>) -> Option<T> {
        done.map_err(|e| {
            let what = format!("the limit of {}: {e}", ledger.name(cid));
            self.trouble.insert(cid, what)
        })
        .ok()
    }

    /// What `states`, the kernel side's tables, say of limits; cgroups' currencies by their
    /// cgroups' numbers.
    pub fn throttles(&self, cgroups: &HashMap<u64, Cid>, states: &[NodeState]) -> Throttles {
        let nodes: HashMap<NodeId, Cid> = self.nodes.iter().map(|(c, n)| (*n, *c)).collect();
        let mut found = Throttles::default();
        for n in states.iter().filter(|n| n.throttle.quota_ns > 0) {
            let (cid, of) = match n.limit {
                true => (nodes.get(&n.node), &mut found.own),
                false => (cgroups.get(&n.cgid), &mut found.cpu_max),
            };
            if let Some(cid) = cid {
                of.insert(*cid, n.throttle);
            }
        }
        let held = states.iter().filter(|n| n.held_by.is_some());
        found.waiting = held.filter_map(|n| cgroups.get(&n.cgid).copied()).collect();
        found
    }
}

/// What waits for it goes on.
fn drop_limit(s: &Scheduler, node: NodeId) {
    if let Err(e) = s.destroy_node(node) {
        tracing::warn!("dropping the limit of a currency: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::quota;

    #[test]
    fn no_quota_is_less_than_cpu_max_takes() {
        for (milli, expected) in [
            (1, (1_000, 1_000_000)),
            (9, (9_000, 1_000_000)),
            (10, (1_000, 100_000)),
            (300, (30_000, 100_000)),
            (1_024_000, (102_400_000, 100_000)),
        ] {
            assert_eq!(quota(milli), expected);
        }
    }
}
