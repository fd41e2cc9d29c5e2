// SPDX-License-Identifier: GPL-2.0-only
//! What tixd itself takes of the machine, for `tixctl status`.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time since it started, of all its threads.
pub fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Bytes of memory that are its own: what is resident, with all of what it shares with others
/// (libraries). The scheduler's maps are the kernel's, and not mapped here. 0 where the kernel does
/// not tell.
///
/// The kernel has counted them; to share them out (`smaps`) it would go through all pages, which
/// was more than half of what answering `status` took.
pub fn memory() -> u64 {
    let Ok(text) = fs::read_to_string("/proc/self/statm") else {
        return 0;
    };
    resident(&text) * rustix::param::page_size() as u64
}

/// Pages that are resident, of the text of a `statm`.
fn resident(statm: &str) -> u64 {
    let second = statm.split_ascii_whitespace().nth(1);
    second.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_told() {
        assert_eq!(resident("5260 4680 4405 3839 0 2103 0\n"), 4680);
        assert_eq!(resident(""), 0);
    }

    #[test]
    fn of_this_process_both_are_told() {
        assert!((1 << 20..1 << 30).contains(&memory()), "{}", memory());
        assert!(cpu() > Duration::ZERO);
    }
}
