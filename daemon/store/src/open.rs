// SPDX-License-Identifier: GPL-2.0-only
//! Opening the ledger: alone, checked, of the present schema, or not at all.

use super::rows::Fault;
use super::{Config, Error, Next, Store, damage, rows, schema};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tix_model::{Key, Row};

/// What the lock file says once a ledger has been made beside it: from then on an empty directory
/// is a loss, not a beginning.
const MADE: &str = "There is a ledger in this directory. Move all of it away to start anew.\n";

impl Store {
    /// Opens `DIR/ledger.sqlite`, or creates it, and gives every row to `each`: spaces and
    /// currencies first, then brokers, bindings, tickets, exchanges, lapsed tickets, offers,
    /// exchanges that are over. If it fails, what was given is worth nothing.
    ///
    /// The directory is made, for its owner only, if it is not there. A ledger of an earlier schema
    /// is brought up to date, with a copy of it beside it. Nothing is written to a ledger that is
    /// up to date, so this works while the disk is full.
    ///
    /// # Errors
    /// [`Error::Taken`] if another store has it. [`Error::Damaged`] if what is read is not what was
    /// written: it is left as it is, and a copy is kept. [`Error::Schema`] if a later version wrote
    /// it. Else what the disk did.
    pub fn open_with(
        dir: &Path,
        config: Config,
        each: &mut dyn FnMut(Key, Row),
    ) -> Result<(Store, Next), Error> {
        make(dir).map_err(|e| Error::file(dir, e))?;
        let (lock, made) = take(dir)?;
        let path = dir.join("ledger.sqlite");
        let result = match open(&path, &config, made, each) {
            Ok(opened) => opened,
            Err(Error::Damaged { path, what, .. }) => {
                // The connection is closed: closing a file drops SQLite's locks on it.
                let copy = damage::keep_copy(&path);
                return Err(Error::Damaged { path, what, copy });
            }
            Err(e) => return Err(e),
        };
        let (db, state) = result;
        if !made {
            mark(&lock.0, &path).map_err(|e| Error::file(&dir.join("lock"), e))?;
        }
        let next = state.next;
        let store = Store {
            db,
            path,
            config,
            state,
            in_doubt: false,
            untidy: 0,
            _lock: lock,
        };
        Ok((store, next))
    }
}

/// What keeps other stores out of the directory.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it does not unlock it as long as a process that this one has just forked has it,
        // too, and has not come to `exec`. Nothing to be done if it fails: it is unlocked when the
        // last of them has closed it.
        let _ = self.0.unlock();
    }
}

fn make(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    damage::sync_parent(dir)
}

/// The lock, and whether a ledger has been made here.
fn take(dir: &Path) -> Result<(Lock, bool), Error> {
    let path = dir.join("lock");
    let at = |e| Error::file(&path, e);
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(at)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let dir = dir.to_owned();
            return Err(Error::Taken { dir });
        }
        Err(TryLockError::Error(e)) => return Err(at(e)),
    }
    let mut text = String::new();
    let mut lock = Lock(lock);
    lock.0.read_to_string(&mut text).map_err(at)?;
    Ok((lock, text == MADE))
}

fn mark(mut lock: &File, path: &Path) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(MADE.as_bytes())?;
    lock.sync_all()?;
    damage::sync_parent(path)
}

