// SPDX-License-Identifier: GPL-2.0-only
//! Processes and what they have used.

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
        .filter_map(|pid| process(pid, whose))
        .collect()
}

fn process(pid: u32, whose: Whose) -> Option<api::ProcessSample> {
    use std::os::unix::fs::MetadataExt;
    let dir = format!("/proc/{pid}");
    let uid = std::fs::metadata(&dir).ok()?.uid();
    if matches!(whose, Whose::Of(user) if user != uid) {
        return None;
    }
    let cgroup = std::fs::read_to_string(format!("{dir}/cgroup")).ok()?;
    let cgroup = cgroup
        .lines()
        .find_map(|l| l.strip_prefix("0::"))?
        .to_owned();
    if cgroup == "/" {
        return None;
    }
    let stat = std::fs::read_to_string(format!("{dir}/stat")).ok()?;
    let (comm, used_usec) = parse_stat(&stat)?;
    Some(api::ProcessSample {
        pid,
        uid,
        comm,
        cgroup,
        used_usec,
    })
}

/// Name and CPU time, microseconds, of `/proc/PID/stat`. The name may hold anything, parentheses too.
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
    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        let (comm, used) = super::parse_stat(stat).unwrap();
        assert_eq!((comm.as_str(), used), ("a) R 1 (b", 2_000_000));
    }
}
