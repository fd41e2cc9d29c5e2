// SPDX-License-Identifier: GPL-2.0-only
//! Software events of the whole machine, or of one CPU, that no thread of ours must survive to be
//! counted.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

use super::sys;

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
    sys::software_event(event as u64, cpu).with_context(|| format!("count {event:?} on CPU {cpu}"))
}
