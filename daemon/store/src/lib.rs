// SPDX-License-Identifier: GPL-2.0-only
//! What makes an operation durable: the ledger's rows in SQLite, and beside them a log of who did
//! what when.
//!
//! A commit changes rows and appends records in one transaction, and is acknowledged after `fsync`
//! (WAL, `synchronous=FULL`). The start reads the rows, not the history, so it takes as long as
//! what there is, not as what there has been; and the log can be shortened.
//!
//! Nobody else writes to the file while a store is open: a lock in the directory keeps other
//! daemons out, and SQLite's own exclusive lock keeps other programs out (with it, the index of the
//! WAL is in memory, and a full disk cannot make a mapped file fail under us).

#![deny(unsafe_code)]

mod codes;
mod damage;
mod error;
mod log;
mod old;
mod open;
mod rows;
mod schema;
mod side;
mod sum;
mod sys;

pub use error::{Copy, Error};
pub use log::{BITE, LONGEST_OP, Page, Query, Record, SCAN};
pub use tix_model::Change;

use rows::{Fault, Total};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use tix_model::{Key, Row};

/// Rows and records that are worth a checkpoint of their own: it takes two `fsync`s.
const TIDY: usize = 256;

/// What may differ from one machine to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Records of the log older than this may go, in microseconds.
    pub keep_usec: u64,
    /// And those beyond this many, oldest first.
    pub keep_records: u64,
    /// And those beyond this many bytes.
    pub keep_bytes: u64,
    /// After how many pages of 4 KiB in the write-ahead log a commit carries them over into the
    /// database, if [`Store::tidy`] has not.
    pub checkpoint_pages: u32,
}

impl Default for Config {
    /// A year, a million records, 256 MiB of them; 64 MB: a checkpoint of a large ledger costs
    /// about as much whether one page in four has changed or all.
    fn default() -> Config {
        Config {
            keep_usec: 365 * 24 * 3600 * 1_000_000,
            keep_records: 1_000_000,
            keep_bytes: 256 << 20,
            checkpoint_pages: 16_000,
        }
    }
}

/// Numbers that were never given away: a number is not used again, not even when what had it is
/// gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub cid: u64,
    pub exchange: u64,
}

/// What was read at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Spaces and currencies first, then brokers, bindings, tickets, exchanges, lapsed tickets,
    /// offers, exchanges that are over.
    pub rows: Vec<(Key, Row)>,
    /// The least number that no named currency has had.
    pub next_cid: u64,
    /// The least number that no exchange and no offer has had.
    pub next_exchange: u64,
}

/// The ledger's file. One at a time has it.
pub struct Store {
    db: Connection,
    path: PathBuf,
    config: Config,
    state: State,
    /// A commit failed so late that it may be found complete at the next start, unless another one
    /// overwrites it.
    in_doubt: bool,
    /// Rows and records committed since the write-ahead log was carried over by [`Store::tidy`].
    untidy: usize,
    /// Held, not used: others find it locked. The last of these, so that it is given up after the
    /// database is closed.
    _lock: open::Lock,
}

/// The row of the table `state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    next: Next,
    total: Total,
}

impl Default for State {
    fn default() -> State {
        State {
            next: Next {
                cid: 1,
                exchange: 1,
            },
            total: Total::default(),
        }
    }
}

impl State {
    fn save(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached(
            "UPDATE state SET next_cid = ?, next_exchange = ?, rows = ?, sum = ? WHERE id = 0",
        )?
        .execute(params![
            self.next.cid.cast_signed(),
            self.next.exchange.cast_signed(),
            self.total.rows,
            self.total.sum
        ])
        .map(drop)
    }

