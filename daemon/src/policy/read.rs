// SPDX-License-Identifier: GPL-2.0-only
//! The files of a directory. What root's daemon takes orders from must be root's alone: the
//! directory and each file are opened once and judged by descriptor, so that nothing can be
//! exchanged between the look and the reading.

use super::users::System;
use super::{Policy, Problem};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;
/// The most files.
const MAX_FILES: usize = 256;

impl Policy {
    /// What the `*.toml` files of `dir` say, in the order of their names. A directory that is not
    /// there is an empty policy.
    ///
    /// Blocks: it reads files, and asks the system's databases for owners given by name.
    pub fn load(dir: &Path) -> Result<Policy, Vec<Problem>> {
        let files = read(dir, rustix::process::geteuid().is_root())?;
        Policy::parse(&files, &System)
    }
}

/// The files as (path, text). `strict`: only what nobody but root can have written.
fn read(dir: &Path, strict: bool) -> Result<Vec<(String, String)>, Vec<Problem>> {
    let shown = dir.display().to_string();
    let cannot = |e: Errno| {
        vec![Problem::of_file(
            shown.as_str(),
            format!("cannot read it ({e})"),
            "it is to be a directory of *.toml files",
        )]
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let fd = match openat(CWD, dir, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(vec![]),
        Err(e) => return Err(cannot(e)),
    };
    if strict && let Some(p) = not_roots(&fstat(&fd).map_err(cannot)?, &shown) {
        return Err(vec![p]);
    }
    let mut names = Vec::new();
    for entry in Dir::read_from(&fd).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_bytes();
        if name.ends_with(b".toml") && !name.starts_with(b".") {
            names.push(name.to_vec());
        }
        if names.len() > MAX_FILES {
            return Err(vec![Problem::of_file(
                shown.as_str(),
                format!("has more than {MAX_FILES} files"),
                "put several policies into one",
            )]);
        }
    }
    names.sort_unstable();
    let mut files = Vec::new();
    let mut problems = Vec::new();
    for name in names {
        let path = dir.join(OsStr::from_bytes(&name)).display().to_string();
        match text(&fd, &name, &path, strict) {
            Ok(text) => files.push((path, text)),
            Err(p) => problems.push(p),
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(problems)
    }
}

fn text(dir: &OwnedFd, name: &[u8], path: &str, strict: bool) -> Result<String, Problem> {
    let cannot =
        |e: &dyn std::fmt::Display| Problem::of_file(path, format!("cannot read it ({e})"), "");
    // A link is followed: root made it, and what it leads to is judged. NONBLOCK, so that a pipe
    // does not hang the start.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = openat(dir.as_fd(), name, flags, Mode::empty()).map_err(|e| cannot(&e))?;
    let stat = fstat(&fd).map_err(|e| cannot(&e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Problem::of_file(path, "is no regular file", "take it out"));
    }
    if strict && let Some(p) = not_roots(&stat, path) {
        return Err(p);
    }
    let mut bytes = Vec::new();
    File::from(fd)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| cannot(&e))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::of_file(path, "is larger than 1M", "split it"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        Problem {
            line: 1 + good.iter().filter(|b| **b == b'\n').count(),
            ..Problem::of_file(path, "this is not UTF-8", "save the file as UTF-8")
        }
    })
}

fn not_roots(stat: &Stat, path: &str) -> Option<Problem> {
    let (what, instead) = if stat.st_uid != 0 {
        (
            format!("belongs to uid {}, not to root", stat.st_uid),
            format!("chown root {path}"),
        )
    } else if stat.st_mode & 0o022 != 0 {
        (
            "others than root may write to it".to_owned(),
            format!("chmod go-w {path}"),
        )
    } else {
        return None;
    };
    Some(Problem::of_file(path, what, instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn said(dir: &Path, strict: bool) -> Vec<String> {
        let shown = format!("{}/", dir.display());
        match read(dir, strict) {
            Ok(files) => files
                .into_iter()
                .map(|(f, t)| format!("{} {t}", f.replace(&shown, "")))
                .collect(),
            Err(problems) => problems
                .iter()
                .map(|p| p.to_string().replace(&shown, ""))
                .collect(),
        }
    }

    #[test]
    fn files_in_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("nowhere"), true), Ok(vec![]));
        for name in ["20.toml", "10.toml", ".hidden.toml", "README.md", "3.toml~"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        symlink("README.md", dir.path().join("30.toml")).unwrap();
        assert_eq!(
            said(dir.path(), false),
            ["10.toml 10.toml", "20.toml 20.toml", "30.toml README.md"]
        );
    }

    #[test]
    fn what_is_no_file_of_roots_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        fs::write(&file, "").unwrap();
        fs::create_dir(dir.path().join("b.toml")).unwrap();
        fs::write(dir.path().join("d.toml"), [b'#'; (1 << 20) + 1]).unwrap();
        fs::write(dir.path().join("e.toml"), b"# a\n\xff").unwrap();
        symlink("nowhere", dir.path().join("f.toml")).unwrap();
        assert_eq!(
            said(dir.path(), false),
            [
                "b.toml: is no regular file: take it out",
                "d.toml: is larger than 1M: split it",
                "e.toml:2: this is not UTF-8: save the file as UTF-8",
                "f.toml: cannot read it (No such file or directory (os error 2))",
            ]
        );
        assert_eq!(read(&file, false).map_err(|p| p.len()), Err(1));
    }

    #[test]
    fn strict_is_roots_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        fs::write(&file, "").unwrap();
        if !rustix::process::geteuid().is_root() {
            assert!(said(dir.path(), true)[0].contains("not to root"));
            return;
        }
        assert_eq!(said(dir.path(), true), ["a.toml "]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(
            said(dir.path(), true)[0]
                .starts_with("a.toml: others than root may write to it: chmod go-w")
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(&file, Some(1000), None).unwrap();
        assert!(said(dir.path(), true)[0].starts_with("a.toml: belongs to uid 1000, not to root"));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(said(dir.path(), true)[0].contains("others than root may write to it"));
    }
}
