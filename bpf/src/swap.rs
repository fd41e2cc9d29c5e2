// SPDX-License-Identifier: GPL-2.0-only
//! One build of the scheduler takes another's place, and may have to give it back.
//!
//! The kernel has one sched_ext scheduler at a time, and none takes another's place in one step
//! (its `update` of a link is refused: EOPNOTSUPP). So the new one is loaded and verified, which
//! takes longest, while the old one is in force; then the old one is taken out, and the new one
//! attached. Between these two the kernel's own scheduler holds the CPU, by `cpu.weight`.
//!
//! The old one stays pinned, in `old`, and is attached again if the new one fails. It begins anew
//! then, as a scheduler that has just been loaded: what its programs have in memory is what it was
//! before they ran, and what of it lies in the arena its own `init` sees to.
//!
//! What the new one knows of the old one's time: by how much each principal was ahead of its due or
//! behind, and what of its `cpu.max` it has used, from the old one itself (`leads`), also when that
//! comes back; and what the daemon tells it, funding. Not known is what the kernel's own scheduler
//! gave to whom in between; of the threads of one principal, whose turn it is (they begin as if
//! they had all just come, a slice or two apart); and what the limits of currencies have left of a
//! period, which the daemon makes anew.

use crate::call::read_only_value;
use crate::exit::last_exit;
use crate::force::PATIENCE;
use crate::kernel::load_error;
use crate::sys::{self, Attached};
use crate::{Error, Exit, Force, LAYOUT, Lead, in_force, leads, pins, settled};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Program};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How one took another's place.
#[derive(Debug)]
pub struct Exchange {
    /// For how long neither was in force; not known of one that failed.
    pub gap: Option<Duration>,
    /// Who was ahead or behind, or had used of its `cpu.max`, and goes on from there; or why all
    /// began anew.
    pub leads: Result<Vec<Lead>, String>,
}

/// Is what is pinned below `dir`, and not something else of that name, the scheduler?
pub(crate) fn is_in_force(dir: &Path) -> bool {
    matches!(settled(PATIENCE), Force::InForce { .. }) && dir.join(pins::LINK).exists()
}

/// Keeps a copy of what the programs pinned below `dir` have in memory before they run.
pub(crate) fn keep_fresh(dir: &Path) -> Result<(), Error> {
    let bytes = read_only_value(&map(dir, pins::DATA)?)?;
    let at = pins::path(dir, pins::FRESH);
    let err = |err: libbpf_rs::Error| pins::error(&at, err);
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let size = bytes.len() as u32;
    let mut copy =
        MapHandle::create(MapType::Array, Some("tix_fresh"), 4, size, 1, &options).map_err(err)?;
    put(&copy, &bytes)?;
    copy.pin(&at).map_err(err)
}

/// The scheduler that has been pinned below `dir/new`, and that `attach` puts in force, takes the
/// place of the one that is, if there is one.
///
/// `None`: there was none.
pub(crate) fn exchange(
    dir: &Path,
    attach: impl FnOnce() -> Result<(), Error>,
) -> Result<Option<Exchange>, Error> {
    let (new, old) = (dir.join(pins::NEW), dir.join(pins::OLD));
    let before = is_in_force(dir);
    // Whoever was to come back if the present one failed.
    pins::remove(&old)?;
    let start = Instant::now();
    let told = match before {
        true => Some(take_out_and_ask(dir, true)?),
        false => None,
    };
    if let Err(err) = attach() {
        if let Some(told) = told.filter(|_| is_ours(dir)) {
            revive(dir)?;
            // That it begins anew is not what is wrong.
            let _ = pass_on(dir, told);
            let reason = err.to_string();
            return Err(Error::WentBack { reason });
        }
        return Err(err);
    }
    let gap = start.elapsed();
    let exchange = told.map(|told| Exchange {
        gap: Some(gap),
        leads: pass_on(&new, told),
    });
    attach_traced(&new)?;
    match before && is_ours(dir) {
        true => pins::move_all(dir, &old)?,
        // One of another layout nobody could speak with.
        false => pins::remove_pins(dir)?,
    }
    pins::move_all(&new, dir)?;
    pins::remove(&new)?;
    Ok(exchange)
}

/// Takes out what is in force by the link below `dir`, if it is `in_force` yet, and asks who was
/// ahead then, and who behind.
fn take_out_and_ask(dir: &Path, in_force: bool) -> Result<Result<Vec<Lead>, Error>, Error> {
    let kept = match in_force {
        true => leads::keep(dir),
        // One that fails keeps that by itself.
        false => Ok(()),
    };
    take_out(dir)?;
    let told = kept.and_then(|()| leads::told(dir));
    Ok(told.map(|told| leads::settle(told, leads::cpus())))
}

