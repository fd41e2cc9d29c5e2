// SPDX-License-Identifier: GPL-2.0-only
//! Who did what when: for people, so it outlives what it tells of, and is not needed to start.

use super::{Error, Store};
use rusqlite::{Connection, Row, params};
use std::ops::RangeInclusive;

pub(super) const TABLES: &str = "
CREATE TABLE log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time_usec INTEGER NOT NULL, uid INTEGER NOT NULL, owner INTEGER,
    kind TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL, op TEXT NOT NULL,
    upto INTEGER NOT NULL DEFAULT 0
) STRICT;
";

/// Since schema 10 a record says how many bytes the log had with it.
pub(super) const UPTO: &str = "
ALTER TABLE log ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;
UPDATE log SET upto = sums.upto FROM (
    SELECT seq, sum(64 + octet_length(kind) + octet_length(subject) + octet_length(text)
        + octet_length(op)) OVER (ORDER BY seq) AS upto FROM log
) AS sums WHERE sums.seq = log.seq;
";

/// What a record takes beside its texts, bytes, with a part of SQLite's page.
const FRAME: u64 = 64;
/// The longest sentence of a record, bytes. Names in full are in `subject` and `op`.
const LONGEST_TEXT: usize = 1024;
/// The longest operation that a record keeps, bytes: one names two currencies beside its subject at
/// most. A longer one is left out.
pub const LONGEST_OP: usize = 8192;

/// Records that one call of [`Store::log`] looks at if its [`Query`] does not say: what a question
/// costs is bounded, whoever asks.
pub const SCAN: i64 = 20_000;
/// Records that one call of [`Store::prune`] takes away.
pub const BITE: i64 = 1_000;

/// What somebody did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Microseconds since 1970.
    pub time_usec: u64,
    /// Who did it.
    pub uid: u32,
    /// What was done: `create`, `fund`, …
    pub kind: String,
    /// The currency it was done to: a name or a path.
    pub subject: String,
    /// One sentence for people.
    pub text: String,
    /// The operation as JSON; may be empty.
    pub op: String,
    /// Whom it concerns beside who did it: the owner of the subject.
    pub owner: Option<u32>,
}

impl Record {
    /// What it takes of the log, bytes.
    pub fn bytes(&self) -> u64 {
        let texts = [&self.kind, &self.subject, &self.text, &self.op];
        FRAME + texts.iter().map(|t| t.len() as u64).sum::<u64>()
    }

    /// Shortens what is longer than a record may be, and says so.
    pub fn bound(&mut self) {
        if self.text.len() > LONGEST_TEXT {
            let whole = |end: &usize| self.text.is_char_boundary(*end);
            let end = (0..=LONGEST_TEXT).rev().find(whole).unwrap_or(0);
            let cut = self.text.len() - end;
            self.text.truncate(end);
            self.text.push_str(&format!("… (and {cut} bytes more)"));
        }
        if self.op.len() > LONGEST_OP {
            self.op.clear();
        }
    }
}

/// Which records are wanted: those for which everything that is said here holds.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Only later ones than this number; 0: from the first on.
    pub after: i64,
    /// Only earlier ones than this number; `i64::MAX`: up to the last.
    pub before: i64,
    /// Newest first.
    pub newest: bool,
    /// At most this many.
    pub limit: usize,
    pub subject: Option<&'a str>,
    /// Only what was done then or later, in microseconds since 1970.
    pub since_usec: u64,
    /// Only what was done before then, in microseconds since 1970.
    pub until_usec: u64,
    /// Only what this user did, or what was done to something of this user's.
    pub concerning: Option<u32>,
    /// Records to look at, at most; at least 1.
    pub scan: i64,
}

impl Default for Query<'_> {
    /// All, the first 1,000.
    fn default() -> Self {
        Query {
            after: 0,
            before: i64::MAX,
            newest: false,
            limit: 1_000,
            subject: None,
            since_usec: 0,
            until_usec: u64::MAX,
            concerning: None,
            scan: SCAN,
        }
    }
}

/// Part of the answer to a [`Query`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Each with its number, in the order asked for.
    pub records: Vec<(i64, Record)>,
    /// There may be more: ask again with this as `after`, or as `before` if the newest came first.
    pub next: Option<i64>,
}

pub(super) fn append(db: &Connection, record: &Record) -> rusqlite::Result<()> {
    put(db, None, record)
}

/// With the number that it had before.
pub(super) fn append_as(db: &Connection, seq: i64, record: &Record) -> rusqlite::Result<()> {
    put(db, Some(seq), record)
}

fn put(db: &Connection, seq: Option<i64>, r: &Record) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?,
         ? + coalesce((SELECT upto FROM log ORDER BY seq DESC LIMIT 1), 0))",
    )?
    .execute(params![
        seq,
        time(r.time_usec),
        r.uid,
        r.owner,
        r.kind,
        r.subject,
        r.text,
        r.op,
        r.bytes().cast_signed()
    ])
    .map(drop)
}

/// So that times compare in SQL as they do here.
pub(super) fn time(usec: u64) -> i64 {
    i64::try_from(usec).unwrap_or(i64::MAX)
}

fn record(r: &Row<'_>) -> rusqlite::Result<(i64, Record)> {
    let time: i64 = r.get(1)?;
    let record = Record {
        time_usec: time.unsigned_abs(),
        uid: r.get(2)?,
        owner: r.get(3)?,
        kind: r.get(4)?,
        subject: r.get(5)?,
        text: r.get(6)?,
        op: r.get(7)?,
    };
    Ok((r.get(0)?, record))
}

