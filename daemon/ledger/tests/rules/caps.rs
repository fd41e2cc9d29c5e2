// SPDX-License-Identifier: GPL-2.0-only
//! Limits of currencies: who may set them, what they count for, and how long they last.

use crate::common::*;
use tix_ledger::{MAX_LIMIT, Op, Refusal, Resource};

/// The limits that count for `name`, nearest first.
fn over(it: &It, name: &str) -> Vec<String> {
    let all = it.l.limits_over(it.cid(name).unwrap());
    all.into_iter().map(|c| it.l.name(c)).collect()
}

#[test]
fn a_limit_is_some_thousandths_of_a_cpu_of_anything_but_base() {
    let mut it = It::new();
    it.create(0, "a").unwrap();
    for bad in [
        0,
        -1,
        i64::MIN,
        i64::MAX,
        1 + i64::try_from(MAX_LIMIT).unwrap(),
    ] {
        let no = refused(it.limit(0, "a", bad));
        assert!(matches!(no, Refusal::BadLimit(_)), "{bad}: {no}");
    }
    for milli in [1, 300, 150_000, i64::try_from(MAX_LIMIT).unwrap()] {
        it.limit(0, "a", milli).unwrap();
        let a = it.l.find("a").unwrap();
        assert_eq!(it.l.limit_of(a).unwrap().milli, milli.unsigned_abs());
    }
    for base in ["base", "/"] {
        let no = refused(it.limit(0, base, 300));
        assert!(no.to_string().contains("machine"), "{no}");
    }
    let disk = Op::Limit {
        name: "a".to_owned(),
        resource: Resource::Disk,
        milli: 300,
    };
    let no = refused(it.does(0, disk));
    assert!(no.to_string().contains("disk"), "{no}");
    it.unlimit(0, "a").unwrap();
    assert!(matches!(
        refused(it.unlimit(0, "a")),
        Refusal::NotLimited(_)
    ));
    let no = refused(it.limit(0, "nobody", 300));
    assert!(matches!(no, Refusal::NoSuchCurrency(_)), "{no}");
}

#[test]
fn what_root_limited_only_root_changes() {
    let mut it = It::new();
    it.create(ALICE, "a").unwrap();
    it.limit(ALICE, "a", 500).unwrap();
    it.limit(0, "a", 300).unwrap();
    for done in [it.limit(ALICE, "a", 100), it.unlimit(ALICE, "a")] {
        let no = refused(done);
        assert!(matches!(no, Refusal::NotPermitted { .. }), "{no}");
        assert!(no.to_string().contains("root limited it"), "{no}");
    }
    it.unlimit(0, "a").unwrap();
    it.limit(ALICE, "a", 100).unwrap();
}

#[test]
fn it_counts_for_what_is_bound_below_it_and_for_the_cgroups_below_that() {
    let mut it = It::new();
    it.mk("/s", 0);
    it.mk("/s/t", 0);
    it.mk("/o", 0);
    for name in ["pool", "a", "b"] {
        it.create(0, name).unwrap();
    }
    it.fund(0, "pool", "base", 100).unwrap();
    it.fund(0, "a", "pool", 100).unwrap();
    it.fund(0, "b", "a", 100).unwrap();
    it.bind(0, "b", "/s").unwrap();
    it.limit(0, "pool", 900).unwrap();
    it.limit(0, "b", 300).unwrap();
    assert_eq!(over(&it, "/s"), ["b", "pool"]);
    assert_eq!(over(&it, "/s/t"), ["b", "pool"]);
    assert_eq!(over(&it, "a"), ["pool"]);
    it.limit(0, "/s/t", 100).unwrap();
    assert_eq!(over(&it, "/s/t"), ["/s/t", "b", "pool"]);
    assert_eq!(over(&it, "/o"), [""; 0]);
    let caps = it.l.caps();
    let cid = |n: &str| it.l.find(n).unwrap();
    assert_eq!(caps.limits[&cid("b")], (300, Some(cid("pool"))));
    assert_eq!(caps.limits[&cid("/s/t")], (100, Some(cid("b"))));
    assert_eq!(caps.cgroups[&cid("/s")], cid("b"));
    assert_eq!(caps.cgroups[&cid("/s/t")], cid("/s/t"));
    it.unbind(0, "b").unwrap();
    assert_eq!(over(&it, "/s"), [""; 0]);
}

#[test]
fn of_several_funders_the_limit_of_the_one_who_gives_most_counts() {
    let mut it = It::new();
    for name in ["pool", "friend", "a"] {
        it.create(0, name).unwrap();
    }
    it.fund(0, "pool", "base", 100).unwrap();
    it.fund(0, "friend", "base", 60).unwrap();
    it.fund(0, "a", "pool", 100).unwrap();
    it.limit(0, "pool", 300).unwrap();
    // All of the friend's, and less than all of the pool's: the limit stays.
    it.fund(0, "a", "friend", 1).unwrap();
    assert_eq!(over(&it, "a"), ["pool"]);
    // Half of the pool's is less than that.
    it.create(0, "b").unwrap();
    it.fund(0, "b", "pool", 100).unwrap();
    assert_eq!(over(&it, "a"), [""; 0]);
    it.limit(0, "friend", 500).unwrap();
    assert_eq!(over(&it, "a"), ["friend"]);
    assert_eq!(over(&it, "b"), ["pool"]);
}

#[test]
fn it_goes_with_its_currency_and_roots_waits_for_its_cgroup() {
    let mut it = It::new();
    it.mk("/s", ALICE);
    it.mk("/t", ALICE);
    it.create(ALICE, "a").unwrap();
    it.limit(ALICE, "a", 300).unwrap();
    it.limit(0, "/s", 300).unwrap();
    it.limit(ALICE, "/t", 300).unwrap();
    it.destroy(ALICE, "a").unwrap();
    it.create(ALICE, "a").unwrap();
    assert_eq!(over(&it, "a"), [""; 0]);
    for path in ["/s", "/t"] {
        it.rm(path);
        it.mk(path, ALICE);
    }
    assert_eq!(over(&it, "/s"), ["/s"]);
    assert_eq!(over(&it, "/t"), [""; 0]);
}
