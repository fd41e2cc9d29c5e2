// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of the control programs, as `intf.h` lays them out.

use crate::FUNDERS;
use bytemuck::{Pod, Zeroable};
use std::collections::HashMap;

/// A currency in the kernel's tables. Its place there is another's once it is gone, so who it is is
/// said with it: what has another's place by now is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    pub(crate) index: u32,
    /// The id of its cgroup, or the maker's number for it; 0 for base.
    pub(crate) id: u64,
}

impl NodeId {
    pub(crate) const BASE: NodeId = NodeId { index: 0, id: 0 };

    /// Its place in the tables.
    pub fn place(self) -> u32 {
        self.index
    }
}

/// A ticket as its holder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub issuer: NodeId,
    /// Soft: 1 … 2^31 of the issuer's tickets. Hard: thousandths of the issuer, 1 … 999.
    pub amount: u32,
    pub hard: bool,
    /// In which proportion to the holder's other tickets its exchange tickets, and what rests with
    /// it, rest with this issuer while the holder is inactive. All 0: with base.
    pub part: u16,
}

impl Edge {
    /// Soft tickets with which nothing rests.
    pub fn soft(issuer: NodeId, amount: u32) -> Edge {
        Edge {
            issuer,
            amount,
            hard: false,
            part: 0,
        }
    }
}

/// All that backs a currency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Funding {
    /// The first of `edges` is the parent's `cpu.weight` ticket (cgroups only): of what is said
    /// here only its `part` counts.
    pub by_parent: bool,
    /// At most [`FUNDERS`].
    pub edges: Vec<Edge>,
    /// Exchange tickets, thousandths of a base ticket.
    pub delta: i64,
}

