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

/// Bytes of memory, those shared with other processes divided by how many they are; what is mapped of the scheduler's maps is the
/// kernel's, and counted there. 0 where the kernel does not tell.
pub fn memory() -> u64 {
    fs::read_to_string("/proc/self/smaps").map_or(0, |text| own(&text))
}

/// The same, of the text of a `smaps`.
fn own(smaps: &str) -> u64 {
    let mut maps = false;
    let mut kib = 0;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some("Pss:"), Some(number)) if !maps => kib += number.parse().unwrap_or(0),
            (Some(first), _) if !first.ends_with(':') => maps = line.contains("bpf-map"),
            _ => {}
        }
    }
    kib * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0a00000-55d0c0b00000 r-xp 00000000 08:01 1311 /usr/sbin/tixd
Size:               1024 kB
Pss:                 100 kB
Pss_Dirty:             7 kB
100000000000-100020000000 rw-s 00000000 00:0e 1061 anon_inode:bpf-map
Pss:                4000 kB
7ffc1a2b3000-7ffc1a2d4000 rw-p 00000000 00:00 0
Pss:                  20 kB
VmFlags: rd wr
";

    #[test]
    fn the_schedulers_maps_are_not_tixds_own() {
        assert_eq!(own(SMAPS), 120 * 1024);
    }

    #[test]
    fn of_this_process_both_are_told() {
        assert!(memory() > 0);
        assert!(cpu() > Duration::ZERO);
    }
}
