// SPDX-License-Identifier: GPL-2.0-only
//! Software events of the whole machine, or of one CPU, that no thread of ours must survive to be
//! counted.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

use anyhow::{Context, Result, ensure};

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Switches = 3,
    Migrations = 4,
}

/// Counts an event on some CPUs from its creation on.
pub struct Counter {
    files: Vec<File>,
}

impl Counter {
    pub fn new(event: Event, cpus: impl IntoIterator<Item = usize>) -> Result<Self> {
        let files: Result<_> = cpus.into_iter().map(|cpu| open(event, cpu)).collect();
        Ok(Self { files: files? })
    }

    pub fn read(&mut self) -> Result<u64> {
        let mut total = 0;
        for file in &mut self.files {
            let mut value = [0; 8];
            file.read_exact(&mut value).context("read a perf event")?;
            total += u64::from_ne_bytes(value);
        }
        Ok(total)
    }
}

fn open(event: Event, cpu: usize) -> Result<File> {
    /// The first version of the kernel's perf_event_attr is enough.
    #[repr(C)]
    struct Attr {
        kind: u32,
        size: u32,
        config: u64,
        rest: [u64; 6],
    }
    const SOFTWARE: u32 = 1;
    let attr = Attr {
        kind: SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: event as u64,
        rest: [0; 6],
    };
    // SAFETY: `attr` outlives the call and carries its own size; the descriptor is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_perf_event_open, &attr, -1, cpu as i32, -1, 0);
        ensure!(
            fd >= 0,
            "count {event:?} on CPU {cpu}: {}",
            std::io::Error::last_os_error()
        );
        Ok(File::from_raw_fd(fd as i32))
    }
}
