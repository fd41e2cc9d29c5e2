// SPDX-License-Identifier: GPL-2.0-only
//! systemd, where it makes the cgroups: the other writer of their files.
//!
//! [`Bus`] asks it over D-Bus, and [`PropertySync`] tells it what tixd has set, so that it sets the
//! same when it makes a cgroup anew.

#![forbid(unsafe_code)]

mod bus;
mod sync;

pub use bus::{Bus, Error, cgroup_of, enable_cpu, is_running, is_set, unit_at};
pub use sync::{Properties, PropertySync};
