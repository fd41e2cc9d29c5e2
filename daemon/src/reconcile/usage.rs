// SPDX-License-Identifier: GPL-2.0-only
//! CPU time that currencies have used. A cgroup's is the kernel's own count. A named currency's is
//! what the cgroups below it used while they were below it, so it is added up as they come and go.

use super::clocks::{Clocks, Wanted};
use crate::lane::{Lane, Rank};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use tix_cgroupfs::Root;
use tix_ledger::{BASE, Cid, Ledger, Resource};

/// Steps in the ledger that finding out whose use counts for whom may take: some 10 ms.
const COUNT_STEPS: u64 = 100_000;
/// So many clocks are read on the writer: each takes some 10 µs.
const FEW: usize = 16;
/// What named currencies use is counted each so many seconds: cgroups that go are counted up to
/// then.
const COUNT_EACH: u64 = 2;

/// CPU time of a named currency: what the cgroups below it have used while they were below it.
#[derive(Debug, Default, Clone)]
struct Used {
    total: u64,
    /// Last value read, by cgroup id.
    seen: HashMap<u64, u64>,
    /// What of it the store has.
    saved: u64,
}

/// Whose use counts for whom, and the shape of the ledger that it was found in: to find it again
/// each second would be most of what tixd does at rest.
#[derive(Debug, Default)]
struct Counted {
    shape: Option<u64>,
    cgroups: HashMap<Cid, Vec<(u64, String)>>,
}

type Read = Result<Clocks, tix_cgroupfs::Error>;

pub struct Usage {
    /// The clocks that were read last.
    clocks: Clocks,
    /// Reads them beside the writer.
    reading: Lane<Read>,
    named: HashMap<Cid, Used>,
    counted: Counted,
    /// The most that was ever told of each.
    largest: HashMap<Cid, u64>,
}

