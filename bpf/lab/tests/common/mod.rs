// SPDX-License-Identifier: GPL-2.0-only
//! What several of these tests use.

use tix_lab::Machine;

/// Cgroups of these weights below the root.
pub fn groups(m: &mut Machine, weights: &[u32]) -> Vec<u32> {
    weights.iter().map(|w| m.cgroup(0, *w)).collect()
}

/// Shares are those due but for `most`.
#[track_caller]
pub fn near(shares: &[f64], due: &[f64], most: f64) {
    for (share, due) in shares.iter().zip(due) {
        assert!((share - due).abs() <= most, "{shares:.4?} of {due:?} due");
    }
}
