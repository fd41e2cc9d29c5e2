// SPDX-License-Identifier: GPL-2.0-only
//! Who decides who runs, and what is to be done while that is not tix's scheduler.

use crate::reconcile::presence::Outlook;
use crate::writer::Core;
use tix_api::{Enforcer, Error, Problem};
use tix_bpf::{Force, Lack};

/// The scheduler in force, where it is neither tixd's nor the kernel's own.
pub fn other(core: &Core, force: &Force) -> Option<String> {
    match force {
        Force::Other { ops } => Some(ops.clone()),
        // Of the same name, and loaded by somebody else.
        Force::InForce { ops } if core.cpu.outlook() == Outlook::Waiting => Some(ops.clone()),
        _ => None,
    }
}

/// Everything that a request makes tixd write to the kernel asks this first. (What follows from the
/// ledger asks `Core::observes`.)
///
/// # Errors
/// This tixd changes nothing there; `what` would be changed, and `instead` is a way without it.
pub fn may_write(core: &Core, what: &str, instead: &str) -> Result<(), Error> {
    if core.cpu.outlook().enforces() {
        return Ok(());
    }
    let why = core.cpu.reason().unwrap_or("nothing is enforced");
    Err(Error::BadParameter {
        message: format!("tixd does not {what}: {why}"),
        hint: remedy(core.cpu.outlook()) + instead,
    })
}

pub fn enforcer(core: &Core, in_force: bool, other: Option<&str>) -> Enforcer {
    match other {
        _ if in_force || core.cpu.stranger().is_some() => Enforcer::SchedExt,
        Some(_) if tix_bpf::has_all() => Enforcer::None,
        _ if core.cpu.by_weight() && !core.tree.root.is_read_only() => Enforcer::CpuWeight,
        _ => Enforcer::None,
    }
}

/// Why it is not, or not this version's, tix's scheduler.
pub fn problem(core: &Core, in_force: bool, other: Option<&str>) -> Option<Problem> {
    let outlook = core.cpu.outlook();
    if let Some(layout) = core.cpu.stranger().filter(|_| !in_force) {
        let why = core.cpu.reason().unwrap_or("it is being loaded");
        return Some(Problem {
            message: format!(
                "another version's scheduler, of layout {layout}, is in force and holds shares as \
                 they were, whatever is changed; this one's is not: {why}"
            ),
            hint: instead(outlook),
        });
    }
    let (message, hint) = match (in_force, core.cpu.fault(), other) {
        (true, None, _) => return None,
        (true, Some(why), _) => (
            format!("the scheduler of another version is in force, for this one's failed: {why}"),
            "please report it; `tixd --stop-scheduler; systemctl restart tixd` tries this \
             version's again"
                .to_owned(),
        ),
        (false, _, Some(ops)) if outlook.enforces() => {
            (in_the_way(ops), after_the_other(ops, outlook))
        }
        (false, ..) => {
            let why = match outlook {
                Outlook::InForce => "the kernel is taking the scheduler out of force",
                _ => core.cpu.reason().unwrap_or("the scheduler is not in force"),
            };
            let hint = match outlook.enforces() && core.tree.root.is_read_only() {
                true => READ_ONLY.to_owned(),
                false => remedy(outlook),
            };
            (why.to_owned(), hint)
        }
    };
    Some(Problem { message, hint })
}

const READ_ONLY: &str = "nothing is enforced, by cpu.weight neither, for cgroups are mounted \
                         read-only: start tixd outside this container; the ledger and exchanges \
                         are whole";

fn in_the_way(ops: &str) -> String {
    match tix_bpf::has_all() {
        true => format!(
            "another sched_ext scheduler, {ops}, decides who runs: shares and limits of CPU are \
             not held by tix, and by cpu.weight and cpu.max only if {ops} heeds them"
        ),
        false => format!(
            "another sched_ext scheduler, {ops}, has the threads that ask for it (SCHED_EXT); the \
             kernel's own holds shares of the others by cpu.weight"
        ),
    }
}

fn after_the_other(ops: &str, outlook: Outlook) -> String {
    let then = match outlook {
        Outlook::GivenUp => "`systemctl restart tixd`",
        _ => "tixd loads its own within seconds",
    };
    format!(
        "end {ops} (a service called scx or scx_loader?), then {then}; meanwhile the ledger and \
         exchanges go on, and shares of disks and of memory hold"
    )
}

/// What tix's scheduler cannot hold on this kernel, and what to do about each.
pub fn lacking() -> Vec<Problem> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let told = |lack: &Lack| {
        let (message, hint) = match lack {
            Lack::CpuMax => (
                "this kernel does not tell tix's scheduler what cpu.max is: it limits nobody, nor \
                 does CPUQuota= of systemd's units",
                "`tixctl limit` holds; or boot Linux 6.17 or later",
            ),
            Lack::CpuIdle => (
                "this kernel does not tell tix's scheduler what cpu.idle is: such a cgroup has the \
                 share of its cpu.weight",
                "set a small cpu.weight instead; or boot Linux 6.19 or later",
            ),
            Lack::Nice if cpus == 1 => return None,
            Lack::Nice => (
                "this kernel does not tell tix's scheduler which threads it takes for a CPU: nice \
                 levels inside a cgroup are not exact",
                "shares of cgroups are exact; for nice levels, boot Linux 7.1 or later",
            ),
        };
        Some(Problem {
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    let all = tix_bpf::lacks().unwrap_or_default();
    all.iter().filter_map(told).collect()
}

/// What becomes of one that tixd cannot speak with.
fn instead(outlook: Outlook) -> String {
    match outlook {
        Outlook::Retry(pause) => format!(
            "tixd loads its own in that one's place in {} s",
            pause.as_secs() + 1
        ),
        Outlook::Loading => "its own takes that one's place when it is loaded".to_owned(),
        _ => "`systemctl restart tixd` tries again; `systemctl stop tixd; tixd --stop-scheduler` \
              gives the machine to the kernel's own scheduler"
            .to_owned(),
    }
}

/// What tixd does while the scheduler is not in force, and what others can do.
fn remedy(outlook: Outlook) -> String {
    let cpu_weight = "the kernel's own scheduler holds shares by cpu.weight";
    match outlook {
        Outlook::InForce => "tixd is about to find out why".to_owned(),
        Outlook::Loading => format!("it is being loaded again; until then {cpu_weight}"),
        Outlook::Retry(pause) => format!(
            "tixd loads it again in {} s; until then {cpu_weight}",
            pause.as_secs() + 1
        ),
        Outlook::Waiting => format!("tixd loads it within seconds; until then {cpu_weight}"),
        Outlook::Unsupported => {
            format!("{cpu_weight}; `tixctl doctor` says what this machine lacks")
        }
        Outlook::GivenUp => {
            format!("{cpu_weight}; `systemctl restart tixd` loads tix's again")
        }
        Outlook::Observing => "start tixd without --observe to have shares enforced".to_owned(),
        Outlook::NoCgroups => {
            "the ledger and exchanges are whole; boot with systemd.unified_cgroup_hierarchy=1 \
             (without systemd: unmount cgroup v1, and mount -t cgroup2 none /sys/fs/cgroup), then \
             restart tixd"
                .to_owned()
        }
    }
}
