// SPDX-License-Identifier: GPL-2.0-only
//! The same state after a restart, bit for bit.

use crate::common::{Model, apply, contents, currency, dir, record, ticket};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tix_model::{End, EndedLeg, Key, Kind, Leg, POLICY, Resource, Row, Withdrawn};
use tix_model::{File, Written};
use tix_store::{Change, Error, Query, Store};

fn path() -> impl Strategy<Value = String> {
    // Few, so that rows are changed and taken away too; strange ones among them.
    prop_oneof![
        Just("/".to_owned()),
        Just("/a".to_owned()),
        Just("/ä b\n'\"%".to_owned()),
        Just("/nul\0in it".to_owned()),
        Just("12".to_owned()),
        Just(String::new()),
        "/[a-c]{1,3}",
        Just(format!("/{}", "long".repeat(2000))),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        (0..5_u64).prop_map(End::Cid),
        Just(End::Cid(12)),
        path().prop_map(End::Path)
    ]
}

fn resource() -> impl Strategy<Value = Resource> {
    proptest::sample::select(&Resource::ALL[..])
}

fn uid() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1000), Just(POLICY), any::<u32>()]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_u64, Just(u64::MAX), Just(1 << 63), any::<u64>()]
}

fn leg() -> impl Strategy<Value = Leg> {
    (end(), resource(), any::<i64>()).prop_map(|(party, resource, amount)| Leg {
        party,
        resource,
        amount,
    })
}

fn change() -> impl Strategy<Value = Change> {
    let currency = (
        0..9_u64,
        path(),
        uid(),
        uid(),
        any::<u16>(),
        option::of(path()),
        uid(),
    )
        .prop_map(|(cid, name, owner, group, mode, transient, by)| {
            let row = Row::Currency {
                name,
                owner,
                group,
                mode,
                transient,
                by,
            };
            (Key::Currency(cid), row)
        });
    let broker = (
        path(),
        option::of(uid()),
        option::of(uid()),
        option::of(any::<u16>()),
        uid(),
    )
        .prop_map(|(path, owner, group, mode, by)| {
            let row = Row::Broker {
                owner,
                group,
                mode,
                by,
            };
            (Key::Broker(path), row)
        });
    let kind = prop_oneof![Just(Kind::Soft), Just(Kind::Hard)];
    let ticket = (
        end(),
        end(),
        resource(),
        kind,
        number(),
        any::<bool>(),
        uid(),
    )
        .prop_map(|(issuer, holder, resource, kind, amount, bytes, by)| {
            let key = Key::Ticket {
                issuer,
                holder,
                resource,
                kind,
            };
            let row = Row::Ticket { amount, bytes, by };
            (key, row)
        });
    let binding = (path(), number(), uid(), 0..3usize).prop_map(|(path, cid, by, withdrawn)| {
        let withdrawn = [Withdrawn::Nothing, Withdrawn::Cpu, Withdrawn::Both][withdrawn];
        (Key::Binding(path), Row::Binding { cid, by, withdrawn })
    });
    let exchange = (0..6_u64, vec(leg(), 0..5), uid())
        .prop_map(|(id, legs, by)| (Key::Exchange(id), Row::Exchange { legs, by }));
    let lapsed = (path(), resource(), number())
        .prop_map(|(holder, r, amount)| (Key::Lapsed(holder, r), Row::Lapsed { amount }));
    let offer = (
        (0..6_u64, end(), uid(), number()),
        (resource(), number(), resource(), number()),
        (number(), number(), option::of(number())),
    )
        .prop_map(
            |((id, party, by, turn), (gives, give, wants, want), rest)| {
                let (left, least, expires) = rest;
                let row = Row::Offer {
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
                };
                (Key::Offer(id), row)
            },
        );
    let ended_leg =
        (path(), resource(), any::<i64>()).prop_map(|(name, resource, amount)| EndedLeg {
            name,
            resource,
            amount,
        });
    let ended = (0..6_u64, vec(ended_leg, 0..5), path())
        .prop_map(|(id, legs, why)| (Key::Ended(id), Row::Ended { legs, why }));
    let limit = (end(), resource(), number(), uid()).prop_map(|(end, resource, milli, by)| {
        (Key::Limit(end, resource), Row::Limit { milli, by })
    });
    let space = (uid(), path()).prop_map(|(uid, label)| (Key::Space(uid), Row::Space { label }));
    // In boxes: as one value they are too large for a test's stack.
    let set = prop_oneof![
        currency.boxed(),
        broker.boxed(),
        ticket.boxed(),
        binding.boxed(),
        exchange.boxed(),
        lapsed.boxed(),
        offer.boxed(),
        ended.boxed(),
        limit.boxed(),
        space.boxed()
    ];
    (set, prop::bool::weighted(0.7)).prop_map(|((key, row), there)| (key, there.then_some(row)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_any_batches_the_rows_are_those_set_last(batches in vec(vec(change(), 0..40), 1..8)) {
        let dir = dir();
        let mut model = Model::new();
        let (mut cid, mut exchange) = (1, 1);
        for (n, batch) in batches.iter().enumerate() {
            let (mut store, loaded) = Store::open(dir.path()).unwrap();
            prop_assert_eq!(&loaded.rows.into_iter().collect::<Model>(), &model);
            prop_assert_eq!((loaded.next_cid, loaded.next_exchange), (cid, exchange));
            // Every other time as two commits, so that not all goes through a restart at once.
            let (first, second) = batch.split_at(if n % 2 == 0 { 0 } else { batch.len() / 2 });
            store.commit(&[], first).unwrap();
            store.commit(&[record(1)], second).unwrap();
            apply(&mut model, batch);
            for (key, _) in batch {
                match key {
                    Key::Currency(c) => cid = cid.max(c + 1),
                    Key::Exchange(e) | Key::Offer(e) => exchange = exchange.max(e + 1),
                    _ => {}
                }
            }
            prop_assert_eq!((store.next().cid, store.next().exchange), (cid, exchange));
        }
        prop_assert_eq!(contents(dir.path()), model);
    }
}

#[test]
fn a_number_is_not_used_again_after_what_had_it_is_gone() {
    let dir = dir();
    let (mut store, loaded) = Store::open(dir.path()).unwrap();
    assert_eq!((loaded.next_cid, loaded.next_exchange), (1, 1));
    let legs = vec![];
    let exchange = Row::Exchange { legs, by: 0 };
    store
        .commit(
            &[],
            &[
                (Key::Currency(7), Some(currency("alice"))),
                (Key::Exchange(3), Some(exchange)),
            ],
        )
        .unwrap();
    let gone = [(Key::Currency(7), None), (Key::Exchange(3), None)];
    store.commit(&[], &gone).unwrap();
    drop(store);
    let (_, loaded) = Store::open(dir.path()).unwrap();
    assert!(loaded.rows.is_empty());
    assert_eq!((loaded.next_cid, loaded.next_exchange), (8, 4));
}

#[test]
fn a_batch_with_a_row_of_another_kind_changes_nothing() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let batch = [
        (Key::Currency(1), Some(currency("alice"))),
        (Key::Currency(2), Some(Row::Lapsed { amount: 1 })),
    ];
    let refused = store.commit(&[record(1)], &batch).unwrap_err();
    assert!(matches!(refused, Error::OtherKind { .. }), "{refused}");
    assert_eq!(store.next().cid, 1);
    assert!(store.log(&Query::default()).unwrap().records.is_empty());
    store.commit(&[], &batch[..1]).unwrap();
    drop(store);
    assert_eq!(contents(dir.path()).len(), 1);
}

#[test]
fn usage_and_marks_are_kept_apart_and_changed_one_by_one() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let written = |number, funding, before| Written {
        number,
        funding,
        before,
    };
    let mark = |file, path: &str| (file, path.to_owned());
    store.set_usage(&[(1, 10), (2, u64::MAX)]).unwrap();
    store.set_usage(&[(1, 11), (3, 5)]).unwrap();
    let a_and_b = [
        (mark(File::CpuWeight, "/a"), Some(written(75, 100, Some(7)))),
        (
            mark(File::MemoryMin, "/a"),
            Some(written(u64::MAX, 0, None)),
        ),
        (mark(File::CpuWeight, "/b"), Some(written(1, 2, Some(3)))),
    ];
    let disk = |path: &str| mark(File::IoWeight, path);
    let told = [(disk("/a"), vec![3, u64::MAX, 1]), (disk("/b"), vec![2])];
    store.set_marks(&a_and_b, &told).unwrap();
    let gone = ["/b", "/c"].map(|path| (mark(File::CpuWeight, path), None));
    let told = [(disk("/a"), vec![1, 7]), (disk("/b"), vec![])];
    store.set_marks(&gone, &told).unwrap();
    // A currency's usage goes with it.
    store
        .commit(&[], &[(Key::Currency(3), Some(currency("bob")))])
        .unwrap();
    store.commit(&[], &[(Key::Currency(3), None)]).unwrap();
    drop(store);
    let (store, _) = Store::open(dir.path()).unwrap();
    assert_eq!(store.usage().unwrap(), [(1, 11), (2, u64::MAX)]);
    assert_eq!(
        store.marks().unwrap(),
        [
            (mark(File::CpuWeight, "/a"), written(75, 100, Some(7))),
            (mark(File::MemoryMin, "/a"), written(u64::MAX, 0, None))
        ]
    );
    assert_eq!(store.told().unwrap(), [(disk("/a"), vec![1, 7])]);
}

