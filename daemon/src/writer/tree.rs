// SPDX-License-Identifier: GPL-2.0-only
//! The tree of cgroups, as far as it has been told.

use crate::reconcile::memory;
use std::collections::BTreeMap;
use tix_cgroupfs::Root;

pub struct Tree {
    pub root: Root,
    /// It is mounted with `memory_recursiveprot`.
    pub recursive: bool,
    /// All of it has been told.
    pub complete: bool,
    /// What of it cannot be read, by path.
    pub trouble: BTreeMap<String, String>,
}

impl Tree {
    pub(super) fn new(root: Root) -> Tree {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Tree {
            recursive: memory::is_recursive(root.path(), &mounts),
            root,
            complete: false,
            trouble: BTreeMap::new(),
        }
    }

    /// The cgroup `path` can be read, or is gone.
    pub(super) fn found(&mut self, path: &str) {
        self.trouble.remove(path);
    }

    pub(super) fn mended(&mut self, path: &str) {
        if let Some(what) = self.trouble.remove(path) {
            tracing::info!("over: {what}");
        }
    }

    pub(super) fn trouble(&mut self, path: String, what: String) {
        if self.trouble.get(&path) != Some(&what) {
            tracing::warn!("{what}");
            self.trouble.insert(path, what);
        }
    }
}
