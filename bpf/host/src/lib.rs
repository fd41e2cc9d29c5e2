// SPDX-License-Identifier: GPL-2.0-only
//! The C core compiled for the host, behind safe calls: for tests and simulations of the very code that the kernel runs.
//!
//! It is sound because every index is checked here before it reaches C, each object is
//! owned by one Rust value that threads do not share (they may pass it on), and the layouts are the
//! headers' own (`repr(C)`).
use std::ptr::NonNull;

pub const NONE: u32 = u32::MAX;
pub const SLOTS: u32 = 64;
pub const GROUPS: u32 = 224;
pub const ONE: u64 = 1 << 62;
pub const SELF: u32 = 100;
pub const FUNDERS: usize = 16;

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

#[repr(C)]
#[derive(Clone, Copy)]
struct RawEdge {
    issuer: u32,
    amount: u32,
}

/// A ticket; `part`: of what the holder gives while it is inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub issuer: u32,
    pub amount: u32,
    pub hard: bool,
    pub part: u16,
}

/// A node's state but for its value; of base, `rest` is what rests with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub issued: u64,
    pub hard_issued: u64,
    pub hard_active: u64,
    pub nr_active: u64,
    pub deltas: u64,
    pub rest: i64,
    pub soft_rest: i64,
    pub gave: i64,
}

enum RawQueue {}
enum RawFund {}

