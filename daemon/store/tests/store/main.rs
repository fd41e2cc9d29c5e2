// SPDX-License-Identifier: GPL-2.0-only
//! The store: what was acknowledged is there, whatever happens.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod common;
mod damage;
mod faults;
mod kill;
mod log;
mod power;
mod rows;
mod schemas;
mod spaces;
mod upgrade;
mod vfs;
mod work;
