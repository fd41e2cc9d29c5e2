// SPDX-License-Identifier: GPL-2.0-only
//! The store: what was acknowledged is there, whatever happens.

mod common;
mod rows;
