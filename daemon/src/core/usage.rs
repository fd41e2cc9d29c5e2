// SPDX-License-Identifier: GPL-2.0-only
//! CPU time that currencies have used. A cgroup's is the kernel's own count. A named currency's is what the cgroups below it used while
//! they were below it, so it is added up as they come and go.

use super::Core;
use crate::ledger::{Cid, Resource};
use std::collections::HashMap;
use std::time::Instant;

/// CPU time of a named currency: what the cgroups below it have used while they were below it.
#[derive(Debug, Default, Clone)]
pub(super) struct Usage {
    pub(super) total: u64,
    /// Last value read, by cgroup id.
    pub(super) seen: HashMap<u64, u64>,
}

impl Core {
    pub(super) fn save_usage(&mut self) {
        // What is there still is read afresh by the next tixd; only what is gone must be remembered.
        let gone = |cid: Cid, u: &Usage| {
            let here: u64 = self
                .counted(cid)
                .iter()
                .filter_map(|(id, _)| u.seen.get(id))
                .sum();
            u.total.saturating_sub(here)
        };
        let usage: Vec<(u64, u64)> = self.usage.iter().map(|(c, u)| (*c, gone(*c, u))).collect();
        if let Err(e) = self.store.set_usage(&usage) {
            tracing::error!("{e}");
        }
        self.saved = Instant::now();
    }

    /// The cgroups whose use counts for a named currency: those it funds, directly or not, each counted once with its descendants.
    fn counted(&self, cid: Cid) -> Vec<(u64, String)> {
        let mut paths: Vec<(String, u64)> = self
            .ledger
            .below(cid, Resource::Cpu)
            .into_iter()
            .filter_map(|c| {
                self.ledger
                    .get(c)?
                    .mirror
                    .as_ref()
                    .map(|m| (m.path.clone(), m.id))
            })
            .collect();
        paths.sort();
        let mut out: Vec<(u64, String)> = Vec::new();
        for (path, id) in paths {
            let inside = out.iter().any(|(_, p)| {
                path.strip_prefix(p.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
            });
            if !inside {
                out.push((id, path));
            }
        }
        out
    }

    /// Reads the clocks of all named currencies.
    pub fn count_usage(&mut self) {
        let named: Vec<Cid> = self
            .ledger
            .iter()
            .filter(|(_, c)| !c.is_mirror())
            .map(|(c, _)| c)
            .collect();
        for cid in named {
            let read: Vec<(u64, u64)> = self
                .counted(cid)
                .into_iter()
                .filter_map(|(id, path)| Some((id, self.root.used_usec(&path).ok()?)))
                .collect();
            let usage = self.usage.entry(cid).or_default();
            for (id, now) in read {
                let last = usage.seen.entry(id).or_insert(0);
                // Less than before: the cgroup went, and this is another with its name, of which we shall be told.
                usage.total += now.saturating_sub(*last);
                *last = now.max(*last);
            }
        }
        let ledger = &self.ledger;
        self.usage.retain(|c, _| ledger.get(*c).is_some());
        self.largest.retain(|c, _| ledger.get(*c).is_some());
    }

    /// CPU time of `cid` so far, microseconds.
    pub fn used_usec(&mut self, cid: Cid) -> u64 {
        let now = match self.ledger.get(cid).and_then(|c| c.mirror.as_ref()) {
            Some(m) => self.root.used_usec(&m.path).unwrap_or(0),
            None => self.usage.get(&cid).map_or(0, |u| u.total),
        };
        let largest = self.largest.entry(cid).or_insert(0);
        *largest = now.max(*largest);
        *largest
    }
}
