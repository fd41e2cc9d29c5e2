// SPDX-License-Identifier: GPL-2.0-only
//! What the members of a crew, and who leads it, see of each other in shared memory.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Gates of a crew; a member waits at one of them.
pub const GATES: usize = 2;

/// What a member writes about itself, on a cache line of its own.
#[repr(C, align(64))]
pub struct Slot {
    /// 1 when it stands at its gate.
    pub(super) ready: AtomicU32,
    /// When it was started.
    pub(super) born: AtomicU64,
    /// When it last looked at the clock, in ns; 0 before it ran at all.
    pub seen: AtomicU64,
    /// The longest time between two looks: the longest it waited for a CPU.
    pub wait: AtomicU64,
    /// What it counts, by the work's own meaning.
    pub count: AtomicU64,
}

#[repr(C)]
pub(super) struct Head {
    pub(super) gate: [AtomicU32; GATES],
    /// When each gate opened.
    pub(super) opened: [AtomicU64; GATES],
}
