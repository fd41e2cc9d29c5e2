// SPDX-License-Identifier: GPL-2.0-only
//! funding.h and exchange.h.

use std::ptr::NonNull;

use crate::FUNDERS;

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

enum RawFund {}

unsafe extern "C" {
    safe fn core_ratio(amount: u64, sum: u64) -> u64;
    safe fn core_quotient(a: u64, b: u64) -> u64;
    safe fn core_normal(x: u64, e: &mut i32) -> u64;
    safe fn core_pool(pool: u64, rest: u64, x: i64) -> u64;

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
    fn core_fund_rate(f: *const RawFund) -> u64;
    fn core_fund_ver(f: *const RawFund, n: u32) -> u64;
}

pub fn ratio(amount: u64, sum: u64) -> u64 {
    core_ratio(amount, sum)
}

pub fn quotient(a: u64, b: u64) -> u64 {
    core_quotient(a, b)
}

/// x as m * 2^e, m of 48 bits.
pub fn normal(x: u64) -> (u64, i32) {
    assert!(x > 0);
    let mut e = 0;
    (core_normal(x, &mut e), e)
}

/// The pool of base's soft tickets with what rests there, which has the sign of `x`.
pub fn pool(pool: u64, rest: u64, x: i64) -> u64 {
    core_pool(pool, rest, x)
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
        // SAFETY: `at` asserts that there is `n`; `raw` and `parts` have `nr` elements, no more than
        // FUNDERS, of issuers that there are.
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

    /// The same in Q62 of the graph's scale, which is what runs are charged by; made fresh, so `n`
    /// must be active.
    pub fn self_raw(&mut self, n: u32) -> u64 {
        // SAFETY: `at` asserts that the graph, which is from core_fund_new, has that node.
        unsafe {
            core_fund_refresh(self.at(n), n);
            core_fund_self_raw(self.at(n), n)
        }
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
