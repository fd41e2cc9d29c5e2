// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes of one cgroup's files. A cgroup is opened once, beneath the root and through no
//! symbolic link, and then used by descriptor: whoever renames or replaces things meanwhile changes
//! nothing about what was checked.

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}:{line}: cannot make sense of {text:?}")]
    Format {
        path: PathBuf,
        line: usize,
        text: String,
    },
    #[error("{path} is no cgroup v2 file system")]
    NotCgroup2 { path: PathBuf },
    #[error("{path} is not a path in the cgroup tree")]
    BadPath { path: String },
    #[error(
        "{path}: the kernel refuses openat2 ({source}): it must be Linux 5.6 or later, and no \
         system call filter may forbid it (systemd's RestrictSUIDSGID= does)"
    )]
    NoOpenat2 {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Error {
    /// The file or directory is not there (any more).
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Io { source, .. } if matches!(source.raw_os_error(), Some(2 | 19)))
    }
}

/// The root of a cgroup v2 hierarchy.
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

/// One cgroup, open.
pub struct Cgroup {
    fd: OwnedFd,
    path: PathBuf,
    /// Inode of its directory: the kernel's cgroup id.
    pub id: u64,
    /// Owner of its directory, and its group.
    pub owner: u32,
    pub group: u32,
}

/// Where the kernel has the weight for the disk: of iocost, and of BFQ.
pub const DISK_WEIGHTS: [&str; 2] = ["io.weight", "io.bfq.weight"];

const MAGIC: u64 = 0x6367_7270;

impl Root {
    /// Opens the hierarchy at `path`, which must be cgroup v2.
    pub fn open(path: &Path) -> Result<Root, Error> {
        let root = Root::open_any(path)?;
        let fs = rustix::fs::fstatfs(&root.fd).map_err(|e| Error::Io {
            path: path.to_owned(),
            source: e.into(),
        })?;
        if fs.f_type as u64 != MAGIC {
            return Err(Error::NotCgroup2 {
                path: path.to_owned(),
            });
        }
        Ok(root)
    }

