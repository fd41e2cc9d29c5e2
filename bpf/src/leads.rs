// SPDX-License-Identifier: GPL-2.0-only
//! Who is ahead of its due when one build of the scheduler takes another's place, and who behind,
//! is so afterwards.
//!
//! The old one keeps what each principal has had more than its due before it is taken out, or when
//! it fails (`handover.bpf.h`), and tells it once it is out, with what was charged since: the kernel
//! goes on for some ms as it takes it out, first come, first served. Here that is settled and
//! bounded, and the new one is told. They speak [`LEADS`], whatever else has changed between them:
//! an old one that speaks another version of it, or none, is not asked, and all begin anew.

use crate::call::{call, check};
use crate::control::TotalArgs;
use crate::{Error, pins, sys};
use bytemuck::{Pod, Zeroable};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Version of what one build tells another (`TIX_LEADS` in intf.h).
pub const LEADS: u32 = crate::number(env!("TIX_LEADS"));

/// What of one build's word another believes, of a principal that had all of a CPU, and of any: what
/// one was due in the moment when leads were kept is not what its lead comes from.
const MOST_NS: i64 = 128_000_000;
/// Beyond that no number is one of a scheduler's (LEAD_MAX in handover.bpf.h).
const BELIEVED_NS: i64 = 1 << 32;
const ONE: u64 = 1 << 62;
const BATCH: usize = 64;
/// For that long whoever tells leads waits for all to be active that are runnable.
const ACTIVE_BY: Duration = Duration::from_millis(200);

