// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel and the program say of a principal: totals so far, as they stand in files.
//!
//! Files are text from elsewhere: numbers saturate, and what is no number is not there.

use crate::Each;
use std::time::Duration;

/// How long threads have waited so far, microseconds (`total=` of the kernel's pressure files).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one of them.
    pub some: u64,
    /// All of them at once.
    pub full: u64,
}

/// Totals of a principal at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Since any fixed moment.
    pub at: Duration,
    /// What the program itself has done so far, in its own unit; `None`: it does not say.
    pub progress: Option<u64>,
    pub pressure: Each<Pressure>,
    /// Pages that were read again because they had been evicted.
    pub refaults: u64,
}

/// Reads `cpu.pressure`, `io.pressure` or `memory.pressure`. A line that is missing counts as no waiting.
pub fn pressure(text: &str) -> Pressure {
    let total = |kind: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(kind));
        let total = line?
            .split_whitespace()
            .find_map(|w| w.strip_prefix("total="));
        total.and_then(counter)
    };
    Pressure {
        some: total("some ").unwrap_or(0),
        full: total("full ").unwrap_or(0),
    }
}

/// The refaults in `memory.stat`, of files and of anonymous memory.
pub fn refaults(text: &str) -> u64 {
    let of = |line: &str| counter(line.strip_prefix("workingset_refault_")?.split_once(' ')?.1);
    text.lines().filter_map(of).fold(0, u64::saturating_add)
}

/// A number that only grows: decimal digits, perhaps with white space around them. One that is too large for 64 bits is the largest.
pub fn counter(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let text = "some avg10=0.10 avg60=0.11 avg300=0.12 total=4241790\n\
                    full avg10=0.10 avg60=0.10 avg300=0.08 total=3244930\n";
        let (some, full) = (4_241_790, 3_244_930);
        assert_eq!(pressure(text), Pressure { some, full });
        let text = "anon 1\nworkingset_refault_anon 2\nworkingset_refault_file 40\nworkingset_activate_file 7\n";
        assert_eq!(refaults(text), 42);
        assert_eq!(counter("00000000000000000123\n"), Some(123));
    }

    #[test]
    fn whatever_a_file_holds_is_a_number_or_nothing() {
        for text in [
            "",
            "some",
            "some total=",
            "some total=-1",
            "some total=x\nfull",
            "\0\0",
        ] {
            assert_eq!(pressure(text), Pressure::default(), "{text:?}");
        }
        let most = "some total=99999999999999999999999\n";
        assert_eq!(pressure(most).some, u64::MAX);
        assert_eq!(
            refaults("workingset_refault_anon 99999999999999999999\nworkingset_refault_file 9"),
            u64::MAX
        );
        for text in ["", " ", "-1", "1.5", "1 2", "0x10", "१"] {
            assert_eq!(counter(text), None, "{text:?}");
        }
    }
}
