// SPDX-License-Identifier: GPL-2.0-only
//! What those who keep somebody waiting wait for themselves: where each of them is in the kernel, and who has had the CPU meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Functions of a stack that are told: what is below them is how it came into the kernel.
const DEEP: usize = 10;
/// How often it is looked where they are.
const EVERY: Duration = Duration::from_millis(100);
/// Who had the CPU for less than that, or waited for it, in ms, is not told.
const LEAST: u64 = 10;

/// Looks at the processes of some cgroups, for as long as it is kept.
pub struct Watch {
    over: Sender<()>,
    thread: JoinHandle<String>,
}

impl Watch {
    /// Of the cgroups in `parents` (such as `/system.slice`), and of these themselves; it says what it saw if that was for longer than `soon`.
    pub fn start(parents: &'static [&'static str], soon: Duration) -> Watch {
        let (over, ends) = channel();
        let (began, before) = (Instant::now(), times(parents));
        let thread = std::thread::spawn(move || {
            let (mut looks, mut places) = (0, BTreeMap::new());
            while ends.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                looks += 1;
                for place in where_they_are(parents) {
                    *places.entry(place).or_insert(0) += 1;
                }
            }
            let took = began.elapsed();
            if took < soon {
                return String::new();
            }
            let mut said = format!("       {took:.2?}; of {looks} looks\n");
            for (place, times) in places {
                said += &format!("         {times:3} {place}\n");
            }
            let after = times(parents);
            for (what, now) in after {
                let ms = now.saturating_sub(*before.get(&what).unwrap_or(&0)) / 1_000_000;
                if ms >= LEAST {
                    said += &format!("         {ms} ms {what}\n");
                }
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

/// What the kernel says of a process; it may be gone.
fn of(pid: &str, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).ok()
}

fn processes(cgroup: &Path) -> Vec<String> {
    let all = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    all.lines().map(str::to_owned).collect()
}

/// Who does not just wait for others to speak; with those of the kernel's threads.
fn where_they_are(parents: &[&str]) -> Vec<String> {
    let mut said = vec![];
    let root = PathBuf::from("/sys/fs/cgroup");
    for cgroup in parents
        .iter()
        .flat_map(|parent| cgroups(parent))
        .chain([root])
    {
        for pid in processes(&cgroup) {
            let (Some(stat), Some(stack)) = (of(&pid, "stat"), of(&pid, "stack")) else {
                continue;
            };
            let state = stat.rsplit_once(") ").and_then(|s| s.1.chars().next());
            if matches!(state, Some('S' | 'I')) {
                continue;
            }
            let name = stat.split(['(', ')']).nth(1).unwrap_or_default();
            let at: Vec<&str> = (stack.lines())
                .filter_map(|line| line.split([' ', '+']).nth(1))
                .take(DEEP)
                .collect();
            let (state, at) = (state.unwrap_or('?'), at.join(" < "));
            said.push(format!("{} {name} {state} {at}", cgroup.display()));
        }
    }
    said
}

/// In ns so far: what each of the kernel's threads has had of the CPU, each of the cgroups in `parents` and in the root, and how long
/// each process in the former has waited for it.
fn times(parents: &[&str]) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    let mut of_process = |pid: &str, field: usize, what: &str| -> Option<()> {
        let (name, stat) = (of(pid, "comm")?, of(pid, "schedstat")?);
        let ns = stat.split(' ').nth(field)?.parse().ok()?;
        times.insert(format!("{what} {pid} {}", name.trim()), ns);
        Some(())
    };
    for pid in processes(Path::new("/sys/fs/cgroup")) {
        of_process(&pid, 0, "was had by");
    }
    for pid in parents
        .iter()
        .flat_map(|parent| cgroups(parent))
        .flat_map(|c| processes(&c))
    {
        of_process(&pid, 1, "was waited by");
    }
    for cgroup in parents
        .iter()
        .chain(&["/"])
        .flat_map(|parent| cgroups(parent))
    {
        let stat = fs::read_to_string(cgroup.join("cpu.stat")).unwrap_or_default();
        let us = stat.lines().find_map(|l| l.strip_prefix("usage_usec "));
        let us: u64 = us.and_then(|t| t.parse().ok()).unwrap_or_default();
        times.insert(format!("was had by {}", cgroup.display()), us * 1_000);
    }
    times
}

fn cgroups(parent: &str) -> Vec<PathBuf> {
    let parent = Path::new("/sys/fs/cgroup").join(parent.trim_start_matches('/'));
    let below = fs::read_dir(&parent).into_iter().flatten().flatten();
    let below = below.map(|entry| entry.path()).filter(|path| path.is_dir());
    below.chain([parent]).collect()
}