/// The numbers of the oldest and of the newest record.
fn ends(db: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    // Two queries, since either alone costs nothing and both in one a walk over everything.
    let oldest: Option<i64> = db
        .prepare_cached("SELECT min(seq) FROM log")?
        .query_row([], |r| r.get(0))?;
    let newest: Option<i64> = db
        .prepare_cached("SELECT max(seq) FROM log")?
        .query_row([], |r| r.get(0))?;
    Ok(oldest.zip(newest))
}

/// The last of `these` that goes for the log to have no more than `keep` bytes, and a record.
fn beyond(
    db: &Connection,
    these: RangeInclusive<i64>,
    newest: i64,
    keep: i64,
) -> rusqlite::Result<i64> {
    let (oldest, bite) = these.into_inner();
    let stays: Option<i64> = db
        .prepare_cached(
            "SELECT min(seq) FROM log WHERE seq BETWEEN ?1 AND ?2
             AND upto > (SELECT upto FROM log WHERE seq = ?3) - ?4",
        )?
        .query_row(params![oldest, bite, newest, keep], |r| r.get(0))?;
    Ok(stays.map_or(bite, |seq| seq - 1))
}

fn page(db: &Connection, q: &Query<'_>) -> rusqlite::Result<Page> {
    let Some((oldest, newest)) = ends(db)? else {
        return Ok(Page::default());
    };
    let limit = i64::try_from(q.limit).unwrap_or(i64::MAX);
    let first = q.after.saturating_add(1).max(oldest);
    let last = q.before.saturating_sub(1).min(newest);
    if first > last || limit == 0 {
        return Ok(Page::default());
    }
    let scan = q.scan.max(1) - 1;
    let (low, high) = match q.newest {
        true => (first.max(last.saturating_sub(scan)), last),
        false => (first, last.min(first.saturating_add(scan))),
    };
    let order = if q.newest { "DESC" } else { "ASC" };
    let sql = format!(
        "SELECT seq, time_usec, uid, owner, kind, subject, text, op FROM log
         WHERE seq BETWEEN ?1 AND ?2 AND time_usec >= ?3 AND time_usec < ?4
           AND (?5 IS NULL OR subject = ?5) AND (?6 IS NULL OR uid = ?6 OR owner = ?6)
         ORDER BY seq {order} LIMIT ?7"
    );
    let values = params![
        low,
        high,
        time(q.since_usec),
        time(q.until_usec),
        q.subject,
        q.concerning,
        limit
    ];
    let records = db
        .prepare_cached(&sql)?
        .query_map(values, record)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    // Looked at so far: up to the last one told if the limit was reached, else all of the stretch.
    let seen = match records.last() {
        Some((seq, _)) if records.len() == q.limit => *seq,
        _ if q.newest => low,
        _ => high,
    };
    let done = if q.newest {
        seen <= first
    } else {
        seen >= last
    };
    Ok(Page {
        records,
        next: (!done).then_some(seen),
    })
}

impl Store {
    /// The records that `q` asks for. Looks at no more than [`Query::scan`] of them at once: an
    /// answer may be empty and yet have a `next`.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn log(&self, q: &Query<'_>) -> Result<Page, Error> {
        page(&self.db, q).map_err(|e| self.fail(e))
    }

    /// Takes away the oldest records that are older or more than [`super::Config`] says, at most
    /// [`BITE`] of them; tells how many. Call it again while it does, between commits. `now_usec`:
    /// microseconds since 1970.
    ///
    /// # Errors
    /// As for [`Store::commit`].
    pub fn prune(&mut self, now_usec: u64) -> Result<usize, Error> {
        let keep = i64::try_from(self.config.keep_records).unwrap_or(i64::MAX);
        let cutoff = time(now_usec.saturating_sub(self.config.keep_usec));
        let Some((oldest, newest)) = ends(&self.db).map_err(|e| self.fail(e))? else {
            return Ok(0);
        };
        let bite = oldest.saturating_add(BITE - 1).min(newest);
        // Only from the old end, so that numbers stay without gaps and the count is known without
        // counting. A record that a wrong clock dated into the future holds back those after it
        // until there are too many.
        let young: Option<i64> = self
            .db
            .prepare_cached("SELECT min(seq) FROM log WHERE seq BETWEEN ? AND ? AND time_usec >= ?")
            .and_then(|mut s| s.query_row(params![oldest, bite, cutoff], |r| r.get(0)))
            .map_err(|e| self.fail(e))?;
        let by_age = young.map_or(bite, |seq| seq - 1);
        let by_count = newest.saturating_sub(keep).min(bite);
        let keep_bytes = i64::try_from(self.config.keep_bytes).unwrap_or(i64::MAX);
        let by_bytes = beyond(&self.db, oldest..=bite, newest, keep_bytes);
        let by_bytes = by_bytes.map_err(|e| self.fail(e))?;
        let last = by_age.max(by_count).max(by_bytes);
        if last < oldest {
            return Ok(0);
        }
        self.write(|db, _| {
            let gone = db
                .prepare_cached("DELETE FROM log WHERE seq <= ?")?
                .execute([last])?;
            Ok(gone)
        })
    }
}