pub const BATCH: usize = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawEdge {
    issuer: u32,
    amount: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct FundingArgs {
    pub node: u32,
    pub by_parent: u32,
    pub nr: u32,
    pub err: i32,
    pub hard: u32,
    pub pad: u32,
    pub delta: i64,
    pub id: u64,
    pub issuer_id: [u64; FUNDERS],
    pub edge: [RawEdge; FUNDERS],
    pub part: [u16; FUNDERS],
}

impl FundingArgs {
    /// `None` if there are too many tickets.
    pub fn new(holder: NodeId, funding: &Funding) -> Option<FundingArgs> {
        let mut args = FundingArgs {
            node: holder.index,
            by_parent: funding.by_parent.into(),
            nr: funding.edges.len() as u32,
            err: 0,
            hard: 0,
            pad: 0,
            delta: funding.delta,
            id: holder.id,
            issuer_id: [0; FUNDERS],
            edge: [RawEdge {
                issuer: 0,
                amount: 0,
            }; FUNDERS],
            part: [0; FUNDERS],
        };
        for (i, edge) in funding.edges.iter().enumerate() {
            let weight = funding.by_parent && i == 0;
            // The kernel side knows the weight ticket.
            let issuer = if weight { NodeId::BASE } else { edge.issuer };
            *args.edge.get_mut(i)? = RawEdge {
                issuer: issuer.index,
                amount: if weight { 1 } else { edge.amount },
            };
            args.issuer_id[i] = issuer.id;
            args.part[i] = edge.part;
            args.hard |= u32::from(edge.hard && !weight) << i;
        }
        Some(args)
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct LimitArgs {
    pub node: u32,
    pub cap: u32,
    pub err: i32,
    pub pad: u32,
    pub quota_us: u64,
    pub period_us: u64,
    pub id: u64,
    pub cap_id: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct NameArgs {
    pub create: u32,
    pub node: u32,
    pub err: i32,
    pub pad: u32,
    pub cid: u64,
}

#[derive(Default, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct TotalArgs {
    pub total: u64,
    pub err: i32,
    pub pad: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ReadArgs {
    pub node: u32,
    pub next: u32,
    pub flags: u32,
    pub weight: u32,
    pub active: u32,
    pub self_active: u32,
    pub runnable: u32,
    pub nr_edges: u32,
    pub used_ns: u64,
    pub value: u64,
    pub cgid: u64,
    pub delta: i64,
    pub hard: u32,
    pub cap: u32,
    pub quota_ns: u64,
    pub period_ns: u64,
    pub burst_ns: u64,
    pub nr_periods: u64,
    pub nr_throttled: u64,
    pub throttled_ns: u64,
    pub edge: [RawEdge; FUNDERS],
    pub part: [u16; FUNDERS],
}

/// The limit that a node's threads wait for, and its refill time.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ReadWait {
    pub refill_ns: u64,
    pub held_by: u32,
    pub pad: u32,
}

impl ReadArgs {
    fn throttle(&self, wait: &ReadWait) -> Throttle {
        Throttle {
            quota_ns: self.quota_ns,
            period_ns: self.period_ns,
            burst_ns: self.burst_ns,
            periods: self.nr_periods,
            throttled: self.nr_throttled,
            throttled_ns: self.throttled_ns,
            refill_ns: wait.refill_ns,
        }
    }

    /// Of issuers only their places are told here.
    fn funding(&self) -> Funding {
        let edge = |(i, raw): (usize, &RawEdge)| Edge {
            issuer: NodeId {
                index: raw.issuer,
                id: 0,
            },
            amount: raw.amount,
            hard: self.hard >> i & 1 != 0,
            part: self.part[i],
        };
        let nr = (self.nr_edges as usize).min(FUNDERS);
        Funding {
            by_parent: self.flags & 4 != 0,
            edges: self.edge[..nr].iter().enumerate().map(edge).collect(),
            delta: self.delta,
        }
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ReadBatch {
    pub first: u32,
    pub nr: u32,
    pub next: u32,
    pub pad: u32,
    pub node: [ReadArgs; BATCH],
    pub wait: [ReadWait; BATCH],
}

impl ReadBatch {
    /// What it tells of each node.
    pub fn states(&self) -> impl Iterator<Item = NodeState> + '_ {
        let told = self.node.iter().zip(&self.wait);
        told.take(self.nr as usize)
            .map(|(raw, wait)| state(raw, wait))
    }
}

const _: () = assert!(size_of::<FundingArgs>() == 40 + 18 * FUNDERS);
const _: () = assert!(size_of::<ReadArgs>() == 120 + 10 * FUNDERS);
const _: () = assert!(
    size_of::<ReadBatch>() <= 65_535,
    "the kernel takes no larger argument"
);

/// How much CPU somebody may have, and how often that was too little. All of it since loading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// CPU time, ns, in each period; 0: there is no limit (any more).
    pub quota_ns: u64,
    pub period_ns: u64,
    /// What may be kept of earlier periods for later ones, ns.
    pub burst_ns: u64,
    /// Periods that began.
    pub periods: u64,
    /// How often somebody had to wait for the next one.
    pub throttled: u64,
    /// For how long somebody had to, ns.
    pub throttled_ns: u64,
    /// While somebody waits: until they may go on, ns; 0: nobody does.
    pub refill_ns: u64,
}

/// One currency, or the limit of one, as the kernel side has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    pub node: NodeId,
    /// Mirrors a cgroup that exists.
    pub cgroup: bool,
    /// Was made by [`crate::Scheduler::create_node`].
    pub named: bool,
    /// Was made by [`crate::Scheduler::create_limit`].
    pub limit: bool,
    /// A ticket it issued is active, or its own threads are runnable.
    pub active: bool,
    /// Threads directly in its cgroup are runnable.
    pub self_active: bool,
    /// How many of those.
    pub runnable: u32,
    /// The cgroup's `cpu.weight`.
    pub weight: u32,
    /// CPU time of threads directly in the cgroup, ns, since loading.
    pub used_ns: u64,
    /// What its tickets divide, P / T, when the kernel side last looked; 2^62 for all of T.
    pub value: u64,
    /// Inode of the cgroup's directory; 0 for what is none.
    pub cgid: u64,
    /// What [`crate::Scheduler::create_node`] or `create_limit` was told; 0 for a cgroup.
    pub cid: u64,
    /// Of a cgroup, the limit that caps it beside `cpu.max`; of a limit, the next that counts where
    /// it does.
    pub cap: Option<NodeId>,
    /// Of a cgroup its `cpu.max`; of a limit what it allows.
    pub throttle: Throttle,
    /// Its runnable threads wait for the next period of this limit, or of this cgroup's `cpu.max`.
    pub held_by: Option<NodeId>,
    /// With `by_parent` the first ticket is the parent's, of `cpu.weight` size.
    pub funding: Funding,
}

/// What a node is made as (`TIX_NODE_NAMED`, `TIX_NODE_LIMIT`).
pub const NAMED: u32 = 2;
pub const LIMIT: u32 = 8;
const MADE: u32 = NAMED | LIMIT;

/// All that was read: who is named by its place alone is named in full.
pub fn named(mut all: Vec<NodeState>) -> Vec<NodeState> {
    let ids: HashMap<u32, u64> = all.iter().map(|n| (n.node.index, n.node.id)).collect();
    for n in &mut all {
        let issuers = n.funding.edges.iter_mut().map(|e| &mut e.issuer);
        for other in issuers.chain(&mut n.cap).chain(&mut n.held_by) {
            // What has gone since has no number that anything answers to.
            other.id = ids.get(&other.index).copied().unwrap_or_default();
        }
    }
    all
}

fn state(raw: &ReadArgs, wait: &ReadWait) -> NodeState {
    let node = |index: u32| (index != 0).then_some(NodeId { index, id: 0 });
    NodeState {
        node: NodeId {
            index: raw.node,
            id: if raw.node == 0 { 0 } else { raw.cgid },
        },
        cgroup: raw.flags & 1 != 0,
        named: raw.flags & 2 != 0,
        limit: raw.flags & 8 != 0,
        active: raw.active != 0,
        self_active: raw.self_active != 0,
        runnable: raw.runnable,
        weight: raw.weight,
        used_ns: raw.used_ns,
        value: raw.value,
        cgid: if raw.flags & MADE == 0 { raw.cgid } else { 0 },
        cid: if raw.flags & MADE != 0 { raw.cgid } else { 0 },
        cap: node(raw.cap),
        throttle: raw.throttle(wait),
        held_by: node(wait.held_by),
        funding: raw.funding(),
    }
}

/// Counters of the kernel side since it was loaded, those of all CPUs added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Currencies in use.
    pub nodes: u64,
    /// Cgroups that share a principal above them, for want of room or as they lie too deep.
    pub shared: u64,
    /// Pages of its memory.
    pub pages: u64,
    /// Decisions that found a thread to run.
    pub picks: u64,
    /// Of those, the running thread went on.
    pub keeps: u64,
    /// Threads that a CPU took over from another.
    pub taken_over: u64,
    /// Slices ended between ticks.
    pub preempts: u64,
    /// Picks of threads that had waited for 5 s, whatever their share.
    pub overdue: u64,
    /// CPU time, ns, of owners of the kernel's locks that principals who waited for them paid.
    pub lent_ns: u64,
}

/// `struct tix_counts`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Counts {
    picks: u64,
    keeps: u64,
    taken_over: u64,
    preempts: u64,
    overdue: u64,
    lent_ns: u64,
    pad: [u64; 2],
}

/// Of `struct tix_stats`, by copy; `None` if there are too few bytes.
pub fn stats_from(bytes: &[u8]) -> Option<Stats> {
    let (head, cpus) = bytes.split_at_checked(size_of::<[u64; 8]>())?;
    let [nodes, shared, pages, ..]: [u64; 8] = bytemuck::pod_read_unaligned(head);
    let mut all = Stats {
        nodes,
        shared,
        pages,
        ..Stats::default()
    };
    for cpu in cpus.chunks_exact(size_of::<Counts>()) {
        let one: Counts = bytemuck::pod_read_unaligned(cpu);
        all.picks += one.picks;
        all.keeps += one.keeps;
        all.taken_over += one.taken_over;
        all.preempts += one.preempts;
        all.overdue += one.overdue;
        all.lent_ns += one.lent_ns;
    }
    Some(all)
}
