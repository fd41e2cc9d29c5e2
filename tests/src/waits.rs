// SPDX-License-Identifier: GPL-2.0-only
//! What those who keep somebody waiting wait for themselves: where each of them is in the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Functions of a stack that are told: what is below them is how it came into the kernel.
const DEEP: usize = 6;

/// Looks at the processes of some cgroups, for as long as it is kept, once it has been kept for a while.
pub struct Watch {
    over: Sender<()>,
    thread: JoinHandle<String>,
}

impl Watch {
    /// Of the cgroups in `parents` (such as `/system.slice`), and of these themselves; from `after` on, as often.
    pub fn start(parents: &'static [&'static str], after: Duration) -> Watch {
        let (over, ends) = channel();
        let thread = std::thread::spawn(move || {
            let mut said = String::new();
            let mut passed = after;
            while ends.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                said += &format!("       after {passed:?}:\n{}", where_they_are(parents));
                passed += after;
            }
            said
        });
        Watch { over, thread }
    }

    /// What was seen; nothing, if it was over in time.
    pub fn end(self) -> String {
        drop(self.over);
        self.thread.join().unwrap_or_default()
    }
}

/// Who does not just wait for others to speak, a line each.
fn where_they_are(parents: &[&str]) -> String {
    let mut said = String::new();
    for cgroup in parents.iter().flat_map(|parent| cgroups(parent)) {
        let processes = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines() {
            // It may be gone.
            let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
            let (Ok(stat), Ok(stack)) = (text("stat"), text("stack")) else {
                continue;
            };
            let state = stat.rsplit_once(") ").and_then(|s| s.1.chars().next());
            if state == Some('S') {
                continue;
            }
            let name = stat.split(['(', ')']).nth(1).unwrap_or_default();
            let at: Vec<&str> = (stack.lines())
                .filter_map(|line| line.split([' ', '+']).nth(1))
                .take(DEEP)
                .collect();
            let (state, at) = (state.unwrap_or('?'), at.join(" < "));
            said += &format!("         {} {name} {state} {at}\n", cgroup.display());
        }
    }
    said
}

fn cgroups(parent: &str) -> Vec<PathBuf> {
    let parent = Path::new("/sys/fs/cgroup").join(parent.trim_start_matches('/'));
    let below = fs::read_dir(&parent).into_iter().flatten().flatten();
    let below = below.map(|entry| entry.path()).filter(|path| path.is_dir());
    below.chain([parent]).collect()
}
