// SPDX-License-Identifier: GPL-2.0-only
//! Amounts, modes and lengths of time as people write them.

pub mod rights;

pub use tix_model::units::*;
