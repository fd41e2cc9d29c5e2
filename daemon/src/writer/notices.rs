// SPDX-License-Identifier: GPL-2.0-only
//! What others did to what is somebody's own: the last records of it, at hand for `status`. In the
//! log they may lie behind any number of others.

use std::collections::{HashMap, VecDeque};
use tix_store::{self as store, Query, Record, SCAN, Store};

/// Of each user's.
const MOST: usize = 5;

#[derive(Default)]
pub struct Notices(HashMap<u32, VecDeque<Record>>);

impl Notices {
    /// Those among the last [`SCAN`] records of the log.
    pub(super) fn read(store: &Store) -> Result<Notices, store::Error> {
        let page = store.log(&Query {
            newest: true,
            limit: usize::try_from(SCAN).unwrap_or(usize::MAX),
            ..Query::default()
        })?;
        let mut all = Notices::default();
        for (_, record) in page.records.iter().rev() {
            all.add(record);
        }
        Ok(all)
    }

    /// `record` is kept.
    pub(super) fn add(&mut self, record: &Record) {
        let Some(owner) = record.owner.filter(|o| *o != record.uid) else {
            return;
        };
        let its = self.0.entry(owner).or_default();
        if its.len() == MOST {
            its.pop_front();
        }
        its.push_back(record.clone());
    }

    /// Those of `uid`, oldest first.
    pub fn of(&self, uid: u32) -> impl Iterator<Item = &Record> {
        self.0.get(&uid).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_what_others_did_whoever_does_what_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut store, _) = Store::open(dir.path()).expect("a store");
        let record = |time_usec, uid, owner| Record {
            time_usec,
            uid,
            owner,
            ..Record::default()
        };
        let mut records = vec![record(1, 1000, Some(1000)), record(2, 1001, None)];
        records.extend((3..10).map(|at| record(at, 0, Some(1000))));
        records.extend((10..5_000).map(|at| record(at, 1001, Some(1001))));
        records.push(record(5_000, 1000, Some(1001)));
        store.commit(&records, &[]).expect("kept");
        let read = Notices::read(&store).expect("read");
        let mut told = Notices::default();
        records.iter().for_each(|r| told.add(r));
        for notices in [read, told] {
            let times = |uid| notices.of(uid).map(|r| r.time_usec).collect::<Vec<_>>();
            assert_eq!(times(1000), [5, 6, 7, 8, 9]);
            assert_eq!(times(1001), [5_000]);
            assert_eq!(times(0), [0_u64; 0]);
        }
    }
}
