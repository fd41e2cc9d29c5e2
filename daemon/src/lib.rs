// SPDX-License-Identifier: GPL-2.0-only
//! tixd: requests go through a gate into a pure ledger; its values are pushed down to the kernel, which acts on them without ever
//! waiting for this process.

#![deny(unsafe_code)]

pub mod api;
pub mod core;
pub mod directory;
pub mod enforce;
pub mod govern;
pub mod lifeline;
pub mod parts;
pub mod policy;
pub mod repeats;
pub mod resident;
mod sys;

pub use tix_cgroupfs as cgroups;
pub use tix_ledger::{self as ledger, dealer};
pub use tix_store as store;
