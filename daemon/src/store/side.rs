// SPDX-License-Identifier: GPL-2.0-only
//! What is kept beside the ledger: how much named currencies used, and which weights tixd wrote.

use super::{Error, Store};
use crate::core::Written;
use crate::ledger::Cid;
use rusqlite::params;

pub(super) const USAGE: &str = "
-- CPU time of cgroups that are gone, per named currency.
CREATE TABLE usage (cid INTEGER PRIMARY KEY, usec INTEGER NOT NULL) STRICT;
";

pub(super) const WEIGHT: &str = "
-- cpu.weight files that tixd wrote while the scheduler was not in force, and the funding that each covers.
CREATE TABLE weight (path TEXT PRIMARY KEY, written INTEGER NOT NULL, funding INTEGER NOT NULL) STRICT;
";

impl Store {
    /// Microseconds used by each named currency, as last set.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn usage(&self) -> Result<Vec<(Cid, u64)>, Error> {
        let read = || -> rusqlite::Result<Vec<(Cid, u64)>> {
            self.db
                .prepare("SELECT cid, usec FROM usage")?
                .query_map([], |r| {
                    let (cid, usec): (i64, i64) = (r.get(0)?, r.get(1)?);
                    Ok((cid.cast_unsigned(), usec.cast_unsigned()))
                })?
                .collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Sets what has changed, in microseconds, all or none. A currency's goes with the currency, by [`Store::commit`].
    ///
    /// # Errors
    /// As for [`Store::commit`].
    pub fn set_usage(&mut self, changed: &[(Cid, u64)]) -> Result<(), Error> {
        if changed.is_empty() {
            return Ok(());
        }
        self.write(|db, _| {
            let mut set = db.prepare_cached("INSERT OR REPLACE INTO usage VALUES (?, ?)")?;
            for (cid, usec) in changed {
                set.execute(params![cid.cast_signed(), usec.cast_signed()])?;
            }
            Ok(())
        })
    }

    /// The weights that tixd wrote, by cgroup path.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn weights(&self) -> Result<Vec<(String, Written)>, Error> {
        let read = || -> rusqlite::Result<Vec<(String, Written)>> {
            self.db
                .prepare("SELECT path, written, funding FROM weight")?
                .query_map([], |r| {
                    let number = |i| r.get::<_, i64>(i).map(i64::cast_unsigned);
                    let (weight, funding) = (number(1)?, number(2)?);
                    Ok((r.get(0)?, Written { weight, funding }))
                })?
                .collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Sets what has changed, all or none; `None`: it is no weight of tixd's any more.
    ///
    /// # Errors
    /// As for [`Store::commit`].
    pub fn set_weights(&mut self, changed: &[(String, Option<Written>)]) -> Result<(), Error> {
        if changed.is_empty() {
            return Ok(());
        }
        self.write(|db, _| {
            let mut set = db.prepare_cached("INSERT OR REPLACE INTO weight VALUES (?, ?, ?)")?;
            let mut forget = db.prepare_cached("DELETE FROM weight WHERE path = ?")?;
            for (path, written) in changed {
                match written {
                    Some(w) => {
                        set.execute(params![
                            path,
                            w.weight.cast_signed(),
                            w.funding.cast_signed()
                        ])?;
                    }
                    None => {
                        forget.execute([path])?;
                    }
                }
            }
            Ok(())
        })
    }
}
