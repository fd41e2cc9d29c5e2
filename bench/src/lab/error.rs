// SPDX-License-Identifier: GPL-2.0-only
//! Service time error (Nieh eq. 2): what a client has had minus what an ideal machine would have given it by then, in quanta.

use super::rules::Rule;

/// The most that anybody was ahead, and the most that anybody was behind (negative).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

/// Runs `rule` for `quanta`. A client's error falls until it is picked and is highest when it has run, so it is looked at then, and that
/// of all at the end.
pub fn range(rule: &mut dyn Rule, shares: &[u64], quanta: u64) -> Range {
    let total: u64 = shares.iter().sum();
    let mut runs = vec![0u64; shares.len()];
    // In quanta times `total`, exactly.
    let (mut low, mut high) = (0i64, 0i64);
    let error = |runs: u64, share: u64, given: u64| {
        (runs * total).cast_signed() - (given * share).cast_signed()
    };
    for given in 0..quanta {
        let i = rule.next();
        low = low.min(error(runs[i], shares[i], given));
        runs[i] += 1;
        high = high.max(error(runs[i], shares[i], given + 1));
    }
    for (runs, share) in runs.iter().zip(shares) {
        low = low.min(error(*runs, *share, quanta));
    }
    Range {
        low: low as f64 / total as f64,
        high: high as f64 / total as f64,
    }
}
