// SPDX-License-Identifier: GPL-2.0-only
//! What the C side of the machine takes and gives, as it is laid out there (`kernel.c`, `intf.h`).

use std::ffi::{c_char, c_void};

use crate::Counts;

/// What a node is made as: a currency, or a limit (`TIX_NODE_NAMED`, `TIX_NODE_LIMIT`).
pub(crate) const NAMED: u32 = 2;
pub(crate) const LIMIT: u32 = 8;

#[repr(C)]
pub(crate) struct RawAction {
    pub(crate) arg: u64,
    pub(crate) what: u32,
    pub(crate) pad: u32,
}

pub(crate) const FUNDERS: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct RawEdge {
    pub(crate) issuer: u32,
    pub(crate) amount: u32,
}

#[repr(C)]
pub(crate) struct RawFunding {
    pub(crate) node: u32,
    pub(crate) by_parent: u32,
    pub(crate) nr: u32,
    pub(crate) err: i32,
    pub(crate) hard: u32,
    pub(crate) pad: u32,
    pub(crate) delta: i64,
    pub(crate) id: u64,
    pub(crate) issuer_id: [u64; FUNDERS],
    pub(crate) edge: [RawEdge; FUNDERS],
    pub(crate) part: [u16; FUNDERS],
}

#[repr(C)]
pub(crate) struct RawName {
    pub(crate) create: u32,
    pub(crate) node: u32,
    pub(crate) err: i32,
    pub(crate) pad: u32,
    pub(crate) cid: u64,
}

#[repr(C)]
pub(crate) struct RawLimit {
    pub(crate) node: u32,
    pub(crate) cap: u32,
    pub(crate) err: i32,
    pub(crate) pad: u32,
    pub(crate) quota_us: u64,
    pub(crate) period_us: u64,
    pub(crate) id: u64,
    pub(crate) cap_id: u64,
}

pub(crate) type Next = extern "C" fn(*mut c_void, u32, u64, *mut RawAction);
pub(crate) type Happened = extern "C" fn(*mut c_void, u32, u32, u32, u64);

unsafe extern "C" {
    pub(crate) fn lab_new(
        cpus: u32,
        switch_ns: u64,
        next: Next,
        event: Happened,
        ctx: *mut c_void,
    ) -> i32;
    pub(crate) fn lab_free();
    pub(crate) fn lab_run(until: u64) -> u64;
    pub(crate) fn lab_cgroup(parent: u32, weight: u32) -> u32;
    pub(crate) fn lab_thread(cgroup: u32, weight: u32, cpus: u64, is_kernel: bool) -> u32;
    pub(crate) fn lab_weight(cgroup: u32, weight: u32);
    pub(crate) fn lab_limit(cgroup: u32, period_us: u64, quota_us: u64);
    pub(crate) fn lab_move(thread: u32, cgroup: u32);
    pub(crate) fn lab_nice(thread: u32, weight: u32);
    pub(crate) fn lab_cpus(thread: u32, cpus: u64);
    pub(crate) fn lab_wake(thread: u32);
    pub(crate) fn lab_exit(thread: u32);
    pub(crate) fn lab_used(thread: u32) -> u64;
    pub(crate) fn lab_moves(thread: u32) -> u64;
    pub(crate) fn lab_is_runnable(thread: u32) -> bool;
    pub(crate) fn lab_is_running(thread: u32) -> bool;
    pub(crate) fn lab_cpu_of(thread: u32) -> u32;
    pub(crate) fn lab_now() -> u64;
    pub(crate) fn lab_decisions() -> u64;
    pub(crate) fn lab_switches() -> u64;
    pub(crate) fn lab_failure() -> *const c_char;
    pub(crate) fn lab_counts() -> Counts;
    pub(crate) fn lab_node(cgroup: u32) -> u32;
    pub(crate) fn lab_fund(args: *mut RawFunding) -> i32;
    pub(crate) fn lab_name(args: *mut RawName) -> i32;
    pub(crate) fn lab_cap(args: *mut RawLimit) -> i32;
    pub(crate) fn lab_total(total: u64);
    pub(crate) fn lab_dump();
    pub(crate) fn lab_trace();
}
