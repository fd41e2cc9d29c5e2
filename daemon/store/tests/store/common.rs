// SPDX-License-Identifier: GPL-2.0-only
//! What the store's tests have in common: where to put stores, and what is in them.

use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use tix_model::{End, Key, Kind, Resource, Row};
use tix_store::{Change, Config, Record, Store};

pub type Model = BTreeMap<Key, Row>;

/// A directory in memory if there is one: no test here is about a real disk's speed.
pub fn dir() -> TempDir {
    let shm = Path::new("/dev/shm");
    match tempfile::tempdir_in(shm) {
        Ok(dir) => dir,
        Err(_) => tempfile::tempdir().unwrap(),
    }
}

/// Opens the store with everything in it.
pub fn open(dir: &Path, config: Config) -> Result<(Store, Model), tix_store::Error> {
    let mut model = Model::new();
    let (store, _) = Store::open_with(dir, config, &mut |key, row| {
        assert!(model.insert(key, row).is_none(), "a row came twice");
    })?;
    Ok((store, model))
}

/// The database as it is, by SQLite's own layer: other tests' layer cannot share a WAL.
pub fn raw(path: impl AsRef<Path>) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), c"unix").unwrap()
}

/// All rows; the store is closed again.
pub fn contents(dir: &Path) -> Model {
    open(dir, Config::default()).unwrap().1
}

pub fn apply(model: &mut Model, changes: &[Change]) {
    for (key, row) in changes {
        match row {
            Some(row) => model.insert(key.clone(), row.clone()),
            None => model.remove(key),
        };
    }
}

pub fn currency(name: &str) -> Row {
    Row::Currency {
        name: name.to_owned(),
        owner: 1000,
        group: 100,
        mode: 0o750,
        transient: None,
        by: 1000,
    }
}

pub fn ticket(issuer: End, holder: End, amount: u64) -> (Key, Row) {
    let key = Key::Ticket {
        issuer,
        holder,
        resource: Resource::Cpu,
        kind: Kind::Soft,
    };
    let row = Row::Ticket {
        amount,
        bytes: false,
        by: 0,
    };
    (key, row)
}

pub fn record(n: u64) -> Record {
    Record {
        time_usec: n,
        uid: 1000,
        kind: "fund".into(),
        subject: format!("currency-{}", n % 7),
        text: format!("operation {n}"),
        op: String::new(),
        owner: Some(0),
    }
}
