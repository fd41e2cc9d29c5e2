// SPDX-License-Identifier: GPL-2.0-only
//! What carries the ledger's values to the kernel: one module per resource. Policy is not decided
//! here.
//!
//! [`weight`] and [`protection`] say what files of cgroups should hold, [`disk`] and [`memory`]
//! write it, and [`provenance`] knows who wrote what is there. [`activity`] says who wants what,
//! [`usage`] what was used. [`compaction`] keeps the kernel from moving pages about that others
//! need.

pub mod activity;
pub mod bounds;
pub mod clocks;
pub mod compaction;
pub mod cpu;
pub mod demand;
pub mod disk;
pub mod enable;
mod files;
pub mod guarantees;
pub mod idle;
pub mod limit;
pub mod measure;
pub mod memory;
pub mod number;
pub mod presence;
pub mod protection;
pub mod provenance;
pub mod usage;
pub mod weight;

pub use files::Error;
