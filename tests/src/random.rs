// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers whose seed is told, so that what they found can be found again.

use std::time::{SystemTime, UNIX_EPOCH};

/// xorshift64*
pub struct Random(u64);

impl Random {
    /// From `TIX_SEED`, or else from the clock.
    pub fn new() -> Random {
        let told = std::env::var("TIX_SEED").ok().and_then(|s| s.parse().ok());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = told.unwrap_or_else(|| clock().map_or(1, |d| u64::from(d.subsec_nanos())));
        eprintln!("       TIX_SEED={seed}");
        Random(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 0 … `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n.max(1)
    }
}

impl Default for Random {
    fn default() -> Random {
        Random::new()
    }
}
