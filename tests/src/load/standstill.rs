// SPDX-License-Identifier: GPL-2.0-only
//! Who goes without CPU time for how long, looked at from outside. What a thread does of its own is no measure: one that has a
//! ten-thousandth of a CPU needs many runs until it is through its first page faults.

use std::fs;

use anyhow::{Context, Result};

use super::crew::Crew;
use super::sys;

/// ns without CPU time after which it is asked whether it was meant to run at all: the parent of a fork storm waits for its children.
const SUSPICIOUS: u64 = 1_000_000_000;

/// What is known of a crew's members.
#[derive(Default)]
pub struct Standstill {
    /// By member: its CPU time when last looked at, and since when it has been that.
    progress: Vec<(u64, u64)>,
    /// The longest so far, ns.
    pub longest: u64,
}

impl Standstill {
    /// See whose CPU time stands still.
    pub fn look(&mut self, crew: &Crew, members: impl Iterator<Item = usize>) -> Result<()> {
        for member in members {
            let pid = crew.pid(member)?;
            let used = sys::cpu_ns(pid)?;
            let now = sys::now();
            if self.progress.len() <= member {
                self.progress.resize(member + 1, (0, 0));
            }
            let (before, since) = &mut self.progress[member];
            if used != *before || *since == 0 || (now - *since > SUSPICIOUS && !runnable(pid)?) {
                (*before, *since) = (used, now);
            }
            self.longest = self.longest.max(now - *since);
        }
        Ok(())
    }
}

fn runnable(pid: i32) -> Result<bool> {
    let file = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&file).with_context(|| file.clone())?;
    let state = stat.rsplit_once(") ").with_context(|| stat.clone())?.1;
    Ok(state.starts_with('R'))
}
