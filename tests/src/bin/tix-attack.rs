// SPDX-License-Identifier: GPL-2.0-only
//! All that a user without any privilege can do to others, as fast as possible, until it is killed: it forks, makes and removes
//! cgroups, reads them, moves processes and threads between them, and asks tixd for everything at once on every connection it may have.
//! Once a second it writes how often it did what.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tix_tests::attack::{KINDS, Place, clients, kernel};

#[derive(Parser)]
struct Args {
    /// Where tixd listens.
    #[arg(long)]
    socket: PathBuf,
    /// Where the counts go.
    #[arg(long)]
    counts: PathBuf,
    /// The attacker's own currency.
    #[arg(long)]
    from: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let place = Place::make().context("make cgroups")?;
    // Nothing begins before all are there: a fork waits long where others move between cgroups.
    let (go, counts) = shared()?.split_first().context("no counters")?;
    let kernel = [
        kernel::forks as fn(&Place, &AtomicU64) -> Result<()>,
        kernel::cgroups,
        kernel::moves,
        kernel::threads,
        kernel::reads,
    ];
    for (attack, (name, count)) in kernel.into_iter().zip(KINDS.iter().zip(counts)) {
        child(name, go, || attack(&place, count))?;
    }
    for n in 0..clients::MOST {
        let (name, count) = clients::kind(n);
        let count = &counts[kernel.len() + count];
        child(name, go, || {
            clients::attack(n, &args.socket, &args.from, &place, count)
        })?;
    }
    go.store(1, Ordering::Relaxed);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let lines = KINDS.iter().zip(counts);
        let text: Vec<String> = lines
            .map(|(name, count)| format!("{name} {}\n", count.load(Ordering::Relaxed)))
            .collect();
        std::fs::write(&args.counts, text.concat())?;
    }
}

/// A flag, and a counter of each kind, that all processes see.
fn shared() -> Result<&'static [AtomicU64]> {
    let all = 1 + KINDS.len();
    let bytes = all * size_of::<AtomicU64>();
    // SAFETY: new memory, shared with children, never unmapped; zeroes are counters.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        ensure!(memory != libc::MAP_FAILED, "no shared memory");
        Ok(std::slice::from_raw_parts(memory.cast(), all))
    }
}

/// A process that does `attack` for ever, once it may.
fn child(name: &str, go: &AtomicU64, attack: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: there is one thread, so the child may do whatever this process may.
    let pid = unsafe { libc::fork() };
    ensure!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        while go.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let done = attack();
        eprintln!("{name} has ended: {done:?}");
        std::process::exit(1);
    }
    Ok(())
}
