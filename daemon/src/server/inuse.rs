// SPDX-License-Identifier: GPL-2.0-only
//! What is in force and in use of the disk and of memory, as the files of cgroups say. Reading them
//! takes long where there are many: the writer does not wait for it.

use super::held;
use super::limits;
use super::readers;
use super::session::Session;
use super::view;
use super::whole::Written;
use crate::reconcile::bounds::kernels_throttle;
use crate::writer::Core;
use std::collections::{HashMap, HashSet};
use tix_api::{Currency, Error, LimitKind, Resource, Share, TreeReply};
use tix_cgroupfs::{Cgroup, Root};

impl Session {
    /// Every currency, with what its cgroups hold and use.
    pub(super) async fn tree_in_use(&self) -> Result<Written<TreeReply>, Error> {
        self.read_clocks().await?;
        let currencies = self.ask_each(view::currency).await?;
        let about = |core: &mut Core| {
            let top = core.tree.root.path().to_owned();
            (held::all_not_held(core), top, core.cpu.in_charge())
        };
        let (not_held, top, by_tix) = self.ask(about).await?;
        let tree = TreeReply {
            currencies,
            not_held,
        };
        let read = move || {
            let filled = match Root::open_any(&top) {
                Ok(root) => fill(&root, tree, by_tix),
                Err(e) => {
                    tracing::warn!("{e}");
                    tree
                }
            };
            Written::of(&filled)
        };
        let failed = |why: &dyn std::fmt::Display| Error::Internal {
            message: format!("what the cgroups use cannot be read: {why}"),
            hint: "try again; see tixd's log if it stays so".into(),
        };
        // What the user changes does not wait for it.
        let filled = readers::read(&self.reading, self.user, read).await;
        filled.map_err(|e| failed(&e))?.map_err(|e| failed(&e))
    }
}

/// `by_tix`: its scheduler is in force, and so told what limits there are.
fn fill(root: &Root, mut tree: TreeReply, by_tix: bool) -> TreeReply {
    let there = tree.currencies.iter().filter(|c| is_cgroup(c));
    let there: HashSet<String> = there.map(|c| c.name.clone()).collect();
    for c in tree.currencies.iter_mut().filter(|c| !is_cgroup(c)) {
        let path = c.cgroup.as_deref().filter(|path| !there.contains(*path));
        c.not_held = path.and_then(|path| held::bound_without_cpu(root, &c.name, path));
    }
    let mut frozen: HashMap<String, bool> = HashMap::new();
    for c in tree.currencies.iter_mut().filter(|c| c.cid != 0) {
        let cgroup = c.cgroup.as_deref().filter(|_| is_cgroup(c));
        let Some(cgroup) = cgroup.and_then(|path| root.cgroup(path).ok()) else {
            continue;
        };
        if !by_tix {
            limit(c, &cgroup);
        }
        let is_frozen = !c.active && cgroup.is_frozen();
        c.cpu.frozen = is_frozen.then_some(true);
        for funding in c.funding.iter().filter(|f| f.resource == Resource::Cpu) {
            let all = frozen.entry(funding.from.clone()).or_insert(true);
            *all &= is_frozen;
        }
    }
    // A named currency is as frozen as what it funds.
    for c in tree.currencies.iter_mut().filter(|c| !is_cgroup(c)) {
        let all = !c.active && frozen.get(&c.name).copied().unwrap_or(false);
        c.cpu.frozen = all.then_some(true);
    }
    let found: HashMap<String, [Share; 2]> = tree
        .currencies
        .iter()
        .filter(|c| is_cgroup(c))
        .filter_map(|c| {
            let path = c.cgroup.as_deref()?;
            // What goes meanwhile uses nothing.
            let cgroup = root.cgroup(path).ok()?;
            Some((c.name.clone(), [disk(&cgroup), memory(&cgroup)]))
        })
        .collect();
    // A named currency has what the cgroups have that it funds.
    let mut named: HashMap<(String, Resource), Vec<Share>> = HashMap::new();
    for c in &tree.currencies {
        let Some([disk, memory]) = found.get(&c.name) else {
            continue;
        };
        for f in &c.funding {
            let share = match f.resource {
                Resource::Disk => disk,
                Resource::Memory => memory,
                _ => continue,
            };
            let all = named.entry((f.from.clone(), f.resource)).or_default();
            all.push(*share);
        }
    }
    for c in &mut tree.currencies {
        if let Some([disk, memory]) = found.get(&c.name) {
            merge(&mut c.disk, std::slice::from_ref(disk));
            merge(&mut c.memory, std::slice::from_ref(memory));
        } else {
            for r in [Resource::Disk, Resource::Memory] {
                let all = named.get(&(c.name.clone(), r));
                let share = match r {
                    Resource::Disk => &mut c.disk,
                    _ => &mut c.memory,
                };
                merge(share, all.map(Vec::as_slice).unwrap_or_default());
            }
        }
    }
    tree
}

/// The `cpu.max` that the kernel's own scheduler holds.
fn limit(c: &mut Currency, cgroup: &Cgroup) {
    let Some(t) = kernels_throttle(cgroup) else {
        return;
    };
    let limit = limits::limit(c.name.clone(), LimitKind::CpuMax, &t, true);
    let least = c.cpu.limit_milli.unwrap_or(u64::MAX).min(limit.milli());
    c.cpu.limit_milli = Some(least);
    c.limits.insert(0, limit);
}

