// SPDX-License-Identifier: GPL-2.0-only
//! The C core compiled for the host, behind safe calls: for tests and simulations of the very code
//! that the kernel runs.
//!
//! It is sound because every index is checked here before it reaches C, each object is
//! owned by one Rust value that threads do not share (they may pass it on), and the layouts are the
//! headers' own (`repr(C)`).

pub mod account;
mod cpu;
mod funds;
mod queue;

pub use cpu::{Cpu, Pick, State as CpuState, Thread, queue_weight};
pub use funds::{Edge, Funds, State, normal, pool, quotient, ratio};
pub use queue::{Choice, Client, Clock, Period, Queue, before, group_of, period, shift};

pub const NONE: u32 = u32::MAX;
pub const SLOTS: u32 = 64;
pub const SUB_BITS: u32 = 1;
pub const GROUPS: u32 = 32 << SUB_BITS;
pub const ONE: u64 = 1 << 62;
pub const SELF: u32 = 100;
pub const FUNDERS: usize = 16;

/// A limit, and how far its period is, ns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub quota: u64,
    pub every: u64,
    pub burst: u64,
    pub left: i64,
    pub next_at: u64,
}

/// What the old one tells of its.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub quota: u64,
    pub every: u64,
    pub left: i64,
    pub next_at: u64,
}

unsafe extern "C" {
    safe fn core_ctz64(x: u64) -> u32;
    safe fn core_fls64(x: u64) -> u32;
    safe fn core_mul_q62(a: u64, b: u64) -> u64;
    safe fn core_mul_q32(ns: u64, inv: u64) -> u64;
    fn core_lead_period(to: *mut Limit, told: *const Told, now: u64, most: u64) -> bool;
}

pub fn ctz64(x: u64) -> u32 {
    core_ctz64(x)
}

pub fn fls64(x: u64) -> u32 {
    core_fls64(x)
}

pub fn mul_q62(a: u64, b: u64) -> u64 {
    core_mul_q62(a, b)
}

pub fn mul_q32(ns: u64, inv: u64) -> u64 {
    core_mul_q32(ns, inv)
}

impl Limit {
    /// Goes on with the period that was told, if that is to be believed; nothing is owed for longer
    /// than `most`.
    pub fn go_on(&mut self, told: &Told, now: u64, most: u64) -> bool {
        // SAFETY: both are references to what C declares alike, and it keeps neither.
        unsafe { core_lead_period(self, told, now, most) }
    }
}
