// SPDX-License-Identifier: GPL-2.0-only
//! Who wants which resource now, and which limits hold. Who wants the CPU is as the scheduler's
//! tables have it, or, without it, whoever has processes.

use super::bounds::{self, Bounds};
use super::demand::Demand;
use super::limit::Throttles;
use std::collections::{HashMap, HashSet};
use tix_bpf::NodeState;
use tix_cgroupfs::Root;
use tix_ledger::{BASE, Cid, Ledger, Resource};

#[derive(Debug, Default)]
pub struct Activity {
    /// Which limits hold.
    pub throttles: Throttles,
    /// What those do to whom.
    pub bounds: Bounds,
    /// Who wants the disk.
    pub demand: Demand,
}

impl Activity {
    /// These want the CPU, and no others.
    pub fn set_running(&mut self, ledger: &mut Ledger, running: &HashSet<Cid>) {
        ledger.set_all_running(Resource::Cpu, &|c| running.contains(&c));
        self.find_bounds(ledger);
    }

    pub fn find_bounds(&mut self, ledger: &Ledger) {
        self.bounds = Bounds::find(ledger, &self.throttles);
    }

    /// What the kernel's own scheduler holds of `cpu.max` for `cid`.
    pub fn read_cpu_max(&mut self, ledger: &Ledger, root: &Root, cid: Cid) {
        let found = bounds::read_cpu_max(ledger, root, cid);
        self.throttles.cpu_max.extend(found);
        self.find_bounds(ledger);
    }
}

/// The currencies of cgroups by the numbers of these.
pub fn by_number(ledger: &Ledger) -> HashMap<u64, Cid> {
    mirrors(ledger)
        .filter_map(|cid| Some((ledger.get(cid)?.mirror.as_ref()?.id, cid)))
        .collect()
}

/// Which currencies have runnable threads of their own, as the scheduler's tables have it; tixd's
/// own excepted: who looks is awake, and would count in every snapshot.
pub fn running(
    ledger: &Ledger,
    by_number: &HashMap<u64, Cid>,
    states: &[NodeState],
) -> HashSet<Cid> {
    let me = own_currency(ledger);
    let active = states.iter().filter(|n| n.self_active);
    active
        .filter_map(|n| match n.node == tix_bpf::BASE {
            true => Some((n, BASE)),
            false => Some((n, *by_number.get(&n.cgid)?)),
        })
        .filter(|(n, cid)| *cid != me || n.runnable > 1)
        .map(|(_, cid)| cid)
        .collect()
}

/// The currencies of the cgroups that have processes. `populated`: those, by their numbers.
pub fn populated(ledger: &Ledger, populated: &HashSet<u64>) -> HashSet<Cid> {
    let is_populated = |cid: &Cid| {
        let mirror = ledger.get(*cid).and_then(|c| c.mirror.as_ref());
        *cid != BASE && mirror.is_some_and(|m| populated.contains(&m.id))
    };
    mirrors(ledger).filter(is_populated).collect()
}

/// Are all cgroups frozen that have threads of `cid`: its own, or those that it is bound to?
pub fn is_frozen(ledger: &Ledger, root: &Root, cid: Cid) -> bool {
    let own = ledger.get(cid).and_then(|c| c.mirror.as_ref());
    let paths = own.map(|m| m.path.as_str()).into_iter();
    let mut paths = paths.chain(ledger.bindings_of(cid)).peekable();
    let frozen = |path: &str| root.cgroup(path).is_ok_and(|c| c.is_frozen());
    cid != BASE && paths.peek().is_some() && paths.all(frozen)
}

/// The currencies of cgroups, base first: found by walking down the tree, so that it costs nothing
/// how many others there are.
fn mirrors(ledger: &Ledger) -> impl Iterator<Item = Cid> + '_ {
    let mut todo = vec![BASE];
    std::iter::from_fn(move || {
        let cid = todo.pop()?;
        let children = ledger.get(cid).into_iter();
        todo.extend(children.flat_map(|c| c.mirrored_children()));
        Some(cid)
    })
}

/// The currency of the principal that tixd itself is in.
fn own_currency(ledger: &Ledger) -> Cid {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut path = text
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .unwrap_or("/");
    loop {
        if let Some(cid) = ledger.find(path) {
            return cid;
        }
        path = match path.rfind('/') {
            Some(end) if end > 0 => &path[..end],
            _ => return BASE,
        };
    }
}
