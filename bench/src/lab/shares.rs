// SPDX-License-Identifier: GPL-2.0-only
//! Random shares of clients, scaled so that they sum to S (Nieh §5.1).

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Any share is as likely as any other, as in the paper.
    Uniform,
    /// One client has half of everything, one of the others half of the rest, and so on a few times.
    Skewed,
    /// Any order of magnitude is as likely as any other.
    Log,
}

impl Spread {
    pub const ALL: [Spread; 3] = [Spread::Uniform, Spread::Skewed, Spread::Log];

    fn weight(self, i: usize, random: &mut fastrand::Rng) -> f64 {
        match self {
            Spread::Uniform => 1.0 - random.f64(),
            Spread::Skewed => match i {
                0..8 => 2f64.powi(14 - i as i32),
                _ => 1.0 - random.f64(),
            },
            Spread::Log => 2f64.powf(random.f64() * 16.0),
        }
    }

    /// `n` shares of at least 1 that sum to `total`, which is at least `n`, in any order.
    pub fn shares(self, n: usize, total: u64, random: &mut fastrand::Rng) -> Vec<u64> {
        let weights: Vec<f64> = (0..n).map(|i| self.weight(i, random)).collect();
        let sum: f64 = weights.iter().sum();
        // One for each, and the rest by weight; what rounding leaves to whom it comes first.
        let rest = total - n as u64;
        let part = |w: &f64| (w / sum * rest as f64) as u64;
        let mut shares: Vec<u64> = weights.iter().map(|w| 1 + part(w)).collect();
        let left = total.saturating_sub(shares.iter().sum());
        let left = usize::try_from(left).unwrap_or(0);
        for i in 0..left {
            shares[i % n] += 1;
        }
        random.shuffle(&mut shares);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_sum_to_what_was_asked_for() {
        let mut random = fastrand::Rng::with_seed(1);
        for spread in Spread::ALL {
            for (n, total) in [(2, 2), (3, 100), (100, 2_000), (10_000, 1_000_000)] {
                let shares = spread.shares(n, total, &mut random);
                assert_eq!((shares.len(), shares.iter().sum::<u64>()), (n, total));
                assert!(shares.iter().all(|s| *s >= 1), "{spread:?} {n} {total}");
            }
        }
    }
}
