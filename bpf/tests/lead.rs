// SPDX-License-Identifier: GPL-2.0-only
//! lead.h: a limit's period goes on in the next scheduler, whatever the old one says of it.

use proptest::prelude::*;
use tix_core_host::{Limit, Told};

const MS: u64 = 1_000_000;
const NOW: u64 = 1 << 50;
/// As limit.bpf.h has it.
const MOST: u64 = 4_000 * MS;

/// 50 ms in every 100, of which the new one has given `used`.
fn limit(used: u64) -> Limit {
    Limit {
        quota: 50 * MS,
        every: 100 * MS,
        burst: 0,
        left: (50 * MS - used) as i64,
        next_at: NOW + 90 * MS,
    }
}

fn told(left: i64, next_at: u64) -> Told {
    Told {
        quota: 50 * MS,
        every: 100 * MS,
        left,
        next_at,
    }
}

#[test]
fn what_was_used_stays_used() {
    let mut to = limit(4 * MS);
    assert!(to.go_on(&told(10 * MS as i64, NOW + 10 * MS), NOW, MOST));
    assert_eq!((to.left, to.next_at), (6 * MS as i64, NOW + 10 * MS));
    // Used up, and more.
    let mut to = limit(4 * MS);
    assert!(to.go_on(&told(-3 * MS as i64, NOW + 10 * MS), NOW, MOST));
    assert_eq!(to.left, -7 * MS as i64);
    // The period ended meanwhile: whoever looks at it next begins the one that is due.
    let mut to = limit(4 * MS);
    assert!(to.go_on(&told(0, NOW - 10 * MS), NOW, MOST));
    assert_eq!((to.left, to.next_at), (-4 * MS as i64, NOW - 10 * MS));
}

#[test]
fn another_limit_begins_anew() {
    for other in [
        Told {
            quota: 60 * MS,
            ..told(0, NOW)
        },
        Told {
            every: 200 * MS,
            ..told(0, NOW)
        },
        Told {
            quota: 0,
            ..told(0, NOW)
        },
        told(0, NOW + 101 * MS),
        told(0, NOW - MOST - 1),
        told(0, 0),
    ] {
        let mut to = limit(4 * MS);
        assert!(!to.go_on(&other, NOW, MOST), "{other:?}");
        assert_eq!(to, limit(4 * MS));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    /// However ruined what is told is: no more than a quota with its burst is left, no more is owed than in `most` or so, and the period
    /// ends within one.
    #[test]
    fn nothing_beyond_bounds(
        quota in 1u64..1 << 40, every in MS..1_000 * MS, burst in 0u64..1 << 40, used in 0u64..1 << 40,
        left in any::<i64>(), next_at in prop_oneof![any::<u64>(), NOW - MOST..NOW + 1_000 * MS],
    ) {
        let mut to = Limit { quota, every, burst, left: quota as i64 - used as i64, next_at: NOW + every };
        let was = to;
        if to.go_on(&Told { quota, every, left, next_at }, NOW, MOST) {
            prop_assert!(to.left <= (quota + burst) as i64);
            prop_assert!(to.left >= -((quota * (MOST / every + 1) + used) as i64));
            prop_assert!(to.next_at <= NOW + every && to.next_at >= NOW - MOST);
            prop_assert!(to.left <= was.left.max(left.saturating_sub(used as i64)));
        } else {
            prop_assert_eq!(to, was);
        }
    }
}
