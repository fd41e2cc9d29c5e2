// SPDX-License-Identifier: GPL-2.0-only
//! The cgroups of an experiment: made below one directory, and gone with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::tree::{Node, Tree};

/// The experiment's own cgroup. Dropping it removes everything below it.
pub struct Arena {
    root: PathBuf,
}

impl Arena {
    /// Make `root` (a path below a cgroup2 mount) with the cpu controller for its children.
    pub fn new(root: &Path) -> Result<Self> {
        let parent = root.parent().context("the experiment needs a parent")?;
        enable_cpu(parent)?;
        fs::create_dir(root).with_context(|| format!("mkdir {}", root.display()))?;
        let arena = Self { root: root.into() };
        enable_cpu(root)?;
        Ok(arena)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Make the groups of `tree`. Weights are multiplied by `scale`: the kernel's own scheduler
    /// rounds small ones (`cpu.weight` 3 is 31 of its units, 1 is 10).
    pub fn grow(&self, tree: &Tree, scale: u32) -> Result<()> {
        tree.0.iter().try_for_each(|n| grow(&self.root, n, scale))
    }

    /// One group at `path` below the experiment, its parents there already.
    pub fn add(&self, path: &Path, weight: u32) -> Result<PathBuf> {
        let dir = self.root.join(path);
        add(&dir, weight)?;
        Ok(dir)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Err(e) = remove_tree(&self.root) {
            eprintln!("tix-load: {e:#}");
        }
    }
}

fn grow(parent: &Path, node: &Node, scale: u32) -> Result<()> {
    let dir = parent.join(&node.name);
    add(&dir, node.weight * scale)?;
    if !node.children.is_empty() {
        enable_cpu(&dir)?;
    }
    node.children.iter().try_for_each(|n| grow(&dir, n, scale))
}

fn add(dir: &Path, weight: u32) -> Result<()> {
    fs::create_dir(dir).with_context(|| format!("mkdir {}", dir.display()))?;
    set(dir, "cpu.weight", weight)
}

/// Write `value` to a cgroup's file.
pub fn set(dir: &Path, file: &str, value: impl std::fmt::Display) -> Result<()> {
    let path = dir.join(file);
    fs::write(&path, value.to_string())
        .with_context(|| format!("write {value} to {}", path.display()))
}

/// Have the children of `dir` controlled for CPU.
pub fn enable_cpu(dir: &Path) -> Result<()> {
    set(dir, "cgroup.subtree_control", "+cpu")
}

/// The directory, opened for a fork straight into it.
pub fn open(dir: &Path) -> Result<File> {
    File::open(dir).with_context(|| format!("open {}", dir.display()))
}

/// Remove an empty cgroup. A process that was just reaped may still be counted for a moment.
pub fn remove(dir: &Path) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => bail!("rmdir {}: {e}", dir.display()),
        }
    }
}

/// Remove a cgroup and all below it.
pub fn remove_tree(dir: &Path) -> Result<()> {
    let list = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    for entry in list {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    remove(dir)
}
