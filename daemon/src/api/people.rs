// SPDX-License-Identifier: GPL-2.0-only
//! Whom a uid belongs to. Beside their own uid people have subordinate ones, 65,536 each as most distributions have it, for what they
//! run in user namespaces; a process of theirs may be any of them. If each had limits of its own nobody would have any.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the subordinate uids are told, one `USER:FIRST:COUNT` a line.
pub const SUBORDINATE: &str = "/etc/subuid";

#[derive(Debug)]
pub struct People {
    file: PathBuf,
    /// Which file it was that was read last, and when it was written.
    seen: Option<(u64, i64, i64)>,
    /// Subordinate uids, and whose.
    ranges: Vec<(Range<u32>, u32)>,
}

impl People {
    pub fn new(file: &Path) -> People {
        People {
            file: file.to_owned(),
            seen: None,
            ranges: Vec::new(),
        }
    }

    /// Whose `uid` is: a person's own is that person's. What root has set aside, for its containers, belongs to nobody else.
    pub fn whose(&mut self, uid: u32) -> u32 {
        if uid == 0 {
            return uid;
        }
        self.look();
        let known = self.ranges.iter().find(|(range, _)| range.contains(&uid));
        known.map_or(uid, |(_, owner)| *owner)
    }

    /// Reads the file again if it is another than it was.
    fn look(&mut self) {
        let now = std::fs::metadata(&self.file).ok();
        let now = now.map(|m| (m.ino(), m.mtime(), m.mtime_nsec()));
        if now == self.seen {
            return;
        }
        self.seen = now;
        self.ranges = match std::fs::read_to_string(&self.file) {
            Ok(text) => text.lines().filter_map(range).collect(),
            Err(e) if now.is_none() && e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => {
                let file = self.file.display();
                tracing::warn!(
                    "{file}: {e}; each subordinate uid has limits of its own until it can be read"
                );
                Vec::new()
            }
        };
    }
}

fn range(line: &str) -> Option<(Range<u32>, u32)> {
    let mut fields = line.trim().split(':');
    let (user, first, count) = (fields.next()?, fields.next()?, fields.next()?);
    let first: u32 = first.parse().ok()?;
    let end = first.saturating_add(count.parse().ok()?);
    let owner = user.parse().ok().or_else(|| {
        let found = nix::unistd::User::from_name(user).ok().flatten();
        found.map(|u| u.uid.as_raw())
    })?;
    // Nobody becomes root by being root's.
    (owner != 0).then_some((first..end, owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;

    #[test]
    fn subordinate_uids_are_their_users() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("subuid");
        let mut people = People::new(&file);
        assert_eq!(people.whose(100_000), 100_000);
        let text = "1000:100000:65536\nroot:165536:65536\n0:400000:1\nno such user:300000:5\n1001:4294967290:100\n#\n1002:x:1\n:1\n";
        write(&file, text).unwrap();
        for (uid, owner) in [
            (0, 0),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (300_000, 300_000),
            (400_000, 400_000),
            (4_294_967_294, 1001),
        ] {
            assert_eq!(people.whose(uid), owner, "{uid}");
        }
        // In a new file, as usermod has it.
        write(dir.path().join("new"), "1001:100000:65536\n").unwrap();
        std::fs::rename(dir.path().join("new"), &file).unwrap();
        assert_eq!(people.whose(100_000), 1001);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(people.whose(100_000), 100_000);
    }
}
