// SPDX-License-Identifier: GPL-2.0-only
//! Loading, pinning, adopting and stopping the scheduler, and talking to it.

use crate::call::{call, check, read_only_value};
use crate::control::{self, FundingArgs, LimitArgs, NameArgs, ReadBatch, TotalArgs};
use crate::force::PATIENCE;
use crate::kernel::{self, Lack, load_error};
use crate::leads::{self, LEADS, Lead};
use crate::swap::Exchange;
use crate::sys;
use crate::{BUILD, Error, Exit, Force, Funding, LAYOUT, NodeId, NodeState, Stats};
use crate::{in_force, pins, settled, swap};
use bytemuck::Zeroable;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, PrintLevel, Program};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// SCX_OPS_SWITCH_PARTIAL
const SWITCH_PARTIAL: u64 = 1 << 3;

// libbpf-cargo generates it.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code,
    unsafe_code
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/tix_skel.rs"));
}

/// What may be chosen at load time.
#[derive(Debug, Clone)]
pub struct Options {
    /// The quantum Q, ns: 100 µs … 20 ms.
    pub slice_ns: u64,
    /// Only threads that ask for it (SCHED_EXT) are scheduled; the kernel's own scheduler has the
    /// others, and they come first.
    pub partial: bool,
    /// Which build of the BPF program it is said to be.
    pub build: String,
    /// For tests: called when this one has been verified, before another's place is taken.
    pub verified: Option<fn()>,
    /// For tests: its tables have room for so many pages alone.
    pub pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            slice_ns: 1_000_000,
            partial: false,
            build: BUILD.to_owned(),
            verified: None,
            pages: None,
        }
    }
}

/// The scheduler as it is pinned below a directory of the BPF file system. Dropping this
/// changes nothing: what is pinned stays in force.
pub struct Scheduler {
    dir: PathBuf,
    /// It has taken another's place, or has come back to it.
    pub exchange: Option<Exchange>,
    cgroups: MapHandle,
    stats: MapHandle,
    exit: MapHandle,
    funding: OwnedFd,
    name: OwnedFd,
    read: OwnedFd,
    total: OwnedFd,
    limit: OwnedFd,
}

impl Scheduler {
    /// Loads and attaches the scheduler and pins it below `dir` (`/sys/fs/bpf/tix`).
    pub fn load(dir: &Path) -> Result<Scheduler, Error> {
        Self::load_with(dir, &Options::default())
    }

    /// [`Scheduler::load`] with other than default settings.
    ///
    /// What is in force from `dir` stays so until the kernel has verified this one; the kernel's
    /// own scheduler holds the CPU while one takes the other's place (`swap`).
    pub fn load_with(dir: &Path, options: &Options) -> Result<Scheduler, Error> {
        if kernel::is_confidential() {
            return Err(Error::LockedDown);
        }
        if let Some(lacking) = kernel::not_capable() {
            return Err(Error::NotCapable(lacking));
        }
        if !swap::is_in_force(dir) {
            clear(dir)?;
        }
        match settled(PATIENCE) {
            Force::Unsupported(_) => return Err(Error::NoSchedExt),
            Force::Other { ops } => return Err(Error::OtherScheduler(ops)),
            Force::InForce { ops } if !dir.exists() => return Err(Error::OtherScheduler(ops)),
            Force::Changing { state } => return Err(Error::Unsettled(state)),
            Force::InForce { .. } | Force::Disabled => {}
        }
        let new = dir.join(pins::NEW);
        pins::remove(&new)?;
        pins::prepare(&new)?;
        // Whatever this kernel's sched_ext does not know and we leave at zero is told as
        // information: eight lines at every load.
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
        let exchange = Self::load_and_pin(dir, &new, options).inspect_err(|_| {
            // Half a scheduler is none; the first error is the one to tell.
            let _ = match swap::is_in_force(dir) {
                true => pins::remove(&new),
                false => pins::remove(dir),
            };
        })?;
        Ok(Scheduler {
            exchange,
            ..Self::open(dir)?
        })
    }