unsafe extern "C" {
    safe fn core_ctz64(x: u64) -> u32;
    safe fn core_fls64(x: u64) -> u32;
    safe fn core_mul_q62(a: u64, b: u64) -> u64;
    safe fn core_mul_q32(ns: u64, inv: u64) -> u64;
    safe fn core_ratio(amount: u64, sum: u64) -> u64;
    safe fn core_quotient(a: u64, b: u64) -> u64;
    safe fn core_vtrr_shift(group: u32) -> u32;
    safe fn core_vtrr_group_of(period: u64) -> u32;
    safe fn core_vtrr_period(group: u32) -> u64;
    safe fn core_before(a: &Choice, b: &Choice) -> bool;

    fn core_queue_new(clients: u32) -> *mut RawQueue;
    fn core_queue_free(q: *mut RawQueue);
    fn core_queue_link(q: *mut RawQueue, c: u32, tag: u64, group: u32, front: bool, since: u64);
    fn core_queue_age(q: *mut RawQueue, c: u32, since: u64);
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
    fn core_queue_map(q: *const RawQueue, word: u32) -> u64;
    fn core_group_map(q: *const RawQueue, group: u32) -> u64;
    fn core_group_lo(q: *const RawQueue, group: u32) -> u64;
    fn core_slot_head(q: *const RawQueue, group: u32, slot: u32) -> u32;
    fn core_slot_tail(q: *const RawQueue, group: u32, slot: u32) -> u32;
    fn core_client(q: *const RawQueue, c: u32) -> Client;

    fn core_fund_new(nodes: u32) -> *mut RawFund;
    fn core_fund_free(f: *mut RawFund);
    fn core_fund_self(f: *mut RawFund, n: u32, active: bool);
    fn core_fund_back(
        f: *mut RawFund,
        n: u32,
        edges: *const RawEdge,
        parts: *const u16,
        nr: u32,
        hard: u32,
        delta: i64,
    );
    fn core_fund_total(f: *mut RawFund, total: u64);
    fn core_fund_state(f: *const RawFund, n: u32) -> State;
    fn core_fund_refresh(f: *mut RawFund, n: u32);
    fn core_fund_value(f: *const RawFund, n: u32) -> u64;
    fn core_fund_self_value(f: *mut RawFund, n: u32) -> u64;
    fn core_fund_self_raw(f: *mut RawFund, n: u32) -> u64;
    fn core_fund_share(f: *mut RawFund, value: u64) -> u64;
    fn core_fund_now(f: *mut RawFund, v: u64);
    fn core_lead_period(to: *mut Limit, told: *const Told, now: u64, most: u64) -> bool;
    fn core_fund_self_due(f: *mut RawFund, n: u32) -> u64;
    safe fn core_fund_stayed(more: i64, amount: u64, others: u64) -> i64;
    fn core_fund_owes(f: *mut RawFund, n: u32) -> i64;
    fn core_fund_forget(f: *mut RawFund, n: u32);
    fn core_fund_late(f: *mut RawFund, n: u32, ns: i64, most: u64) -> u64;
    fn core_fund_bear(f: *mut RawFund, n: u32, lead: i64, came: bool, most: u64) -> u64;
    fn core_fund_rate(f: *const RawFund) -> u64;
    fn core_fund_ver(f: *const RawFund, n: u32) -> u64;
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

pub fn ratio(amount: u64, sum: u64) -> u64 {
    core_ratio(amount, sum)
}

pub fn quotient(a: u64, b: u64) -> u64 {
    core_quotient(a, b)
}

/// What is due to who stayed, of `more` that was to who went and left `others` alone.
pub fn stayed(more: i64, amount: u64, others: u64) -> i64 {
    core_fund_stayed(more, amount, others)
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

impl Limit {
    /// Goes on with the period that was told, if that is to be believed; nothing is owed for longer than `most`.
    pub fn go_on(&mut self, told: &Told, now: u64, most: u64) -> bool {
        // SAFETY: both are references to what C declares alike, and it keeps neither.
        unsafe { core_lead_period(self, told, now, most) }
    }
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

    pub fn link(&mut self, c: u32, tag: u64, group: u32, front: bool, since: u64) {
        assert_eq!(self.client(c).linked, 0, "client {c} is linked");
        // SAFETY: the queue is from core_queue_new; it has client `c`, as `client` asserts, and that one is in no list.
        unsafe { core_queue_link(self.raw.as_ptr(), c, tag, group, front, since) }
    }

    pub fn unlink(&mut self, c: u32) {
        assert_eq!(self.client(c).linked, 1, "client {c} is not linked");
        // SAFETY: the queue is from core_queue_new; it has client `c`, and that one is in a list.
        unsafe { core_queue_unlink(self.raw.as_ptr(), c) }
    }

    /// Client `c`, which is linked, has waited since `since`.
    pub fn age(&mut self, c: u32, since: u64) {
        assert_eq!(self.client(c).linked, 1, "client {c} is not linked");
        // SAFETY: the queue is from core_queue_new; it has client `c`, and that one is in a list.
        unsafe { core_queue_age(self.raw.as_ptr(), c, since) }
    }

    /// Who was filed longest ago, if more than `limit` before `now`, or [`NONE`].
    pub fn overdue(&self, now: u64, limit: u64) -> u32 {
        // SAFETY: the queue is from core_queue_new, and is only read.
        unsafe { core_queue_overdue(self.raw.as_ptr(), now, limit) }
    }

    /// The choice at `now`, and the client, or [`NONE`].
    pub fn peek(&mut self, now: u64) -> (Choice, u32) {
        let mut choice = Choice::default();
        // SAFETY: the queue is from core_queue_new, and `choice` is there to be written.
        let c = unsafe { core_queue_peek(self.raw.as_ptr(), now, &mut choice) };
        (choice, c)
    }

    /// So many times, without a return to the caller: the next client is taken, runs for `quantum`
    /// ns, and is filed again. The last of them, or [`NONE`].
    pub fn run(&mut self, of: &[Period], clock: &mut Clock, quantum: u64, decisions: u64) -> u32 {
        assert_eq!(of.len(), self.clients as usize);
        // SAFETY: the queue is from core_queue_new, for as many clients as `of` has periods.
        unsafe { core_queue_run(self.raw.as_ptr(), of.as_ptr(), clock, quantum, decisions) }
    }

    /// All of it, as cache lines.
    pub fn lines(&self) -> &[[u8; 64]] {
        // SAFETY: zeroed when it was made, aligned to lines, whole lines long, and nobody writes meanwhile.
        unsafe {
            let lines = core_queue_size(self.clients) / 64;
            std::slice::from_raw_parts(self.raw.as_ptr().cast(), lines)
        }
    }

    pub fn nr(&self) -> u32 {
        // SAFETY: the queue is from core_queue_new, and is only read.
        unsafe { core_queue_nr(self.raw.as_ptr()) }
    }

    /// Whether anybody is in this group, or, from [`GROUPS`] on, whether a bit is set that stands for none.
    pub fn has(&self, group: u32) -> bool {
        assert!(group < GROUPS.next_multiple_of(64));
        // SAFETY: the queue is from core_queue_new, and its map has that word.
        let word = unsafe { core_queue_map(self.raw.as_ptr(), group / 64) };
        word >> (group % 64) & 1 == 1
    }

    /// How many groups are not empty.
    pub fn groups(&self) -> u32 {
        let words = 0..GROUPS.div_ceil(64);
        words
            // SAFETY: the queue is from core_queue_new, and its map has that word.
            .map(|n| unsafe { core_queue_map(self.raw.as_ptr(), n) }.count_ones())
            .sum()
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

/// One `struct fund_graph` and its nodes; node 0 is base.
pub struct Funds {
    raw: NonNull<RawFund>,
    nodes: u32,
}

impl Funds {
    pub fn new(nodes: u32) -> Funds {
        assert!(nodes > 0);
        // SAFETY: it only allocates, for one node at least; what it returns is looked at.
        let raw = NonNull::new(unsafe { core_fund_new(nodes) }).expect("memory");
        Funds { raw, nodes }
    }

    fn at(&self, n: u32) -> *mut RawFund {
        assert!(n < self.nodes);
        self.raw.as_ptr()
    }

    pub fn set_self(&mut self, n: u32, active: bool) {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_self(self.at(n), n, active) }
    }

    /// Replace the tickets that back `n`. The caller keeps the graph acyclic.
    pub fn back(&mut self, n: u32, edges: &[Edge], delta: i64) {
        assert!(edges.len() <= FUNDERS && edges.iter().all(|e| e.issuer < self.nodes));
        let parts: Vec<u16> = edges.iter().map(|e| e.part).collect();
        let hard = (0..).zip(edges).map(|(i, e)| u32::from(e.hard) << i).sum();
        let raw: Vec<RawEdge> = edges
            .iter()
            .map(|e| RawEdge {
                issuer: e.issuer,
                amount: e.amount,
            })
            .collect();
        let nr = edges.len() as u32;
        // SAFETY: `at` asserts that there is `n`; `raw` and `parts` have `nr` elements, no more than FUNDERS, of issuers that there are.
        unsafe { core_fund_back(self.at(n), n, raw.as_ptr(), parts.as_ptr(), nr, hard, delta) }
    }

    /// How many soft tickets base has issued; 0: as many as are active.
    pub fn set_total(&mut self, total: u64) {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_total(self.at(0), total) }
    }

    pub fn state(&self, n: u32) -> State {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_state(self.at(n), n) }
    }

    /// The value of `n`, which must be active, made fresh.
    pub fn value(&mut self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe {
            core_fund_refresh(self.at(n), n);
            core_fund_value(self.at(n), n)
        }
    }

    /// The part of the threads directly in `n`, after [`Funds::value`].
    pub fn self_value(&mut self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_self_value(self.at(n), n) }
    }

    /// The same in Q62 of the graph's scale, which is what runs are charged by; made fresh, so `n` must be active.
    pub fn self_raw(&mut self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe {
            core_fund_refresh(self.at(n), n);
            core_fund_self_raw(self.at(n), n)
        }
    }

    /// Virtual time: from then on what is due is what is due by then.
    pub fn set_now(&mut self, v: u64) {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_now(self.at(0), v) }
    }

    /// What the threads directly in `n` have been due, ns / 2^16, modulo 2^64.
    pub fn self_due(&mut self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_self_due(self.at(n), n) }
    }

    /// What `n`, which is inactive, has had more than its due, ns.
    pub fn owes(&mut self, n: u32) -> i64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_owes(self.at(n), n) }
    }

    /// `n`, which is inactive, owes nothing, nor is it owed anything.
    pub fn forget(&mut self, n: u32) {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_forget(self.at(n), n) }
    }

    /// The threads directly in `n`, which are not active, have had `ns` of CPU: virtual time, likewise.
    pub fn late(&mut self, n: u32, ns: i64, most: u64) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_late(self.at(n), n, ns, most) }
    }

    /// Those came or went having had `lead` ns more than their due: virtual time, which moves for that.
    pub fn bear(&mut self, n: u32, lead: i64, came: bool, most: u64) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_bear(self.at(n), n, lead, came, most) }
    }

    /// The part of the machine, Q62, that a value in Q62 of the scale stands for.
    pub fn share(&mut self, raw: u64) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_share(self.at(0), raw) }
    }

    /// The graph's scale divided by base's active tickets, Q32.32.
    pub fn rate(&self) -> u64 {
        // SAFETY: the graph is from core_fund_new, and is only read.
        unsafe { core_fund_rate(self.raw.as_ptr()) }
    }

    pub fn ver(&self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe { core_fund_ver(self.at(n), n) }
    }
}

impl Drop for Funds {
    fn drop(&mut self) {
        // SAFETY: it is from core_fund_new, and nobody has it after this.
        unsafe { core_fund_free(self.raw.as_ptr()) }
    }
}
