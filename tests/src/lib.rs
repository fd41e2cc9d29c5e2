// SPDX-License-Identifier: GPL-2.0-only
//! What measures tix: workloads that run inside a guest (`load`, driven by the binary `tix-load`),
//! and what boots the guest around them (`guest`).

#![deny(unsafe_code)]

pub mod alone;
pub mod attack;
pub mod bound;
pub mod daemon;
pub mod daemon_load;
pub mod daemon_wire;
pub mod force;
pub mod guest;
mod here;
pub mod hold;
pub mod load;
pub mod pages;
pub mod random;
pub mod results;
pub mod shell;
pub mod waits;
