// SPDX-License-Identifier: GPL-2.0-only
//! Who may pass for tixd. Where TIX_SOCKET leads to a place that others can write to, it need not
//! be tixd who listens there; and whoever does would be told what is asked, and believed.

use std::fs::read_to_string;

/// Is a server of this uid root's, or one of our own?
pub fn is_ours(server: u32) -> bool {
    let number = |text: String| text.trim().parse().ok();
    let nobody = read_to_string("/proc/sys/kernel/overflowuid").ok();
    let map = read_to_string("/proc/self/uid_map").unwrap_or_default();
    let nobody = nobody.and_then(number).filter(|_| !shows_all(&map));
    may_be(server, rustix::process::geteuid().as_raw(), nobody)
}

/// `nobody`: what uids look like from here that this user namespace does not have, root's among
/// them.
fn may_be(server: u32, own: u32, nobody: Option<u32>) -> bool {
    server == 0 || server == own || Some(server) == nobody
}

/// Is it a user namespace that has all uids, as they are?
fn shows_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_oneself_and_nobody_else() {
        assert!(may_be(0, 1000, None) && may_be(1000, 1000, None));
        assert!(!may_be(1001, 1000, None) && !may_be(1000, 0, None) && !may_be(65_534, 1000, None));
        // In a container of one's own root is nobody.
        assert!(may_be(65_534, 0, Some(65_534)) && !may_be(1001, 0, Some(65_534)));
    }

    #[test]
    fn whose_uids_these_are() {
        assert!(shows_all("         0          0 4294967295\n"));
        assert!(!shows_all("         0       1000          1\n") && !shows_all(""));
    }
}
