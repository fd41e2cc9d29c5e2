// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on the scheduler. None of these ends.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};

use super::Place;
use crate::load::sys;

/// Processes that each of the fork storm's has at a time.
const ALIVE: usize = 60;

fn count(done: &AtomicU64) {
    done.fetch_add(1, Ordering::Relaxed);
}

/// A process that runs `f` and ends.
fn fork(f: impl FnOnce()) -> Result<i32> {
    let pid = sys::fork(None)?;
    if pid == 0 {
        f();
        sys::leave();
    }
    Ok(pid)
}

fn spin(rounds: u64) {
    for n in 0..rounds {
        std::hint::black_box(n);
    }
}

/// Processes that come, want the CPU for a moment, and go.
pub fn forks(_: &Place, done: &AtomicU64) -> Result<()> {
    let mut alive = 0;
    loop {
        if alive < ALIVE {
            fork(|| spin(20_000))?;
            alive += 1;
            count(done);
        }
        while alive > 0 && sys::reap_any(false) {
            alive -= 1;
        }
    }
}

/// Cgroups that come and go, with weights that change.
pub fn cgroups(place: &Place, done: &AtomicU64) -> Result<()> {
    for n in 0u64.. {
        let dir = place.top.join(format!("c{}", n % 16));
        fs::create_dir(&dir)?;
        fs::write(dir.join("cpu.weight"), (1 + n % 10_000).to_string())?;
        fs::remove_dir(&dir)?;
        count(done);
    }
    Ok(())
}

/// A busy process is moved to and fro.
pub fn moves(place: &Place, done: &AtomicU64) -> Result<()> {
    let busy = fork(|| spin(u64::MAX))?.to_string();
    loop {
        for leaf in ["a", "b"] {
            fs::write(place.top.join(leaf).join("cgroup.procs"), &busy)?;
            count(done);
        }
    }
}

/// A thread goes to and fro between cgroups of threads.
pub fn threads(place: &Place, done: &AtomicU64) -> Result<()> {
    let top = place.top.join("t");
    fs::create_dir(&top)?;
    fs::write(top.join("cgroup.procs"), "0")?;
    for leaf in ["x", "y"] {
        fs::create_dir(top.join(leaf))?;
        fs::write(top.join(leaf).join("cgroup.type"), "threaded")?;
    }
    fs::write(top.join("cgroup.subtree_control"), "+cpu")?;
    loop {
        for leaf in ["x", "y"] {
            fs::write(top.join(leaf).join("cgroup.threads"), "0")?;
            count(done);
        }
    }
}

/// The cgroup tree is read while it changes: readers of its locks are many, and the kernel does not say who they are.
pub fn reads(place: &Place, done: &AtomicU64) -> Result<()> {
    let file = place.top.join("main/cgroup.procs");
    loop {
        fs::read(&file)?;
        ensure!(fs::read_dir(&place.top)?.count() > 0, "an empty cgroup");
        count(done);
    }
}
