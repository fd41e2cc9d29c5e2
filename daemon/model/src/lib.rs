// SPDX-License-Identifier: GPL-2.0-only
//! What tixd's crates share: numbers and names of things, resources, kinds of tickets, the rows
//! that the ledger is kept as, bounds, and amounts as people write them.
//!
//! Values and their text alone: no ledger, no file, no wire. It depends on no other crate of tix.

#![forbid(unsafe_code)]

mod bounds;
mod event;
mod file;
mod ids;
mod resource;
mod row;
pub mod shell;
pub mod units;

pub use bounds::*;
pub use event::EventKind;
pub use file::{File, Mark, Numbers, Written};
pub use ids::{BASE, By, Cid, LIFELINE, NOBODY, POLICY, TIXD};
pub use resource::{Kind, Resource};
pub use row::{Change, End, EndedLeg, Key, Leg, Row, Withdrawn};
