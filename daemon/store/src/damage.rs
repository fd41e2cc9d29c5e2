// SPDX-License-Identifier: GPL-2.0-only
//! A ledger that is not as it was written: what is wrong with it, and a copy of it.

use super::error::Copy;
use rusqlite::Connection;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// What SQLite finds wrong with the file, a few lines at most. It walks all of it, so it is asked
/// only when something is.
pub(super) fn findings(db: &Connection) -> Vec<String> {
    let ask = || -> rusqlite::Result<Vec<String>> {
        db.prepare("PRAGMA quick_check(5)")?
            .query_map([], |r| r.get(0))?
            .collect()
    };
    let mut found = ask().unwrap_or_default();
    found.retain(|line| line != "ok");
    found
}

/// The time as it is written into names: `20260131T235959Z`.
pub(super) fn stamp() -> rusqlite::Result<String> {
    Connection::open_in_memory()?.query_row("SELECT strftime('%Y%m%dT%H%M%SZ')", [], |r| r.get(0))
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What SQLite keeps beside a database, and itself.
const PARTS: [&str; 3] = ["", "-wal", "-journal"];

/// Copies the ledger at `path`, which nobody has open, unless there is a copy of just this already:
/// a daemon that is started again and again must not fill the disk.
pub(super) fn keep_copy(path: &Path) -> Copy {
    let parts: Vec<&str> = PARTS
        .into_iter()
        .filter(|p| with_suffix(path, p).metadata().is_ok_and(|m| m.len() > 0))
        .collect();
    if parts.is_empty() {
        return Copy::Nothing;
    }
    let keep = || -> io::Result<PathBuf> {
        for known in copies(path)? {
            if parts_are_same(path, &known)? {
                return Ok(known);
            }
        }
        let stamp = stamp().map_err(io::Error::other)?;
        let copy = with_suffix(path, &format!(".damaged-{stamp}"));
        for part in &parts {
            let to = with_suffix(&copy, part);
            std::fs::copy(with_suffix(path, part), &to)?;
            File::open(&to)?.sync_all()?;
        }
        sync_parent(path)?;
        Ok(copy)
    };
    match keep() {
        Ok(copy) => Copy::Kept(copy),
        Err(e) => Copy::Failed(e.to_string()),
    }
}

/// Makes durable that files beside `path` came, went or were renamed.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => File::open(dir)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Copies that were made before.
fn copies(path: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let prefix = with_suffix(path, ".damaged-");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?.path();
        let name = entry.to_string_lossy().into_owned();
        if name.starts_with(&*prefix.to_string_lossy()) && name.ends_with('Z') {
            found.push(entry);
        }
    }
    Ok(found)
}

fn parts_are_same(a: &Path, b: &Path) -> io::Result<bool> {
    for part in PARTS {
        if !same(&with_suffix(a, part), &with_suffix(b, part))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Same content; a file that is not there is as good as an empty one.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let open = |p: &Path| match File::open(p) {
        Ok(f) => Ok(Some(f)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    };
    let length = |f: &Option<File>| f.as_ref().map_or(Ok(0), |f| f.metadata().map(|m| m.len()));
    let (a, b) = (open(a)?, open(b)?);
    if length(&a)? != length(&b)? {
        return Ok(false);
    }
    let (Some(a), Some(b)) = (a, b) else {
        return Ok(true);
    };
    let mut b = BufReader::new(b).bytes();
    for byte in BufReader::new(a).bytes() {
        if Some(byte?) != b.next().transpose()? {
            return Ok(false);
        }
    }
    Ok(true)
}
