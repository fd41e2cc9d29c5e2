// SPDX-License-Identifier: GPL-2.0-only
//! Who wants the CPU now: as the scheduler's tables have it, or, without it, whoever has processes.

use super::Core;
use crate::reconcile::limit::Throttles;
use std::collections::{HashMap, HashSet};
use tix_ledger::{BASE, Cid, Resource};

impl Core {
    /// Brings the ledger's activity up to date, for values of this moment.
    pub(super) fn refresh(&mut self) {
        let (running, throttles) = self.running();
        self.throttles = throttles;
        self.ledger
            .set_all_running(Resource::Cpu, &|c| running.contains(&c));
        self.find_bounds();
    }

    /// Which currencies have runnable threads of their own, this one excepted: who looks is awake,
    /// and would count in every snapshot. And which limits hold.
    fn running(&mut self) -> (HashSet<Cid>, Throttles) {
        if self.cpu.in_charge() {
            let me = self.own_currency();
            let by_id: HashMap<u64, Cid> = self
                .mirrors()
                .filter_map(|cid| Some((self.ledger.get(cid)?.mirror.as_ref()?.id, cid)))
                .collect();
            let states = self.cpu.states();
            self.fund_idle(&by_id, &states);
            let throttles = self.cpu.throttles(&by_id, &states);
            let running = states
                .iter()
                .filter(|n| n.self_active)
                .filter_map(|n| {
                    if n.node == tix_bpf::BASE {
                        Some((n, BASE))
                    } else {
                        Some((n, *by_id.get(&n.cgid)?))
                    }
                })
                .filter(|(n, cid)| *cid != me || n.runnable > 1)
                .map(|(_, cid)| cid)
                .collect();
            return (running, throttles);
        }
        let populated = |cid: &Cid| {
            let mirror = self.ledger.get(*cid).and_then(|c| c.mirror.as_ref());
            *cid != BASE && mirror.is_some_and(|m| self.clocks.populated.contains(&m.id))
        };
        let running = self.mirrors().filter(populated).collect();
        (running, Throttles::default())
    }

    /// The currencies of cgroups, base first: found by walking down the tree, so that it costs
    /// nothing how many others there are.
    pub(super) fn mirrors(&self) -> impl Iterator<Item = Cid> + '_ {
        let mut todo = vec![BASE];
        std::iter::from_fn(move || {
            let cid = todo.pop()?;
            let children = self.ledger.get(cid).into_iter();
            todo.extend(children.flat_map(|c| c.mirrored_children()));
            Some(cid)
        })
    }

    /// The currency of the principal that tixd itself is in.
    fn own_currency(&self) -> Cid {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut path = text
            .lines()
            .find_map(|l| l.strip_prefix("0::"))
            .unwrap_or("/");
        loop {
            if let Some(cid) = self.ledger.find(path) {
                return cid;
            }
            path = match path.rfind('/') {
                Some(end) if end > 0 => &path[..end],
                _ => return BASE,
            };
        }
    }
}
