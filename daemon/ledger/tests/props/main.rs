// SPDX-License-Identifier: GPL-2.0-only
//! The invariants of model.md §3 over random graphs and random histories of every operation,
//! against an oracle written independently.
//!
//! `cargo test` does about 100,000 operations; `soak_a_million_operations` (ignored; `make soak`)
//! ten times as many, or `TIX_OPS`.

#![allow(clippy::unwrap_used)]

mod invariants;
mod isolation;
mod kept;
mod lifeline;
mod limits;
mod model;
// daemon/tests/reconcile has parts of it to itself.
#[allow(dead_code)]
mod oracle;
mod random;
mod world;