    fn load_and_pin(dir: &Path, new: &Path, options: &Options) -> Result<Option<Exchange>, Error> {
        let mut object = MaybeUninit::uninit();
        let mut open = skel::TixSkelBuilder::default()
            .open(&mut object)
            .map_err(load_error)?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(load_error)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.nr_cpu_ids = cpus as u32;
            rodata.slice_ns = options.slice_ns.clamp(100_000, 20_000_000);
        }
        if let Some(data) = open.maps.data_data.as_deref_mut() {
            data.nr_online = online_cpus(cpus) as u32;
        }
        if let Some(pages) = options.pages {
            open.maps.arena.set_max_entries(pages).map_err(load_error)?;
        }
        if options.partial {
            open.struct_ops.tix_ops_mut().flags |= SWITCH_PARTIAL;
        }
        // What this kernel has no such operation for is the business of its own scheduler alone.
        for lack in kernel::lacks()? {
            let ops = open.struct_ops.tix_ops_mut();
            match lack {
                Lack::CpuMax => ops.cgroup_set_bandwidth = std::ptr::null_mut(),
                Lack::CpuIdle => ops.cgroup_set_idle = std::ptr::null_mut(),
                // The programs look for themselves.
                Lack::Nice => {}
            }
        }
        let mut skel = open.load().map_err(load_error)?;

        let pin = |name: &str| pins::path(new, name);
        let err = |name: &str, err: libbpf_rs::Error| pins::error(&new.join(name), err);
        let maps = &mut skel.maps;
        for (name, map) in [
            (pins::CGROUPS, &mut maps.cgroups),
            (pins::STATS, &mut maps.data_stats),
            (pins::EXIT, &mut maps.data_exit),
            (pins::BSS, &mut maps.bss),
            (pins::DATA, &mut maps.data),
            (pins::OPS, &mut maps.tix_ops),
        ] {
            map.pin(pin(name)).map_err(|e| err(name, e))?;
        }
        swap::keep_fresh(new)?;
        let mut usage = (skel.progs.tix_usage)
            .attach_iter(maps.cgroups.as_fd())
            .map_err(load_error)?;
        usage
            .pin(pin(pins::USAGE))
            .map_err(|e| err(pins::USAGE, e))?;
        let programs = &mut skel.progs;
        for (name, program) in [
            (pins::FUNDING, &mut programs.tix_funding),
            (pins::NAME, &mut programs.tix_name),
            (pins::READ, &mut programs.tix_read),
            (pins::TOTAL, &mut programs.tix_set_total),
            (pins::LIMIT, &mut programs.tix_limit),
            (pins::FAIL, &mut programs.tix_fail),
            (pins::KEEP, &mut programs.tix_keep),
            (&format!("{}-{LEADS}", pins::LEADS), &mut programs.tix_leads),
            (pins::TAKE, &mut programs.tix_take),
            (pins::LOCKS.program, &mut programs.tix_contention),
            (pins::LOCKS_END.program, &mut programs.tix_contention_end),
        ] {
            if !program.autoload() {
                continue;
            }
            program.pin(pin(name)).map_err(|e| err(name, e))?;
        }
        let build = format!("{}-{}", pins::BUILD, options.build);
        maps.arena.pin(pin(&build)).map_err(|e| err(&build, e))?;
        // The layout is told by a pin's name: last, so that a torn load is not adopted.
        let layout = format!("{}-{LAYOUT}", pins::LAYOUT);
        maps.timers.pin(pin(&layout)).map_err(|e| err(&layout, e))?;

