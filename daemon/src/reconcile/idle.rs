// SPDX-License-Identifier: GPL-2.0-only
//! What `cpu.idle` funds on a kernel that does not tell tix's scheduler of it.
//!
//! The problem: with `cpu.idle` a cgroup's `cpu.weight` reads 0, which is one ticket. Before Linux
//! 6.19 the scheduler goes by the weight that was there before, and the ledger would say otherwise.
//! The rule: what reads 0 funds as much as the scheduler's tables say, whenever they are read.
//! Worked example: cpu.weight 300, then cpu.idle 1: the ledger has 1 ticket, and 300 at the next
//! look. Cost: on such a kernel a comparison for each cgroup, and one read of `cpu.weight` for each
//! that differs. Limits: under the kernel's own scheduler `cpu.idle` has its effect, and one ticket
//! stays.

use std::collections::HashMap;
use tix_bpf::{Lack, NodeState};
use tix_cgroupfs::Root;
use tix_ledger::{Cgroup, Cid, Event, Ledger};

/// The cgroups that have one ticket of their parent's in the ledger and more in the scheduler.
fn heavier(ledger: &Ledger, by_id: &HashMap<u64, Cid>, states: &[NodeState]) -> Vec<(Cid, u64)> {
    let in_force = states.iter().filter(|n| n.cgroup && n.weight > 1);
    let heavier = in_force.filter_map(|n| {
        let cid = *by_id.get(&n.cgid)?;
        let known = ledger.get(cid)?.mirror.as_ref()?;
        (known.weight == 1).then_some((cid, n.weight.into()))
    });
    heavier.collect()
}

/// Has the ledger say what funds idle cgroups in the scheduler, whose tables are `states`.
pub fn fund_idle(
    ledger: &mut Ledger,
    root: &Root,
    by_id: &HashMap<u64, Cid>,
    states: &[NodeState],
) -> Vec<Event> {
    if !tix_bpf::lacks().is_ok_and(|all| all.contains(&Lack::CpuIdle)) {
        return vec![];
    }
    let mut events = Vec::new();
    for (cid, weight) in heavier(ledger, by_id, states) {
        let mirror = ledger.get(cid).and_then(|c| c.mirror.clone());
        let Some(m) = mirror.filter(|m| reads_zero(root, &m.path)) else {
            continue;
        };
        events.extend(ledger.put_cgroup(&Cgroup {
            path: &m.path,
            id: m.id,
            weight,
            disk: m.disk,
            owner: m.owner,
            group: m.group,
            inner_threads: m.inner_threads,
        }));
    }
    events
}

fn reads_zero(root: &Root, path: &str) -> bool {
    let weight = root.cgroup(path).and_then(|cgroup| cgroup.weight());
    weight.is_ok_and(|weight| weight == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_bpf::Throttle;

    #[test]
    fn what_has_one_ticket_and_more_in_force_is_found() {
        let mut ledger = Ledger::new(1, 0);
        let mut by_id = HashMap::new();
        let mut states = Vec::new();
        for (id, path, known, weight, found) in [
            (11, "/idle", 0, 300, true),
            (12, "/least", 1, 1, false),
            (13, "/plain", 100, 100, false),
            (14, "/other", 50, 200, false),
        ] {
            ledger.put_cgroup(&Cgroup {
                path,
                id,
                weight: known,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
            by_id.insert(id, ledger.find(path).unwrap());
            states.push((node(id, weight), found));
        }
        let nodes: Vec<NodeState> = states.iter().map(|(n, _)| n.clone()).collect();
        let found = heavier(&ledger, &by_id, &nodes);
        assert_eq!(found, [(ledger.find("/idle").unwrap(), 300)]);
        assert_eq!(states.iter().filter(|(_, found)| *found).count(), 1);
    }

    fn node(cgid: u64, weight: u32) -> NodeState {
        NodeState {
            node: tix_bpf::BASE,
            cgroup: true,
            named: false,
            limit: false,
            active: false,
            self_active: false,
            runnable: 0,
            weight,
            used_ns: 0,
            value: 0,
            cgid,
            cid: 0,
            cap: None,
            throttle: Throttle::default(),
            held_by: None,
            funding: tix_bpf::Funding::default(),
        }
    }
}
