// SPDX-License-Identifier: GPL-2.0-only
//! Why a scheduler left.

use crate::call::read_only_value;
use crate::pins;
use libbpf_rs::MapHandle;
use std::path::Path;

/// Why the kernel ended a scheduler (`struct tix_exit`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The kernel's `enum scx_exit_kind`.
    pub kind: i64,
    /// The kernel's words.
    pub reason: String,
    /// What it printed of its own state and of tix's (`bpf/dump.bpf.h`); empty if it did not.
    pub dump: String,
}

impl Exit {
    /// SCX_EXIT_UNREG: somebody took it out through its link or its pins.
    const UNREGISTERED: i64 = 64;

    /// Somebody wanted it out: no fault, and nothing to make good.
    pub fn on_purpose(&self) -> bool {
        self.kind == Self::UNREGISTERED
    }

    /// From the bytes of `struct tix_exit`; `None` while the scheduler runs.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Exit> {
        let (head, text) = bytes.split_at_checked(16)?;
        let kind = i64::from_ne_bytes(head[..8].try_into().ok()?);
        let (reason, text) = text.split_at_checked(128)?;
        let (message, dump) = text.split_at_checked(1024)?;
        if kind == 0 {
            return None;
        }
        let words = |bytes: &[u8]| {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let (reason, message) = (words(reason), words(message));
        let reason = if message.is_empty() {
            reason
        } else {
            format!("{reason}: {message}")
        };
        let dump = words(dump);
        Some(Exit { kind, reason, dump })
    }
}

/// Why the scheduler that is pinned below `dir` left, if it did.
pub fn last_exit(dir: &Path) -> Option<Exit> {
    let map = MapHandle::from_pinned_path(pins::path(dir, pins::EXIT)).ok()?;
    Exit::from_bytes(&read_only_value(&map).ok()?)
}

#[cfg(test)]
mod tests {
    use super::Exit;

    fn bytes(kind: i64, reason: &str, message: &str, dump: &str) -> Vec<u8> {
        let mut all = [kind.to_ne_bytes(), [0; 8]].concat();
        for (text, room) in [(reason, 128), (message, 1024), (dump, 32768)] {
            let mut field = text.as_bytes().to_vec();
            field.resize(room, 0);
            all.extend(field);
        }
        all
    }

    #[test]
    fn an_exit_is_read_as_the_kernel_side_writes_it() {
        assert_eq!(Exit::from_bytes(&bytes(0, "", "", "")), None);
        assert_eq!(Exit::from_bytes(&[1; 20]), None);
        let stall =
            Exit::from_bytes(&bytes(1026, "runnable task stall", "make[7]", "CPU 0")).unwrap();
        assert_eq!(stall.reason, "runnable task stall: make[7]");
        assert_eq!(stall.dump, "CPU 0");
        assert!(!stall.on_purpose());
        let out = Exit::from_bytes(&bytes(64, "unregistered from user space", "", "")).unwrap();
        assert_eq!(out.reason, "unregistered from user space");
        assert!(out.on_purpose());
    }
}
