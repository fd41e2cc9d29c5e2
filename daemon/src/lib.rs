// SPDX-License-Identifier: GPL-2.0-only
//! tixd: requests go through a gate into a pure ledger; its values are pushed down to the kernel,
//! which acts on them without ever waiting for this process.

#![deny(unsafe_code)]

pub mod directory;
pub mod govern;
mod lane;
pub mod lifeline;
pub mod parts;
pub mod policy;
pub mod reconcile;
pub mod repeats;
pub mod resident;
pub mod server;
mod sys;
pub mod writer;

pub use tix_cgroupfs as cgroups;
pub use tix_ledger::{self as ledger, dealer};
pub use tix_store as store;
