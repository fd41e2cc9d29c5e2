// SPDX-License-Identifier: GPL-2.0-only
//! What goes over the wire. Times are microseconds, fractions are of the whole machine (0 … 1), amounts are tickets.

use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// What tickets are tickets for. Only `cpu` can be funded as yet.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, CustomType,
)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Disk,
    Memory,
    Net,
}

/// A soft ticket is a weight among its issuer's active tickets; a hard one a guaranteed fraction of its issuer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, CustomType,
)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum Kind {
    Soft,
    Hard,
}

/// One ticket, seen from its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Funding {
    /// The issuing currency's name.
    pub from: String,
    pub resource: Resource,
    pub kind: Kind,
    /// Soft: tickets, 1 … 2^31.
    pub amount: u64,
}

/// One resource of one currency at the snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Share {
    /// The fraction of the machine that is guaranteed, whatever others do: 0 … 1.
    pub entitlement: f64,
    /// The fraction it gets now when every active principal wants more (V/T); 0 while it is inactive: 0 … 1.
    pub share: f64,
    /// CPU time used, microseconds, cumulative with descendants; never goes backwards.
    pub used_usec: u64,
}

/// A currency as `tixctl tree --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Currency {
    /// Its number; 0 is base. Not reused while tixd's state lives.
    pub cid: u64,
    /// Its name: `base`, a name given to `create`, or, mirroring a cgroup, that cgroup's path (`/` and more).
    pub name: String,
    /// The cgroup that it mirrors or (the first) that it is bound to; relative to the cgroup root, `/` for base; null if none.
    pub cgroup: Option<String>,
    /// The uid that owns it.
    pub owner: u32,
    /// Is one of its principals runnable?
    pub active: bool,
    /// Was it made by `run`, so that it goes with its cgroup?
    pub transient: bool,
    /// The tickets that back it.
    pub funding: Vec<Funding>,
    pub cpu: Share,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct TreeReply {
    /// Ordered by cid: base first.
    pub currencies: Vec<Currency>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct CurrencyName {
    pub cid: u64,
    pub name: String,
    pub cgroup: Option<String>,
    pub owner: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ListReply {
    pub currencies: Vec<CurrencyName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct CreateReply {
    pub cid: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct FundReply {
    /// What the ticket amounts to now; 0: it is gone.
    pub amount: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct BindReply {
    /// The cgroup that `target` turned out to be, relative to the cgroup root.
    pub cgroup: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct RunReply {
    /// The new currency.
    pub name: String,
    /// Who funds it.
    pub issuer: String,
    /// Tickets.
    pub amount: u64,
}

/// How shares are being enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "snake_case")]
#[zlink(rename_all = "snake_case")]
pub enum Enforcer {
    /// tix's scheduler is in force.
    SchedExt,
    /// No sched_ext, or the scheduler cannot be kept in force: the kernel's own scheduler with `cpu.weight` written by tixd.
    CpuWeight,
    /// Nothing: see `problems`.
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
    /// Cgroups that share their parent's principal, because there are more than the scheduler holds.
    pub shared_cgroups: u64,
    /// Principals and currencies in the scheduler's tables, and the room there is.
    pub nodes: u64,
    pub nodes_max: u64,
    /// Threads that were run out of turn because they had waited too long (every runnable thread runs at least every 10 s).
    pub forced_runs: u64,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Problem {
    /// What, and where.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct StatusReply {
    /// tixd's version.
    pub version: String,
    /// Microseconds since tixd started.
    pub uptime_usec: u64,
    pub scheduler: SchedulerStatus,
    /// Currencies in the ledger, those that mirror cgroups included.
    pub currencies: u64,
    /// Of those, the ones that mirror cgroups.
    pub cgroups: u64,
    /// All soft cpu tickets that base has issued (T).
    pub base_tickets: u64,
    /// The caller's user currency: where `run` takes tickets from by default; null if the caller has none.
    pub user_currency: Option<String>,
    /// Empty when all is well.
    pub problems: Vec<Problem>,
}

/// One ticket on a path from base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Step {
    pub issuer: String,
    pub holder: String,
    pub kind: Kind,
    pub amount: u64,
    /// The issuer's soft tickets that are active now, and all of them.
    pub issued_active: u64,
    pub issued: u64,
    /// Is this ticket active?
    pub active: bool,
}

/// One path through the funding graph, base first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct FundingPath {
    pub steps: Vec<Step>,
    /// What comes along this path, as a fraction of the machine: guaranteed, and now.
    pub entitlement: f64,
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct ExplainReply {
    pub currency: Currency,
    pub resource: Resource,
    /// T: all soft tickets that base has issued.
    pub base_tickets: u64,
    /// Largest entitlement first.
    pub paths: Vec<FundingPath>,
    /// There were more than 256 paths; these are the first found.
    pub truncated: bool,
}

/// What happened to a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "snake_case")]
#[zlink(rename_all = "snake_case")]
pub enum EventKind {
    Created,
    Destroyed,
    /// A ticket's amount changed; `amount` is the new one, 0: it is gone.
    Funded,
    Bound,
    Unbound,
    /// A cgroup appeared, went, or changed its owner.
    CgroupCreated,
    CgroupRemoved,
    CgroupChanged,
    /// The scheduler was loaded, ejected or given up; `message` says why.
    Scheduler,
    /// The watcher was too slow and missed events before this one.
    Missed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Event {
    /// Microseconds since 1970.
    pub time_usec: u64,
    pub kind: EventKind,
    /// The currency concerned (the holder, for a ticket).
    pub currency: Option<String>,
    /// The issuer, for a ticket.
    pub issuer: Option<String>,
    pub resource: Option<Resource>,
    pub amount: Option<u64>,
    /// The cgroup bound to or unbound from.
    pub cgroup: Option<String>,
    /// Who did it; null: nobody asked for it.
    pub uid: Option<u32>,
    /// One sentence.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct CurrencySample {
    pub cid: u64,
    pub name: String,
    pub cgroup: Option<String>,
    pub owner: u32,
    pub active: bool,
    pub cpu: Share,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct ProcessSample {
    pub pid: u32,
    pub uid: u32,
    /// The kernel's short name of it.
    pub comm: String,
    /// The cgroup path it is in.
    pub cgroup: String,
    /// CPU time used so far, microseconds (all threads, at the kernel's clock-tick resolution of 10,000).
    pub used_usec: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Sample {
    /// Microseconds since 1970.
    pub time_usec: u64,
    /// Microseconds of the kernel's monotonic clock: use it for rates.
    pub monotonic_usec: u64,
    /// Processors online.
    pub cpus: u32,
    pub currencies: Vec<CurrencySample>,
    /// Processes outside the root cgroup; null unless asked for.
    pub processes: Option<Vec<ProcessSample>>,
}

/// Exactly one of the two is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct WatchReply {
    pub event: Option<Event>,
    pub sample: Option<Sample>,
}
