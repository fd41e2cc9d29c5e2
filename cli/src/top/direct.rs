// SPDX-License-Identifier: GPL-2.0-only
//! Who uses how much of the CPU, from what the scheduler itself tells: works while tixd is down.
//! The kernel prints it to who reads a pinned file, a line for each cgroup; the first line names
//! the columns.

use super::view;
use crate::failure::Failure;
use crate::{host, kernel, out};
use serde::Serialize;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where tixd pins it.
const USAGE: &str = "sys/fs/bpf/tix/usage";
/// A share of the whole machine.
const WHOLE: f64 = (1_u64 << 62) as f64;

/// `tixctl top --direct --json`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Between the two looks.
    pub interval_usec: u64,
    pub cpus: u64,
    pub currencies: Vec<Cgroup>,
}

/// A cgroup with all below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cgroup {
    /// Relative to the cgroup root.
    pub cgroup: String,
    pub active: bool,
    /// It is not active because its threads wait for the next period of a limit.
    pub throttled: bool,
    pub runnable: u64,
    /// The fraction of the machine that it gets now when every active principal wants more; 0 while
    /// it is inactive.
    pub share: f64,
    /// What it used between the two looks, as a fraction of all processors.
    pub used: f64,
    /// CPU time used since the scheduler was loaded.
    pub used_usec: u64,
}

pub async fn main(interval: Duration, all: bool, json: bool) -> Result<(), Failure> {
    let root = Path::new("/");
    let before = look(root)?;
    let start = Instant::now();
    tokio::time::sleep(interval).await;
    let now = look(root)?;
    let report = report(&before, &now, start.elapsed(), cpus(root), all);
    match json {
        true => out::json_line(&report),
        false => out::print(&view::text(&rows(&report), out::width())),
    }
}

/// Every cgroup now, parents first, what those below it use counted in.
fn look(root: &Path) -> Result<Vec<Cgroup>, Failure> {
    let path = root.join(USAGE);
    let text = std::fs::read_to_string(&path).map_err(|err| unreadable(root, &path, &err))?;
    let told = parse(&text).ok_or_else(|| {
        Failure::refused(
            format!("{} tells nothing that this tixctl knows", path.display()),
            "use the tixctl of the same version as the tixd that loaded the scheduler",
        )
    })?;
    let top = host::cgroup2(root).ok_or_else(|| {
        Failure::refused(
            "cgroup v2 is not mounted",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        )
    })?;
    let mut found = Vec::new();
    walk(&top, String::new(), &told, &mut found);
    Ok(found)
}

fn unreadable(root: &Path, path: &Path, err: &std::io::Error) -> Failure {
    let force = kernel::sched_ext(root);
    match err.kind() {
        ErrorKind::PermissionDenied => Failure::refused(
            "only root may look at the scheduler directly",
            "use sudo, or ask tixd: tixctl top",
        ),
        ErrorKind::NotFound if !force.in_force => Failure::refused(
            format!("there is nothing to look at: {}", force.sentence()),
            "tixctl status and tixctl doctor say more",
        ),
        ErrorKind::NotFound => Failure::refused(
            format!(
                "the scheduler in force was loaded without {}",
                path.display()
            ),
            "restart tixd with its scheduler: tixd --stop-scheduler, then start tixd",
        ),
        _ => Failure::io("read", path, err, "see dmesg"),
    }
}

/// By inode. None: a column that is needed is not there.
fn parse(text: &str) -> Option<HashMap<u64, Cgroup>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split(' ').collect();
    let column = |name: &str| names.iter().position(|n| *n == name);
    let columns = ["cgroup", "active", "runnable", "share_q62", "used_ns"].map(column);
    let [
        Some(id),
        Some(active),
        Some(runnable),
        Some(share),
        Some(used),
    ] = columns
    else {
        return None;
    };
    // Told since later than the others.
    let throttled = column("throttled");
    let line = |line: &str| {
        let words: Vec<u64> = line.split(' ').filter_map(|w| w.parse().ok()).collect();
        let active = *words.get(active)? != 0;
        let cgroup = Cgroup {
            active,
            throttled: !active && throttled.and_then(|at| words.get(at)) == Some(&1),
            runnable: *words.get(runnable)?,
            // What an inactive one had when it was looked at last is no share.
            share: if active {
                *words.get(share)? as f64 / WHOLE
            } else {
                0.0
            },
            used_usec: words.get(used)? / 1000,
            ..Cgroup::default()
        };
        Some((*words.get(id)?, cgroup))
    };
    Some(lines.filter_map(line).collect())
}