impl Usage {
    /// `kept`: what of each currency the store has. What is there still is read afresh.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(kept: impl IntoIterator<Item = (Cid, u64)>) -> io::Result<Usage> {
        let used = |total| Used {
            total,
            saved: total,
            ..Used::default()
        };
        Ok(Usage {
            clocks: Clocks::default(),
            reading: Lane::start("clocks")?,
            named: (kept.into_iter()).map(|(c, n)| (c, used(n))).collect(),
            counted: Counted::default(),
            largest: HashMap::new(),
        })
    }

    /// When the clocks were read last, as the monotonic clock has it.
    pub fn read_at_usec(&self) -> u64 {
        self.clocks.monotonic_usec
    }

    /// The cgroups that have processes that could run, as of the last reading.
    pub fn populated(&self) -> &HashSet<u64> {
        &self.clocks.populated
    }

    /// All clocks have been read.
    pub fn take_clocks(&mut self, ledger: &Ledger, clocks: Clocks) {
        self.clocks = clocks;
        self.count(ledger);
    }

    /// Has the clocks read that named currencies' use is counted by. Called once a second;
    /// `seconds`: since tixd was started.
    pub fn count_beside(&mut self, ledger: &Ledger, root: &Root, seconds: u64) {
        if !seconds.is_multiple_of(COUNT_EACH) || !self.reading.is_idle() {
            return;
        }
        let wanted = self.counted_cgroups(ledger);
        if wanted.is_empty() {
            return;
        }
        // A thread that is woken for it each second costs more than these.
        if wanted.len() <= FEW {
            return self.count_by(ledger, Ok(Clocks::read(root, &wanted)));
        }
        let root = root.path().to_owned();
        self.reading.push(Rank::Writer, move || {
            Root::open_any(&root).map(|root| Clocks::read(&root, &wanted))
        });
    }

    /// The clocks that [`Usage::count_beside`] had read. May be cancelled.
    pub async fn read(&mut self) -> Read {
        self.reading.done().await
    }

    /// Counts by these, and by what is known of others.
    pub fn count_by(&mut self, ledger: &Ledger, clocks: Read) {
        match clocks {
            Ok(clocks) => {
                self.clocks.used_usec.extend(clocks.used_usec);
                self.count(ledger);
            }
            Err(e) => tracing::warn!("{e}"),
        }
    }

    /// What the store is to have of each, where that is another than it has.
    pub fn take_unsaved(&mut self, ledger: &Ledger) -> Vec<(Cid, u64)> {
        self.find_counted(ledger);
        let mut changed = Vec::new();
        for (cid, u) in &mut self.named {
            // What is there still is read afresh by the next tixd; only what is gone must be
            // remembered.
            let here: u64 = (self.counted.cgroups.get(cid).into_iter().flatten())
                .filter_map(|(id, _)| u.seen.get(id))
                .sum();
            let gone = u.total.saturating_sub(here);
            if gone != u.saved {
                u.saved = gone;
                changed.push((*cid, gone));
            }
        }
        changed
    }

    fn find_counted(&mut self, ledger: &Ledger) {
        let shape = Some(ledger.shape());
        if self.counted.shape != shape {
            let cgroups = find_counted(ledger);
            self.counted = Counted { shape, cgroups };
        }
    }

    /// The cgroups that any currency's use is counted by.
    fn counted_cgroups(&mut self, ledger: &Ledger) -> Vec<Wanted> {
        self.find_counted(ledger);
        let all = self.counted.cgroups.values().flatten();
        let mut all: Vec<Wanted> = all.map(|(id, path)| (*id, path.clone(), false)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Adds up what all named currencies have used, by the clocks that were read last.
    fn count(&mut self, ledger: &Ledger) {
        let before = self.counted.shape;
        self.find_counted(ledger);
        for (cid, cgroups) in &self.counted.cgroups {
            let used = self.named.entry(*cid).or_default();
            for (id, _) in cgroups {
                let Some(now) = self.clocks.used_usec.get(id).copied() else {
                    continue;
                };
                let last = used.seen.entry(*id).or_insert(0);
                // Less than before: the cgroup went, and this is another with its name, of which we
                // shall be told.
                used.total += now.saturating_sub(*last);
                *last = now.max(*last);
            }
        }
        if self.counted.shape != before {
            self.named.retain(|c, _| ledger.get(*c).is_some());
            self.largest.retain(|c, _| ledger.get(*c).is_some());
        }
    }

    /// CPU time of `cid` when the clocks were read last, microseconds.
    pub fn used_usec(&mut self, ledger: &Ledger, cid: Cid) -> u64 {
        let now = match ledger.get(cid).and_then(|c| c.mirror.as_ref()) {
            Some(m) => self.clocks.used_usec.get(&m.id).copied().unwrap_or(0),
            None => self.named.get(&cid).map_or(0, |u| u.total),
        };
        let largest = self.largest.entry(cid).or_insert(0);
        *largest = now.max(*largest);
        *largest
    }
}

/// For each named currency that funds any, the cgroups whose use counts for it: those it funds,
/// directly or not, each counted once with its descendants. Where all that are above all cgroups
/// are too many the latest cgroups are left out.
fn find_counted(ledger: &Ledger) -> HashMap<Cid, Vec<(u64, String)>> {
    let mut paths: HashMap<Cid, BTreeMap<String, u64>> = HashMap::new();
    let start = ledger.steps();
    for c in (ledger.cids_from(BASE)).filter_map(|c| ledger.get(c)) {
        let Some(m) = &c.mirror else { continue };
        if ledger.steps() - start > COUNT_STEPS {
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
            let Some(x) = ledger.get(up) else {
                continue;
            };
            if !x.is_mirror() {
                let its = paths.entry(up).or_default();
                its.insert(m.path.clone(), m.id);
            }
            let above = ledger.funders(up, Resource::Cpu).into_iter();
            todo.extend(above.filter(|f| seen.insert(*f)));
        }
    }
    paths
        .into_iter()
        .map(|(cid, all)| (cid, outermost(all)))
        .collect()
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
