// SPDX-License-Identifier: GPL-2.0-only
//! A resource negotiator (Sullivan §3.2.1): it watches what one principal waits for and trades, on its behalf and a little at a time,
//! what it needs least for that.
//!
//! What a trade is worth depends on the program, on how much is traded and on what everybody else does, so nothing is computed in
//! advance: each trade is tried, and kept or undone by whether the principal itself got on better ("a trial-and-error approach"). The
//! other party judges for itself, and may undo it too.
//!
//! [`Negotiator`] is the whole of it: pure, without a clock. Readings and the market come in, what is to be done comes out. The program
//! around it reads files and talks to tixd.

#![forbid(unsafe_code)]

mod lane;
mod market;
mod negotiator;
mod news;
mod reading;
mod window;

pub use market::{Amount, Deal, Holding, Market, Offered};
pub use negotiator::{Act, Negotiator, Out, Settings};
pub use news::{News, What, waits};
pub use reading::{Pressure, Reading, counter, pressure, refaults};

use tix_api::Resource;

/// What is traded: the resources that the kernel tells the pressure of.
pub const TRADED: [Resource; 3] = [Resource::Cpu, Resource::Disk, Resource::Memory];

/// One number for each of [`TRADED`].
pub type Each<T> = [T; 3];

/// The place of a resource in [`Each`]; `None` if it is not traded.
pub fn index(resource: Resource) -> Option<usize> {
    TRADED.iter().position(|r| *r == resource)
}
