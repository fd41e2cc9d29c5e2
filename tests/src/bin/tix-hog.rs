// SPDX-License-Identifier: GPL-2.0-only
//! Wants all it can get of the disk, of memory or of both, until it is killed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use rustix::time::{ClockId, clock_gettime};
use tix_tests::hold::store;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Read random pages past the page cache, one after the other (iohog, Sullivan §5.4).
    Disk {
        from: PathBuf,
        /// So many at a time.
        #[arg(long, default_value_t = 1)]
        readers: usize,
        /// CPU time that each page takes when it is there, µs.
        #[arg(long, default_value_t = 0)]
        work: u64,
    },
    /// Write a file through the page cache, over and over.
    Write {
        to: PathBuf,
        /// Bytes of the file.
        #[arg(long)]
        size: u64,
    },
    /// Do nothing for it, all the time.
    Cpu,
    /// Read random pages of a file into random places of a buffer (Sullivan §5.3).
    Memory {
        from: PathBuf,
        /// Bytes of the buffer.
        #[arg(long)]
        buffer: usize,
    },
    /// Look up random entries of a key-value store, sixteen at a time (Sullivan §5.6).
    Store {
        from: PathBuf,
        /// Where it says how many it has looked up.
        #[arg(long)]
        progress: PathBuf,
    },
}

const PAGE: usize = 4096;

fn main() -> Result<()> {
    match Args::parse().what {
        What::Disk {
            from,
            readers,
            work,
        } => {
            let work = Duration::from_micros(work);
            let mut open = OpenOptions::new();
            let file = open.read(true).custom_flags(libc::O_DIRECT).open(&from);
            let file = &file.with_context(|| format!("open {}", from.display()))?;
            let reader = |n: usize| {
                let mut room = vec![0_u8; 2 * PAGE];
                let start = room.as_ptr().align_offset(PAGE);
                read(file, n, &mut room[start..start + PAGE], work)
            };
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..readers)
                    .map(|n| scope.spawn(move || reader(n)))
                    .collect();
                all.into_iter().try_for_each(|r| {
                    let ended = r.join();
                    ended.unwrap_or_else(|_| bail!("a reader panicked"))
                })
            })
        }
        What::Memory { from, buffer } => {
            let file = File::open(&from).with_context(|| format!("open {}", from.display()))?;
            read(&file, 0, &mut vec![1_u8; buffer], Duration::ZERO)
        }
        What::Write { to, size } => {
            let file = File::create(&to).with_context(|| format!("create {}", to.display()))?;
            let some = [0x5a_u8; 64 * 1024];
            for place in (0..size).step_by(some.len()).cycle() {
                file.write_all_at(&some, place)?;
            }
            Ok(())
        }
        What::Store { from, progress } => store::serve(&from, &progress),
        What::Cpu => loop {
            std::hint::black_box(());
        },
    }
}

/// Random pages of `file` into random pages of `buffer`, for ever, as reader `n` of this process; each takes so much `work`.
fn read(mut file: &File, n: usize, buffer: &mut [u8], work: Duration) -> Result<()> {
    let size = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ (u64::from(std::process::id()) << 16) ^ n as u64;
    let mut next = |of: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % of.max(1)
    };
    let pages = (buffer.len() / PAGE) as u64;
    loop {
        let from = next(size / PAGE as u64) * PAGE as u64;
        let to = next(pages) as usize * PAGE;
        file.read_exact_at(&mut buffer[to..to + PAGE], from)?;
        let began = used();
        while used().saturating_sub(began) < work {}
    }
}

/// CPU time of this thread so far.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