fn open(
    path: &Path,
    config: &Config,
    made: bool,
    each: &mut dyn FnMut(Key, Row),
) -> Result<(Connection, super::State), Error> {
    let lost = || {
        Error::damaged(
            path,
            "a ledger was kept here, and the file is missing or empty",
        )
    };
    // SQLite takes a file of less than a page for a new database, and throws away the WAL beside
    // it.
    match path.metadata().map_or(0, |m| m.len()) {
        0 if made => return Err(lost()),
        left @ 1..512 if made => {
            let what = format!("a ledger was kept here, and {left} bytes are left of it");
            return Err(Error::damaged(path, what));
        }
        _ => {}
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::file(path, e))?;
    let other = |e: rusqlite::Error| Error::Io {
        path: path.to_owned(),
        source: e.into(),
    };
    let mut db = Connection::open(path).map_err(other)?;
    let result = fill(&mut db, path, config, each, made);
    match result {
        Ok(Some(state)) => Ok((db, state)),
        Ok(None) => Err(lost()),
        Err(Refusal::Schema(found)) => Err(Error::Schema {
            path: path.to_owned(),
            found,
            known: schema::SCHEMA,
        }),
        Err(Refusal::Copy(e)) => Err(Error::file(path, e)),
        Err(Refusal::Fault(Fault::OtherKind(key))) => Err(Error::OtherKind { key }),
        Err(Refusal::Fault(Fault::Sqlite(e))) => match Error::sqlite(path, &db, e) {
            Error::Damaged { what, .. } => Err(explained(&db, path, what)),
            e => Err(e),
        },
        Err(Refusal::Fault(Fault::Damaged(what))) => Err(explained(&db, path, what)),
    }
}

fn explained(db: &Connection, path: &Path, what: String) -> Error {
    let mut all = vec![what];
    all.extend(damage::findings(db));
    Error::damaged(path, all.join("; "))
}

enum Refusal {
    Fault(Fault),
    Schema(i64),
    Copy(std::io::Error),
}

impl<E: Into<Fault>> From<E> for Refusal {
    fn from(e: E) -> Refusal {
        Refusal::Fault(e.into())
    }
}

/// Makes what `db` is open on a ledger of the present schema and reads it. `None`: it is empty, and
/// should not be.
fn fill(
    db: &mut Connection,
    path: &Path,
    config: &Config,
    each: &mut dyn FnMut(Key, Row),
    made: bool,
) -> Result<Option<super::State>, Refusal> {
    // Until it is known to be sound, closing it must not carry anything over from the WAL.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_prepared_statement_cache_capacity(64);
    // First of all: with it no memory is shared with other processes, and they are kept out.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", config.checkpoint_pages)?;
    // What a large transaction has left of the WAL is given back to the disk.
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // All of a ledger of a million tickets: what is changed is anywhere in it.
    db.pragma_update(None, "cache_size", -32_000)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    let found: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0))?;
    match found {
        schema::SCHEMA => {}
        0 if made => return Ok(None),
        0 => {
            let tables: i64 =
                db.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
            if tables > 0 {
                let what = "it is a database, but not tixd's".to_owned();
                return Err(Refusal::Fault(Fault::Damaged(what)));
            }
            schema::create(db)?;
        }
        1..schema::SCHEMA => {
            let copy = put_aside(db, path, found)?;
            if let Err(e) = schema::upgrade(db, found) {
                // What it is a copy of is as it was; and one for each attempt would fill the disk.
                let _ = std::fs::remove_file(copy);
                return Err(Refusal::Fault(e));
            }
        }
        found => return Err(Refusal::Schema(found)),
    }
    let state = schema::state(db)?;
    let total = rows::load(db, each)?;
    if total != state.total {
        let (has, should) = (total.rows, state.total.rows);
        let what = match has == should {
            true => format!("all {has} rows are there, but not all as they were written last"),
            false => format!("{has} rows are there, and there were {should}"),
        };
        return Err(Refusal::Fault(Fault::Damaged(what)));
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(Some(state))
}

/// A copy of the ledger as a version of tixd with schema `found` can read it, for whoever has to go
/// back.
fn put_aside(db: &Connection, path: &Path, found: i64) -> Result<PathBuf, Refusal> {
    let stamp = damage::stamp()?;
    let copy = damage::with_suffix(path, &format!(".schema-{found}-{stamp}"));
    let unfinished = damage::with_suffix(path, ".copy");
    match std::fs::remove_file(&unfinished) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Refusal::Copy(e)),
        _ => {}
    }
    db.execute("VACUUM INTO ?", [unfinished.to_string_lossy()])?;
    let finish = || -> std::io::Result<()> {
        File::open(&unfinished)?.sync_all()?;
        std::fs::rename(&unfinished, &copy)?;
        damage::sync_parent(path)
    };
    finish().map_err(Refusal::Copy)?;
    Ok(copy)
}
