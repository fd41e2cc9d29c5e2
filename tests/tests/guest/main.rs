// SPDX-License-Identifier: GPL-2.0-only
//! What only a real kernel can show. Every test boots a guest, so all are `#[ignore]`d:
//! `cargo test -p tix-tests NAME -- --ignored --nocapture`. They are one program, so that as many
//! run at a time as there are CPUs.

mod attacks;
mod builds;
mod clients;
mod cores;
mod cost;
mod cpus;
mod daemon;
mod judges;
mod kernels;
mod kthreads;
mod locks;
mod matrix;
mod nodes;
mod package;
mod resources;
mod rules;
mod shares;
mod soak;
mod suspend;