fn is_cgroup(c: &Currency) -> bool {
    c.cid == 0 || c.name.starts_with('/')
}

/// What these have in all; a weight is one cgroup's.
fn merge(into: &mut Share, all: &[Share]) {
    let sum = |of: fn(&Share) -> Option<u64>| {
        let known = all.iter().filter_map(of);
        known.reduce(u64::saturating_add)
    };
    into.weight = match all {
        [one] => one.weight,
        _ => None,
    };
    into.min_bytes = sum(|s| s.min_bytes);
    into.low_bytes = sum(|s| s.low_bytes);
    into.used_bytes = sum(|s| s.used_bytes);
    into.stalled_usec = sum(|s| s.stalled_usec);
}

fn disk(cgroup: &Cgroup) -> Share {
    let stat = cgroup.read("io.stat").ok();
    let moved = |text: String| {
        let pairs = text.split_whitespace().filter_map(|p| p.split_once('='));
        let bytes = pairs.filter(|(key, _)| matches!(*key, "rbytes" | "wbytes"));
        bytes.filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
    };
    Share {
        weight: cgroup.disk_weight().ok().flatten(),
        used_bytes: stat.map(moved),
        stalled_usec: stalled(cgroup, "io.pressure"),
        ..Share::default()
    }
}

fn memory(cgroup: &Cgroup) -> Share {
    let bytes = |file: &str| crate::reconcile::memory::read(cgroup, file).ok();
    Share {
        min_bytes: bytes("memory.min"),
        low_bytes: bytes("memory.low"),
        used_bytes: bytes("memory.current"),
        stalled_usec: stalled(cgroup, "memory.pressure"),
        ..Share::default()
    }
}

/// How long some threads have waited, microseconds.
fn stalled(cgroup: &Cgroup, file: &str) -> Option<u64> {
    let text = cgroup.read(file).ok()?;
    let some = text.lines().find_map(|l| l.strip_prefix("some "))?;
    crate::reconcile::disk::value(some, "total")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;

    fn currency(cid: u64, name: &str, cgroup: Option<&str>, from: &str) -> Currency {
        let mut text = serde_json::json!({
            "cid": cid, "name": name, "cgroup": cgroup, "owner": 0, "group": 0, "mode": 0,
            "mode_text": "", "active": false,
            "transient": false, "exchanges": [],
            "funding": [{ "from": from, "resource": "cpu", "kind": "soft", "amount": 1 }]
        });
        for resource in Resource::ALL {
            text[resource.name()] =
                serde_json::json!({ "entitlement": 0.5, "share": 0.0, "used_usec": 0 });
        }
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_frozen_are_not_idle_and_the_kernels_own_limits_are_told() {
        let dir = tempfile::tempdir().unwrap();
        for (name, frozen) in [("a", 1), ("b", 1), ("c", 0)] {
            let at = dir.path().join(name);
            std::fs::create_dir(&at).unwrap();
            write(
                at.join("cgroup.events"),
                format!("populated 1\nfrozen {frozen}\n"),
            )
            .unwrap();
            write(at.join("cpu.max"), "20000 100000\n").unwrap();
        }
        let all = || TreeReply {
            currencies: vec![
                currency(1, "both", None, "base"),
                currency(2, "one", None, "base"),
                currency(3, "/a", Some("/a"), "both"),
                currency(4, "/b", Some("/b"), "one"),
                currency(5, "/c", Some("/c"), "one"),
            ],
            not_held: None,
        };
        let root = Root::open_any(dir.path()).unwrap();
        let found = fill(&root, all(), false).currencies;
        let frozen: Vec<bool> = found.iter().map(|c| c.cpu.frozen == Some(true)).collect();
        assert_eq!(frozen, [true, false, true, true, false]);
        let limits: Vec<Option<u64>> = found.iter().map(|c| c.cpu.limit_milli).collect();
        assert_eq!(limits, [None, None, Some(200), Some(200), Some(200)]);
        assert!(found[2].limits[0].in_force && found[2].limits[0].quota_usec == 20_000);
        let by_tix = fill(&root, all(), true).currencies;
        assert!(by_tix.iter().all(|c| c.limits.is_empty()));
    }

    #[test]
    fn what_the_files_say() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a");
        std::fs::create_dir(&at).unwrap();
        for (file, text) in [
            ("io.weight", "default 300\n"),
            (
                "io.stat",
                "8:0 rbytes=10 wbytes=2 rios=1 wios=1\n8:16 rbytes=30 wbytes=0\n",
            ),
            (
                "io.pressure",
                "some avg10=0.00 total=12\nfull avg10=0.00 total=7\n",
            ),
            ("memory.min", "4096\n"),
            ("memory.low", "max\n"),
            ("memory.current", "8192\n"),
        ] {
            write(at.join(file), text).unwrap();
        }
        let root = Root::open_any(dir.path()).unwrap();
        let cgroup = root.cgroup("/a").unwrap();
        let (disk, memory) = (disk(&cgroup), memory(&cgroup));
        assert_eq!(
            (disk.weight, disk.used_bytes, disk.stalled_usec),
            (Some(300), Some(42), Some(12))
        );
        assert_eq!(
            (memory.min_bytes, memory.low_bytes),
            (Some(4096), Some(u64::MAX))
        );
        assert_eq!((memory.used_bytes, memory.stalled_usec), (Some(8192), None));
        let mut both = Share::default();
        merge(&mut both, &[disk, disk]);
        assert_eq!((both.weight, both.used_bytes), (None, Some(84)));
    }
}
