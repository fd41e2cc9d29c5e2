// SPDX-License-Identifier: GPL-2.0-only
//! The tables, and how those of earlier versions become them.

use super::old::Reduction;
use super::rows::Fault;
use super::{Record, State, codes, log, rows, side};
use rusqlite::{Connection, Transaction, params};
use tix_model::{Key, Resource, Row, Withdrawn};

/// Version of the tables; a store of a later version is not touched.
pub const SCHEMA: i64 = 10;

/// `rows` and `sum`: see [`rows::Total`]. `voided`: commits that failed too late to know whether
/// they are on the disk, overwritten since.
const STATE: &str = "
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 0), next_cid INTEGER NOT NULL, next_exchange INTEGER NOT NULL,
    rows INTEGER NOT NULL, sum INTEGER NOT NULL, voided INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (0, 1, 1, 0, 0, 0);
";

fn tables(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(rows::TABLES)?;
    db.execute_batch(rows::MARKET)?;
    db.execute_batch(rows::LIMITS)?;
    db.execute_batch(rows::SPACES)?;
    db.execute_batch(log::TABLES)?;
    db.execute_batch(STATE)
}

/// A new ledger.
pub(super) fn create(db: &mut Connection) -> Result<(), Fault> {
    let tx = db.transaction()?;
    tables(&tx)?;
    tx.execute_batch(side::USAGE)?;
    tx.execute_batch(side::MARK)?;
    tx.execute_batch(side::TOLD)?;
    finish(tx)
}

/// From schema `found`, an earlier one, to the present one, in one transaction.
pub(super) fn upgrade(db: &mut Connection, found: i64) -> Result<(), Fault> {
    let tx = db.transaction()?;
    match found {
        1 | 2 => from_journal(&tx)?,
        3 => tx.execute_batch(&[rows::MARKET, rows::LIMITS].concat())?,
        4 | 5 => tx.execute_batch(rows::LIMITS)?,
        _ => {}
    }
    if (3..9).contains(&found) {
        // Who is who is not known here: names move into spaces when the ledger is started.
        tx.execute_batch(rows::SPACES)?;
    }
    if found < 5 {
        tx.execute_batch(side::MARK)?;
    }
    if (2..5).contains(&found) {
        tx.execute_batch(side::FROM_WEIGHT)?;
    }
    if found < 7 {
        tx.execute_batch(side::TOLD)?;
    }
    if found < 8 {
        withdraw_disk(&tx)?;
    }
    if (3..10).contains(&found) {
        tx.execute_batch(log::UPTO)?;
    }
    finish(tx)
}

/// Until schema 8 a binding that withdrew its parent's ticket for the CPU had withdrawn that for
/// the disk as well whenever its currency had tickets for the disk. It says so itself since.
fn withdraw_disk(tx: &Transaction<'_>) -> Result<(), Fault> {
    let mut state = state(tx)?;
    let both: Vec<(String, i64, u32)> = tx
        .prepare(
            "SELECT path, cid, by FROM binding WHERE withdrawn = 1
             AND EXISTS (SELECT 1 FROM ticket WHERE holder = binding.cid AND resource = ?)",
        )?
        .query_map([codes::index(Resource::Disk)], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    for (path, cid, by) in both {
        let row = Row::Binding {
            cid: cid.cast_unsigned(),
            by,
            withdrawn: Withdrawn::Both,
        };
        state.put(tx, &Key::Binding(path), Some(&row))?;
    }
    state.save(tx)?;
    Ok(())
}

/// From a journal of operations to rows.
fn from_journal(tx: &Transaction<'_>) -> Result<(), Fault> {
    tables(tx)?;
    let mut reduction = Reduction::default();
    {
        let mut query = tx.prepare("SELECT seq, time_usec, uid, op FROM event ORDER BY seq")?;
        let mut events = query.query([])?;
        while let Some(r) = events.next()? {
            let (seq, time, uid): (i64, i64, u32) = (r.get(0)?, r.get(1)?, r.get(2)?);
            let op: String = r.get(3)?;
            let damaged = |why: String| Fault::Damaged(format!("operation {seq}: {why}: {op}"));
            let value = serde_json::from_str(&op).map_err(|e| damaged(e.to_string()))?;
            let told = reduction.apply(&value, uid).map_err(damaged)?;
            let record = Record {
                time_usec: time.unsigned_abs(),
                uid,
                kind: told.kind,
                subject: told.subject,
                text: told.text,
                owner: told.owner,
                op,
            };
            log::append_as(tx, seq, &record)?;
        }
    }
    let mut state = State::default();
    state.next.cid = reduction.next_cid();
    for (key, row) in reduction.rows() {
        state.put(tx, key, Some(row))?;
    }
    state.save(tx)?;
    tx.execute_batch(
        "DROP TABLE event; DROP TABLE node; DELETE FROM usage WHERE cid NOT IN (SELECT cid FROM \
         currency);",
    )?;
    Ok(())
}

fn finish(tx: Transaction<'_>) -> Result<(), Fault> {
    tx.pragma_update(None, "user_version", SCHEMA)?;
    Ok(tx.commit()?)
}

/// What `state` says.
pub(super) fn state(db: &Connection) -> Result<State, Fault> {
    let mut state = State::default();
    db.query_row(
        "SELECT next_cid, next_exchange, rows, sum FROM state WHERE id = 0",
        params![],
        |r| {
            let number = |i| r.get::<_, i64>(i).map(i64::cast_unsigned);
            (state.next.cid, state.next.exchange) = (number(0)?, number(1)?);
            (state.total.rows, state.total.sum) = (r.get(2)?, r.get(3)?);
            Ok(())
        },
    )?;
    Ok(state)
}
