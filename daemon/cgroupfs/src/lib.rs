// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup tree as it is and as it changes.
//!
//! [`files`] reads one cgroup, by descriptor; [`follow`] keeps up with the tree by inotify and
//! tells what changed.

#![forbid(unsafe_code)]

pub mod files;
pub mod follow;

pub use files::{Cgroup, DISK_WEIGHTS, Error, Root};
pub use follow::{Change, Follower, INOTIFY};