/// How the principal that a cgroup is stands to its due (`struct tix_lead`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Lead {
    /// Inode of the cgroup's directory.
    pub cgid: u64,
    /// What it has had more than its due, ns of CPU; of one that sleeps what it owes.
    pub lead_ns: i64,
    /// What it was charged after that was kept, or given back, as the scheduler was taken out:
    /// `lead_ns` counts that, too, once it is settled.
    pub more_ns: i64,
    /// What it was due of the machine, of 2^62; 0 while it sleeps.
    pub share: u64,
    /// `cpu.max`, and what is left of this period, which ends then by the kernel's clock; ns.
    pub quota_ns: u64,
    pub period_ns: u64,
    pub left_ns: i64,
    pub next_at: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct LeadsArgs {
    pub first: u32,
    pub nr: u32,
    pub next: u32,
    pub kept: u32,
    pub lead: [Lead; BATCH],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct TakeArgs {
    pub node: u32,
    pub err: i32,
    pub lead: Lead,
}

const _: () = assert!(size_of::<LeadsArgs>() == 16 + BATCH * 64);
const _: () = assert!(size_of::<TakeArgs>() == 72);

fn program(dir: &Path, name: &str) -> Result<OwnedFd, Error> {
    let path = pins::path(dir, name);
    Program::fd_from_pinned_path(&path).map_err(|err| pins::error(&path, err))
}

/// Whether this build and what is pinned below `dir` understand each other.
fn speaks(dir: &Path) -> Result<(), Error> {
    match pins::tells(dir, pins::LEADS) {
        Some(version) if version == LEADS.to_string() => Ok(()),
        version => Err(Error::Leads {
            found: version.unwrap_or_else(|| "none".into()),
        }),
    }
}

/// Has what is in force from `dir` keep who is ahead and who behind.
pub(crate) fn keep(dir: &Path) -> Result<(), Error> {
    speaks(dir)?;
    // It reads nothing of it.
    let mut args = TotalArgs::default();
    call(&program(dir, pins::KEEP)?, &mut args, "cannot keep leads")
}

/// What the scheduler that is pinned below `dir`, in force or not, has kept.
pub(crate) fn told(dir: &Path) -> Result<Vec<Lead>, Error> {
    speaks(dir)?;
    let path = pins::telling(dir, pins::LEADS, &LEADS.to_string());
    let tell = Program::fd_from_pinned_path(&path).map_err(|err| pins::error(&path, err))?;
    let (mut all, mut first) = (Vec::new(), 0);
    loop {
        let mut batch: Box<LeadsArgs> = Box::new(LeadsArgs::zeroed());
        batch.first = first;
        call(&tell, &mut *batch, "cannot read leads")?;
        if batch.kept == 0 {
            return Err(Error::NoLeads);
        }
        all.extend(&batch.lead[..(batch.nr as usize).min(BATCH)]);
        if batch.next <= first {
            return Ok(all);
        }
        first = batch.next;
    }
}

/// With what was charged since these were kept, and none of them beyond what is believed; `cpus`
/// are online.
///
/// Those who are active are nothing ahead and nothing behind, all in all: that is where virtual
/// time is. Where the old one's was somewhere else, as when it jumped to the first who may run, all
/// were as far from it by their shares, and nobody was owed that.
pub(crate) fn settle(mut all: Vec<Lead>, cpus: usize) -> Vec<Lead> {
    let is = |lead: &Lead| {
        let part = |ns: i64| i128::from(ns.clamp(-BELIEVED_NS, BELIEVED_NS));
        part(lead.lead_ns) + part(lead.more_ns)
    };
    let active = || all.iter().filter(|l| l.share != 0);
    let sum: i128 = active().map(is).sum();
    let shares: i128 = active().map(|l| i128::from(l.share.min(ONE))).sum();
    for lead in &mut all {
        let share = i128::from(lead.share.min(ONE));
        let now = is(lead) - share * sum / shares.max(1);
        let machine = i128::from(MOST_NS) * cpus.max(1) as i128;
        // What one who sleeps would be due is not known; when it wakes up the scheduler itself says
        // what it remembers.
        let part = match share {
            0 => machine,
            _ => (share * machine) >> 62,
        };
        let most = part.max(MOST_NS.into());
        lead.lead_ns = i64::try_from(now.clamp(-most, most)).unwrap_or_default();
    }
    all
}

/// The principals below `dir` that are the same go on from there. Which these are.
pub(crate) fn take(dir: &Path, mut leads: Vec<Lead>) -> Result<Vec<Lead>, Error> {
    speaks(dir)?;
    let take = program(dir, pins::TAKE)?;
    let path = pins::path(dir, pins::CGROUPS);
    let cgroups = MapHandle::from_pinned_path(&path).map_err(|err| pins::error(&path, err))?;
    // What the kernel says of it, 0 or an errno; of one that shares its parent's principal that it has gone.
    let tell = |lead: &Lead| -> Result<i32, Error> {
        let value = cgroups.lookup(&lead.cgid.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|source| Error::Call {
            what: "cannot look a cgroup up",
            source,
        })?;
        let node = value.and_then(|bytes| bytes.try_into().ok().map(u32::from_ne_bytes));
        let Some(node) = node.filter(|node| node & (1 << 31) == 0) else {
            return Ok(-libc::ENOENT);
        };
        let mut args = TakeArgs {
            node,
            err: 0,
            lead: *lead,
        };
        call(&take, &mut args, "cannot tell a lead")?;
        Ok(args.err)
    };
    // A lead is one among those who are active: whoever is runnable is to be so first.
    let by = Instant::now() + ACTIVE_BY;
    for lead in &leads {
        let nothing = Lead {
            cgid: lead.cgid,
            ..Lead::default()
        };
        while tell(&nothing)? == -libc::EAGAIN && Instant::now() < by {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let told = |lead: &Lead| -> Result<bool, Error> {
        if lead.lead_ns == 0 && lead.quota_ns == 0 {
            return Ok(false);
        }
        match tell(lead)? {
            // It goes just now, or is not active yet and begins anew.
            err if err == -libc::ENOENT || err == -libc::EAGAIN => Ok(false),
            err => check(err, "cannot tell a lead").map(|()| true),
        }
    };
    let mut failed = Ok(());
    leads.retain(|lead| {
        failed.is_ok()
            && told(lead).unwrap_or_else(|err| {
                failed = Err(err);
                false
            })
    });
    failed.map(|()| leads)
}

/// CPUs that are online.
pub(crate) fn cpus() -> usize {
    usize::try_from(sys::online_cpus()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Lead, MOST_NS, ONE, settle};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn lead(lead_ns: i64, more_ns: i64, share: u64) -> Lead {
        Lead {
            lead_ns,
            more_ns,
            share,
            ..Lead::default()
        }
    }

    #[test]
    fn what_was_charged_since_is_settled_by_shares() {
        // Of 6 ms one with a quarter had all, and 2 more that another gave back of its slice.
        let told = vec![
            lead(3_000_000, 8_000_000, ONE / 4),
            lead(-1_000_000, -2_000_000, ONE / 4),
            lead(-2_000_000, 0, ONE / 2),
        ];
        let settled: Vec<i64> = settle(told, 1).iter().map(|l| l.lead_ns).collect();
        assert_eq!(settled, [9_500_000, -4_500_000, -5_000_000]);
    }

    #[test]
    fn all_behind_is_nobody_behind() {
        let told = vec![
            lead(-400_000_000, 0, ONE / 4),
            lead(-1_196_000_000, 0, ONE / 4 * 3),
        ];
        let settled: Vec<i64> = settle(told, 1).iter().map(|l| l.lead_ns).collect();
        assert_eq!(settled, [-1_000_000, 1_000_000]);
    }

    #[test]
    fn who_sleeps_is_due_nothing() {
        let told = vec![lead(5_000_000, 0, 0), lead(0, 4_000_000, ONE)];
        let settled = settle(told, 1);
        assert_eq!((settled[0].lead_ns, settled[1].lead_ns), (5_000_000, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn nobody_gains_all_in_all(
            of in vec((-8_000_000i64..8_000_000, -1_000_000i64..1_000_000), 1..20),
        ) {
            let share = ONE / of.len() as u64;
            let told: Vec<Lead> = of.iter().map(|(ns, more)| lead(*ns, *more, share)).collect();
            let settled = settle(told.clone(), 1);
            // But for what is rounded off.
            let sum: i64 = settled.iter().map(|lead| lead.lead_ns).sum();
            prop_assert!(sum.abs() <= of.len() as i64);
            // And one is ahead of another by what it was.
            let apart = |leads: &[Lead]| leads[0].lead_ns - leads[leads.len() - 1].lead_ns;
            let more = told[0].more_ns - told[told.len() - 1].more_ns;
            prop_assert!((apart(&settled) - apart(&told) - more).abs() <= 2);
        }

        #[test]
        fn nothing_is_believed_beyond_bounds(
            of in vec((any::<i64>(), any::<i64>(), any::<u64>()), 1..20), cpus in 1usize..5,
        ) {
            let told = of.iter().map(|of| lead(of.0, of.1, of.2)).collect();
            let most = MOST_NS * cpus as i64;
            prop_assert!(settle(told, cpus).iter().all(|lead| lead.lead_ns.abs() <= most));
        }
    }
}