#[test]
fn one_at_a_time_has_the_ledger() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let refused = Store::open(dir.path()).err().unwrap();
    assert!(matches!(refused, Error::Taken { .. }), "{refused}");
    let (key, row) = ticket(End::Cid(0), End::Path("/a".into()), 5);
    store.commit(&[], &[(key, Some(row))]).unwrap();
    drop(store);
    assert_eq!(contents(dir.path()).len(), 1);
}

#[test]
fn the_ledger_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let outer = dir();
    let dir = outer.path().join("new/tix");
    let (mut store, _) = Store::open(&dir).unwrap();
    store.commit(&[record(1)], &[]).unwrap();
    let mode = |p: &std::path::Path| p.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for file in ["ledger.sqlite", "ledger.sqlite-wal", "lock"] {
        assert_eq!(mode(&dir.join(file)) & 0o077, 0, "{file}");
    }
    assert!(!dir.join("ledger.sqlite-shm").exists());
}

#[test]
fn tidying_carries_over_what_was_committed_and_waits_until_it_is_worth_it() {
    let dir = dir();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let size = || dir.path().join("ledger.sqlite").metadata().unwrap().len();
    let binding = |n: u64| {
        let row = Row::Binding {
            cid: n,
            by: 0,
            withdrawn: Withdrawn::Both,
        };
        (Key::Binding(format!("/{n}")), Some(row))
    };
    store.commit(&[], &[binding(0)]).unwrap();
    assert!(!store.tidy().unwrap());
    let before = size();
    let many: Vec<Change> = (1..=2_000).map(binding).collect();
    store.commit(&[], &many).unwrap();
    assert_eq!(size(), before);
    assert!(store.tidy().unwrap());
    assert!(size() > before);
    assert!(!store.tidy().unwrap());
    drop(store);
    assert_eq!(contents(dir.path()).len(), 2_001);
}