    /// The same for any directory: the readers can be tested on files in a temporary one.
    pub fn open_any(path: &Path) -> Result<Root, Error> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| Error::Io {
            path: path.to_owned(),
            source: e.into(),
        })?;
        Ok(Root {
            fd,
            path: path.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Mounted so that nothing can be written, as in a container.
    pub fn is_read_only(&self) -> bool {
        let found = rustix::fs::fstatvfs(&self.fd);
        found.is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// Opens the cgroup `path` (`/` and more, relative to the root).
    pub fn cgroup(&self, path: &str) -> Result<Cgroup, Error> {
        let (fd, path) = self.open_below(path, "", OFlags::DIRECTORY)?;
        let stat = fstat(&fd).map_err(|e| Error::Io {
            path: path.clone(),
            source: e.into(),
        })?;
        Ok(Cgroup {
            fd,
            path,
            id: stat.st_ino,
            owner: stat.st_uid,
            group: stat.st_gid,
        })
    }

    /// The uppermost cgroup that does not give the cpu controller on to `path`, a cgroup that is
    /// there; `None` if all do.
    pub fn cpu_is_off_in(&self, path: &str) -> Option<String> {
        self.cgroup(path).ok()?;
        let ends = std::iter::once(0).chain(path.match_indices('/').map(|(i, _)| i).skip(1));
        let above = ends.map(|end| if end == 0 { "/" } else { &path[..end] });
        let mut off = above.filter(|up| {
            let gives = self.cgroup(up).and_then(|cgroup| cgroup.gives_cpu());
            !gives.unwrap_or(true)
        });
        off.next().map(str::to_owned)
    }

    /// CPU time that the cgroup `path` has used, microseconds, with everything below, also what is
    /// gone. One file is opened: this is asked of every cgroup, and often.
    pub fn used_usec(&self, path: &str) -> Result<u64, Error> {
        let (fd, path) = self.open_below(path, "cpu.stat", OFlags::empty())?;
        let mut text = [0; 1024];
        let n = rustix::io::read(&fd, &mut text).map_err(|e| Error::Io {
            path: path.clone(),
            source: e.into(),
        })?;
        // The number wanted is in the first line; what is cut off does not matter.
        parse_usage(&String::from_utf8_lossy(&text[..n])).map_err(|(line, text)| Error::Format {
            path,
            line,
            text,
        })
    }

    /// Opens `file` of the cgroup `path`, or its directory, beneath the root and through no
    /// symbolic link.
    fn open_below(
        &self,
        path: &str,
        file: &str,
        flags: OFlags,
    ) -> Result<(OwnedFd, PathBuf), Error> {
        let bad = || Error::BadPath {
            path: path.to_owned(),
        };
        let below = path.strip_prefix('/').ok_or_else(bad)?;
        if below.split('/').any(|part| part == "..") || below.contains('\0') {
            return Err(bad());
        }
        let relative = match (below, file) {
            ("", name) | (name, "") => name.to_owned(),
            (below, file) => format!("{below}/{file}"),
        };
        let full = self.path.join(&relative);
        let relative = if relative.is_empty() { "." } else { &relative };
        let flags = flags | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match openat2(&self.fd, relative, flags, Mode::empty(), resolve) {
            Ok(fd) => Ok((fd, full)),
            Err(e @ (Errno::NOSYS | Errno::PERM)) => Err(Error::NoOpenat2 {
                path: full,
                source: e.into(),
            }),
            Err(e) => Err(Error::Io {
                path: full,
                source: e.into(),
            }),
        }
    }
}

/// Controllers that a cgroup gives to its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gives {
    pub cpu: bool,
    pub disk: bool,
}

impl Cgroup {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn fd(&self) -> impl AsFd + '_ {
        &self.fd
    }

    fn open(&self, file: &str, flags: OFlags) -> Result<File, Error> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, file, flags, Mode::empty())
            .map(File::from)
            .map_err(|e| Error::Io {
                path: self.path.join(file),
                source: e.into(),
            })
    }

    /// The text of `file`.
    pub fn read(&self, file: &str) -> Result<String, Error> {
        let mut text = String::new();
        self.open(file, OFlags::RDONLY)?
            .read_to_string(&mut text)
            .map_err(|source| Error::Io {
                path: self.path.join(file),
                source,
            })?;
        Ok(text)
    }

    /// Writes `text` in one write.
    pub fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        self.open(file, OFlags::WRONLY)?
            .write_all(text.as_bytes())
            .map_err(|source| Error::Io {
                path: self.path.join(file),
                source,
            })
    }

    /// `cpu.weight`, 1 … 10,000 (0 with `cpu.idle`); `None` without the cpu controller.
    pub fn weight(&self) -> Result<Option<u64>, Error> {
        let text = match self.read("cpu.weight") {
            Ok(text) => text,
            Err(e) if e.is_gone() => return Ok(None),
            Err(e) => return Err(e),
        };
        match text.trim().parse() {
            Ok(w) => Ok(Some(w)),
            Err(_) => Err(Error::Format {
                path: self.path.join("cpu.weight"),
                line: 1,
                text: text.trim().to_owned(),
            }),
        }
    }

    /// `io.weight` for all devices that it names no other for, 1 … 10,000, or where there is only
    /// that `io.bfq.weight`, 1 … 1,000; `None` without the io controller.
    pub fn disk_weight(&self) -> Result<Option<u64>, Error> {
        for file in DISK_WEIGHTS {
            match self.read(file) {
                Ok(text) => return self.default_of(file, &text).map(Some),
                Err(e) if e.is_gone() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// The number after `default` in a file that may name devices, too.
    pub fn default_of(&self, file: &str, text: &str) -> Result<u64, Error> {
        let first = text.lines().next().unwrap_or_default();
        let number = first.strip_prefix("default ").unwrap_or(first);
        number.trim().parse().map_err(|_| Error::Format {
            path: self.path.join(file),
            line: 1,
            text: first.to_owned(),
        })
    }

    /// Do the children have the cpu controller?
    pub fn gives_cpu(&self) -> Result<bool, Error> {
        Ok(self.gives()?.cpu)
    }

    /// What of the controllers that have tickets its children have.
    pub fn gives(&self) -> Result<Gives, Error> {
        let text = self.read("cgroup.subtree_control")?;
        let has = |controller| text.split_whitespace().any(|c| c == controller);
        Ok(Gives {
            cpu: has("cpu"),
            disk: has("io"),
        })
    }

    /// Are all processes in it and below frozen (`cgroup.freeze`, of it or of a cgroup above)?
    pub fn is_frozen(&self) -> bool {
        let events = self.read("cgroup.events");
        events.is_ok_and(|text| text.lines().any(|l| l == "frozen 1"))
    }

    /// Can it have threads of its own beside its children?
    pub fn inner_threads(&self) -> bool {
        self.read("cgroup.type").is_ok_and(|t| t.trim() != "domain")
    }

    /// The names of those directly below it; those that are no text are left to the kernel.
    pub fn children(&self) -> Result<BTreeSet<String>, Error> {
        let at = |e: Errno| Error::Io {
            path: self.path.clone(),
            source: e.into(),
        };
        let mut names = BTreeSet::new();
        for entry in Dir::read_from(&self.fd).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name().to_str().ok();
            if let Some(name) =
                name.filter(|n| entry.file_type().is_dir() && ![".", ".."].contains(n))
            {
                names.insert(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The processes directly in it.
    pub fn processes(&self) -> Result<Vec<u32>, Error> {
        Ok(self
            .read("cgroup.procs")?
            .lines()
            .filter_map(|l| l.parse().ok())
            .collect())
    }
}

fn parse_usage(text: &str) -> Result<u64, (usize, String)> {
    for (i, line) in text.lines().enumerate() {
        if let Some(n) = line.strip_prefix("usage_usec ") {
            return n.trim().parse().map_err(|_| (i + 1, line.to_owned()));
        }
    }
    Err((text.lines().count(), "no usage_usec".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_and_names_path_and_line_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let a = dir.path().join("a");
        std::fs::create_dir(&a).unwrap();
        std::fs::write(a.join("cpu.stat"), "usage_usec 1234\nuser_usec 1\n").unwrap();
        std::fs::write(a.join("cpu.weight"), "many\n").unwrap();
        let root = Root::open_any(dir.path()).unwrap();
        let cgroup = root.cgroup("/a").unwrap();
        assert_eq!(root.used_usec("/a").unwrap(), 1234);
        let error = cgroup.weight().unwrap_err().to_string();
        assert!(
            error.contains("a/cpu.weight:1") && error.contains("many"),
            "{error}"
        );
        assert!(root.cgroup("/b").err().unwrap().is_gone());
        assert_eq!(root.cgroup("/").unwrap().weight().unwrap(), None);
    }

    #[test]
    fn the_uppermost_cgroup_without_the_controller_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        let gives = |path: &str, text: &str| {
            let file = dir.path().join(path).join("cgroup.subtree_control");
            std::fs::write(file, text).unwrap();
        };
        let root = Root::open_any(dir.path()).unwrap();
        for path in ["", "a", "a/b"] {
            gives(path, "cpu memory\n");
        }
        let off = |path: &str| root.cpu_is_off_in(path);
        assert_eq!((off("/a"), off("/a/b/c"), off("/")), (None, None, None));
        gives("a/b", "memory cpuset\n");
        assert_eq!((off("/a/b/c"), off("/a/b")), (Some("/a/b".into()), None));
        gives("", "\n");
        assert_eq!(off("/a/b/c"), Some("/".into()));
        assert_eq!(off("/a/gone"), None);
    }

    #[test]
    fn what_was_opened_is_what_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let (a, elsewhere) = (dir.path().join("a"), dir.path().join("elsewhere"));
        for (place, text) in [(&a, "100\n"), (&elsewhere, "7\n")] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("cpu.weight"), text).unwrap();
        }
        let cgroup = Root::open_any(dir.path()).unwrap().cgroup("/a").unwrap();
        std::fs::rename(&a, dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &a).unwrap();
        cgroup.write("cpu.weight", "200\n").unwrap();
        assert_eq!(cgroup.weight().unwrap(), Some(200));
        let weight = |name: &str| std::fs::read_to_string(dir.path().join(name).join("cpu.weight"));
        assert_eq!(
            (weight("b").unwrap(), weight("a").unwrap()),
            ("200\n".into(), "7\n".into())
        );
        // Nor is a file of it followed that is a link.
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("b/cpu.max")).unwrap();
        assert!(cgroup.read("cpu.max").is_err() && cgroup.write("cpu.max", "x").is_err());
    }

    #[test]
    fn no_symbolic_link_and_nothing_above_the_root() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let root = Root::open_any(dir.path()).unwrap();
        assert!(root.cgroup("/link").is_err());
        assert!(root.cgroup("/../etc").is_err());
        assert!(root.cgroup("etc").is_err());
        assert!(matches!(
            Root::open(dir.path()),
            Err(Error::NotCgroup2 { .. })
        ));
    }
}
