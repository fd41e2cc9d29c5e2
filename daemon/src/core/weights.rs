// SPDX-License-Identifier: GPL-2.0-only
//! While tix's scheduler is not in force: the nearest that `cpu.weight` can do.
//!
//! A weight is somebody's funding (model.md §4) unless tixd wrote it. So what tixd writes is remembered with the funding that it
//! covers, durably: the next tixd must not take it for anybody's tickets. Whatever else is read was written by others and is funding.

use super::Core;
use crate::enforce::weight;
use crate::lifeline;
use std::collections::BTreeMap;

/// A `cpu.weight` that tixd wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub weight: u64,
    /// What the cgroup's funding is: what stands there when the scheduler is in force again.
    pub funding: u64,
}

#[derive(Debug, Default)]
pub(super) struct Weights(BTreeMap<String, Written>);

impl Weights {
    pub(super) fn new(known: Vec<(String, Written)>) -> Weights {
        Weights(known.into_iter().collect())
    }
}

impl Core {
    /// The funding that a weight read from the cgroup `path` stands for.
    pub(super) fn funding_of(&mut self, path: &str, read: u64) -> u64 {
        let written = self.weights.0.get(path).copied();
        if written.is_none() && self.funding(path).is_none_or(|known| known == read) {
            return read;
        }
        // tixd may have written another since it was read.
        let now = self.root.cgroup(path).and_then(|c| c.weight());
        let now = now.ok().flatten().unwrap_or(read);
        match written {
            Some(w) if w.weight == now => w.funding,
            Some(_) => {
                self.forget_weight(path);
                now
            }
            None => now,
        }
    }

    pub(super) fn forget_weight(&mut self, path: &str) {
        if self.weights.0.remove(path).is_some() {
            self.save_weights(&[(path.to_owned(), None)]);
        }
    }

    fn save_weights(&mut self, changed: &[(String, Option<Written>)]) {
        if let Err(e) = self.store().set_weights(changed) {
            tracing::error!("{e}");
        }
    }

    fn funding(&self, path: &str) -> Option<u64> {
        let cid = self.ledger.find(path)?;
        self.ledger.get(cid)?.mirror.as_ref().map(|m| m.weight)
    }

    /// Brings the weights in step, wherever they are tixd's business.
    pub(super) fn write_weights(&mut self) {
        if !self.settled {
            return;
        }
        let wanted = if self.cpu.by_weight() {
            weight::weights(&self.ledger, self.ledger.find(lifeline::NAME))
        } else {
            BTreeMap::new()
        };
        let stale: Vec<(String, u64)> = self
            .weights
            .0
            .iter()
            .filter(|(p, _)| !wanted.contains_key(*p))
            .map(|(p, w)| (p.clone(), self.funding(p).unwrap_or(w.funding)))
            .collect();
        let fresh: Vec<(String, Written)> = wanted
            .into_iter()
            .filter_map(|(path, weight)| {
                let funding = self.funding(&path)?;
                let written = Written { weight, funding };
                (self.weights.0.get(&path) != Some(&written)).then_some((path, written))
            })
            .collect();
        if stale.is_empty() && fresh.is_empty() {
            return;
        }
        // Known before it is done: a weight that was never written does no harm here, one that was and is not known would.
        let known: Vec<(String, Option<Written>)> = (fresh.iter())
            .map(|(path, written)| (path.clone(), Some(*written)))
            .collect();
        self.weights.0.extend(fresh.iter().cloned());
        self.save_weights(&known);
        for (path, written) in &fresh {
            self.write_weight(path, written.weight);
        }
        for (path, funding) in &stale {
            self.write_weight(path, *funding);
            self.weights.0.remove(path);
        }
        let gone: Vec<(String, Option<Written>)> =
            stale.into_iter().map(|(path, _)| (path, None)).collect();
        if !gone.is_empty() {
            self.save_weights(&gone);
        }
    }

    fn write_weight(&mut self, path: &str, weight: u64) {
        if let Err(e) = self
            .root
            .cgroup(path)
            .and_then(|c| c.write("cpu.weight", &weight.to_string()))
            && !e.is_gone()
        {
            tracing::warn!("{e}");
        }
    }
}