        if let Some(verified) = options.verified {
            verified();
        }
        swap::exchange(dir, || {
            let mut link = skel.maps.tix_ops.attach_struct_ops().map_err(load_error)?;
            swap::begun(new)?;
            link.pin(pin(pins::LINK)).map_err(|e| err(pins::LINK, e))
        })
    }

    /// Takes over what is pinned below `dir`, if it is complete, of this build's layout
    /// and in force; `None` if there is nothing to take over.
    pub fn adopt(dir: &Path) -> Result<Option<Scheduler>, Error> {
        if !dir.exists() || !matches!(in_force(), Force::InForce { .. }) {
            return Ok(None);
        }
        // Without its link it is what another has just taken the place of.
        let found = pins::tells(dir, pins::LAYOUT).filter(|_| swap::is_in_force(dir));
        match found {
            Some(found) if found == LAYOUT.to_string() => Self::open(dir).map(Some),
            Some(found) => Err(Error::Layout {
                path: dir.to_owned(),
                found,
            }),
            None => Err(Error::Torn(dir.to_owned())),
        }
    }

    pub(crate) fn open(dir: &Path) -> Result<Scheduler, Error> {
        let map = |name: &str| {
            let path = pins::path(dir, name);
            MapHandle::from_pinned_path(&path).map_err(|err| pins::error(&path, err))
        };
        let program = |name: &str| {
            let path = pins::path(dir, name);
            Program::fd_from_pinned_path(&path).map_err(|err| pins::error(&path, err))
        };
        Ok(Scheduler {
            dir: dir.to_owned(),
            exchange: None,
            cgroups: map(pins::CGROUPS)?,
            stats: map(pins::STATS)?,
            exit: map(pins::EXIT)?,
            funding: program(pins::FUNDING)?,
            name: program(pins::NAME)?,
            read: program(pins::READ)?,
            total: program(pins::TOTAL)?,
            limit: program(pins::LIMIT)?,
        })
    }

    /// Which build of the BPF program it is.
    pub fn build(&self) -> String {
        pins::tells(&self.dir, pins::BUILD).unwrap_or_default()
    }

    /// Has the scheduler make a mistake, for tests: the kernel takes it out.
    pub fn fail(&self) -> Result<(), Error> {
        let path = pins::path(&self.dir, pins::FAIL);
        let fail = Program::fd_from_pinned_path(&path).map_err(|err| pins::error(&path, err))?;
        let mut args = TotalArgs::default();
        call(&fail, &mut args, "cannot make the scheduler fail")
    }

    /// Who is ahead of its due, and who behind, of the principals that cgroups are.
    pub fn leads(&self) -> Result<Vec<Lead>, Error> {
        leads::keep(&self.dir)?;
        Ok(leads::settle(leads::told(&self.dir)?, leads::cpus()))
    }

    /// Those of these that there are get so far ahead, or behind.
    pub fn take(&self, leads: Vec<Lead>) -> Result<Vec<Lead>, Error> {
        leads::take(&self.dir, leads)
    }

    /// Gives the machine back to the kernel's own scheduler.
    pub fn stop(self) -> Result<(), Error> {
        let dir = self.dir.clone();
        drop(self);
        clear(&dir).map(drop)
    }

    /// The currency that mirrors the cgroup with inode `cgid`; `None` if the kernel side does not
    /// know it or it shares the principal of one above it, for want of room or as it lies too deep.
    pub fn node_of_cgroup(&self, cgid: u64) -> Result<Option<NodeId>, Error> {
        let value = self
            .cgroups
            .lookup(&cgid.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Call {
                what: "cannot look a cgroup up",
                source,
            })?;
        let raw = value
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_ne_bytes);
        let own = raw.filter(|raw| raw & (1 << 31) == 0);
        Ok(own.map(|index| match index {
            0 => NodeId::BASE,
            _ => NodeId { index, id: cgid },
        }))
    }

    /// A new currency without a cgroup, funded by nobody; `cid` is the caller's number for it
    /// ([`NodeState::cid`]).
    pub fn create_node(&self, cid: u64) -> Result<NodeId, Error> {
        self.make(control::NAMED, cid, "cannot create a currency")
    }

    /// A limit, which allows all and caps nobody yet; `cid` likewise.
    pub fn create_limit(&self, cid: u64) -> Result<NodeId, Error> {
        self.make(control::LIMIT, cid, "cannot make a limit")
    }

    fn make(&self, create: u32, cid: u64, what: &'static str) -> Result<NodeId, Error> {
        let mut args = NameArgs {
            create,
            node: 0,
            err: 0,
            pad: 0,
            cid,
        };
        call(&self.name, &mut args, what)?;
        check(args.err, what)?;
        Ok(NodeId {
            index: args.node,
            id: cid,
        })
    }

    /// `limit` allows `quota_us` of CPU time in every `period_us`, at most a second, both not 0.
    /// Where it counts `above` does, too.
    pub fn set_limit(
        &self,
        limit: NodeId,
        (quota_us, period_us): (u64, u64),
        above: Option<NodeId>,
    ) -> Result<(), Error> {
        let cap = above.unwrap_or(NodeId::BASE);
        let mut args = LimitArgs {
            node: limit.index,
            cap: cap.index,
            err: 0,
            pad: 0,
            quota_us,
            period_us,
            id: limit.id,
            cap_id: cap.id,
        };
        call(&self.limit, &mut args, "cannot set a limit")?;
        check(args.err, "cannot set a limit")
    }

    /// `cap`, a limit, counts for the cgroup of `node` and all below it, beside their `cpu.max`.
    pub fn set_cap(&self, node: NodeId, cap: Option<NodeId>) -> Result<(), Error> {
        self.set_limit(node, (0, 0), cap)
    }

    /// Drops what [`Scheduler::create_node`] or [`Scheduler::create_limit`] made; its memory is
    /// reused once nobody holds a ticket of it, nor is capped by it.
    pub fn destroy_node(&self, node: NodeId) -> Result<(), Error> {
        let mut args = NameArgs {
            create: 0,
            node: node.index,
            err: 0,
            pad: 0,
            cid: node.id,
        };
        call(&self.name, &mut args, "cannot destroy a currency")?;
        check(args.err, "cannot destroy a currency")
    }

    /// How many soft tickets base has issued, active or not: what exchange tickets are counted
    /// against. 0: as many as are active at the moment.
    pub fn set_total(&self, total: u64) -> Result<(), Error> {
        let mut args = TotalArgs {
            total,
            err: 0,
            pad: 0,
        };
        call(&self.total, &mut args, "cannot set the total")?;
        check(args.err, "cannot set the total")
    }

    /// Replaces all that backs `holder`. The caller has made sure that there is no cycle.
    pub fn set_funding(&self, holder: NodeId, funding: &Funding) -> Result<(), Error> {
        let mut args =
            FundingArgs::new(holder, funding).ok_or(Error::TooManyFunders(funding.edges.len()))?;
        call(&self.funding, &mut args, "cannot set funding")?;
        check(args.err, "cannot set funding")
    }

    /// Every currency that the kernel side has.
    pub fn nodes(&self) -> Result<Vec<NodeState>, Error> {
        let mut all = Vec::new();
        let mut first = 0;
        loop {
            let mut batch: Box<ReadBatch> = Box::new(ReadBatch::zeroed());
            batch.first = first;
            call(&self.read, &mut *batch, "cannot read currencies")?;
            all.extend(batch.states());
            if batch.next <= first {
                return Ok(control::named(all));
            }
            first = batch.next;
        }
    }

    /// The counters of the kernel side.
    pub fn stats(&self) -> Result<Stats, Error> {
        let bytes = read_only_value(&self.stats)?;
        Ok(control::stats_from(&bytes).unwrap_or_default())
    }

    /// Bytes of its maps, as the kernel counts them; of its arena the pages that it has, which not
    /// every kernel tells. Without what hangs on each thread. Less where something cannot be read.
    pub fn memory(&self) -> u64 {
        let pages = self.stats().map_or(0, |stats| stats.pages);
        let others = [
            pins::CGROUPS,
            pins::STATS,
            pins::EXIT,
            pins::BSS,
            pins::DATA,
        ];
        let others = others.map(|pin| {
            let map = MapHandle::from_pinned_path(pins::path(&self.dir, pin)).ok()?;
            let fd = map.as_fd().as_raw_fd();
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
            let bytes = info.lines().find_map(|l| l.strip_prefix("memlock:"))?;
            bytes.trim().parse::<u64>().ok()
        });
        pages * 4096 + others.into_iter().flatten().sum::<u64>()
    }

    /// Why the kernel ended this scheduler; `None` while it did not.
    pub fn exit(&self) -> Result<Option<Exit>, Error> {
        Ok(Exit::from_bytes(&read_only_value(&self.exit)?))
    }

    /// [`Scheduler::exit`], in words.
    pub fn exit_reason(&self) -> Result<Option<String>, Error> {
        Ok(self.exit()?.map(|exit| exit.reason))
    }
}

