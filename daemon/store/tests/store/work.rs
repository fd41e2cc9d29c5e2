// SPDX-License-Identifier: GPL-2.0-only
//! A number of commits that anybody can repeat: what commit `n` does follows from `n` alone.

use crate::common::{Model, apply, currency, record, ticket};
use tix_model::{End, Key, Leg, Resource, Row, Withdrawn};
use tix_store::{Change, Query, Record, Store};

/// Numbers that look random and are the same every time (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What commit `n` (the first is 1) changes. Currency 1 says in its owner which commit was last.
pub fn changes(n: u64) -> Vec<Change> {
    let mut r = Random(n);
    let mark = Row::Currency {
        name: "mark".into(),
        owner: u32::try_from(n).unwrap(),
        group: 0,
        mode: 0,
        transient: None,
        by: 0,
    };
    let mut out = vec![(Key::Currency(1), Some(mark))];
    for _ in 0..r.below(8) {
        let id = r.below(12);
        let there = r.below(4) > 0;
        let (key, row) = match r.below(4) {
            0 => (
                Key::Currency(id + 2),
                currency(&format!("c{id}-{}", "x".repeat(r.below(60) as usize))),
            ),
            1 => ticket(End::Cid(id), End::Path(format!("/{}", r.below(9))), n),
            2 => (
                Key::Binding(format!("/{id}/{}", "long".repeat(id as usize * 40))),
                Row::Binding {
                    cid: n,
                    by: 0,
                    withdrawn: Withdrawn::Both,
                },
            ),
            _ => {
                let leg = Leg {
                    party: End::Cid(id),
                    resource: Resource::Disk,
                    amount: -5,
                };
                let legs = vec![leg; 4];
                (Key::Exchange(id), Row::Exchange { legs, by: 7 })
            }
        };
        out.push((key, there.then_some(row)));
    }
    out
}

/// Some of them larger than a page.
pub fn records(n: u64) -> Vec<Record> {
    let mut r = record(n);
    let mut random = Random(n.wrapping_mul(31));
    if random.below(3) == 0 {
        r.op = "o".repeat(random.below(9000) as usize);
    }
    vec![r]
}

pub fn commit(store: &mut Store, n: u64) -> Result<(), tix_store::Error> {
    store.commit(&records(n), &changes(n))
}

/// The rows after the commits `1 ..= n`, for each n.
pub fn models(n: u64) -> Vec<Model> {
    let mut all = vec![Model::new()];
    for i in 1..=n {
        let mut next = all[usize::try_from(i - 1).unwrap()].clone();
        apply(&mut next, &changes(i));
        all.push(next);
    }
    all
}

/// The last commit that is in these rows.
pub fn last(model: &Model) -> u64 {
    match model.get(&Key::Currency(1)) {
        Some(Row::Currency { owner, .. }) => (*owner).into(),
        _ => 0,
    }
}

/// The commits of which the log tells.
pub fn logged(store: &Store) -> Vec<u64> {
    let query = Query {
        limit: usize::MAX,
        ..Query::default()
    };
    let page = store.log(&query).unwrap();
    assert_eq!(page.next, None);
    page.records.iter().map(|(_, r)| r.time_usec).collect()
}
