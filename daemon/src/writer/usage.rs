// SPDX-License-Identifier: GPL-2.0-only
//! CPU time that currencies have used. A cgroup's is the kernel's own count. A named currency's is
//! what the cgroups below it used while they were below it, so it is added up as they come and go.

use super::Core;
use super::clocks::Wanted;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;
use tix_ledger::{BASE, Cid, Resource};

/// Steps in the ledger that finding out whose use counts for whom may take: some 10 ms.
const COUNT_STEPS: u64 = 100_000;

/// CPU time of a named currency: what the cgroups below it have used while they were below it.
#[derive(Debug, Default, Clone)]
pub(super) struct Usage {
    total: u64,
    /// Last value read, by cgroup id.
    seen: HashMap<u64, u64>,
    /// What of it the store has.
    saved: u64,
}

impl Usage {
    /// What was kept: what is there still is read afresh.
    pub(super) fn of_the_gone(total: u64) -> Usage {
        Usage {
            total,
            saved: total,
            ..Usage::default()
        }
    }
}

/// Whose use counts for whom, and the shape of the ledger that it was found in: to find it again
/// each second would be most of what tixd does at rest.
#[derive(Debug, Default)]
pub(super) struct Counted {
    shape: Option<u64>,
    cgroups: HashMap<Cid, Vec<(u64, String)>>,
}

impl Core {
    pub(super) fn save_usage(&mut self) {
        let counted = self.counted();
        let mut changed = Vec::new();
        for (cid, u) in &mut self.usage {
            // What is there still is read afresh by the next tixd; only what is gone must be
            // remembered.
            let here: u64 = (counted.cgroups.get(cid).into_iter().flatten())
                .filter_map(|(id, _)| u.seen.get(id))
                .sum();
            let gone = u.total.saturating_sub(here);
            if gone != u.saved {
                u.saved = gone;
                changed.push((*cid, gone));
            }
        }
        if !changed.is_empty() {
            let then = |_: &mut Core, done| {
                if let Err(e) = done {
                    tracing::error!("{e}");
                }
            };
            self.with_store(move |store| store.set_usage(&changed), then);
        }
        self.counted = counted;
        self.saved = Instant::now();
    }

    /// To be put back.
    fn counted(&mut self) -> Counted {
        let shape = Some(self.ledger.shape());
        let known = std::mem::take(&mut self.counted);
        match known.shape == shape {
            true => known,
            false => Counted {
                shape,
                cgroups: self.find_counted(),
            },
        }
    }

    /// For each named currency that funds any, the cgroups whose use counts for it: those it funds,
    /// directly or not, each counted once with its descendants. Where all that are above all
    /// cgroups are too many the latest cgroups are left out.
    fn find_counted(&self) -> HashMap<Cid, Vec<(u64, String)>> {
        let mut paths: HashMap<Cid, BTreeMap<String, u64>> = HashMap::new();
        let start = self.ledger.steps();
        for c in (self.ledger.cids_from(BASE)).filter_map(|c| self.ledger.get(c)) {
            let Some(m) = &c.mirror else { continue };
            if self.ledger.steps() - start > COUNT_STEPS {
                tracing::debug!(
                    "{} and later cgroups: too many fund them to be counted",
                    m.path
                );
                break;
            }
            let funders = c.bound_to.into_iter();
            let mut todo: Vec<Cid> = funders
                .chain(c.grants(Resource::Cpu).iter().map(|g| g.issuer))
                .collect();
            let mut seen: HashSet<Cid> = todo.iter().copied().collect();
            while let Some(up) = todo.pop() {
                let Some(x) = self.ledger.get(up) else {
                    continue;
                };
                if !x.is_mirror() {
                    let its = paths.entry(up).or_default();
                    its.insert(m.path.clone(), m.id);
                }
                let above = self.ledger.funders(up, Resource::Cpu).into_iter();
                todo.extend(above.filter(|f| seen.insert(*f)));
            }
        }
        paths
            .into_iter()
            .map(|(cid, all)| (cid, outermost(all)))
            .collect()
    }

    /// The cgroups that any currency's use is counted by.
    pub(super) fn counted_cgroups(&mut self) -> Wanted {
        let counted = self.counted();
        let all = counted.cgroups.values().flatten();
        let mut all: Wanted = all.map(|(id, path)| (*id, path.clone(), false)).collect();
        self.counted = counted;
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Adds up what all named currencies have used, by the clocks that were read last.
    pub(super) fn count_usage(&mut self) {
        let before = self.counted.shape;
        let counted = self.counted();
        for (cid, cgroups) in &counted.cgroups {
            let read: Vec<(u64, u64)> = cgroups
                .iter()
                .filter_map(|(id, _)| Some((*id, *self.clocks.used_usec.get(id)?)))
                .collect();
            let usage = self.usage.entry(*cid).or_default();
            for (id, now) in read {
                let last = usage.seen.entry(id).or_insert(0);
                // Less than before: the cgroup went, and this is another with its name, of which we
                // shall be told.
                usage.total += now.saturating_sub(*last);
                *last = now.max(*last);
            }
        }
        if counted.shape != before {
            let ledger = &self.ledger;
            self.usage.retain(|c, _| ledger.get(*c).is_some());
            self.largest.retain(|c, _| ledger.get(*c).is_some());
        }
        self.counted = counted;
    }

    /// CPU time of `cid` when the clocks were read last, microseconds.
    pub fn used_usec(&mut self, cid: Cid) -> u64 {
        let now = match self.ledger.get(cid).and_then(|c| c.mirror.as_ref()) {
            Some(m) => self.clocks.used_usec.get(&m.id).copied().unwrap_or(0),
            None => self.usage.get(&cid).map_or(0, |u| u.total),
        };
        let largest = self.largest.entry(cid).or_insert(0);
        *largest = now.max(*largest);
        *largest
    }
}

/// Without those that are inside of others, which have their use already.
fn outermost(paths: BTreeMap<String, u64>) -> Vec<(u64, String)> {
    let above = |path: &str| {
        let ends = path.match_indices('/').map(|(i, _)| i).filter(|i| *i > 0);
        ends.map(|i| path[..i].to_owned()).collect::<Vec<_>>()
    };
    let inside = |path: &str| above(path).iter().any(|up| paths.contains_key(up));
    let outer = paths.iter().filter(|(path, _)| !inside(path));
    outer.map(|(path, id)| (*id, path.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::outermost;

    #[test]
    fn what_is_inside_of_another_counts_once() {
        let paths = ["/a", "/a-b", "/a/x", "/a/x/y", "/b/x", "/b/xy"];
        let all = paths.iter().zip(1..).map(|(p, n)| ((*p).to_owned(), n));
        let found: Vec<String> = (outermost(all.collect()).into_iter())
            .map(|(_, path)| path)
            .collect();
        assert_eq!(found, ["/a", "/a-b", "/b/x", "/b/xy"]);
    }
}
