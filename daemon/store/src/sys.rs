// SPDX-License-Identifier: GPL-2.0-only
//! What the libraries have no safe function for. No other module may contain unsafe code.
#![allow(unsafe_code)]

/// What the operating system said when SQLite last failed.
pub fn sqlite_errno(db: &rusqlite::Connection) -> i32 {
    // SAFETY: the handle is that of an open connection, and only read here; the call neither keeps
    // nor changes it.
    unsafe { rusqlite::ffi::sqlite3_system_errno(db.handle()) }
}
