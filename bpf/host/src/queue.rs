// SPDX-License-Identifier: GPL-2.0-only
//! vtrr.h.

use std::ptr::NonNull;

use crate::{GROUPS, SLOTS};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub tag: u64,
    pub since: u64,
    pub next: u32,
    pub prev: u32,
    pub older: u32,
    pub newer: u32,
    pub group: u16,
    pub slot: u16,
    pub linked: u32,
    pub weight: u32,
    pub counted: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub head: u64,
    pub finish: u64,
    pub eligible: u32,
    pub group: u32,
}

/// How far a client's tag moves in a quantum, virtual ns, and the group that it is in for that.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    period: u64,
    group: u32,
}

impl Period {
    pub fn new(period: u64) -> Period {
        let group = group_of(period);
        Period { period, group }
    }

    pub fn ns(self) -> u64 {
        self.period
    }
}

/// Virtual time, ns, and how many decisions were made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub now: u64,
    pub decisions: u64,
}

enum RawQueue {}

unsafe extern "C" {
    safe fn core_vtrr_shift(group: u32) -> u32;
    safe fn core_vtrr_group_of(period: u64) -> u32;
    safe fn core_vtrr_period(group: u32) -> u64;
    safe fn core_before(a: &Choice, b: &Choice) -> bool;

    fn core_queue_new(clients: u32) -> *mut RawQueue;
    fn core_queue_free(q: *mut RawQueue);
    fn core_queue_link(q: *mut RawQueue, c: u32, tag: u64, group: u32, since: u64, is_oldest: bool);
    fn core_queue_refile(q: *mut RawQueue, c: u32, tag: u64, group: u32);
    fn core_queue_overdue(q: *const RawQueue, now: u64, limit: u64) -> u32;
    fn core_queue_unlink(q: *mut RawQueue, c: u32);
    fn core_queue_peek(q: *mut RawQueue, now: u64, choice: *mut Choice) -> u32;
    fn core_queue_size(clients: u32) -> usize;
    fn core_queue_run(
        q: *mut RawQueue,
        of: *const Period,
        clock: &mut Clock,
        quantum: u64,
        decisions: u64,
    ) -> u32;
    fn core_queue_nr(q: *const RawQueue) -> u32;
    fn core_queue_map(q: *const RawQueue) -> u64;
    fn core_group_map(q: *const RawQueue, group: u32) -> u64;
    fn core_group_lo(q: *const RawQueue, group: u32) -> u64;
    fn core_slot_head(q: *const RawQueue, group: u32, slot: u32) -> u32;
    fn core_slot_tail(q: *const RawQueue, group: u32, slot: u32) -> u32;
    fn core_client(q: *const RawQueue, c: u32) -> Client;
}

pub fn shift(group: u32) -> u32 {
    assert!(group < GROUPS);
    core_vtrr_shift(group)
}

pub fn group_of(period: u64) -> u32 {
    core_vtrr_group_of(period)
}

pub fn period(group: u32) -> u64 {
    assert!(group < GROUPS);
    core_vtrr_period(group)
}

pub fn before(a: &Choice, b: &Choice) -> bool {
    core_before(a, b)
}

/// One `struct vtrr` and its clients.
pub struct Queue {
    raw: NonNull<RawQueue>,
    clients: u32,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Queue {}

impl Queue {
    pub fn new(clients: u32) -> Queue {
        // SAFETY: it only allocates; what it returns is looked at.
        let raw = NonNull::new(unsafe { core_queue_new(clients) }).expect("memory");
        Queue { raw, clients }
    }

    pub fn client(&self, c: u32) -> Client {
        assert!(c < self.clients);
        // SAFETY: the queue is from core_queue_new, for more clients than `c`.
        unsafe { core_client(self.raw.as_ptr(), c) }
    }

    /// `is_oldest`: it counts as the one that has waited longest, else as the one that came last.
    pub fn link(&mut self, c: u32, tag: u64, group: u32, since: u64, is_oldest: bool) {
        assert!(group < GROUPS);
        assert_eq!(self.client(c).linked, 0, "client {c} is linked");
        // SAFETY: the queue is from core_queue_new; it has the group, and `c`, which is in no list.
        unsafe { core_queue_link(self.raw.as_ptr(), c, tag, group, since, is_oldest) }
    }

