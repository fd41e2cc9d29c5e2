// SPDX-License-Identifier: GPL-2.0-only
//! What makes an operation durable: an append-only table of operations in SQLite, replayed at start.
//!
//! An operation is acknowledged only after [`Store::append`] returned, which it does after `fsync` (WAL, `synchronous=FULL`).

use crate::core::Written;
use crate::ledger::Op;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the tables; a store of a later version is not touched.
const SCHEMA: i64 = 2;

const TABLES: &str = "
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    time_usec INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    op TEXT NOT NULL
) STRICT;
CREATE TRIGGER event_is_not_changed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
CREATE TRIGGER event_is_not_deleted BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'event is append-only'); END;
-- Which node of the kernel's tables a named currency has; only worth something while that scheduler is in force.
CREATE TABLE node (cid INTEGER PRIMARY KEY, node INTEGER NOT NULL) STRICT;
-- CPU time of cgroups that are gone, per named currency.
CREATE TABLE usage (cid INTEGER PRIMARY KEY, usec INTEGER NOT NULL) STRICT;
";

/// What schema 2 has beside that of 1.
const SINCE_2: &str = "
-- cpu.weight files that tixd wrote while the scheduler was not in force, and the funding that each covers.
CREATE TABLE weight (path TEXT PRIMARY KEY, written INTEGER NOT NULL, funding INTEGER NOT NULL) STRICT;
";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path}: written by a later version of tixd (schema {found}, this one knows {SCHEMA}): install that version, or move the file away"
    )]
    Schema { path: PathBuf, found: i64 },
    #[error(
        "{path}: operation {seq} is damaged: {reason}; move the file away to start anew, and keep it"
    )]
    Damaged {
        path: PathBuf,
        seq: i64,
        reason: String,
    },
}

/// An operation as it was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub seq: i64,
    pub uid: u32,
    pub op: Op,
}

pub struct Store {
    db: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens or creates `DIR/ledger.sqlite`.
    pub fn open(dir: &Path) -> Result<Store, Error> {
        std::fs::create_dir_all(dir).map_err(|source| Error::Io {
            path: dir.to_owned(),
            source,
        })?;
        let path = dir.join("ledger.sqlite");
        let at = |source| Error::Sqlite {
            path: path.clone(),
            source,
        };
        let mut db = Connection::open(&path).map_err(at)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(at)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(at)?;
        let found: i64 = db
            .pragma_query_value(None, "user_version", |r| r.get(0))
            .map_err(at)?;
        match found {
            SCHEMA => {}
            0 | 1 => {
                let tx = db.transaction().map_err(at)?;
                if found == 0 {
                    tx.execute_batch(TABLES).map_err(at)?;
                }
                tx.execute_batch(SINCE_2).map_err(at)?;
                tx.pragma_update(None, "user_version", SCHEMA).map_err(at)?;
                tx.commit().map_err(at)?;
            }
            found => return Err(Error::Schema { path, found }),
        }
        Ok(Store { db, path })
    }

