// SPDX-License-Identifier: GPL-2.0-only
//! The cpu controller of a place, enabled for as long as jobs are in it.
//!
//! The problem: a job's cgroup needs the cpu controller, and its parent, the place, may not give it
//! to its children. To enable it there is a lasting change of somebody's cgroup: its other children
//! get the controller, too, and if it has processes of its own it becomes a threaded domain, beside
//! whose threaded children no process can be put into another cgroup.
//!
//! The rule: what was not there before is not there afterwards. A job that enables the controller
//! marks the place, by an extended attribute: it goes with the cgroup, so also when the machine
//! starts anew. The last job that ends in a marked place disables the controller, unless somebody
//! else has come to use it meanwhile; a threaded domain is an ordinary one again by that and by the
//! last threaded child's end (Documentation/admin-guide/cgroup-v2.rst, "Threads").
//!
//! Jobs begin and end beside each other, so each has a lock on its own cgroup: shared while it
//! lives, exclusive while it ends. A job that begins makes its cgroup and then waits for those that
//! end; a job that ends takes its lock and then looks for others. So of two, one sees the other.
//! The lock is on `cgroup.kill`, the file of a cgroup that only its owner can open.
//!
//! Worked example: alice's /alice has no processes and gives no cpu. Her first job marks /alice and
//! enables cpu, her second finds it enabled. The first ends, sees the second, and removes its own
//! cgroup alone. The second ends, disables cpu and removes the mark.
//!
//! Limits: a job whose process that cleans up was killed is cleaned up after by the next job in the
//! place. Of jobs of two users in one place, one that ends as root's begins can disable what that
//! has just found enabled.

use crate::host;
use rustix::fs::{FlockOperation, XattrFlags, flock, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the names of jobs' cgroups begin.
pub const NAMES: &str = "tix-run-";
/// The attribute of a place whose cpu controller was enabled for jobs.
const MARK: &str = "user.tix.jobs";
const CONTROL: &str = "cgroup.subtree_control";
/// How long a job may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn gives_cpu(place: &Path) -> bool {
    host::words(&place.join(CONTROL))
        .iter()
        .any(|name| name == "cpu")
}

/// Was the controller enabled there for jobs?
pub fn is_marked(place: &Path) -> bool {
    getxattr(place, MARK, &mut [0u8; 8]).is_ok()
}

/// Is no process in it, nor below it?
pub fn is_empty(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.events"))
        .is_ok_and(|text| text.lines().any(|line| line == "populated 0"))
}

/// A job's lock on its own cgroup, shared. It is held until the last copy of the descriptor is
/// closed.
pub fn lock(job: &Path) -> Result<File, Error> {
    let file = open(job)?;
    flock(&file, FlockOperation::LockShared)?;
    // It may have been taken for one that was left behind, and removed, before it was locked.
    match job.join("cgroup.kill").exists() {
        true => Ok(file),
        false => Err(ErrorKind::NotFound.into()),
    }
}

fn open(job: &Path) -> Result<File, Error> {
    File::options().write(true).open(job.join("cgroup.kill"))
}

/// Has `place` give the controller to its children, of which `own`, locked, is a new one.
pub fn begin(place: &Path, own: &Path) -> Result<(), Error> {
    for other in others(place, own)? {
        remove_if_left(&other);
        await_end(&other)?;
    }
    if gives_cpu(place) {
        return Ok(());
    }
    setxattr(place, MARK, b"cpu", XattrFlags::empty())?;
    fs::write(place.join(CONTROL), "+cpu")
}

/// Waits while another job ends. What that has to do takes a moment, but it may be somebody's who
/// holds the lock to keep others from beginning.
fn await_end(job: &Path) -> Result<(), Error> {
    // What cannot be opened is another user's, or it is gone.
    let Ok(file) = open(job) else { return Ok(()) };
    let since = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        if since.elapsed() > PATIENCE {
            let why = format!("{} has begun to end, and does not", job.display());
            return Err(Error::new(ErrorKind::TimedOut, why));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Removes `own`, which nobody is in and nothing is below, and, as the last job in its place,
/// disables what was enabled for jobs. `lock` is its own; `is_used` says whether somebody else uses
/// the controller.
pub fn end(own: &Path, lock: impl AsFd, is_used: bool) -> Result<(), Error> {
    let Some(place) = own.parent() else {
        return fs::remove_dir(own);
    };
    flock(&lock, FlockOperation::LockExclusive)?;
    let last = is_marked(place) && !is_used && !others(place, own)?.iter().any(|job| lives(job));
    if last {
        // What the command enabled for children of its own would hold it.
        if gives_cpu(own) {
            fs::write(own.join(CONTROL), "-cpu")?;
        }
        // Refused where a cgroup beside the jobs gives it to children of its own, and so uses it.
        if fs::write(place.join(CONTROL), "-cpu").is_ok() {
            removexattr(place, MARK)?;
        }
    }
    let removed = fs::remove_dir(own);
    if removed.is_err() {
        // Somebody has come into it meanwhile.
        flock(&lock, FlockOperation::LockShared)?;
        if last && own.exists() {
            begin(place, own)?;
        }
    }
    removed
}

/// The cgroups of other jobs in the same place.
fn others(place: &Path, own: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let named = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(NAMES.as_bytes());
        if named && entry.path() != own && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Does this job begin or run, rather than end?
fn lives(job: &Path) -> bool {
    if remove_if_left(job) {
        return false;
    }
    match open(job) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK),
        Err(_) => job.exists(),
    }
}

/// Removes a job's cgroup that is empty and that nobody will remove: what held its lock has ended.
fn remove_if_left(job: &Path) -> bool {
    is_empty(job)
        && open(job).is_ok_and(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && remove_all(job).is_ok()
        })
}

/// Removes a cgroup and those below it, deepest first.
fn remove_all(cgroup: &Path) -> Result<(), Error> {
    remove_below(cgroup)?;
    fs::remove_dir(cgroup)
}

/// Removes what the command made below its cgroup, deepest first.
pub fn remove_below(cgroup: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_all(&entry.path())?;
        }
    }
    Ok(())
}
