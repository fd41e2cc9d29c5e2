// SPDX-License-Identifier: GPL-2.0-only
//! The writer with the real store, on a tree of plain files: what it records, writes and tells.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod machine;
mod numbers;
// The store's tests have a disk that fails where it is told to.
#[allow(dead_code)]
#[path = "../../store/tests/store/vfs.rs"]
mod vfs;
mod writer;
