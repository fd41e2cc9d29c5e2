// SPDX-License-Identifier: GPL-2.0-only
//! What the commands ask of tixd, word for word, and what they make of its answers. The peer here
//! only listens and says what it was told to; that tixd means the same by it is tested with a real
//! one, in a guest.

#![allow(clippy::unwrap_used)]

mod completions;
mod peer;
mod reading;
mod steps;
mod trades;
