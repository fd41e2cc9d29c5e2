// SPDX-License-Identifier: GPL-2.0-only
//! `memory.min` and `memory.low` of a cgroup, as [`super::protection`] wants them.

use super::Error;
use super::files::{enable, set};
use std::path::Path;
use tix_cgroupfs::{self as cgroups, Cgroup, Root};

/// `max` is all there is.
fn parse(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Sets `file` of the cgroup `path` to `bytes`; enables the memory controller where it is off.
///
/// # Errors
/// When it is not so afterwards; what was written stays.
pub fn put(root: &Root, path: &str, file: &str, bytes: u64) -> Result<(), Error> {
    let cgroup = root.cgroup(path)?;
    let text = match bytes {
        u64::MAX => "max".to_owned(),
        bytes => bytes.to_string(),
    };
    match set(&cgroup, file, (bytes, &text), parse) {
        Err(Error::File(e)) if e.is_gone() => {
            enable(root, path, "memory")?;
            set(&cgroup, file, (bytes, &text), parse)
        }
        done => done,
    }
}

/// Bytes in `file` of the cgroup.
///
/// # Errors
/// When there is no such file, or no number in it.
pub fn read(cgroup: &Cgroup, file: &str) -> Result<u64, Error> {
    let text = cgroup.read(file)?;
    parse(&text).ok_or_else(|| {
        Error::File(cgroups::Error::Format {
            path: cgroup.path().join(file),
            line: 1,
            text: text.trim().to_owned(),
        })
    })
}

/// Is the tree at `root` mounted with `memory_recursiveprot`? `mounts`: /proc/self/mountinfo.
pub fn is_recursive(root: &Path, mounts: &str) -> bool {
    let root = root.to_string_lossy();
    let mut mounted = mounts.lines().filter(|l| {
        let mut words = l.split(' ');
        words.nth(4) == Some(&root) && l.contains(" - cgroup2 ")
    });
    // Of several mounted one above the other the last is seen.
    mounted.next_back().is_some_and(|l| {
        let options = l.rsplit(' ').next().unwrap_or_default();
        options.split(',').any(|o| o == "memory_recursiveprot")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_as_the_mount_says() {
        let line = |at: &str, options: &str| {
            format!("27 22 0:25 / {at} rw,nosuid shared:9 - cgroup2 cgroup2 {options}\n")
        };
        let with = line("/sys/fs/cgroup", "rw,nsdelegate,memory_recursiveprot");
        let without = line("/sys/fs/cgroup", "rw,nsdelegate");
        let elsewhere = line("/mnt", "rw,memory_recursiveprot");
        let is = |mounts: &str| is_recursive(Path::new("/sys/fs/cgroup"), mounts);
        assert!(is(&with) && !is(&without) && !is(&elsewhere) && !is(""));
        assert!(is(&(without.clone() + &with)) && !is(&(with + &without)));
    }

    #[test]
    fn written_when_it_is_another_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open_any(dir.path()).unwrap();
        let file = dir.path().join("a").join("memory.min");
        std::fs::create_dir(dir.path().join("a")).unwrap();
        // No controller, and nothing to enable it with.
        let missing = put(&root, "/a", "memory.min", 4096)
            .unwrap_err()
            .to_string();
        assert!(missing.contains("memory controller"), "{missing}");
        std::fs::write(&file, "0\n").unwrap();
        put(&root, "/a", "memory.min", 4096).unwrap();
        assert_eq!(
            read(&root.cgroup("/a").unwrap(), "memory.min").unwrap(),
            4096
        );
        // A file of another kind keeps the end of what was there: as the kernel might round.
        std::fs::write(&file, "1234567\n").unwrap();
        let other = put(&root, "/a", "memory.min", 8).unwrap_err();
        assert!(
            matches!(other, Error::Otherwise { wanted: 8, .. }),
            "{other}"
        );
        std::fs::write(&file, "max\n").unwrap();
        assert_eq!(
            read(&root.cgroup("/a").unwrap(), "memory.min").unwrap(),
            u64::MAX
        );
        std::fs::write(&file, "much\n").unwrap();
        assert!(read(&root.cgroup("/a").unwrap(), "memory.min").is_err());
    }
}