    /// Sets one row; the numbers that it names are given away from now on.
    fn put(&mut self, db: &Connection, key: &Key, row: Option<&Row>) -> Result<(), Fault> {
        match key {
            Key::Currency(cid) => self.next.cid = self.next.cid.max(cid.saturating_add(1)),
            Key::Exchange(id) | Key::Offer(id) => {
                self.next.exchange = self.next.exchange.max(id.saturating_add(1));
            }
            _ => {}
        }
        rows::put(db, key, row, &mut self.total)
    }
}

impl Store {
    /// Opens `DIR/ledger.sqlite`, or creates it, and reads all of it.
    ///
    /// # Errors
    /// See [`Store::open_with`].
    pub fn open(dir: &Path) -> Result<(Store, Loaded), Error> {
        let mut rows = Vec::new();
        let (store, next) = Store::open_with(dir, Config::default(), &mut |key, row| {
            rows.push((key, row))
        })?;
        let loaded = Loaded {
            rows,
            next_cid: next.cid,
            next_exchange: next.exchange,
        };
        Ok((store, loaded))
    }

    /// Makes `changes` and `records` durable, all of them or none. When it returns they are.
    ///
    /// # Errors
    /// What was given is not in force, and what was kept before still is. After [`Error::Full`] and
    /// [`Error::Io`] a later call works when the disk does. If tixd ends before that, the next
    /// start may find this change complete (never half): when `fsync` fails nobody can say what is
    /// on the disk.
    pub fn commit(&mut self, records: &[Record], changes: &[Change]) -> Result<(), Error> {
        self.write(|db, state| {
            for (key, row) in changes {
                state.put(db, key, row.as_ref())?;
                if let (Key::Currency(cid), None) = (key, row) {
                    db.prepare_cached("DELETE FROM usage WHERE cid = ?")?
                        .execute([cid.cast_signed()])?;
                }
            }
            for record in records {
                log::append(db, record)?;
            }
            Ok(())
        })?;
        self.untidy += changes.len() + records.len();
        Ok(())
    }

    /// Carries the write-ahead log over into the database, if there is enough of it to be worth it;
    /// tells whether there was. Whoever calls it when nobody waits for a commit spares the commits
    /// of doing it, which is most of what a long one takes.
    ///
    /// # Errors
    /// What the disk did. Nothing is lost by it: a later call or commit tries again.
    pub fn tidy(&mut self) -> Result<bool, Error> {
        if self.untidy < TIDY {
            return Ok(false);
        }
        self.untidy = 0;
        self.db
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
            .and_then(|mut s| s.query_row([], |_| Ok(())))
            .map_err(|e| self.fail(e))?;
        Ok(true)
    }

    /// The numbers to go on with.
    pub fn next(&self) -> Next {
        self.state.next
    }

    /// Where the ledger is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `change` does, in one transaction.
    fn write<T>(
        &mut self,
        change: impl FnOnce(&Connection, &mut State) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        if self.in_doubt {
            // Takes the place of the commit that failed, in the WAL; so does any other, but only
            // one that succeeds.
            self.db
                .execute_batch("UPDATE state SET voided = voided + 1")
                .map_err(|e| self.fail(e))?;
            self.in_doubt = false;
        }
        let mut state = self.state;
        let result = self.db.transaction().map_err(Fault::from).and_then(|tx| {
            let out = change(&tx, &mut state)?;
            if state != self.state {
                state.save(&tx)?;
            }
            self.in_doubt = true;
            tx.commit()?;
            Ok(out)
        });
        match result {
            Ok(out) => {
                self.in_doubt = false;
                self.state = state;
                Ok(out)
            }
            Err(e) => Err(self.fault(e)),
        }
    }

    fn fail(&self, e: rusqlite::Error) -> Error {
        Error::sqlite(&self.path, &self.db, e)
    }

    fn fault(&self, fault: Fault) -> Error {
        match fault {
            Fault::Sqlite(e) => self.fail(e),
            Fault::OtherKind(key) => Error::OtherKind { key },
            Fault::Damaged(what) => Error::damaged(&self.path, what),
        }
    }
}
