// SPDX-License-Identifier: GPL-2.0-only
//! The store: what was acknowledged is there, whatever happens.
#![allow(clippy::unwrap_used)]

mod common;
mod faults;
mod power;
mod rows;
mod vfs;
mod work;