/// Appends the cgroup at `dir` and all below it; its CPU time and runnable threads with theirs.
fn walk(
    dir: &Path,
    name: String,
    told: &HashMap<u64, Cgroup>,
    found: &mut Vec<Cgroup>,
) -> (u64, u64) {
    // One that was removed meanwhile is none.
    let (Ok(inode), Ok(entries)) = (dir.metadata().map(|m| m.ino()), dir.read_dir()) else {
        return (0, 0);
    };
    let own = told.get(&inode).cloned().unwrap_or_default();
    let (mut used, mut runnable) = (own.used_usec, own.runnable);
    let at = found.len();
    found.push(own);
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            let below = format!("{name}/{}", entry.file_name().to_string_lossy());
            let (u, r) = walk(&entry.path(), below, told, found);
            used += u;
            runnable += r;
        }
    }
    found[at].cgroup = if name.is_empty() { "/".into() } else { name };
    (found[at].used_usec, found[at].runnable) = (used, runnable);
    (used, runnable)
}

fn report(before: &[Cgroup], now: &[Cgroup], elapsed: Duration, cpus: u64, all: bool) -> Report {
    let earlier: HashMap<&str, u64> = (before.iter())
        .map(|c| (c.cgroup.as_str(), c.used_usec))
        .collect();
    let time = elapsed.as_secs_f64() * 1e6 * cpus as f64;
    let mut currencies: Vec<Cgroup> = (now.iter())
        .map(|c| {
            let was = earlier.get(c.cgroup.as_str()).copied();
            let used = c.used_usec.saturating_sub(was.unwrap_or(c.used_usec));
            Cgroup {
                used: if time > 0.0 { used as f64 / time } else { 0.0 },
                ..c.clone()
            }
        })
        .filter(|c| all || c.active || c.used >= 0.0005)
        .collect();
    currencies.sort_by(|a, b| {
        b.used
            .total_cmp(&a.used)
            .then_with(|| a.cgroup.cmp(&b.cgroup))
    });
    Report {
        interval_usec: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        cpus,
        currencies,
    }
}

/// What a currency is entitled to only tixd knows.
fn rows(report: &Report) -> Vec<view::Row> {
    let row = |c: &Cgroup| view::Row {
        name: c.cgroup.clone(),
        process: false,
        active: c.active,
        inactive: Some(if c.throttled { "throttled" } else { "idle" }),
        entitlement: None,
        share: Some(c.share),
        used: c.used,
        limit_milli: None,
        total_usec: c.used_usec,
    };
    report.currencies.iter().map(row).collect()
}

/// Processors that are online, at least 1; the file says `0-3,6`.
fn cpus(root: &Path) -> u64 {
    let text =
        std::fs::read_to_string(root.join("sys/devices/system/cpu/online")).unwrap_or_default();
    let range = |range: &str| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(to.parse::<u64>().ok()?.saturating_sub(from.parse().ok()?) + 1)
    };
    text.trim().split(',').filter_map(range).sum::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host where /a and /a/b have used so much.
    fn host(used_ns: [u64; 2]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let inode = |path: &str| at(path).metadata().unwrap().ino();
        for dir in [
            "cg/a/b",
            "sys/fs/bpf/tix",
            "proc/self",
            "sys/devices/system/cpu",
        ] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        let mounts = format!("1 2 0:1 / {} rw - cgroup2 cgroup2 rw\n", at("cg").display());
        std::fs::write(at("proc/self/mountinfo"), mounts).unwrap();
        std::fs::write(at("sys/devices/system/cpu/online"), "0,2-3\n").unwrap();
        let half = 1_u64 << 61;
        let text = format!(
            "cgroup new active runnable share_q62 used_ns\n{} 9 1 1 {half} {}\n{} 9 0 0 {half} \
             {}\n",
            inode("cg/a"),
            used_ns[0],
            inode("cg/a/b"),
            used_ns[1]
        );
        std::fs::write(at(USAGE), text).unwrap();
        root
    }

    #[test]
    fn what_is_below_counts_and_the_idle_have_no_share() {
        let first = host([0, 0]);
        let (before, now) = (
            look(first.path()).unwrap(),
            host([600_000_000, 300_000_000]),
        );
        let now = look(now.path()).unwrap();
        let report = report(
            &before,
            &now,
            Duration::from_secs(1),
            cpus(first.path()),
            false,
        );
        let of = |name: &str| report.currencies.iter().find(|c| c.cgroup == name).unwrap();
        assert_eq!(report.cpus, 3);
        assert_eq!(
            (of("/a").used, of("/a").share, of("/a").runnable),
            (0.3, 0.5, 1)
        );
        assert_eq!((of("/a/b").used, of("/a/b").share), (0.1, 0.0));
        assert_eq!(of("/").used_usec, 900_000);
    }

    #[test]
    fn who_cannot_look_is_told_why() {
        let root = host([0, 0]);
        std::fs::write(root.path().join(USAGE), "other words\n").unwrap();
        assert!(format!("{:?}", look(root.path()).unwrap_err()).contains("same version"));
        std::fs::remove_file(root.path().join(USAGE)).unwrap();
        assert!(format!("{:?}", look(root.path()).unwrap_err()).contains("nothing to look at"));
    }
}
