// SPDX-License-Identifier: GPL-2.0-only
//! What this host is like: where cgroup v2 is, which cgroup we are in, whether systemd runs it.

use std::fs;
use std::path::{Path, PathBuf};

/// The mounts of one kind of file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub point: PathBuf,
    pub kind: String,
    /// Mount and superblock options.
    pub options: String,
}

/// Every mount of this process, from `proc/self/mountinfo` below `root` (`/`, except in tests).
pub fn mounts(root: &Path) -> Vec<Mount> {
    let text = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

/// One line of mountinfo: `36 35 98:0 / /point rw,noatime shared:1 - ext3 /dev/root
/// rw,errors=continue`.
fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(4);
    let point = unescape(left.next()?);
    let own = left.next()?;
    let mut right = right.split(' ');
    Some(Mount {
        point: point.into(),
        kind: right.next()?.to_owned(),
        options: format!("{own},{}", right.nth(1).unwrap_or_default()),
    })
}

/// Blanks in mount points are written in octal.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// Where cgroup v2 is mounted; the first of several.
pub fn cgroup2(root: &Path) -> Option<PathBuf> {
    mounts(root)
        .into_iter()
        .find(|mount| mount.kind == "cgroup2")
        .map(|mount| mount.point)
}

/// The cgroup v2 path of this process, relative to the cgroup root as this process sees it.
pub fn own_cgroup(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

/// The words of a file such as `cgroup.controllers`; none if it cannot be read.
pub fn words(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Did systemd boot this host?
pub fn systemd(root: &Path) -> bool {
    root.join("run/systemd/system").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo() {
        let line = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(
            mount(line),
            Some(Mount {
                point: "/sys/fs/cgroup".into(),
                kind: "cgroup2".into(),
                options: "rw,nosuid,rw,nsdelegate".into()
            })
        );
        assert_eq!(
            mount("1 2 3:4 / /a\\040b rw - tmpfs none rw").map(|mount| mount.point),
            Some("/a b".into())
        );
        assert_eq!(mount("nonsense"), None);
    }
}
