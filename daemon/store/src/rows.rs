// SPDX-License-Identifier: GPL-2.0-only
//! Rows of the ledger in tables of their own, each with a sum over what it says, so that a row that
//! rotted on the disk is named.

use super::codes::{index, kind_of, number_of, number_of_withdrawn, resource_of, withdrawn_of};
use super::sum::sum;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, params};
use tix_model::{End, EndedLeg, Key, Leg, Row};

/// An end of a ticket: an integer is a currency's number, a text is a cgroup's path.
pub(super) const TABLES: &str = "
CREATE TABLE currency (
    cid INTEGER PRIMARY KEY, name TEXT NOT NULL, owner INTEGER NOT NULL, grp INTEGER NOT NULL, mode INTEGER NOT NULL,
    transient TEXT, by INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT;
CREATE TABLE broker (
    path TEXT PRIMARY KEY, owner INTEGER, grp INTEGER, mode INTEGER, by INTEGER NOT NULL, sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE ticket (
    issuer ANY, holder ANY, resource INTEGER, kind INTEGER,
    amount INTEGER NOT NULL, bytes INTEGER NOT NULL, by INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (issuer, holder, resource, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE binding (path TEXT PRIMARY KEY, cid INTEGER NOT NULL, by INTEGER NOT NULL, withdrawn INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE exchange (id INTEGER PRIMARY KEY, legs TEXT NOT NULL, by INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;
CREATE TABLE lapsed (
    holder TEXT, resource INTEGER, amount INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (holder, resource)
) STRICT, WITHOUT ROWID;
";

/// The dealer's book, and exchanges that are over: since schema 4.
pub(super) const MARKET: &str = "
CREATE TABLE offer (
    id INTEGER PRIMARY KEY, party ANY NOT NULL, by INTEGER NOT NULL, turn INTEGER NOT NULL,
    gives INTEGER NOT NULL, give INTEGER NOT NULL, wants INTEGER NOT NULL, want INTEGER NOT NULL,
    left INTEGER NOT NULL, least INTEGER NOT NULL, expires INTEGER, sum INTEGER NOT NULL
) STRICT;
CREATE TABLE ended (id INTEGER PRIMARY KEY, legs TEXT NOT NULL, why TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;
";

/// Limits of currencies: since schema 6.
pub(super) const LIMITS: &str = "
CREATE TABLE limits (
    currency ANY, resource INTEGER, milli INTEGER NOT NULL, by INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (currency, resource)
) STRICT, WITHOUT ROWID;
";

/// The labels of users' spaces: since schema 9.
pub(super) const SPACES: &str = "
CREATE TABLE space (uid INTEGER PRIMARY KEY, label TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;
";

/// How many rows there are and what their sums come to: a row that is missing, or an old page in
/// place of a new one, shows in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub rows: i64,
    pub sum: i64,
}

impl Total {
    fn add(&mut self, sum: i64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(sum);
    }

    fn remove(&mut self, sum: i64) {
        self.rows -= 1;
        self.sum = self.sum.wrapping_sub(sum);
    }
}

/// Why a row was not kept or not read.
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    /// The row given does not go with its key.
    OtherKind(String),
    /// What was read is not what was written.
    Damaged(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(e: rusqlite::Error) -> Fault {
        Fault::Sqlite(e)
    }
}

fn other_kind(key: &Key) -> Fault {
    Fault::OtherKind(format!("{key:?}"))
}

struct EndColumn<'a>(&'a End);

impl ToSql for EndColumn<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            End::Cid(c) => ToSqlOutput::Owned(Value::Integer(c.cast_signed())),
            End::Path(p) => ToSqlOutput::Borrowed(ValueRef::Text(p.as_bytes())),
        })
    }
}

struct OwnEnd(End);

impl FromSql for OwnEnd {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<OwnEnd> {
        match value {
            ValueRef::Integer(c) => Ok(OwnEnd(End::Cid(c.cast_unsigned()))),
            ValueRef::Text(_) => Ok(OwnEnd(End::Path(value.as_str()?.to_owned()))),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// Sets the row at `key`, or takes it away, and brings `total` in step.
pub(super) fn put(
    db: &Connection,
    key: &Key,
    row: Option<&Row>,
    total: &mut Total,
) -> Result<(), Fault> {
    let new = match row {
        Some(row) => Some((row, sum(key, row).ok_or_else(|| other_kind(key))?)),
        None => None,
    };
    if let Some(old) = sum_of(db, key)? {
        total.remove(old);
        if new.is_none() {
            delete(db, key)?;
        }
    }
    if let Some((row, sum)) = new {
        insert(db, key, row, sum)?;
        total.add(sum);
    }
    Ok(())
}

/// Runs the statement for `key`'s table that begins with `verb`, and ends with the table's key.
fn by_key<T>(
    db: &Connection,
    verb: &str,
    key: &Key,
    run: impl FnOnce(&mut CachedStatement<'_>, &[&dyn ToSql]) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let prepare = |rest: &str| db.prepare_cached(&format!("{verb} {rest}"));
    match key {
        Key::Space(uid) => run(&mut prepare("space WHERE uid = ?")?, &[uid]),
        Key::Currency(cid) => run(
            &mut prepare("currency WHERE cid = ?")?,
            &[&cid.cast_signed()],
        ),
        Key::Broker(path) => run(&mut prepare("broker WHERE path = ?")?, &[path]),
        Key::Ticket {
            issuer,
            holder,
            resource,
            kind,
        } => run(
            &mut prepare("ticket WHERE issuer = ? AND holder = ? AND resource = ? AND kind = ?")?,
            &[
                &EndColumn(issuer),
                &EndColumn(holder),
                &index(*resource),
                &number_of(*kind),
            ],
        ),
        Key::Binding(path) => run(&mut prepare("binding WHERE path = ?")?, &[path]),
        Key::Exchange(id) => run(&mut prepare("exchange WHERE id = ?")?, &[&id.cast_signed()]),
        Key::Lapsed(holder, resource) => run(
            &mut prepare("lapsed WHERE holder = ? AND resource = ?")?,
            &[holder, &index(*resource)],
        ),
        Key::Offer(id) => run(&mut prepare("offer WHERE id = ?")?, &[&id.cast_signed()]),
        Key::Ended(id) => run(&mut prepare("ended WHERE id = ?")?, &[&id.cast_signed()]),
        Key::Limit(end, resource) => run(
            &mut prepare("limits WHERE currency = ? AND resource = ?")?,
            &[&EndColumn(end), &index(*resource)],
        ),
    }
}

fn sum_of(db: &Connection, key: &Key) -> rusqlite::Result<Option<i64>> {
    by_key(db, "SELECT sum FROM", key, |s, key| {
        s.query_row(key, |r| r.get(0)).optional()
    })
}

fn delete(db: &Connection, key: &Key) -> rusqlite::Result<()> {
    by_key(db, "DELETE FROM", key, |s, key| s.execute(key).map(drop))
}

fn insert(db: &Connection, key: &Key, row: &Row, sum: i64) -> Result<(), Fault> {
    let run = |sql: &str, values: &[&dyn ToSql]| -> Result<(), Fault> {
        db.prepare_cached(sql)?.execute(values)?;
        Ok(())
    };
    match (key, row) {
        (Key::Space(uid), Row::Space { label }) => run(
            "INSERT OR REPLACE INTO space VALUES (?, ?, ?)",
            params![uid, label, sum],
        ),
        (
            Key::Currency(cid),
            Row::Currency {
                name,
                owner,
                group,
                mode,
                transient,
                by,
            },
        ) => run(
            "INSERT OR REPLACE INTO currency VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                cid.cast_signed(),
                name,
                owner,
                group,
                mode,
                transient,
                by,
                sum
            ],
        ),
        (
            Key::Broker(path),
            Row::Broker {
                owner,
                group,
                mode,
                by,
            },
        ) => run(
            "INSERT OR REPLACE INTO broker VALUES (?, ?, ?, ?, ?, ?)",
            params![path, owner, group, mode, by, sum],
        ),
        (
            Key::Ticket {
                issuer,
                holder,
                resource,
                kind,
            },
            Row::Ticket { amount, bytes, by },
        ) => run(
            "INSERT OR REPLACE INTO ticket VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                EndColumn(issuer),
                EndColumn(holder),
                index(*resource),
                number_of(*kind),
                amount.cast_signed(),
                bytes,
                by,
                sum
            ],
        ),
        (Key::Binding(path), Row::Binding { cid, by, withdrawn }) => run(
            "INSERT OR REPLACE INTO binding VALUES (?, ?, ?, ?, ?)",
            params![
                path,
                cid.cast_signed(),
                by,
                number_of_withdrawn(*withdrawn),
                sum
            ],
        ),
        (Key::Exchange(id), Row::Exchange { legs, by }) => {
            let legs = serde_json::to_string(legs).map_err(|e| Fault::Damaged(e.to_string()))?;
            run(
                "INSERT OR REPLACE INTO exchange VALUES (?, ?, ?, ?)",
                params![id.cast_signed(), legs, by, sum],
            )
        }
        (Key::Lapsed(holder, resource), Row::Lapsed { amount }) => run(
            "INSERT OR REPLACE INTO lapsed VALUES (?, ?, ?, ?)",
            params![holder, index(*resource), amount.cast_signed(), sum],
        ),
        (
            Key::Offer(id),
            Row::Offer {
                party,
                by,
                turn,
                gives,
                give,
                wants,
                want,
                left,
                least,
                expires,
            },
        ) => run(
            "INSERT OR REPLACE INTO offer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                id.cast_signed(),
                EndColumn(party),
                by,
                turn.cast_signed(),
                index(*gives),
                give.cast_signed(),
                index(*wants),
                want.cast_signed(),
                left.cast_signed(),
                least.cast_signed(),
                expires.map(u64::cast_signed),
                sum
            ],
        ),
        (Key::Ended(id), Row::Ended { legs, why }) => {
            let legs = serde_json::to_string(legs).map_err(|e| Fault::Damaged(e.to_string()))?;
            run(
                "INSERT OR REPLACE INTO ended VALUES (?, ?, ?, ?)",
                params![id.cast_signed(), legs, why, sum],
            )
        }
        (Key::Limit(end, resource), Row::Limit { milli, by }) => run(
            "INSERT OR REPLACE INTO limits VALUES (?, ?, ?, ?, ?)",
            params![
                EndColumn(end),
                index(*resource),
                milli.cast_signed(),
                by,
                sum
            ],
        ),
        _ => Err(other_kind(key)),
    }
}

/// Reads every row, spaces and currencies first, and tells what they come to.
pub(super) fn load(db: &Connection, each: &mut dyn FnMut(Key, Row)) -> Result<Total, Fault> {
    let mut total = Total::default();
    let mut table = |name: &str, decode: Decode| read(db, name, decode, &mut total, each);
    table("space", |r| {
        let row = Row::Space { label: r.get(1)? };
        Ok(Some((Key::Space(r.get(0)?), row, r.get(2)?)))
    })?;
    table("currency", |r| {
        let row = Row::Currency {
            name: r.get(1)?,
            owner: r.get(2)?,
            group: r.get(3)?,
            mode: r.get(4)?,
            transient: r.get(5)?,
            by: r.get(6)?,
        };
        let cid: i64 = r.get(0)?;
        Ok(Some((Key::Currency(cid.cast_unsigned()), row, r.get(7)?)))
    })?;
    table("broker", |r| {
        let row = Row::Broker {
            owner: r.get(1)?,
            group: r.get(2)?,
            mode: r.get(3)?,
            by: r.get(4)?,
        };
        Ok(Some((Key::Broker(r.get(0)?), row, r.get(5)?)))
    })?;
    table("binding", |r| {
        let cid: i64 = r.get(1)?;
        let Some(withdrawn) = withdrawn_of(r.get(3)?) else {
            return Ok(None);
        };
        let row = Row::Binding {
            cid: cid.cast_unsigned(),
            by: r.get(2)?,
            withdrawn,
        };
        Ok(Some((Key::Binding(r.get(0)?), row, r.get(4)?)))
    })?;
    table("ticket", |r| {
        let (Some(resource), Some(kind)) = (resource_of(r.get(2)?), kind_of(r.get(3)?)) else {
            return Ok(None);
        };
        let key = Key::Ticket {
            issuer: r.get::<_, OwnEnd>(0)?.0,
            holder: r.get::<_, OwnEnd>(1)?.0,
            resource,
            kind,
        };
        let amount: i64 = r.get(4)?;
        let row = Row::Ticket {
            amount: amount.cast_unsigned(),
            bytes: r.get(5)?,
            by: r.get(6)?,
        };
        Ok(Some((key, row, r.get(7)?)))
    })?;
    table("exchange", |r| {
        let Ok(legs) = serde_json::from_str::<Vec<Leg>>(r.get_ref(1)?.as_str()?) else {
            return Ok(None);
        };
        let id: i64 = r.get(0)?;
        let row = Row::Exchange {
            legs,
            by: r.get(2)?,
        };
        Ok(Some((Key::Exchange(id.cast_unsigned()), row, r.get(3)?)))
    })?;
    table("lapsed", |r| {
        let Some(resource) = resource_of(r.get(1)?) else {
            return Ok(None);
        };
        let amount: i64 = r.get(2)?;
        let row = Row::Lapsed {
            amount: amount.cast_unsigned(),
        };
        Ok(Some((Key::Lapsed(r.get(0)?, resource), row, r.get(3)?)))
    })?;
    table("offer", |r| {
        let (Some(gives), Some(wants)) = (resource_of(r.get(4)?), resource_of(r.get(6)?)) else {
            return Ok(None);
        };
        let number = |i| r.get::<_, i64>(i).map(i64::cast_unsigned);
        let row = Row::Offer {
            party: r.get::<_, OwnEnd>(1)?.0,
            by: r.get(2)?,
            turn: number(3)?,
            gives,
            give: number(5)?,
            wants,
            want: number(7)?,
            left: number(8)?,
            least: number(9)?,
            expires: r.get::<_, Option<i64>>(10)?.map(i64::cast_unsigned),
        };
        Ok(Some((Key::Offer(number(0)?), row, r.get(11)?)))
    })?;
    table("ended", |r| {
        let Ok(legs) = serde_json::from_str::<Vec<EndedLeg>>(r.get_ref(1)?.as_str()?) else {
            return Ok(None);
        };
        let id: i64 = r.get(0)?;
        let row = Row::Ended {
            legs,
            why: r.get(2)?,
        };
        Ok(Some((Key::Ended(id.cast_unsigned()), row, r.get(3)?)))
    })?;
    table("limits", |r| {
        let Some(resource) = resource_of(r.get(1)?) else {
            return Ok(None);
        };
        let milli: i64 = r.get(2)?;
        let row = Row::Limit {
            milli: milli.cast_unsigned(),
            by: r.get(3)?,
        };
        let key = Key::Limit(r.get::<_, OwnEnd>(0)?.0, resource);
        Ok(Some((key, row, r.get(4)?)))
    })?;
    Ok(total)
}

/// A key, its row and the sum beside it; `None`: it says nothing that was ever written.
type Decode = fn(&rusqlite::Row<'_>) -> rusqlite::Result<Option<(Key, Row, i64)>>;

fn read(
    db: &Connection,
    table: &str,
    decode: Decode,
    total: &mut Total,
    each: &mut dyn FnMut(Key, Row),
) -> Result<(), Fault> {
    let mut query = db.prepare(&format!("SELECT * FROM {table}"))?;
    let mut rows = query.query([])?;
    let mut n = 0;
    loop {
        n += 1;
        let at = |why: String| Fault::Damaged(format!("row {n} of table {table}: {why}"));
        let Some(row) = rows.next().map_err(|e| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => at(e.to_string()),
            _ => e.into(),
        })?
        else {
            return Ok(());
        };
        let (key, row, kept) = decode(row)
            .map_err(|e| at(e.to_string()))?
            .ok_or_else(|| at("it says what no tixd has written".into()))?;
        if sum(&key, &row) != Some(kept) {
            return Err(at(format!(
                "its sum does not fit what it says, {key:?} {row:?}"
            )));
        }
        total.add(kept);
        each(key, row);
    }
}
