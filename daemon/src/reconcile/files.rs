// SPDX-License-Identifier: GPL-2.0-only
//! Writing a number into a cgroup's file, and seeing that it is there.

use std::path::PathBuf;
use tix_cgroupfs::{self as cgroups, Cgroup, Root};

/// Why a number is not in force.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] cgroups::Error),
    #[error("{path}: {wanted} was written, and it says {found}")]
    Otherwise {
        path: PathBuf,
        wanted: u64,
        found: String,
    },
    #[error(
        "{path} is missing, and the {controller} controller cannot be enabled for it: {source}"
    )]
    Controller {
        path: PathBuf,
        controller: &'static str,
        source: cgroups::Error,
    },
    #[error("{path}: the kernel has no such file; it lacks {config}")]
    Missing { path: PathBuf, config: &'static str },
}

/// Writes `text`, unless `number` is what `parse` finds in the file already; and reads it again.
pub(super) fn set(
    cgroup: &Cgroup,
    file: &str,
    (number, text): (u64, &str),
    parse: impl Fn(&str) -> Option<u64>,
) -> Result<(), Error> {
    if parse(&cgroup.read(file)?) == Some(number) {
        return Ok(());
    }
    cgroup.write(file, text)?;
    let found = cgroup.read(file)?;
    match parse(&found) {
        Some(n) if n == number => Ok(()),
        _ => Err(Error::Otherwise {
            path: cgroup.path().join(file),
            wanted: number,
            found: found.trim().to_owned(),
        }),
    }
}

/// Has every cgroup above `path` give its children `controller`.
pub(super) fn enable(root: &Root, path: &str, controller: &'static str) -> Result<(), Error> {
    let at = |source| Error::Controller {
        path: root.path().join(path.trim_start_matches('/')),
        controller,
        source,
    };
    let ends = std::iter::once(0).chain(path.match_indices('/').map(|(i, _)| i).skip(1));
    for end in ends {
        let parent = if end == 0 { "/" } else { &path[..end] };
        let dir = root.cgroup(parent).map_err(at)?;
        let given = dir.read("cgroup.subtree_control").map_err(at)?;
        if !given.split_whitespace().any(|c| c == controller) {
            dir.write("cgroup.subtree_control", &format!("+{controller}"))
                .map_err(at)?;
        }
    }
    Ok(())
}
