// SPDX-License-Identifier: GPL-2.0-only
//! arch.h against the compiler's own bit counting and 128-bit arithmetic.

use proptest::prelude::*;
use tix_core_host as host;

/// Numbers of every length: a uniform u64 hardly ever has less than 60 bits.
fn any_length() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(x, by)| x >> by)
}

fn below_one() -> impl Strategy<Value = u64> {
    prop_oneof![
        any_length().prop_map(|x| x >> 2),
        Just(host::ONE),
        Just(host::ONE - 1),
        Just(0)
    ]
}

#[test]
fn every_single_bit_is_found() {
    for bit in 0..64 {
        assert_eq!(host::ctz64(1 << bit), bit);
        assert_eq!(host::fls64(1 << bit), bit);
        assert_eq!(host::ctz64(u64::MAX << bit), bit);
        assert_eq!(host::fls64(u64::MAX >> bit), 63 - bit);
    }
}

#[test]
fn products_at_the_ends_of_their_ranges() {
    let edges = [0, 1, 2, u32::MAX as u64, 1 << 32, host::ONE - 1, host::ONE];
    for a in edges {
        for b in edges {
            assert_eq!(host::mul_q62(a, b) as u128, (a as u128 * b as u128) >> 62);
        }
    }
    for ns in [0, 1, u32::MAX as u64] {
        for inv in [0, 1, u32::MAX as u64, 1 << 32, 1 << 56, u64::MAX] {
            assert_eq!(
                host::mul_q32(ns, inv) as u128,
                (ns as u128 * inv as u128) >> 32
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn bits(x in any_length().prop_filter("no bit set", |x| *x != 0)) {
        prop_assert_eq!(host::ctz64(x), x.trailing_zeros());
        prop_assert_eq!(host::fls64(x), 63 - x.leading_zeros());
    }

    #[test]
    fn product_of_fractions(a in below_one(), b in below_one()) {
        prop_assert_eq!(host::mul_q62(a, b) as u128, (a as u128 * b as u128) >> 62);
    }

    #[test]
    fn weighed_time(ns in any_length(), inv in any_length()) {
        let exact = (ns as u128 * inv as u128) >> 32;
        prop_assert_eq!(host::mul_q32(ns, inv), exact as u64, "modulo 2^64");
    }
}
