// SPDX-License-Identifier: GPL-2.0-only
//! How a principal gets on, and what it needs: medians of some samples, and how much they scatter.

use crate::{Each, Reading};
use std::collections::VecDeque;
use std::time::Duration;

/// Samples that one judgement rests on.
pub const SAMPLES: usize = 10;
/// Differences below this part of what is compared are noise, however little it scattered.
const LEAST_NOISE: f64 = 0.02;
/// Standard errors of a difference that count as noise.
const SIGMAS: f64 = 2.5;
/// From so many a second on, the pages that are read again say that memory is short.
const REFAULTS: f64 = 10.0;
/// A wait for the disk that a refault caused counts as half a wait for memory: the kernel itself counts the pages that it took for the
/// working set, and no others.
const REFAULT_WAITS: f64 = 0.5;

/// What happened between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Progress a second; where the program does not say, the part of the time in which it was not stalled: 0 … 1.
    pub rate: f64,
    /// The part of the time for which it waited for each: 0 … 1.
    pub needs: Each<f64>,
}

impl Sample {
    /// Between two readings; `None` if the second says nothing new or something began anew meanwhile.
    pub fn between(old: &Reading, new: &Reading, says: bool) -> Option<Sample> {
        let time = new.at.checked_sub(old.at).filter(|t| !t.is_zero())?;
        let part = |old: u64, new: u64| {
            let usec = new.checked_sub(old)? as f64;
            Some((usec / time.as_micros().max(1) as f64).min(1.0))
        };
        let (mut some, mut full) = ([0.0; 3], [0.0; 3]);
        for i in 0..3 {
            some[i] = part(old.pressure[i].some, new.pressure[i].some)?;
            full[i] = part(old.pressure[i].full, new.pressure[i].full)?;
        }
        let refaults = new.refaults.checked_sub(old.refaults)? as f64 / time.as_secs_f64();
        let [cpu, disk, memory] = some;
        let caused = match refaults >= REFAULTS {
            true => disk * REFAULT_WAITS,
            false => 0.0,
        };
        let rate = match says {
            true => new.progress?.checked_sub(old.progress?)? as f64 / time.as_secs_f64(),
            // Who waits for the CPU could run, and who waits for the disk or for memory cannot: no moment is of both kinds.
            false => (1.0 - full[0] - full[1].max(full[2])).max(0.0),
        };
        Some(Sample {
            rate,
            needs: [cpu, disk, memory.max(caused)],
        })
    }
}

/// A median, and its standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Level {
    pub median: f64,
    pub error: f64,
}

impl Level {
    /// Differences from `other` that are not larger say nothing.
    pub fn noise(&self, other: &Level) -> f64 {
        let least = LEAST_NOISE * self.median.max(other.median);
        least.max(SIGMAS * self.error.hypot(other.error))
    }
}

/// The samples since something changed last.
#[derive(Debug, Default)]
pub struct Window {
    samples: VecDeque<Sample>,
    /// Samples before that are of what was before.
    from: Duration,
}

impl Window {
    /// Something has changed: what is seen before `from` does not count.
    pub fn begin(&mut self, from: Duration) {
        self.samples.clear();
        self.from = from;
    }

    pub fn push(&mut self, at: Duration, sample: Sample) {
        if at >= self.from {
            self.samples.push_back(sample);
        }
        // What is older is another time.
        while self.samples.len() > 3 * SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The last samples; `None` while there are not enough of them.
    pub fn level(&self) -> Option<Level> {
        let last = self.last()?;
        Some(level(last.iter().map(|s| s.rate)))
    }

    /// What is needed, by the same samples.
    pub fn needs(&self) -> Option<Each<f64>> {
        let last = self.last()?;
        Some([0, 1, 2].map(|i| level(last.iter().map(|s| s.needs[i])).median))
    }

    /// Is it still getting better, as while memory fills? There is an end to waiting for that.
    pub fn is_rising(&self) -> bool {
        let Some(last) = self.last() else {
            return false;
        };
        let (old, new) = last.split_at(SAMPLES / 2);
        let [old, new] = [old, new].map(|half| level(half.iter().map(|s| s.rate)));
        self.samples.len() < 3 * SAMPLES && new.median - old.median > old.noise(&new)
    }

    fn last(&self) -> Option<Vec<Sample>> {
        let skip = self.samples.len().checked_sub(SAMPLES)?;
        Some(self.samples.iter().skip(skip).copied().collect())
    }
}

/// The median, and its error by the median distance from it, which a few odd samples do not move.
fn level(values: impl Iterator<Item = f64>) -> Level {
    let values: Vec<f64> = values.collect();
    let middle = median(values.clone());
    let away = median(values.iter().map(|v| (v - middle).abs()).collect());
    Level {
        median: middle,
        // Of a normal distribution: σ is 1.48 such distances, and a median scatters by 1.25 σ/√n.
        error: 1.4826 * 1.2533 * away / (values.len().max(1) as f64).sqrt(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.get(half), values.len() % 2) {
        (Some(upper), 0) => (values[half - 1] + upper) / 2.0,
        (Some(middle), _) => *middle,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pressure;

    fn reading(sec: u64, progress: u64, some: [u64; 3], full: [u64; 3], refaults: u64) -> Reading {
        Reading {
            at: Duration::from_secs(sec),
            progress: Some(progress),
            pressure: [0, 1, 2].map(|i| Pressure {
                some: some[i],
                full: full[i],
            }),
            refaults,
        }
    }

    #[test]
    fn a_sample_is_of_the_time_between() {
        let old = reading(10, 100, [0; 3], [0; 3], 0);
        let new = reading(
            12,
            700,
            [400_000, 1_800_000, 200_000],
            [0, 1_000_000, 0],
            100,
        );
        let sample = Sample::between(&old, &new, true).unwrap();
        assert_eq!(sample.rate, 300.0);
        // 50 refaults a second: half the wait for the disk is one for memory.
        assert_eq!(sample.needs, [0.2, 0.9, 0.45]);
        assert_eq!(Sample::between(&old, &new, false).unwrap().rate, 0.5);
        // Begun anew, or no time passed.
        assert_eq!(Sample::between(&new, &old, true), None);
        assert_eq!(
            Sample::between(&old, &Reading { at: old.at, ..new }, true),
            None
        );
        let less = Reading {
            progress: Some(5),
            ..new
        };
        assert_eq!(Sample::between(&old, &less, true), None);
        assert!(Sample::between(&old, &less, false).is_some());
    }

    #[test]
    fn odd_samples_move_nothing() {
        let mut window = Window::default();
        let sample = |rate| Sample {
            rate,
            needs: [0.0, 0.5, 1.0],
        };
        for n in 0..SAMPLES as u64 {
            assert_eq!(window.level(), None);
            let rate = if n == 3 { 1e9 } else { 100.0 + n as f64 % 2.0 };
            window.push(Duration::from_secs(n), sample(rate));
        }
        let level = window.level().unwrap();
        assert!(
            (100.0..=101.0).contains(&level.median) && level.error < 1.0,
            "{level:?}"
        );
        assert_eq!(window.needs(), Some([0.0, 0.5, 1.0]));
        assert!(!window.is_rising());
        window.begin(Duration::from_secs(20));
        window.push(Duration::from_secs(19), sample(1.0));
        assert!(window.samples.is_empty());
        for n in 20..30 {
            window.push(Duration::from_secs(n), sample(n as f64 * 10.0));
        }
        assert!(window.is_rising());
    }
}
