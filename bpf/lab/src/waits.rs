// SPDX-License-Identifier: GPL-2.0-only
//! Waits of a thread from its wake-ups to its runs.

/// How long a thread waited for a CPU each time that it woke up, ns.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub longest: u64,
    pub count: u64,
    /// Sorted when asked for.
    all: Vec<u64>,
}

impl Waits {
    pub(crate) fn add(&mut self, ns: u64) {
        self.longest = self.longest.max(ns);
        self.count += 1;
        self.all.push(ns);
    }

    /// The wait that so much of all were no longer than, `part` in 0 ... 1.
    pub fn quantile(&self, part: f64) -> u64 {
        let mut all = self.all.clone();
        all.sort_unstable();
        let last = all.len().saturating_sub(1);
        all.get((last as f64 * part) as usize).copied().unwrap_or(0)
    }

    /// How many were longer than `ns`.
    pub fn beyond(&self, ns: u64) -> usize {
        self.all.iter().filter(|wait| **wait > ns).count()
    }
}
