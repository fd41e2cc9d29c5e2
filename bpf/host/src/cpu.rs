// SPDX-License-Identifier: GPL-2.0-only
//! core/queue.h: a CPU's queue, its threads and their clients.

use std::ptr::NonNull;

use crate::{Choice, Client, NONE};

/// A thread as its queue sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub tag: u64,
    pub period: u64,
    pub slice_ns: u32,
    /// Its weight in the mean.
    pub share: u32,
    pub group: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub zero: u64,
    pub weight: u64,
    pub clock: u64,
    pub reached: u64,
    pub overdue_ns: u64,
    pub moment: i64,
    /// Of the last pick.
    pub choice: Choice,
    pub nr: u32,
    pub review: u32,
    /// [`NONE`] where nobody waits.
    pub oldest: u32,
    /// The weight of what was picked last.
    pub running_share: u32,
}

/// What a pick comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This one runs, and is not linked any longer.
    Next(u32),
    /// The running thread goes on, or there is none.
    Stay,
    /// This one is to be filed anew first.
    Again(u32),
}

const AGAIN: u32 = NONE - 1;

enum RawCpu {}

unsafe extern "C" {
    safe fn core_weight(period: u64, slice_ns: u64) -> u32;

    fn core_cpu_new(threads: u32) -> *mut RawCpu;
    fn core_cpu_free(cpu: *mut RawCpu);
    fn core_cpu_thread(cpu: *const RawCpu, c: u32) -> Thread;
    fn core_cpu_place(cpu: *mut RawCpu, c: u32, tag: u64, period: u64, slice_ns: u32);
    fn core_cpu_link(cpu: *mut RawCpu, c: u32, now: u64);
    fn core_cpu_unlink(cpu: *mut RawCpu, c: u32);
    fn core_cpu_begin(cpu: *mut RawCpu, c: u32);
    fn core_cpu_refile(cpu: *mut RawCpu, c: u32);
    fn core_cpu_review(cpu: *mut RawCpu) -> u32;
    fn core_cpu_mean(cpu: *const RawCpu, running: u32, ran: u64) -> u64;
    fn core_cpu_join(cpu: *const RawCpu, running: u32, weight: u32) -> u32;
    fn core_cpu_goes_first(cpu: *mut RawCpu, c: u32, now: u64) -> bool;
    fn core_cpu_pick(cpu: *mut RawCpu, running: u32, now: u64, may: bool, early: &mut u32) -> u32;
    fn core_cpu_run(cpu: *mut RawCpu, running: u32, now: u64, decisions: u64) -> u32;
    fn core_cpu_state(cpu: *const RawCpu) -> State;
    fn core_cpu_set_clock(cpu: *mut RawCpu, clock: u64);
    fn core_cpu_client(cpu: *const RawCpu, c: u32) -> Client;
}

/// Weight in a queue's mean, 2^36 for all.
pub fn queue_weight(period: u64, slice_ns: u32) -> u32 {
    core_weight(period, slice_ns.into())
}

/// One `struct tix_queue` with the threads that may wait there.
pub struct Cpu {
    raw: NonNull<RawCpu>,
    threads: u32,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Cpu {}

impl Cpu {
    /// Its clock stands at `clock`.
    pub fn new(threads: u32, clock: u64) -> Cpu {
        // SAFETY: it only allocates; what it returns is looked at.
        let raw = NonNull::new(unsafe { core_cpu_new(threads) }).expect("memory");
        let mut cpu = Cpu { raw, threads };
        cpu.set_clock(clock);
        cpu
    }

    /// The queue, which has thread `c`.
    fn at(&self, c: u32) -> *mut RawCpu {
        assert!(c < self.threads);
        self.raw.as_ptr()
    }

    /// The queue, which has thread `c` linked, or not.
    fn where_it(&self, c: u32, is_linked: bool) -> *mut RawCpu {
        assert_eq!(self.is_linked(c), is_linked, "thread {c}");
        self.raw.as_ptr()
    }

    /// `running` as C has it: not linked, or NONE.
    fn running(&self, running: Option<u32>) -> u32 {
        assert!(running.is_none_or(|c| !self.is_linked(c)), "{running:?}");
        running.unwrap_or(NONE)
    }

