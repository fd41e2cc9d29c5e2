// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers that are the same each time, unless another seed is asked for. The seed is told.

/// What a test draws without being told otherwise.
const SEED: u64 = 20_260_701;

/// xorshift64*
pub struct Random(u64);

impl Random {
    /// From `TIX_SEED`, or else `SEED`.
    pub fn new() -> Random {
        let told = std::env::var("TIX_SEED");
        let seed: u64 = told.map_or(SEED, |s| s.parse().expect("TIX_SEED is a number"));
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
