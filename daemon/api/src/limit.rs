// SPDX-License-Identifier: GPL-2.0-only
//! Limits: how much CPU somebody may have at most.

use serde::{Deserialize, Serialize};
use zlink::introspect::CustomType;

/// Where a limit was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "snake_case")]
#[zlink(rename_all = "snake_case")]
pub enum LimitKind {
    /// In the file of a cgroup; it counts for the cgroup and all below.
    CpuMax,
    /// By `Limit`, for a currency; it counts for all that the currency funds.
    Currency,
}

/// A limit, and how often it was too little.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Limit {
    /// The currency that it was set for.
    pub currency: String,
    pub kind: LimitKind,
    /// CPU time, microseconds, that all of them may have together in each period.
    pub quota_usec: u64,
    /// 1 … 1,000,000 microseconds.
    pub period_usec: u64,
    /// What they may keep of earlier periods for later ones, microseconds.
    pub burst_usec: u64,
    /// Does it hold? Not a currency's while tix's scheduler is not in force, or while no cgroup
    /// that it is for has the cpu controller.
    pub in_force: bool,
    /// Periods that began since tix's scheduler was loaded; of `cpu.max` under the kernel's own as
    /// that counts. Of a time in which nobody ran they may be counted later.
    pub periods: u64,
    /// How often threads had to wait for the next one.
    pub throttled_periods: u64,
    /// For how long they had to, microseconds.
    pub throttled_usec: u64,
    /// Why it does not hold. Absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// While threads wait for its next period: until they may go on, microseconds, as of now.
    /// Absent while none does, or where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill_usec: Option<u64>,
}

impl Limit {
    /// Thousandths of one CPU, rounded down.
    pub fn milli(&self) -> u64 {
        self.quota_usec.saturating_mul(1000) / self.period_usec.max(1)
    }
}
