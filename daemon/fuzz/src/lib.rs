// SPDX-License-Identifier: GPL-2.0-only
//! tixd's API and its policies, fed with what nobody meant: the fuzz targets (`src/bin`), what they
//! have in common with the tests that replay the corpus, and a tixd in this process that any user
//! can be let in to.

#![forbid(unsafe_code)]

pub mod api;
pub mod calls;
pub mod policy;
pub mod world;
