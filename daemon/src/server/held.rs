// SPDX-License-Identifier: GPL-2.0-only
//! Whether anything holds shares of a resource now. What is said of a share anywhere asks here.

use super::decides;
use super::session::Session;
use crate::reconcile::disk::{Device, Disk, Mechanism};
use crate::writer::Core;
use std::collections::BTreeMap;
use tix_api::{NotHeld, Problem, shell};
use tix_cgroupfs::Root;
use tix_ledger::{Cid, Resource};
use tix_model::File;
use tix_systemd as systemd;

/// Cgroups that are looked for in the tree on the writer, for one request: each takes as many reads
/// as it lies deep.
const MOST: usize = 32;
/// Currencies that are looked at for these.
const CURRENCIES: usize = 256;

impl Session {
    /// Why nothing holds now what has been done for `resource`.
    pub(super) async fn not_held(&self, resource: tix_api::Resource) -> Option<Problem> {
        let r = tix_model::Resource::from(resource);
        // It is done: that tixd ends before it has said this is no reason to call it refused.
        let answer = self.ask(move |core| not_held(core, r)).await;
        answer.ok().flatten()
    }
}

/// Why nothing holds shares of `r` now; `None`: something does.
pub fn not_held(core: &Core, r: Resource) -> Option<Problem> {
    let force = tix_bpf::in_force();
    let in_force = matches!(force, tix_bpf::Force::InForce { .. }) && core.cpu.in_charge();
    let other = decides::other(core, &force);
    match r {
        Resource::Cpu => match decides::enforcer(core, in_force, other.as_deref()) {
            tix_api::Enforcer::None => decides::problem(core, in_force, other.as_deref()),
            // It holds what it was told before.
            _ if core.cpu.stranger().is_some() && !in_force => {
                decides::problem(core, in_force, other.as_deref())
            }
            _ => partly(core, in_force),
        },
        // What is said of the files of cgroups is said of the CPU there, too.
        _ if !core.cpu.outlook().enforces() => decides::problem(core, false, None),
        _ if core.tree.root.is_read_only() => Some(problem(
            "cgroups are mounted read-only",
            "start tixd outside this container",
        )),
        Resource::Disk => no_disk(core),
        Resource::Memory => no_memory(core),
        Resource::Net => Some(problem(
            "shares of net are kept in the ledger alone",
            "cpu, disk and memory are what tixd shares",
        )),
    }
}

/// Of every resource of which nothing holds shares; `None`: there is none. Net is said where it is
/// asked for.
pub fn all_not_held(core: &Core) -> Option<Vec<NotHeld>> {
    let held = [Resource::Cpu, Resource::Disk, Resource::Memory];
    let not_held = |r: Resource| {
        let Problem { message, hint } = not_held(core, r)?;
        Some(NotHeld {
            resource: tix_api::Resource::from(r),
            message,
            hint,
        })
    };
    let all: Vec<NotHeld> = held.into_iter().filter_map(not_held).collect();
    (!all.is_empty()).then_some(all)
}

/// The same of the share that `cid` has: its cgroups may be without what others' have.
pub fn not_held_for(core: &Core, cid: Cid, r: Resource) -> Option<Problem> {
    let its_own = || match r {
        Resource::Cpu => without_cpu(core, cid).filter(|_| !is_somewhere(core, cid)),
        Resource::Disk => not_written(core, cid, &[File::IoWeight]),
        Resource::Memory => not_written(core, cid, &[File::MemoryMin, File::MemoryLow]),
        Resource::Net => None,
    };
    not_held(core, r).or_else(its_own)
}

fn problem(message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem {
        message: message.into(),
        hint: hint.into(),
    }
}

fn partly(core: &Core, in_force: bool) -> Option<Problem> {
    (in_force && core.cpu.is_partial()).then(|| {
        problem(
            "tix's scheduler has only the threads that ask for it (SCHED_EXT), and the kernel's \
             own goes before it",
            "start tixd without --partial to have the shares of all threads held",
        )
    })
}

fn no_disk(core: &Core) -> Option<Problem> {
    let is_bare = |d: &&Device| d.mechanism == Mechanism::None;
    let devices = core.disk.devices();
    let (bare, shared): (Vec<&Device>, Vec<&Device>) = devices.iter().partition(is_bare);
    let names = |these: &[&Device]| {
        let names: Vec<&str> = these.iter().map(|d| d.name.as_str()).collect();
        names.join(", ")
    };
    match (bare.first(), shared.as_slice()) {
        (Some(first), []) => Some(problem(
            format!("nothing in the kernel shares {} by weights", names(&bare)),
            disk_hint(&core.disk, first),
        )),
        (Some(first), shared) => Some(problem(
            format!(
                "of the disks only {} is shared by weights, and not {}",
                names(shared),
                names(&bare)
            ),
            disk_hint(&core.disk, first),
        )),
        (None, []) => Some(problem(
            "there is no disk here that could be shared",
            "what a host lends its guests the host shares",
        )),
        (None, _) => None,
    }
}

/// What to do where nothing holds shares of a disk; empty otherwise.
pub fn disk_hint(disk: &Disk, d: &Device) -> String {
    match (d.mechanism, disk.has_iocost, d.has_bfq) {
        (Mechanism::None, true, _) => {
            format!(
                "`tixctl disk enable {}` measures it and turns iocost on",
                d.name
            )
        }
        (Mechanism::None, false, true) => {
            format!("`tixctl disk enable {} --bfq` has BFQ schedule it", d.name)
        }
        (Mechanism::None, false, false) => {
            "the kernel has neither iocost (CONFIG_BLK_CGROUP_IOCOST) nor BFQ for it (modprobe bfq)"
                .to_owned()
        }
        _ => String::new(),
    }
}

