// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong with the store: each says where, what happened, and what to do.

use rusqlite::{Connection, ErrorCode};
use std::fmt;
use std::path::{Path, PathBuf};

/// What the operating system or SQLite said.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the store could not do it. After any of them from [`super::Store::commit`] the store is
/// usable: the next one is tried afresh.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{path}: the disk is full ({source}): no change can be kept, what is in force stays in \
         force; make room and try again"
    )]
    Full { path: PathBuf, source: Cause },
    #[error(
        "{path}: reading or writing failed ({source}): what is in force stays in force; look at \
         the disk and at the kernel's log"
    )]
    Io { path: PathBuf, source: Cause },
    #[error(
        "{dir}: another tixd has this ledger: end that one first, or give this one another \
         directory"
    )]
    Taken { dir: PathBuf },
    #[error("{path}: another program has the ledger open ({source}): end it and try again")]
    Busy { path: PathBuf, source: Cause },
    #[error(
        "{path}: written by a later version of tixd (schema {found}, this one knows {known}): \
         install that version, or move the directory away"
    )]
    Schema {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("{path} is damaged: {what}; {copy}")]
    Damaged {
        path: PathBuf,
        what: String,
        copy: Copy,
    },
    #[error(
        "the row given for {key} is of another kind: this is a bug of tixd, nothing was changed"
    )]
    OtherKind { key: String },
    #[error("{path}: {source}")]
    Other { path: PathBuf, source: Cause },
}

/// What became of a damaged ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copy {
    /// It is as it was, and a copy of it is here.
    Kept(PathBuf),
    /// It is as it was, and could not be copied.
    Failed(String),
    /// There is nothing to copy.
    Nothing,
    /// It was found in use: the next start looks at all of it.
    NotYet,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Copy::Kept(path) => write!(
                f,
                "it was left as it is, with a copy at {}: restore a backup, or move the whole \
                 directory away to start anew",
                path.display()
            ),
            Copy::Failed(why) => write!(
                f,
                "it was left as it is, and could not be copied ({why}): copy it before anything \
                 else"
            ),
            Copy::Nothing => write!(
                f,
                "nothing is left to copy: restore a backup, or move the whole directory away to \
                 start anew"
            ),
            Copy::NotYet => write!(
                f,
                "what is in force stays in force; start tixd again to have all of it checked and a \
                 copy kept"
            ),
        }
    }
}

impl Error {
    /// There is no room on the disk (or in the quota); it works again when there is.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Full { .. })
    }

    /// The disk failed.
    pub fn is_io(&self) -> bool {
        matches!(self, Error::Io { .. })
    }

    /// What was written once is not what is read.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. })
    }

    pub(super) fn file(path: &Path, source: std::io::Error) -> Error {
        let path = path.to_owned();
        let full = source.raw_os_error().is_some_and(is_full);
        let source = Cause::from(source);
        match full {
            true => Error::Full { path, source },
            false => Error::Io { path, source },
        }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged {
            path: path.to_owned(),
            what: what.into(),
            copy: Copy::NotYet,
        }
    }

    pub(super) fn sqlite(path: &Path, db: &Connection, e: rusqlite::Error) -> Error {
        use rusqlite::Error as E;
        let path = path.to_owned();
        match e.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::Full {
                path,
                source: e.into(),
            },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                // A quota is no "disk full" to SQLite, nor is ENOSPC from fsync.
                match is_full(errno(db)) {
                    true => Error::Full {
                        path,
                        source: e.into(),
                    },
                    false => Error::Io {
                        path,
                        source: e.into(),
                    },
                }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy {
                path,
                source: e.into(),
            },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::damaged(&path, e.to_string())
            }
            _ if matches!(
                e,
                E::FromSqlConversionFailure(..)
                    | E::InvalidColumnType(..)
                    | E::IntegralValueOutOfRange(..)
                    | E::Utf8Error(..)
                    // The statements are ours: a table that they name is not as it was made.
                    | E::SqlInputError { .. }
            ) =>
            {
                Error::damaged(&path, e.to_string())
            }
            _ => Error::Other {
                path,
                source: e.into(),
            },
        }
    }
}

fn is_full(errno: i32) -> bool {
    [
        rustix::io::Errno::NOSPC.raw_os_error(),
        rustix::io::Errno::DQUOT.raw_os_error(),
    ]
    .contains(&errno)
}

/// What the system call said by which `db` failed last.
fn errno(db: &Connection) -> i32 {
    super::sys::sqlite_errno(db)
}
