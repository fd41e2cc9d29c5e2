// SPDX-License-Identifier: GPL-2.0-only
//! Whom a uid belongs to. Beside their own uid people have subordinate ones, 65,536 each as most
//! distributions have it, for what they run in user namespaces; a process of theirs may be any of
//! them. If each had limits of its own nobody would have any.
//!
//! `/etc/subuid` names most users, and a directory service may take as long as it likes to say
//! which number a name has. So names are looked up on one thread of their own, one after the other,
//! and nobody waits for it. Until it has answered, all subordinate uids of users that are not known
//! count as one user together, [`UNKNOWN`], and may change nothing.

use crate::policy::users::{Names, System};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Where the subordinate uids are told, one `USER:FIRST:COUNT` a line.
pub const SUBORDINATE: &str = "/etc/subuid";

/// Whose subordinate uids are whose it is not known yet. No user has this uid: it is that of nobody
/// in a file system that knows no other.
pub const UNKNOWN: u32 = u32::MAX - 1;

/// So long after a failure names are looked up again.
const AGAIN: Duration = Duration::from_secs(10);

type Lookup = Arc<dyn Fn(&str) -> io::Result<Option<u32>> + Send + Sync>;
type Found = (String, io::Result<Option<u32>>);

pub struct People {
    file: PathBuf,
    /// Which file it was that was read last, and when it was written.
    seen: Option<(u64, i64, i64)>,
    /// Subordinate uids, and whose.
    ranges: Vec<(Range<u32>, Owner)>,
    /// What is known of names: the number, or that there is no such user.
    known: HashMap<String, Option<u32>>,
    lookup: Lookup,
    /// What the thread that looks names up has found; `None`: there is none.
    looking: Option<Receiver<Found>>,
    /// Another file was read, or a name could not be looked up: not before then.
    again: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Uid(u32),
    Name(String),
}

impl People {
    pub fn new(file: &Path) -> People {
        People::with(file, Arc::new(|name| System.uid(name)))
    }

    /// With another way to look names up.
    pub fn with(file: &Path, lookup: Lookup) -> People {
        People {
            file: file.to_owned(),
            seen: None,
            ranges: Vec::new(),
            known: HashMap::new(),
            lookup,
            looking: None,
            again: None,
        }
    }

    /// Whose `uid` is: a person's own is that person's. What root has set aside, for its
    /// containers, belongs to nobody else.
    pub fn whose(&mut self, uid: u32) -> u32 {
        if uid == 0 {
            return uid;
        }
        self.look();
        self.take_names();
        let (ranges, known) = (&self.ranges, &self.known);
        let mut of = ranges.iter().filter(|(range, _)| range.contains(&uid));
        of.find_map(|(_, owner)| match owner {
            // Nobody becomes root by being root's.
            Owner::Uid(0) => None,
            Owner::Uid(owner) => Some(*owner),
            Owner::Name(name) => {
                let known = known.get(name).copied().unwrap_or(Some(UNKNOWN));
                known.filter(|owner| *owner != 0)
            }
        })
        .unwrap_or(uid)
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
        self.again = Some(Instant::now());
    }