/// What was in force before what is pinned below `dir`, which has left, is again. `None`: there is
/// no such.
///
/// # Errors
/// When that could not be brought about; what is left is for [`crate::clear`].
pub fn go_back(dir: &Path) -> Result<Option<Scheduler>, Error> {
    let Some(exchange) = swap::go_back(dir)? else {
        return Ok(None);
    };
    let mut scheduler = Scheduler::open(dir)?;
    scheduler.exchange = Some(exchange);
    Ok(Some(scheduler))
}

/// Removes whatever is pinned below `dir`, of whichever version and however incomplete, and waits
/// until the kernel's own scheduler is in force. False: there was no scheduler of tix's.
pub fn clear(dir: &Path) -> Result<bool, Error> {
    let ours = matches!(settled(PATIENCE), Force::InForce { .. }) && dir.exists();
    pins::remove(dir)?;
    let until = Instant::now() + PATIENCE;
    // The kernel drops what was pinned a little later.
    while ours && matches!(in_force(), Force::InForce { .. }) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    match settled(PATIENCE) {
        Force::InForce { ops } if ours => Err(Error::OtherScheduler(ops)),
        Force::Changing { state } => Err(Error::Unsettled(state)),
        _ => Ok(ours),
    }
}

/// CPUs that are online, at least 1.
fn online_cpus(possible: usize) -> usize {
    usize::try_from(sys::online_cpus()).map_or(possible, |n| n.clamp(1, possible))
}
