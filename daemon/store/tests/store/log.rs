// SPDX-License-Identifier: GPL-2.0-only
//! Who did what when: asked for in parts, and shortened from its old end.

use crate::common::{dir, open, record};
use tix_store::{BITE, Config, Page, Query, Record, SCAN, Store};

fn with_records(dir: &std::path::Path, config: Config, records: u64) -> Store {
    let (mut store, _) = open(dir, config).unwrap();
    let all: Vec<Record> = (1..=records).map(record).collect();
    for part in all.chunks(5_000) {
        store.commit(part, &[]).unwrap();
    }
    store
}

fn numbers(page: &Page) -> Vec<i64> {
    page.records.iter().map(|(seq, _)| *seq).collect()
}

/// All answers to `query`, page by page.
fn all(store: &Store, mut query: Query<'_>) -> Vec<i64> {
    let mut out = Vec::new();
    loop {
        let page = store.log(&query).unwrap();
        out.extend(numbers(&page));
        match page.next {
            Some(next) if query.newest => query.before = next,
            Some(next) => query.after = next,
            None => return out,
        }
    }
}

#[test]
fn records_come_back_as_they_were_written_in_either_order() {
    let dir = dir();
    let store = with_records(dir.path(), Config::default(), 10);
    let page = store.log(&Query::default()).unwrap();
    let expected: Vec<(i64, Record)> = (1..=10)
        .map(|n| (i64::try_from(n).unwrap(), record(n)))
        .collect();
    assert_eq!((page.records, page.next), (expected, None));
    let two = |newest, after, before| Query {
        newest,
        after,
        before,
        limit: 2,
        ..Query::default()
    };
    let page = store.log(&two(false, 3, i64::MAX)).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![4, 5], Some(5)));
    let page = store.log(&two(true, 0, i64::MAX)).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![10, 9], Some(9)));
    let page = store.log(&two(true, 7, 9)).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![8], None));
    assert_eq!(
        store.log(&two(false, 10, i64::MAX)).unwrap(),
        Page::default()
    );
    assert_eq!(all(&store, two(true, 0, i64::MAX)).len(), 10);
}

#[test]
fn only_what_was_asked_for_comes_back() {
    let dir = dir();
    let (mut store, _) = open(dir.path(), Config::default()).unwrap();
    let record = |time_usec, uid, subject: &str, owner| Record {
        time_usec,
        uid,
        subject: subject.into(),
        owner,
        ..Record::default()
    };
    let records = [
        record(10, 0, "alice", Some(1000)),
        record(20, 1000, "/a", Some(0)),
        record(30, 1001, "bob", None),
        record(40, 1001, "alice", Some(1001)),
    ];
    store.commit(&records, &[]).unwrap();
    let q = Query::default();
    let subject = |subject| Query {
        subject: Some(subject),
        ..q
    };
    let concerning = |uid| Query {
        concerning: Some(uid),
        ..q
    };
    let since = |since_usec, until_usec| Query {
        since_usec,
        until_usec,
        ..q
    };
    assert_eq!(all(&store, subject("alice")), [1, 4]);
    assert_eq!(all(&store, subject("nobody")), [0_i64; 0]);
    assert_eq!(all(&store, concerning(1000)), [1, 2]);
    assert_eq!(all(&store, concerning(1001)), [3, 4]);
    assert_eq!(all(&store, since(20, 30)), [2]);
    assert_eq!(all(&store, since(21, u64::MAX)), [3, 4]);
}

#[test]
fn a_question_without_an_answer_looks_at_a_part_only_and_says_where_to_go_on() {
    let dir = dir();
    let count = u64::try_from(SCAN).unwrap() + 10;
    let store = with_records(dir.path(), Config::default(), count);
    let nobody = |newest| Query {
        subject: Some("nobody"),
        newest,
        ..Query::default()
    };
    let page = store.log(&nobody(false)).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![], Some(SCAN)));
    let page = store.log(&nobody(true)).unwrap();
    assert_eq!((numbers(&page), page.next), (vec![], Some(11)));
    assert_eq!(all(&store, nobody(true)), [0_i64; 0]);
    let one = Query {
        subject: Some("currency-1"),
        limit: 1_000,
        ..Query::default()
    };
    let expected: Vec<i64> = (1..=i64::try_from(count).unwrap())
        .filter(|n| n % 7 == 1)
        .collect();
    assert_eq!(all(&store, one), expected);
    let mut backwards = all(
        &store,
        Query {
            newest: true,
            ..one
        },
    );
    backwards.reverse();
    assert_eq!(backwards, expected);
}

#[test]
fn the_oldest_go_by_age_and_by_count_in_bites_and_numbers_are_not_used_again() {
    let dir = dir();
    let config = Config {
        keep_usec: 1_000,
        keep_records: 3_000,
        ..Config::default()
    };
    let bite = usize::try_from(BITE).unwrap();
    // Record n is of microsecond n.
    let mut store = with_records(dir.path(), config, 5_500);
    assert_eq!(store.prune(0).unwrap(), bite);
    assert_eq!(store.prune(0).unwrap(), bite);
    assert_eq!(store.prune(0).unwrap(), 500);
    assert_eq!(store.prune(0).unwrap(), 0);
    let left = all(&store, Query::default());
    assert_eq!((left[0], left.len()), (2_501, 3_000));
    assert_eq!(store.prune(4_000 + 1_000).unwrap(), bite);
    assert_eq!(store.prune(4_000 + 1_000).unwrap(), 499);
    assert_eq!(store.prune(4_000 + 1_000).unwrap(), 0);
    assert_eq!(all(&store, Query::default())[0], 4_000);
    while store.prune(u64::MAX).unwrap() > 0 {}
    assert_eq!(all(&store, Query::default()), [0_i64; 0]);
    drop(store);
    let (mut store, _) = open(dir.path(), Config::default()).unwrap();
    assert_eq!(store.prune(u64::MAX).unwrap(), 0);
    store.commit(&[record(1)], &[]).unwrap();
    assert_eq!(all(&store, Query::default()), [5_501]);
}

#[test]
fn beyond_so_many_bytes_the_oldest_go() {
    let dir = dir();
    let each = Record {
        text: "x".repeat(900),
        ..Record::default()
    };
    let config = Config {
        keep_bytes: 100 * each.bytes(),
        ..Config::default()
    };
    let (mut store, _) = open(dir.path(), config.clone()).unwrap();
    store.commit(&vec![each.clone(); 5_000], &[]).unwrap();
    let mut gone = 0;
    loop {
        match store.prune(0).unwrap() {
            0 => break,
            n => gone += n,
        }
    }
    assert_eq!(gone, 4_900);
    drop(store);
    // What it has is known at the next start as well.
    let (mut store, _) = open(dir.path(), config).unwrap();
    store.commit(&[each.clone(), each], &[]).unwrap();
    assert_eq!(store.prune(0).unwrap(), 2);
    assert_eq!(all(&store, Query::default()).len(), 100);
}

#[test]
fn a_record_has_so_many_bytes_and_says_what_is_left_out() {
    let mut long = Record {
        subject: "/s".repeat(2_000),
        text: "ü".repeat(5_000),
        op: "{}".repeat(5_000),
        ..Record::default()
    };
    long.bound();
    assert!(long.text.ends_with("ü… (and 8976 bytes more)"));
    assert_eq!((long.subject.len(), long.op.len()), (4_000, 0));
    assert!(long.bytes() < 5_200, "{}", long.bytes());
    let bounded = long.clone();
    long.bound();
    assert!(long.bytes() <= bounded.bytes());
    let mut short = record(1);
    short.bound();
    assert_eq!(short, record(1));
}