/// Those who were ahead or behind are so by the same in what is pinned below `dir`, which is in
/// force.
fn pass_on(dir: &Path, told: Result<Vec<Lead>, Error>) -> Result<Vec<Lead>, String> {
    told.and_then(|leads| leads::take(dir, leads))
        .map_err(|err| err.to_string())
}

/// Is there one to go back to?
pub fn can_go_back(dir: &Path) -> bool {
    is_ours(&dir.join(pins::OLD))
}

/// What was in force before what is pinned below `dir`, which has left, is again. `None`: there is
/// no such.
pub(crate) fn go_back(dir: &Path) -> Result<Option<Exchange>, Error> {
    if !can_go_back(dir) {
        return Ok(None);
    }
    let refused = pins::tells(dir, pins::BUILD).unwrap_or_default();
    let told = take_out_and_ask(dir, is_in_force(dir))?;
    pins::remove_pins(dir)?;
    let old = dir.join(pins::OLD);
    pins::move_all(&old, dir)?;
    pins::remove(&old)?;
    revive(dir)?;
    let leads = pass_on(dir, told);
    let mark = pins::telling(dir, pins::REFUSED, &refused);
    let mut marked = map(dir, pins::STATS)?;
    marked.pin(&mark).map_err(|err| pins::error(&mark, err))?;
    Ok(Some(Exchange { gap: None, leads }))
}

/// The build from which somebody went back to what is pinned below `dir`.
pub fn went_back_from(dir: &Path) -> Option<String> {
    pins::tells(dir, pins::REFUSED)
}

/// What is in force has proved its worth.
pub fn forget_old(dir: &Path) -> Result<(), Error> {
    pins::remove(&dir.join(pins::OLD))
}

/// Whether all is there, and this build can speak with it.
fn is_ours(dir: &Path) -> bool {
    pins::tells(dir, pins::LAYOUT).is_some_and(|found| found == LAYOUT.to_string())
}

/// Takes out what is in force by the link below `dir`. What else is pinned there stays.
fn take_out(dir: &Path) -> Result<(), Error> {
    let at = pins::path(dir, pins::LINK);
    let link = Link::open(&at).map_err(|err| pins::error(&at, err))?;
    // The kernel has done it when this returns. Otherwise it does when the link goes.
    let _ = link.detach();
    drop(link);
    for name in [pins::LINK]
        .into_iter()
        .chain(pins::TRACED.map(|traced| traced.link))
    {
        let pin = pins::path(dir, name);
        match fs::remove_file(&pin) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(pins::error(&pin, err));
            }
            _ => {}
        }
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match in_force() {
            Force::Disabled => return Ok(()),
            Force::Other { ops } => return Err(Error::OtherScheduler(ops)),
            Force::Unsupported(_) => return Err(Error::NoSchedExt),
            Force::InForce { ops: state } | Force::Changing { state } => {
                if Instant::now() >= until {
                    return Err(Error::Unsettled(state));
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Puts what is pinned below `dir` in force again, as if it had just been loaded.
fn revive(dir: &Path) -> Result<(), Error> {
    let fresh = read_only_value(&map(dir, pins::FRESH)?)?;
    put(&map(dir, pins::DATA)?, &fresh)?;
    for name in [pins::BSS, pins::STATS, pins::EXIT] {
        let zeroed = map(dir, name)?;
        put(&zeroed, &vec![0; zeroed.value_size() as usize])?;
    }
    let link = pins::path(dir, pins::LINK);
    let ops = map(dir, pins::OPS)?;
    sys::attach(ops.as_fd(), Attached::StructOps, &link).map_err(|err| pins::error(&link, err))?;
    begun(dir)?;
    attach_traced(dir)
}

/// What is pinned below `dir` was attached. The kernel calls that done, too, where the scheduler
/// could not begin: then it has left.
pub(crate) fn begun(dir: &Path) -> Result<(), Error> {
    match last_exit(dir) {
        Some(Exit { reason, .. }) => Err(Error::Begin { reason }),
        None => Ok(()),
    }
}

/// Has the kernel's tracepoints of locks call the programs of `dir`.
fn attach_traced(dir: &Path) -> Result<(), Error> {
    for traced in pins::TRACED {
        let at = pins::path(dir, traced.program);
        let program = Program::fd_from_pinned_path(&at).map_err(|err| pins::error(&at, err))?;
        let link = pins::path(dir, traced.link);
        let done = sys::attach(program.as_fd(), Attached::Tracepoint, &link);
        done.map_err(|err| load_error(err.into()))?;
    }
    Ok(())
}

fn map(dir: &Path, name: &str) -> Result<MapHandle, Error> {
    let path = pins::path(dir, name);
    MapHandle::from_pinned_path(&path).map_err(|err| pins::error(&path, err))
}

fn put(map: &MapHandle, bytes: &[u8]) -> Result<(), Error> {
    map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY)
        .map_err(|source| Error::Call {
            what: "cannot write a map",
            source,
        })
}