    /// Takes what has been found by now, and has more looked up if it is time.
    fn take_names(&mut self) {
        while let Some(looking) = &self.looking {
            match looking.try_recv() {
                Ok((name, Ok(uid))) => {
                    self.known.insert(name, uid);
                }
                Ok((name, Err(e))) => {
                    let file = self.file.display();
                    tracing::warn!("{file}: looking up {name:?}: {e}; that is tried again");
                    self.again = Some(Instant::now() + AGAIN);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.looking = None,
            }
        }
        if self.again.is_none_or(|at| Instant::now() < at) {
            return;
        }
        self.again = None;
        let mut names: Vec<String> = (self.ranges.iter())
            .filter_map(|(_, owner)| match owner {
                Owner::Name(name) => Some(name.clone()),
                Owner::Uid(_) => None,
            })
            .collect();
        // Those that are not known first.
        names.sort_by_cached_key(|name| (self.known.contains_key(name), name.clone()));
        names.dedup();
        self.known.retain(|name, _| names.contains(name));
        if names.is_empty() {
            return;
        }
        let ((tx, rx), lookup) = (channel(), Arc::clone(&self.lookup));
        let look = move || {
            for name in names {
                let found = lookup(&name);
                if tx.send((name, found)).is_err() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name("names".into()).spawn(look) {
            Ok(_) => self.looking = Some(rx),
            Err(e) => {
                tracing::warn!("looking up names: {e}");
                self.again = Some(Instant::now() + AGAIN);
            }
        }
    }
}

fn range(line: &str) -> Option<(Range<u32>, Owner)> {
    let mut fields = line.trim().split(':');
    let (user, first, count) = (fields.next()?, fields.next()?, fields.next()?);
    let first: u32 = first.parse().ok()?;
    let end = first.saturating_add(count.parse().ok()?);
    let owner = match user {
        // Known without a database.
        "root" => Owner::Uid(0),
        "" => return None,
        user => match user.parse() {
            Ok(uid) => Owner::Uid(uid),
            Err(_) => Owner::Name(user.to_owned()),
        },
    };
    Some((first..end, owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;
    use std::sync::Mutex;

    /// Asks until it is known.
    fn known(people: &mut People, uid: u32) -> u32 {
        loop {
            match people.whose(uid) {
                UNKNOWN => std::thread::yield_now(),
                owner => return owner,
            }
        }
    }

    #[test]
    fn subordinate_uids_are_their_users() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("subuid");
        let mut people = People::new(&file);
        assert_eq!(people.whose(100_000), 100_000);
        let text = "1000:100000:65536\nroot:165536:65536\n0:400000:1\nno such \
                    user:300000:5\n1001:4294967290:100\n#\n1002:x:1\n:1\n";
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
            assert_eq!(known(&mut people, uid), owner, "{uid}");
        }
        // In a new file, as usermod has it.
        write(dir.path().join("new"), "1001:100000:65536\n").unwrap();
        std::fs::rename(dir.path().join("new"), &file).unwrap();
        assert_eq!(people.whose(100_000), 1001);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(people.whose(100_000), 100_000);
    }

    #[test]
    fn a_directory_service_that_does_not_answer_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("subuid");
        let lines = (0..1000).map(|n| format!("user{n}:{}:10\n", 100_000 + n * 10));
        let text: String = lines.chain(["1000:900000:10\n".to_owned()]).collect();
        write(&file, text).unwrap();
        let (answer, wait) = channel::<()>();
        let (wait, asked) = (Mutex::new(wait), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&asked);
        let lookup = move |name: &str| {
            noted.lock().unwrap().push(name.to_owned());
            wait.lock().unwrap().recv().map_err(io::Error::other)?;
            Ok(Some(5000))
        };
        let mut people = People::with(&file, Arc::new(lookup));
        for uid in [100_000, 100_001, 109_999] {
            assert_eq!(people.whose(uid), UNKNOWN, "{uid}");
        }
        // A number needs no service.
        assert_eq!((people.whose(900_000), people.whose(1000)), (1000, 1000));
        for uid in 100_000..110_000 {
            people.whose(uid);
        }
        assert!(asked.lock().unwrap().len() <= 1, "one at a time");
        for _ in 0..1000 {
            answer.send(()).unwrap();
        }
        assert_eq!(known(&mut people, 109_999), 5000);
        assert_eq!(known(&mut people, 100_000), 5000);
        // Once known it stays so while it is looked up again.
        let text = std::fs::read_to_string(&file).unwrap();
        write(dir.path().join("new"), format!("{text}user0:950000:10\n")).unwrap();
        std::fs::rename(dir.path().join("new"), &file).unwrap();
        assert_eq!((people.whose(950_000), people.whose(100_000)), (5000, 5000));
    }
}
