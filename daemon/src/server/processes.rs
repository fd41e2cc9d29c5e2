// SPDX-License-Identifier: GPL-2.0-only
//! Processes and what they have used.

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use tix_api as api;

/// Whose processes are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    All,
    Of(u32),
}

/// Processes outside the root cgroup.
pub fn all(whose: Whose) -> Vec<api::ProcessSample> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok()))
        .filter_map(|pid| Process::open(pid)?.sample(whose))
        .collect()
}

/// A process by its directory, open: once the process has ended nothing can be read there, whoever
/// has its number.
struct Process {
    pid: u32,
    dir: OwnedFd,
}

impl Process {
    fn open(pid: u32) -> Option<Process> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
        Some(Process { pid, dir })
    }

    /// The text of a file of its own. A process may be called anything, also what is no text.
    fn read(&self, file: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = openat(self.dir.as_fd(), file, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        File::from(fd).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn sample(&self, whose: Whose) -> Option<api::ProcessSample> {
        let uid = fstat(&self.dir).ok()?.st_uid;
        if matches!(whose, Whose::Of(user) if user != uid) {
            return None;
        }
        let cgroup = self.read("cgroup")?;
        let cgroup = cgroup.lines().find_map(|l| l.strip_prefix("0::"))?;
        if cgroup == "/" {
            return None;
        }
        let (comm, used_usec) = parse_stat(&self.read("stat")?)?;
        Some(api::ProcessSample {
            pid: self.pid,
            uid,
            comm,
            cgroup: cgroup.to_owned(),
            used_usec,
        })
    }
}

/// Name and CPU time, microseconds, of `/proc/PID/stat`. The name may hold anything, parentheses
/// too.
fn parse_stat(stat: &str) -> Option<(String, u64)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let comm = stat.get(open + 1..close)?.to_owned();
    let mut fields = stat.get(close + 1..)?.split_whitespace();
    let utime: u64 = fields.nth(11)?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    let hz = rustix::param::clock_ticks_per_second().max(1);
    Some((comm, (utime + stime) * (1_000_000 / hz)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        let (comm, used) = parse_stat(stat).unwrap();
        assert_eq!((comm.as_str(), used), ("a) R 1 (b", 2_000_000));
        // Not hidden by a name that is no text.
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(std::ffi::OsStr::from_bytes(b"x\xff)"));
        symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        let stat = process.read("stat").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parse_stat(&stat).unwrap().0, "x\u{fffd})");
    }

    #[test]
    fn a_number_that_is_anothers_by_now_is_not_read() {
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(process.read("stat").is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process.read("stat"), None);
        assert!(process.sample(Whose::All).is_none());
    }
}