    fn at(&self) -> impl Fn(rusqlite::Error) -> Error + '_ {
        |source| Error::Sqlite {
            path: self.path.clone(),
            source,
        }
    }

    /// Everything acknowledged so far, oldest first.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut query = self
            .db
            .prepare("SELECT seq, uid, op FROM event ORDER BY seq")
            .map_err(self.at())?;
        let rows = query
            .query_map([], |r| {
                Ok((
                    r.get::<_, i64>(0)?,
                    r.get::<_, u32>(1)?,
                    r.get::<_, String>(2)?,
                ))
            })
            .map_err(self.at())?;
        let mut out = Vec::new();
        for row in rows {
            let (seq, uid, text) = row.map_err(self.at())?;
            let op = serde_json::from_str(&text).map_err(|e| Error::Damaged {
                path: self.path.clone(),
                seq,
                reason: e.to_string(),
            })?;
            out.push(Entry { seq, uid, op });
        }
        Ok(out)
    }

    /// Makes `ops` durable, all or none.
    pub fn append(&mut self, ops: &[Op], uid: u32) -> Result<(), Error> {
        let path = self.path.clone();
        let at = |source| Error::Sqlite {
            path: path.clone(),
            source,
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_micros());
        let tx = self.db.transaction().map_err(at)?;
        for op in ops {
            let text = serde_json::to_string(op).map_err(|e| Error::Damaged {
                path: path.clone(),
                seq: 0,
                reason: e.to_string(),
            })?;
            tx.prepare_cached("INSERT INTO event (time_usec, uid, op) VALUES (?, ?, ?)")
                .and_then(|mut s| {
                    s.execute(params![i64::try_from(now).unwrap_or(i64::MAX), uid, text])
                })
                .map_err(at)?;
        }
        tx.commit().map_err(at)
    }

    /// The pairs of `table` (`node` or `usage`).
    fn pairs(&self, query: &str) -> Result<Vec<(u64, u64)>, Error> {
        let mut query = self.db.prepare(query).map_err(self.at())?;
        let rows = query
            .query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)))
            .map_err(self.at())?;
        rows.map(|r| {
            r.map(|(a, b)| (a.unsigned_abs(), b.unsigned_abs()))
                .map_err(self.at())
        })
        .collect()
    }

    fn set_pairs(&mut self, clear: &str, insert: &str, pairs: &[(u64, u64)]) -> Result<(), Error> {
        let path = self.path.clone();
        let at = |source| Error::Sqlite {
            path: path.clone(),
            source,
        };
        let tx = self.db.transaction().map_err(at)?;
        tx.execute(clear, []).map_err(at)?;
        for (a, b) in pairs {
            let row = params![
                i64::try_from(*a).unwrap_or(i64::MAX),
                i64::try_from(*b).unwrap_or(i64::MAX)
            ];
            tx.prepare_cached(insert)
                .and_then(|mut s| s.execute(row))
                .map_err(at)?;
        }
        tx.commit().map_err(at)
    }

    /// Which node of the kernel's tables each named currency had.
    pub fn nodes(&self) -> Result<Vec<(u64, u64)>, Error> {
        self.pairs("SELECT cid, node FROM node")
    }

    pub fn set_nodes(&mut self, nodes: &[(u64, u64)]) -> Result<(), Error> {
        self.set_pairs("DELETE FROM node", "INSERT INTO node VALUES (?, ?)", nodes)
    }

    /// The weights that tixd wrote, by cgroup path.
    pub fn weights(&self) -> Result<Vec<(String, Written)>, Error> {
        let mut query = self
            .db
            .prepare("SELECT path, written, funding FROM weight")
            .map_err(self.at())?;
        let rows = query
            .query_map([], |r| {
                let number = |i| r.get::<_, i64>(i).map(i64::unsigned_abs);
                let (weight, funding) = (number(1)?, number(2)?);
                Ok((r.get::<_, String>(0)?, Written { weight, funding }))
            })
            .map_err(self.at())?;
        rows.map(|r| r.map_err(self.at())).collect()
    }

    pub fn set_weights(&mut self, weights: &[(String, Written)]) -> Result<(), Error> {
        let path = self.path.clone();
        let at = |source| Error::Sqlite {
            path: path.clone(),
            source,
        };
        let tx = self.db.transaction().map_err(at)?;
        tx.execute("DELETE FROM weight", []).map_err(at)?;
        for (path, w) in weights {
            let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            tx.prepare_cached("INSERT INTO weight VALUES (?, ?, ?)")
                .and_then(|mut s| s.execute(params![path, number(w.weight), number(w.funding)]))
                .map_err(at)?;
        }
        tx.commit().map_err(at)
    }

    /// Microseconds used by each named currency.
    pub fn usage(&self) -> Result<Vec<(u64, u64)>, Error> {
        self.pairs("SELECT cid, usec FROM usage")
    }

    pub fn set_usage(&mut self, usage: &[(u64, u64)]) -> Result<(), Error> {
        self.set_pairs(
            "DELETE FROM usage",
            "INSERT INTO usage VALUES (?, ?)",
            usage,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_there_after_reopening_and_cannot_be_changed() {
        let dir = tempfile::tempdir().unwrap();
        let op = Op::Create {
            cid: 1,
            name: "alice".into(),
            owner: 1000,
        };
        Store::open(dir.path())
            .unwrap()
            .append(std::slice::from_ref(&op), 1000)
            .unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(
            store.entries().unwrap(),
            [Entry {
                seq: 1,
                uid: 1000,
                op
            }]
        );
        assert!(store.db.execute("DELETE FROM event", []).is_err());
        assert!(store.db.execute("UPDATE event SET uid = 0", []).is_err());
    }

    #[test]
    fn what_the_first_version_wrote_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let old = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        old.execute_batch(TABLES).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        let mut store = Store::open(dir.path()).unwrap();
        let weights = [(
            "/a".to_owned(),
            Written {
                weight: 75,
                funding: 100,
            },
        )];
        store.set_weights(&weights).unwrap();
        drop(store);
        assert_eq!(Store::open(dir.path()).unwrap().weights().unwrap(), weights);
    }

    #[test]
    fn a_later_schema_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path())
            .unwrap()
            .db
            .pragma_update(None, "user_version", 99)
            .unwrap();
        assert!(matches!(
            Store::open(dir.path()),
            Err(Error::Schema { found: 99, .. })
        ));
    }

    #[test]
    fn a_damaged_operation_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store
            .db
            .execute(
                "INSERT INTO event (time_usec, uid, op) VALUES (0, 0, '{')",
                [],
            )
            .unwrap();
        assert!(matches!(
            store.entries(),
            Err(Error::Damaged { seq: 1, .. })
        ));
    }
}
