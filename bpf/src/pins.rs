// SPDX-License-Identifier: GPL-2.0-only
//! Where things are pinned below the pin directory.

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};

pub const LINK: &str = "link";
pub const LOCKS: &str = "locks";
pub const LOCKS_END: &str = "locks-end";
pub const LAYOUT: &str = "layout";
pub const CGROUPS: &str = "cgroups";
pub const STATS: &str = "stats";
pub const EXIT: &str = "exit";
pub const FUNDING: &str = "funding";
pub const NAME: &str = "name";
pub const READ: &str = "read";
pub const TOTAL: &str = "total";
/// Read as a text file, also by `tixctl top --direct`.
pub const USAGE: &str = "usage";

/// `path` as a pin error.
pub fn error(path: &Path, reason: impl ToString) -> Error {
    Error::Pin {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Creates the pin directory, which must lie on a BPF file system.
pub fn prepare(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|err| {
        error(
            dir,
            format!("{err}: is the BPF file system mounted? (mount -t bpf bpf /sys/fs/bpf)"),
        )
    })
}

/// Removes every pin; the scheduler goes when the last reference to its link does.
pub fn remove(dir: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(error(dir, err)),
    };
    for entry in entries {
        let path = entry.map_err(|err| error(dir, err))?.path();
        fs::remove_file(&path).map_err(|err| error(&path, err))?;
    }
    fs::remove_dir(dir).map_err(|err| error(dir, err))
}

/// The pin called `name`.
pub fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(name)
}