    pub fn is_linked(&self, c: u32) -> bool {
        self.client(c).linked != 0
    }

    pub fn client(&self, c: u32) -> Client {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_client(self.at(c), c) }
    }

    pub fn thread(&self, c: u32) -> Thread {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_thread(self.at(c), c) }
    }

    /// Thread `c` is to run from `tag` on. One that is linked is not moved before [`Cpu::refile`].
    pub fn place(&mut self, c: u32, tag: u64, period: u64, slice_ns: u32) {
        assert!(slice_ns > 0);
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_place(self.at(c), c, tag, period, slice_ns) }
    }

    /// Thread `c` waits here from `now` on, or goes on waiting.
    pub fn link(&mut self, c: u32, now: u64) {
        assert!(self.thread(c).slice_ns > 0, "thread {c} has no place");
        // SAFETY: the queue is from core_cpu_new; it has that thread, which is in no list.
        unsafe { core_cpu_link(self.where_it(c, false), c, now) }
    }

    pub fn unlink(&mut self, c: u32) {
        // SAFETY: the queue is from core_cpu_new; it has that thread, which is in a list.
        unsafe { core_cpu_unlink(self.where_it(c, true), c) }
    }

    /// Thread `c` runs, or sleeps: how long it waited is of no account any longer.
    pub fn begin(&mut self, c: u32) {
        // SAFETY: the queue is from core_cpu_new; it has that thread.
        unsafe { core_cpu_begin(self.where_it(c, false), c) }
    }

    pub fn refile(&mut self, c: u32) {
        // SAFETY: the queue is from core_cpu_new; it has that thread, which is in a list.
        unsafe { core_cpu_refile(self.where_it(c, true), c) }
    }

    /// The waiting thread that is looked at next; one waits.
    pub fn review(&mut self) -> u32 {
        assert!(self.state().nr > 0);
        // SAFETY: the queue is from core_cpu_new, and its list is not empty.
        unsafe { core_cpu_review(self.raw.as_ptr()) }
    }

    /// V, where `running` is `ran` further in virtual time than its tag.
    pub fn mean(&self, running: Option<u32>, ran: u64) -> u64 {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_mean(self.raw.as_ptr(), self.running(running), ran) }
    }

    /// How much what joins with that weight moves V: Q8.
    pub fn join(&self, running: Option<u32>, weight: u32) -> u32 {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_join(self.raw.as_ptr(), self.running(running), weight) }
    }

    pub fn goes_first(&mut self, c: u32, now: u64) -> bool {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        unsafe { core_cpu_goes_first(self.where_it(c, false), c, now) }
    }

    /// `may`: it may say [`Pick::Again`].
    pub fn pick(&mut self, running: Option<u32>, now: u64, may: bool) -> Pick {
        let mut early = NONE;
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        let c = unsafe {
            core_cpu_pick(
                self.raw.as_ptr(),
                self.running(running),
                now,
                may,
                &mut early,
            )
        };
        match c {
            NONE => Pick::Stay,
            AGAIN => Pick::Again(early),
            c => Pick::Next(c),
        }
    }

    /// So many times: `running` has used its slice, and who is next runs. Who runs in the end.
    pub fn run(&mut self, running: Option<u32>, now: u64, decisions: u64) -> Option<u32> {
        // SAFETY: the queue is from core_cpu_new, and has that thread.
        let c = unsafe { core_cpu_run(self.raw.as_ptr(), self.running(running), now, decisions) };
        (c != NONE).then_some(c)
    }

    pub fn state(&self) -> State {
        // SAFETY: the queue is from core_cpu_new, and is only read.
        unsafe { core_cpu_state(self.raw.as_ptr()) }
    }

    /// As a CPU does that was idle for a while.
    pub fn set_clock(&mut self, clock: u64) {
        // SAFETY: the queue is from core_cpu_new, and nobody else has it.
        unsafe { core_cpu_set_clock(self.raw.as_ptr(), clock) }
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        // SAFETY: it is from core_cpu_new, and nobody has it after this.
        unsafe { core_cpu_free(self.raw.as_ptr()) }
    }
}
