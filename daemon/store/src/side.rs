// SPDX-License-Identifier: GPL-2.0-only
//! What is kept beside the ledger: how much named currencies used, and what tixd wrote into files
//! of cgroups.

use super::{Error, Store};
use rusqlite::params;
use std::collections::BTreeMap;
use tix_model::{Cid, File, Mark, Numbers, Written};

pub(super) const USAGE: &str = "
-- CPU time of cgroups that are gone, per named currency.
CREATE TABLE usage (cid INTEGER PRIMARY KEY, usec INTEGER NOT NULL) STRICT;
";

pub(super) const MARK: &str = "
-- Files of cgroups that tixd wrote, and the funding (of a guarantee, what stood there before) that each covers.
-- A file `X before` has, as what was written, what may stand in X yet instead of what it has itself.
CREATE TABLE mark (
    file TEXT, path TEXT, written INTEGER NOT NULL, funding INTEGER NOT NULL, PRIMARY KEY (file, path)
) STRICT, WITHOUT ROWID;
";

/// The name of what stood in `file` before. Versions that do not know it leave it out.
fn before(file: File) -> String {
    format!("{} before", file.name())
}

pub(super) const TOLD: &str = "
-- Numbers for such files that systemd was told and may set yet, in the order in which it was.
CREATE TABLE told (
    file TEXT, path TEXT, nth INTEGER, number INTEGER NOT NULL, PRIMARY KEY (file, path, nth)
) STRICT, WITHOUT ROWID;
";

/// Before schema 5 there were weights for the CPU only.
pub(super) const FROM_WEIGHT: &str =
    "INSERT INTO mark SELECT 'cpu.weight', path, written, funding FROM weight; DROP TABLE weight;";

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

    /// Sets what has changed, in microseconds, all or none. A currency's goes with the currency, by
    /// [`Store::commit`].
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

    /// What tixd wrote into which files. Those that this version does not know are left out.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn marks(&self) -> Result<Vec<(Mark, Written)>, Error> {
        let read = || -> rusqlite::Result<Vec<(Mark, Written)>> {
            let mut query = self
                .db
                .prepare("SELECT file, path, written, funding FROM mark ORDER BY file, path")?;
            let mut all = BTreeMap::new();
            let mut rows = query.query([])?;
            // Sorted by the primary key: what stood there before comes later.
            while let Some(r) = rows.next()? {
                let (name, path): (String, String) = (r.get(0)?, r.get(1)?);
                let number = |i| r.get::<_, i64>(i).map(i64::cast_unsigned);
                if let Some(file) = File::ALL.into_iter().find(|f| f.name() == name) {
                    let written = Written {
                        number: number(2)?,
                        funding: number(3)?,
                        before: None,
                    };
                    all.insert((file, path), written);
                } else if let Some(file) = File::ALL.into_iter().find(|f| before(*f) == name)
                    && let Some(written) = all.get_mut(&(file, path))
                {
                    written.before = Some(number(2)?);
                }
            }
            Ok(all.into_iter().collect())
        };
        read().map_err(|e| self.fail(e))
    }

    /// What systemd was told of which files. Those that this version does not know are left out.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn told(&self) -> Result<Vec<(Mark, Numbers)>, Error> {
        let read = || -> rusqlite::Result<Vec<(Mark, Numbers)>> {
            let mut query = self
                .db
                .prepare("SELECT file, path, number FROM told ORDER BY file, path, nth")?;
            let mut rows = query.query([])?;
            let mut all: Vec<(Mark, Numbers)> = Vec::new();
            while let Some(r) = rows.next()? {
                let (name, path): (String, String) = (r.get(0)?, r.get(1)?);
                let number = r.get::<_, i64>(2)?.cast_unsigned();
                let Some(file) = File::ALL.into_iter().find(|f| f.name() == name) else {
                    continue;
                };
                match all.last_mut().filter(|(m, _)| *m == (file, path.clone())) {
                    Some((_, numbers)) => numbers.push(number),
                    None => all.push(((file, path), vec![number])),
                }
            }
            Ok(all)
        };
        read().map_err(|e| self.fail(e))
    }

    /// Sets what has changed, all or none; `None`: it is no number of tixd's any more. `told`: what
    /// systemd was told of a file instead of what it had been.
    ///
    /// # Errors
    /// As for [`Store::commit`].
    pub fn set_marks(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
    ) -> Result<(), Error> {
        if changed.is_empty() && told.is_empty() {
            return Ok(());
        }
        self.write(|db, _| {
            let mut set = db.prepare_cached("INSERT OR REPLACE INTO mark VALUES (?, ?, ?, ?)")?;
            let mut forget = db.prepare_cached("DELETE FROM mark WHERE file = ? AND path = ?")?;
            for ((file, path), written) in changed {
                match written.and_then(|w| w.before) {
                    Some(n) => set.execute(params![before(*file), path, n.cast_signed(), 0])?,
                    None => forget.execute(params![before(*file), path])?,
                };
                match written {
                    Some(w) => {
                        let (number, funding) = (w.number.cast_signed(), w.funding.cast_signed());
                        set.execute(params![file.name(), path, number, funding])?;
                    }
                    None => {
                        forget.execute(params![file.name(), path])?;
                    }
                }
            }
            let mut clear = db.prepare_cached("DELETE FROM told WHERE file = ? AND path = ?")?;
            let mut tell = db.prepare_cached("INSERT INTO told VALUES (?, ?, ?, ?)")?;
            for ((file, path), numbers) in told {
                clear.execute(params![file.name(), path])?;
                for (nth, number) in (0_i64..).zip(numbers) {
                    tell.execute(params![file.name(), path, nth, number.cast_signed()])?;
                }
            }
            Ok(())
        })
    }
}
