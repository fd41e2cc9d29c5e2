// SPDX-License-Identifier: GPL-2.0-only
//! Whether tixd sees cgroups by the names that they have here. In a cgroup namespace the own
//! cgroup, or one above it, is called `/`, and what lies outside has no name but one that begins
//! with `/..`.

use std::fs::{read_link, read_to_string};

/// What the kernel calls the first cgroup namespace, which sees all: it has that number everywhere.
const FIRST: &str = "cgroup:[4026531835]";

/// Is this the cgroup namespace that has all cgroups?
pub fn sees_all() -> bool {
    read_link("/proc/self/ns/cgroup").is_ok_and(|ns| ns.as_os_str() == FIRST)
}

/// Is the process `pid`, which listens, outside of the cgroup namespace that this one is in? 0: it
/// is outside of the PID namespace, too.
pub fn is_outside(pid: i32) -> bool {
    !sees_all() && is_outside_here(pid)
}

fn is_outside_here(pid: i32) -> bool {
    pid == 0 || read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| names_outside(&text))
}

fn names_outside(text: &str) -> bool {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    path.is_some_and(|path| path == "/.." || path.starts_with("/../"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_here_is_outside() {
        for (text, outside) in [
            ("0::/../../init.scope\n", true),
            ("1:cpuset:/x\n0::/..\n", true),
            ("0::/\n", false),
            ("0::/system.slice/tixd.service\n", false),
            ("0::/..tixd\n", false),
            ("", false),
        ] {
            assert_eq!(names_outside(text), outside, "{text}");
        }
    }
}
