// SPDX-License-Identifier: GPL-2.0-only
//! What the ledger allows and what becomes of it, case by case.

#![allow(clippy::unwrap_used)]

mod bindings;
mod caps;
mod common;
mod exchanges;
mod hard;
mod lifeline;
mod limits;
mod market;
mod place;
mod spaces;
mod tickets;
