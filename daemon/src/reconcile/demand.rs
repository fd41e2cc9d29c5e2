// SPDX-License-Identifier: GPL-2.0-only
//! Who wants the disk. The kernel lends what an idle cgroup leaves to its siblings, as the tree has
//! them; where others are due it by the graph, weights have to follow who is active. So once a
//! second it is looked who had requests (Sullivan §4.5: a principal's disk tickets are active while
//! it has one outstanding), but only where the graph is no tree, and while nobody uses a disk only
//! at the root.

use super::weight;
use std::collections::HashMap;
use tix_cgroupfs::Root;
use tix_ledger::{BASE, Cid, Ledger, Resource};

/// Looked at in one second: some 20 µs each.
const AT_ONCE: usize = 128;
/// So often without a request, one has become idle.
const QUIET: u32 = 3;

#[derive(Debug, Default)]
pub struct Demand {
    /// Requests of the whole machine so far.
    all: Option<u64>,
    seen: HashMap<Cid, Seen>,
    /// Where the next look begins.
    next: usize,
    /// Whose requests count, and the shape of the ledger that it was found in.
    units: (Option<u64>, Vec<(Cid, String)>),
    /// The ledger's activity is by what was seen.
    looking: bool,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    requests: u64,
    quiet: u32,
}

/// Requests of a cgroup and of all below it so far, on all devices; `None` without the io
/// controller.
fn requests(root: &Root, path: &str) -> Option<u64> {
    let text = root.cgroup(path).and_then(|c| c.read("io.stat")).ok()?;
    let pairs = text.split_whitespace().filter_map(|p| p.split_once('='));
    let counted = pairs.filter(|(key, _)| matches!(*key, "rios" | "wios" | "dios"));
    Some(counted.filter_map(|(_, n)| n.parse::<u64>().ok()).sum())
}

impl Demand {
    /// Once a second. True: others want the disk than before.
    pub fn look(&mut self, ledger: &mut Ledger, root: &Root) -> bool {
        let all = requests(root, "/");
        if all.is_some() && all == self.all {
            return false;
        }
        self.all = all;
        let shape = Some(ledger.shape());
        if self.units.0 != shape {
            self.units = (shape, weight::units(ledger, Resource::Disk));
        }
        let units = &self.units.1;
        if units.is_empty() {
            if std::mem::take(&mut self.looking) {
                self.seen.clear();
                for leaf in leaves(ledger, BASE) {
                    ledger.set_running(leaf, Resource::Disk, true);
                }
            }
            return false;
        }
        self.looking = true;
        let (mut woken, mut idle) = (Vec::new(), Vec::new());
        let first = self.next % units.len();
        let turn = units.iter().cycle().skip(first).take(units.len());
        for (cid, path) in turn.take(AT_ONCE) {
            // Where it cannot be seen everybody wants it.
            let Some(now) = requests(root, path) else {
                woken.push(*cid);
                continue;
            };
            let known = self.seen.get(cid);
            let quiet = match known {
                Some(seen) if seen.requests == now => seen.quiet.saturating_add(1),
                _ => 0,
            };
            match quiet {
                0 => woken.push(*cid),
                QUIET.. => idle.push(*cid),
                _ => {}
            }
            let seen = Seen {
                requests: now,
                quiet,
            };
            self.seen.insert(*cid, seen);
        }
        self.next = first + AT_ONCE.min(units.len());
        let here: std::collections::HashSet<Cid> = units.iter().map(|(c, _)| *c).collect();
        self.seen.retain(|c, _| here.contains(c));
        let mut turned = false;
        for (units, on) in [(woken, true), (idle, false)] {
            let leaves: Vec<Cid> = units.into_iter().flat_map(|u| leaves(ledger, u)).collect();
            for leaf in leaves {
                let was = ledger.is_running(leaf, Resource::Disk);
                turned |= was != on;
                ledger.set_running(leaf, Resource::Disk, on);
            }
        }
        turned
    }
}

/// The cgroups at and below `c` that have processes of their own.
fn leaves(ledger: &Ledger, c: Cid) -> Vec<Cid> {
    let (mut out, mut todo) = (Vec::new(), vec![c]);
    while let Some(c) = todo.pop() {
        let before = todo.len();
        let children = ledger.get(c).into_iter();
        todo.extend(children.flat_map(|x| x.mirrored_children()));
        if todo.len() == before && c != BASE {
            out.push(c);
        }
    }
    out
}
