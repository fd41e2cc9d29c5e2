// SPDX-License-Identifier: GPL-2.0-only
//! Where things are pinned below the pin directory: there what is in force; in `new` what is about
//! to be, in `old` what was before it, as long as it may have to come back (see `swap`).

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};

pub const LINK: &str = "link";
pub const LAYOUT: &str = "layout";
pub const CGROUPS: &str = "cgroups";
pub const STATS: &str = "stats";
pub const EXIT: &str = "exit";
pub const FUNDING: &str = "funding";
pub const NAME: &str = "name";
pub const READ: &str = "read";
pub const TOTAL: &str = "total";
pub const LIMIT: &str = "limit";
pub const FAIL: &str = "fail";
/// How it keeps who is ahead and who behind; how it tells that, by a pin whose name says in which
/// version; how it is told.
pub const KEEP: &str = "keep";
pub const LEADS: &str = "leads";
pub const TAKE: &str = "take";
/// What it takes to put it in force again.
pub const OPS: &str = "ops";
pub const BSS: &str = "bss";
pub const DATA: &str = "data";
/// A copy of DATA as it was before it was in force.
pub const FRESH: &str = "fresh-data";
/// A pin's name tells which build it is, and of which another went back to this one.
pub const BUILD: &str = "build";
pub const REFUSED: &str = "refused";
/// Read as a text file, also by `tixctl top --direct`.
pub const USAGE: &str = "usage";

pub const NEW: &str = "new";
pub const OLD: &str = "old";

/// A program that a tracepoint of the kernel's calls: its pin, and that of the link by which it is called.
pub struct Traced {
    pub program: &'static str,
    pub link: &'static str,
}

/// A thread begins to wait for a lock; it ends.
pub const LOCKS: Traced = Traced {
    program: "locks-program",
    link: "locks",
};
pub const LOCKS_END: Traced = Traced {
    program: "locks-end-program",
    link: "locks-end",
};
pub const TRACED: [Traced; 2] = [LOCKS, LOCKS_END];

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

/// Removes every pin, and those in `new` and `old`; the scheduler goes when the last reference to
/// its link does.
pub fn remove(dir: &Path) -> Result<(), Error> {
    for below in entries(dir)?.iter().filter(|path| path.is_dir()) {
        remove(below)?;
    }
    remove_pins(dir)?;
    match fs::remove_dir(dir) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(error(dir, err)),
        _ => Ok(()),
    }
}

/// Removes the pins in `dir` itself.
pub fn remove_pins(dir: &Path) -> Result<(), Error> {
    for path in entries(dir)?.iter().filter(|path| !path.is_dir()) {
        fs::remove_file(path).map_err(|err| error(path, err))?;
    }
    Ok(())
}

/// Moves every pin of `from`, which goes, to `to`. What says that they are complete comes last: who
/// is interrupted leaves a torn load.
pub fn move_all(from: &Path, to: &Path) -> Result<(), Error> {
    prepare(to)?;
    let mut pins = entries(from)?;
    pins.retain(|path| !path.is_dir());
    pins.sort_by_key(|path| told(path, LAYOUT).is_some());
    for pin in pins {
        if let Some(name) = pin.file_name() {
            fs::rename(&pin, to.join(name)).map_err(|err| error(&pin, err))?;
        }
    }
    Ok(())
}

/// What the name of one of the pins below `dir` tells: of `layout-7`, 7 of [`LAYOUT`].
pub fn tells(dir: &Path, what: &str) -> Option<String> {
    entries(dir).ok()?.iter().find_map(|path| told(path, what))
}

/// The pin whose name tells that.
pub fn telling(dir: &Path, what: &str, word: &str) -> PathBuf {
    dir.join(format!("{what}-{word}"))
}

fn told(path: &Path, what: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(what)?.strip_prefix('-')?.to_owned())
}

/// In no order; none where there is no such directory.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(error(dir, err)),
    };
    entries
        .map(|entry| Ok(entry.map_err(|err| error(dir, err))?.path()))
        .collect()
}

/// The pin called `name`.
pub fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(name)
}