fn no_memory(core: &Core) -> Option<Problem> {
    let there = core
        .tree
        .root
        .cgroup("/")
        .and_then(|c| c.read("cgroup.controllers"));
    let lacks = there.is_ok_and(|all| !all.split_whitespace().any(|c| c == "memory"));
    lacks.then(|| {
        problem(
            "there is no memory controller in cgroup v2 here",
            "boot without cgroup_disable=memory; where a v1 hierarchy has it, boot with \
             systemd.unified_cgroup_hierarchy=1",
        )
    })
}

/// A number that could not be written where `cid` is.
fn not_written(core: &Core, cid: Cid, files: &[File]) -> Option<Problem> {
    let c = core.ledger.get(cid)?;
    let own = c.mirror.as_ref().map(|m| m.path.as_str());
    let paths = own.into_iter().chain(c.bindings());
    let failed = paths.flat_map(|path| files.iter().map(move |file| (*file, path)));
    let mut what = failed.filter_map(|(file, path)| core.marks.why_not_written(file, path));
    Some(problem(what.next()?, "tixd tries again every second"))
}

fn is_somewhere(core: &Core, cid: Cid) -> bool {
    let mut paths = core.ledger.bindings_of(cid);
    paths.any(|path| core.ledger.find(path).is_some())
}

/// Where `cid` is bound to, and what is not in the ledger: it may have no cpu controller.
fn missing(core: &Core, cid: Cid) -> impl Iterator<Item = &str> {
    let paths = core.ledger.bindings_of(cid);
    paths.filter(|path| core.ledger.find(path).is_none())
}

/// The cgroup `path`, which `name` is bound to and the ledger does not have, has no cpu controller.
/// Reads files.
pub fn bound_without_cpu(root: &Root, name: &str, path: &str) -> Option<Problem> {
    let at = root.cpu_is_off_in(path)?;
    let what = format!("what {name} holds has no effect in {path}");
    Some(off_at(root, &at, &[path], &what))
}

/// Cgroups that `cid` is bound to, and that have no cpu controller: its tickets have no effect
/// there. Reads files, on the writer: not for all currencies.
pub fn without_cpu(core: &Core, cid: Cid) -> Option<Problem> {
    let off = off(core, missing(core, cid));
    let (at, paths) = off.into_iter().next()?;
    let what = format!(
        "what {} holds has no effect in {}",
        core.ledger.name(cid),
        listed(&paths)
    );
    Some(off_at(&core.tree.root, &at, &paths, &what))
}

/// The same for `cid`, and for what it funds, as far as [`MOST`] looks reach.
pub fn without_cpu_below(core: &Core, cid: Cid) -> Option<Problem> {
    let (mut todo, mut seen) = (vec![cid], std::collections::HashSet::from([cid]));
    let mut looks = 0;
    while let Some(at) = todo.pop().filter(|_| looks < MOST) {
        looks += missing(core, at).take(MOST).count();
        if let Some(found) = without_cpu(core, at) {
            return Some(found);
        }
        if seen.len() < CURRENCIES {
            let below = core.ledger.funded(at, Resource::Cpu);
            todo.extend(below.take(CURRENCIES).filter(|c| seen.insert(*c)));
        }
    }
    None
}

/// All cgroups that something is bound to, funds or limits, and that have no cpu controller: a
/// problem for each place that it is off in.
pub fn all_without_cpu(core: &Core) -> Vec<Problem> {
    let off = off(core, core.ledger.waited_for().into_iter());
    off.iter()
        .map(|(at, paths)| {
            let what = format!(
                "what is bound to, funds or limits {} has no effect there",
                listed(paths)
            );
            off_at(&core.tree.root, at, paths, &what)
        })
        .collect()
}

/// Those of `paths` that are there without a cpu controller, by the uppermost cgroup that it is off
/// in.
fn off<'a>(core: &Core, paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<&'a str>> {
    let mut off: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for path in paths.take(MOST) {
        if let Some(at) = core.tree.root.cpu_is_off_in(path) {
            off.entry(at).or_default().push(path);
        }
    }
    off
}

fn listed(paths: &[&str]) -> String {
    const SHOWN: usize = 3;
    let more = match paths.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let shown: Vec<&str> = paths.iter().take(SHOWN).copied().collect();
    shown.join(", ") + &more
}

fn off_at(root: &Root, at: &str, paths: &[&str], what: &str) -> Problem {
    let file = format!(
        "{}{}/cgroup.subtree_control",
        root.path().display(),
        at.trim_end_matches('/')
    );
    let unit = paths.first().and_then(|path| systemd::unit_at(path));
    let by_systemd = match unit.filter(|_| systemd::is_running()) {
        Some(unit) => format!(
            ", or have systemd do so: `systemctl set-property --runtime {unit} CPUWeight=100`"
        ),
        None => String::new(),
    };
    problem(
        format!("{what}: the cpu controller is off in {file}"),
        format!("root: `echo +cpu > {}`{by_systemd}", shell::word(&file)),
    )
}

/// Why no limit of a currency holds now: tix's scheduler alone knows of them. `None`: they do.
pub fn limits_not_held(core: &Core) -> Option<Problem> {
    let force = tix_bpf::in_force();
    let in_force = matches!(force, tix_bpf::Force::InForce { .. }) && core.cpu.in_charge();
    let other = decides::other(core, &force);
    match in_force {
        true => partly(core, in_force),
        false => decides::problem(core, in_force, other.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted() {
        assert_eq!(listed(&["/a", "/b"]), "/a, /b");
        assert_eq!(
            listed(&["/a", "/b", "/c", "/d", "/e"]),
            "/a, /b, /c and 2 more"
        );
    }
}
