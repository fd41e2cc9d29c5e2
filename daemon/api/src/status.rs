// SPDX-License-Identifier: GPL-2.0-only
//! Is all well?

use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// How shares are being enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "snake_case")]
#[zlink(rename_all = "snake_case")]
pub enum Enforcer {
    /// tix's scheduler is in force.
    SchedExt,
    /// No sched_ext, or the scheduler cannot be kept in force: the kernel's own scheduler with
    /// `cpu.weight` written by tixd.
    CpuWeight,
    /// Nothing, `--observe` or another sched_ext scheduler: see `problems`.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct SchedulerStatus {
    pub enforcer: Enforcer,
    /// Whether tix's scheduler is in force, as the kernel says.
    pub in_force: bool,
    /// The kernel's `sched_ext/state`: `enabled`, `disabled`, …, or `unsupported`.
    pub state: String,
    /// The name of the scheduler in force, if any.
    pub ops: Option<String>,
    /// Why it last left, or could not be loaded.
    pub reason: Option<String>,
    /// How often tixd has loaded it again after the kernel ejected it.
    pub reloads: u64,
    /// Cgroups that share their parent's principal, because there are more than the scheduler
    /// holds.
    pub shared_cgroups: u64,
    /// Principals and currencies in the scheduler's tables, and the room there is.
    pub nodes: u64,
    pub nodes_max: u64,
    /// Threads that were run out of turn because they had waited too long (every runnable thread
    /// runs at least every 10 s).
    pub forced_runs: u64,
    /// CPU time, microseconds, of holders of the kernel's locks that was charged to other
    /// principals, which waited for those.
    pub lent_usec: u64,
}

/// What tix itself takes of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct CostStatus {
    /// CPU time of tixd since it started, microseconds.
    pub cpu_usec: u64,
    /// tixd's memory, bytes, without what the scheduler has.
    pub memory_bytes: u64,
    /// The scheduler's maps in the kernel, bytes; not what hangs on each thread, some hundred
    /// bytes. 0: there is none.
    pub maps_bytes: u64,
}

/// What in the kernel shares a disk among cgroups by their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "snake_case")]
#[zlink(rename_all = "snake_case")]
pub enum DiskMechanism {
    /// The io controller's cost model, by `io.weight`.
    Iocost,
    /// The I/O scheduler BFQ, by `io.bfq.weight`.
    Bfq,
    /// Nothing: weights have no effect on it.
    None,
}

/// How shares of a block device are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct DiskStatus {
    /// As in /dev: `vda`.
    pub device: String,
    /// `MAJOR:MINOR`, as the files of cgroups name it.
    pub number: String,
    pub mechanism: DiskMechanism,
    /// Of iocost: at what rate it issues requests, per cent of what its model of the device says.
    pub rate: Option<f64>,
    /// What to do where nothing holds shares; empty otherwise.
    pub hint: String,
}

/// What turned on shares of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct DiskEnableReply {
    pub mechanism: DiskMechanism,
    /// What was measured for iocost: reads of 4 KiB in a second, anywhere and in a row, and bytes
    /// in large ones. Null for BFQ.
    pub random_iops: Option<u64>,
    pub sequential_iops: Option<u64>,
    pub bytes_per_sec: Option<u64>,
    /// What was written into `io.cost.model` and `io.cost.qos`. Null for BFQ.
    pub model: Option<String>,
    pub qos: Option<String>,
}

/// What turned off shares of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct DiskDisableReply {
    /// What held them until now.
    pub was: DiskMechanism,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Problem {
    /// What, and where.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Something that happened to what is the caller's, and that the caller did not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Notice {
    /// Microseconds since 1970.
    pub time_usec: u64,
    /// The word that its event has for its kind.
    pub kind: String,
    /// What happened, and to which currency.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

/// Can what is asked of tixd be kept?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct StoreStatus {
    /// False: the ledger can be read, but every operation is refused.
    pub writable: bool,
    /// Why not; null while it is writable.
    pub reason: Option<String>,
}

/// The policy: the files that say what root wants, whatever happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct PolicyStatus {
    /// Where its files are.
    pub directory: String,
    /// Files read, and rules in force from them.
    pub files: u64,
    pub rules: u64,
    /// Each names the file and the line; empty when all is well.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct StatusReply {
    /// tixd's version.
    pub version: String,
    /// Microseconds since tixd started.
    pub uptime_usec: u64,
    /// Null: tixd is older than this.
    #[serde(default)]
    pub cost: Option<CostStatus>,
    pub scheduler: SchedulerStatus,
    /// Ordered by name.
    pub disks: Vec<DiskStatus>,
    /// Currencies in the ledger, those that mirror cgroups included.
    pub currencies: u64,
    /// Of those, the ones that mirror cgroups.
    pub cgroups: u64,
    /// All soft cpu tickets that base has issued (T).
    pub base_tickets: u64,
    /// Limits of the CPU in force, of cgroups (`cpu.max`) and of currencies; null: tixd does not
    /// know, or is older than this.
    #[serde(default)]
    pub limits: Option<u64>,
    /// The caller's user currency: where `run` takes tickets from by default; null if the caller
    /// has none.
    pub user_currency: Option<String>,
    /// Empty when all is well.
    pub problems: Vec<Problem>,
    /// What concerns the caller, newest last.
    pub notices: Vec<Notice>,
    pub store: StoreStatus,
    pub policy: PolicyStatus,
}