    /// Put client `c`, which is linked, elsewhere; its age is as it was.
    pub fn refile(&mut self, c: u32, tag: u64, group: u32) {
        assert!(group < GROUPS);
        assert_eq!(self.client(c).linked, 1, "client {c} is not linked");
        // SAFETY: the queue is from core_queue_new; it has the group, and `c`, which is in a list.
        unsafe { core_queue_refile(self.raw.as_ptr(), c, tag, group) }
    }

    pub fn unlink(&mut self, c: u32) {
        assert_eq!(self.client(c).linked, 1, "client {c} is not linked");
        // SAFETY: the queue is from core_queue_new; it has client `c`, and that one is in a list.
        unsafe { core_queue_unlink(self.raw.as_ptr(), c) }
    }

    /// The thread that has waited longest, if longer than `limit` at `now`, or [`crate::NONE`].
    pub fn overdue(&self, now: u64, limit: u64) -> u32 {
        // SAFETY: the queue is from core_queue_new, and is only read.
        unsafe { core_queue_overdue(self.raw.as_ptr(), now, limit) }
    }

    /// The choice at `now`, and the client, or [`crate::NONE`].
    pub fn peek(&mut self, now: u64) -> (Choice, u32) {
        let mut choice = Choice::default();
        // SAFETY: the queue is from core_queue_new, and `choice` is there to be written.
        let c = unsafe { core_queue_peek(self.raw.as_ptr(), now, &mut choice) };
        (choice, c)
    }

    /// So many times, without a return to the caller: the next client is taken, runs for `quantum`
    /// ns, and is filed again. The last of them, or [`crate::NONE`].
    pub fn run(&mut self, of: &[Period], clock: &mut Clock, quantum: u64, decisions: u64) -> u32 {
        assert_eq!(of.len(), self.clients as usize);
        // SAFETY: the queue is from core_queue_new, for as many clients as `of` has periods.
        unsafe { core_queue_run(self.raw.as_ptr(), of.as_ptr(), clock, quantum, decisions) }
    }

    /// All of it, as cache lines.
    pub fn lines(&self) -> &[[u8; 64]] {
        // SAFETY: zeroed when it was made, aligned to lines, whole lines long, and only read.
        unsafe {
            let lines = core_queue_size(self.clients) / 64;
            std::slice::from_raw_parts(self.raw.as_ptr().cast(), lines)
        }
    }

    pub fn nr(&self) -> u32 {
        // SAFETY: the queue is from core_queue_new, and is only read.
        unsafe { core_queue_nr(self.raw.as_ptr()) }
    }

    /// The groups that are not empty, a bit each.
    pub fn map(&self) -> u64 {
        // SAFETY: the queue is from core_queue_new, and is only read.
        unsafe { core_queue_map(self.raw.as_ptr()) }
    }

    pub fn group_map(&self, group: u32) -> u64 {
        assert!(group < GROUPS);
        // SAFETY: the queue is from core_queue_new, and has the group.
        unsafe { core_group_map(self.raw.as_ptr(), group) }
    }

    pub fn group_lo(&self, group: u32) -> u64 {
        assert!(group < GROUPS);
        // SAFETY: the queue is from core_queue_new, and has the group.
        unsafe { core_group_lo(self.raw.as_ptr(), group) }
    }

    /// Head and tail of a slot's queue.
    pub fn slot(&self, group: u32, slot: u32) -> (u32, u32) {
        assert!(group < GROUPS && slot < SLOTS);
        let raw = self.raw.as_ptr();
        // SAFETY: the queue is from core_queue_new, and has the group and the slot.
        unsafe {
            (
                core_slot_head(raw, group, slot),
                core_slot_tail(raw, group, slot),
            )
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: it is from core_queue_new, and nobody has it after this.
        unsafe { core_queue_free(self.raw.as_ptr()) }
    }
}
