// SPDX-License-Identifier: GPL-2.0-only
//! What bpf/share.bpf.h, file.bpf.h and pick.bpf.h decide under tix_lock, with vtrr.h and funding.h themselves below it. Each function here mirrors the one of the
//! same name there (`_locked` left out); what only keeps the kernel from computing a thing twice is left out too, and so is what only
//! happens when two CPUs are between their decision and the move of the thread: here both are one moment. Where the kernel goes on with
//! what it computed for nearly as many threads or nearly the same rate (compute_locked), this computes it exactly.

mod account;
mod pick;
mod share;

use pick::Pick;
use std::collections::BTreeMap;
use tix_core_host as host;
use tix_core_host::{Choice, Funds, NONE, Queue};

/// The constants of bpf/tix.bpf.c, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    pub slice: u64,
    pub min_slice: u64,
    pub round: u64,
    pub turn: u64,
    pub lag_periods: u64,
    pub lead_periods: u64,
    pub slack: u64,
    pub steal: u64,
    pub catch_up: u64,
    pub many_more: u32,
    pub catch_up_many: u64,
    pub cap_slices: u64,
    pub cap_every: u64,
    /// Of so many picks, 2^this, a CPU keeps a mean.
    pub lead_log: u64,
    pub overdue: u64,
}

pub const KERNEL: Constants = Constants {
    slice: 1_000_000,
    min_slice: 100_000,
    round: 1_500_000_000,
    turn: 1_650_000_000,
    lag_periods: 4,
    lead_periods: 2,
    slack: 64_000_000,
    steal: 20_000_000,
    catch_up: 100_000_000,
    many_more: 16,
    catch_up_many: 1_500_000,
    cap_slices: 32,
    cap_every: 4_000_000,
    lead_log: 4,
    overdue: 4_000_000_000,
};

const WEIGHT: u32 = 100;
/// TIMER_MIN_NS.
const TIMER_MIN: u64 = 50_000;
const ANY: u32 = 0;
/// Of who is owed service when it wakes up.
const BRIEF_GROUP: u32 = 0;
const BRIEF_LEAD: u64 = 1 << 56;

/// struct tix_node.
#[derive(Clone, Debug, Default)]
struct Node {
    inverse: u64,
    budget: u64,
    vtime: u64,
    turn_at: u64,
    high: u64,
    last_high: u64,
    runnable: u32,
    load: u32,
    active: bool,
    /// Its account since it became active: see `leave`.
    had: u64,
    was_had: u64,
    was_due: u64,
    lead: i64,
    sum_lead: i64,
    seen_at: u64,
    seen_due: u64,
    seen_had: u64,
    not_due: u64,
    excess: i64,
    rate: u64,
    slack: u64,
    homes: Option<u32>,
}

/// struct tix_queue, with its DSQ: threads by (vtime, order of coming).
#[derive(Clone, Debug, Default)]
struct Place {
    tag: u64,
    seen_v: u64,
    seen_due: u64,
    /// ns, when it was looked at last.
    was_lead: i64,
    /// The part of its node's load that it was.
    seen_part: (u64, u64),
    /// Q16 of the share it is charged by, or 0.
    forced: u64,
    inverse: u64,
    period: u64,
    slice: u64,
    group: u32,
    made: bool,
    linked: bool,
    since: u64,
    brief: bool,
    dsq: BTreeMap<(i64, u64), u32>,
}

impl Place {
    fn nr(&self) -> u32 {
        self.dsq.len() as u32
    }

    fn first(&self) -> Option<i64> {
        self.dsq.keys().next().map(|(vtime, _)| *vtime)
    }
}

/// struct task_ctx.
#[derive(Clone, Debug)]
pub struct Task {
    pub node: u32,
    /// Where it may run, if not everywhere.
    pub bound: Option<u32>,
    /// The CPU that it ran on last.
    pub cpu: u32,
    /// ns that it has run and was not charged for.
    pub uncharged: u64,
    pub yielded: bool,
    vtime: u64,
    grant: u64,
    rate: u64,
    ran_from: u32,
}

/// Who runs next, and for how many ns at most.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    pub thread: u32,
    pub slice: u64,
    /// It has woken up and is owed service: it is to have the shortest slice.
    pub brief: bool,
}

/// struct cpu_ctx.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    robbed_at: u64,
    robbed_lag: i64,
    lead: i64,
    eligible_at: u64,
    idle: bool,
    probe: u32,
    rescued: bool,
    /// The queue that was picked last, plus 1, and whether for MIN_SLICE_NS.
    runs: u32,
    brief: bool,
}

/// Counters: of struct tix_stats, and what decisions cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub decisions: u64,
    pub stolen: u64,
    pub overdue: u64,
    pub forced: u64,
    /// The most looks that one decision took: non-empty groups of each struct vtrr looked into.
    pub most_looks: u32,
    looks: u32,
}

pub struct Kernel {
    with: Constants,
    cpus: u32,
    pub tasks: Vec<Task>,
    pub counts: Counts,
    funds: Funds,
    nodes: Vec<Node>,
    queues: Vec<Place>,
    vts: Vec<Queue>,
    choices: Vec<(Choice, u32)>,
    at: Vec<Cpu>,
    v: u64,
    v_round: u64,
    v_slack: u64,
    v_steal: u64,
    v_granted: u64,
    now: u64,
    jump_looks: u32,
    jump_head: u64,
    jump_at: u64,
    order: u64,
    window_at: u64,
    rate_top: u64,
    rate_before: u64,
}

/// a - b, of counters that wrap around.
fn since(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl Kernel {
    /// `nodes` nodes, base included, that nothing backs yet, and the threads of `tasks`: (node, the CPU it is bound to).
    pub fn new(with: Constants, cpus: u32, nodes: u32, tasks: &[(u32, Option<u32>)]) -> Kernel {
        let vts = if cpus == 1 { 1 } else { 1 + 2 * cpus };
        let queues = nodes * vts;
        let v = 1 << 40;
        // They begin spread over the CPUs.
        let task = |(i, &(node, bound)): (u32, &(u32, Option<u32>))| Task {
            node,
            bound,
            cpu: bound.unwrap_or(i % cpus),
            uncharged: 0,
            yielded: false,
            vtime: 0,
            grant: 0,
            rate: 0,
            ran_from: NONE,
        };
        let mut place = vec![Place::default(); queues as usize];
        for node in 0..nodes {
            place[(node * vts) as usize].tag = v;
        }
        Kernel {
            with,
            cpus,
            tasks: (0..).zip(tasks).map(task).collect(),
            counts: Counts::default(),
            funds: Funds::new(nodes),
            nodes: vec![Node::default(); nodes as usize],
            queues: place,
            vts: (0..vts).map(|_| Queue::new(queues)).collect(),
            choices: vec![(Choice::default(), NONE); vts as usize],
            at: vec![Cpu::default(); cpus as usize],
            v,
            v_round: 0,
            v_slack: 0,
            v_steal: 0,
            v_granted: 0,
            now: 0,
            jump_looks: 0,
            jump_head: u64::MAX,
            jump_at: 0,
            order: 0,
            window_at: 0,
            rate_top: 0,
            rate_before: 0,
        }
    }

    /// slice_ns: what who comes to an idle CPU is given.
    pub fn min_slice(&self) -> u64 {
        self.with.min_slice
    }

    pub fn slice(&self) -> u64 {
        self.with.slice
    }

    /// node_weight(): what `node` is backed by.
    pub fn fund(&mut self, node: u32, by: super::history::Node) {
        let edges: Vec<_> = [Some((by.issuer, by.tickets)), by.also]
            .into_iter()
            .flatten()
            .map(|(issuer, amount)| host::Edge {
                issuer,
                amount,
                hard: false,
                part: u16::MAX,
            })
            .collect();
        self.funds.set_now(self.v);
        self.funds.back(node, &edges, 0);
    }

    fn vt_of(&self, q: u32) -> u32 {
        q % self.vts.len() as u32
    }

    fn node_of(&self, q: u32) -> u32 {
        q / self.vts.len() as u32
    }

    /// queue_of() of tix.bpf.c, and home_queue() of nodes.bpf.h.
    fn queue_of(&mut self, t: u32, cpu: u32) -> u32 {
        let task = &self.tasks[t as usize];
        let vt = match (self.cpus, task.bound) {
            (1, _) => ANY,
            (_, None) => 1 + 2 * cpu,
            (_, Some(_)) => 2 + 2 * cpu,
        };
        let node = task.node;
        let q = node * self.vts.len() as u32 + vt;
        let queue = &mut self.queues[q as usize];
        if vt != ANY && !queue.made {
            queue.made = true;
            queue.tag = self.v;
            self.nodes[node as usize].homes = Some(q);
        }
        q
    }

    fn prev_is_behind(&mut self, t: u32, q: u32) -> bool {
        let vtime = self.place(q, t, false);
        self.queues[q as usize]
            .first()
            .is_none_or(|first| since(vtime, first.cast_unsigned()) <= 0)
    }

    /// tix_dispatch(): who runs next on `cpu`, where `prev` has run until now, and for how long at most.
    pub fn dispatch(
        &mut self,
        cpu: u32,
        prev: Option<u32>,
        runnable: bool,
        now: u64,
    ) -> Option<Next> {
        if let Some(next) = prev
            .filter(|_| !runnable)
            .and_then(|t| self.pass_on(cpu, t))
        {
            return Some(next);
        }
        let mut pick = Pick::on(cpu);
        self.decide(&mut pick, prev, runnable, now);
        self.at[cpu as usize].idle = pick.queue == NONE;
        if pick.queue == NONE {
            return None;
        }
        let q = pick.queue;
        let goes_on = prev
            .filter(|t| q == pick.prev_queue && (pick.waiting == 0 || self.prev_is_behind(*t, q)));
        // tix_dequeue(), for the first thread of the queue.
        let next = match goes_on {
            Some(t) => t,
            None => self.queues[q as usize].dsq.pop_first()?.1,
        };
        let task = &mut self.tasks[next as usize];
        task.ran_from = q;
        (task.grant, task.rate) = (pick.grant, pick.rate);
        task.cpu = cpu;
        if goes_on.is_none()
            && let Some(t) = prev.filter(|_| runnable)
        {
            self.enqueue(t, cpu, false, false, now);
        }
        Some(Next {
            thread: next,
            slice: pick.slice,
            brief: goes_on.is_none() && pick.brief,
        })
    }

    /// pass_on() of beside.bpf.h: `t` has gone to sleep on `cpu`, and another of its queue has the rest of the slice.
    fn pass_on(&mut self, cpu: u32, t: u32) -> Option<Next> {
        let c = self.at[cpu as usize];
        let task = &self.tasks[t as usize];
        let (q, used, vts) = (task.ran_from, task.uncharged, self.vts.len());
        if self.cpus > 1 || c.brief || c.runs != q.wrapping_add(1) || used + TIMER_MIN >= task.grant
        {
            return None;
        }
        let (node, grant, rate) = (task.node as usize, task.grant - used, task.rate);
        if q as usize / vts != node {
            return None;
        }
        let queue = &mut self.queues[q as usize];
        let (_, next) = queue.dsq.pop_first()?;
        if queue.linked && queue.dsq.is_empty() {
            queue.linked = false;
            self.vts[q as usize % vts].unlink(q);
        }
        let n = &mut self.nodes[node];
        let load = if n.load == 0 { 100 } else { n.load };
        n.vtime = n.vtime.wrapping_add(used * 100 / u64::from(load));
        let task = &mut self.tasks[t as usize];
        task.vtime = task.vtime.wrapping_add(used);
        (task.uncharged, task.grant, task.rate) = (0, 0, 0);
        let task = &mut self.tasks[next as usize];
        (task.grant, task.rate, task.ran_from, task.cpu) = (grant, rate, q, cpu);
        Some(Next {
            thread: next,
            slice: grant,
            brief: false,
        })
    }

    /// tix_enqueue(), where no CPU was idle: `t` waits on `cpu`. True: it is to be served at once. `lets_go`: who runs there ends its
    /// slice when that is over; else the timer files who waits beside it after a quantum, which here is at once.
    pub fn enqueue(&mut self, t: u32, cpu: u32, wake: bool, lets_go: bool, now: u64) -> bool {
        let q = self.queue_of(t, cpu);
        let runs = self.at[cpu as usize].runs == q + 1;
        let beside =
            self.cpus == 1 && wake && lets_go && runs && self.tasks[t as usize].ran_from == q;
        let vtime = self.place(q, t, wake);
        let node = &mut self.nodes[self.tasks[t as usize].node as usize];
        if since(vtime, node.high) > 0 {
            node.high = vtime;
        }
        self.order += 1;
        let queue = &mut self.queues[q as usize];
        queue.dsq.insert((vtime.cast_signed(), self.order), t);
        if queue.linked || beside {
            return false;
        }
        // file() of file.bpf.h
        self.now = now;
        let others = self.queues[q as usize].nr() - 1;
        self.move_to(t, q, others, wake);
        self.file(q, wake);
        // Or, by untimed(), no decision put there who runs.
        self.queues[q as usize].brief || self.at[cpu as usize].idle
    }

    /// tix_enqueue() of who ran until now, and did not ask.
    pub fn put_back(&mut self, t: u32, cpu: u32, now: u64) {
        self.charge(t, now);
        self.enqueue(t, cpu, false, false, now);
    }

    /// tix_runnable(), and task_join() of the thread's first time.
    pub fn runnable(&mut self, t: u32) {
        let node = self.tasks[t as usize].node;
        let n = &mut self.nodes[node as usize];
        if self.tasks[t as usize].ran_from == NONE {
            self.tasks[t as usize].vtime = n.vtime;
        }
        n.load += WEIGHT;
        n.runnable += 1;
    }

    /// tix_quiescent(); what becomes of its node is for the next decision.
    pub fn quiescent(&mut self, t: u32) {
        let node = self.tasks[t as usize].node;
        let n = &mut self.nodes[node as usize];
        n.load -= WEIGHT;
        n.runnable -= 1;
    }

    /// anybody_waits() of timer.bpf.h, unbound: somebody whom an idle CPU could take.
    pub fn waits_at_home(&self, cpu: u32) -> bool {
        self.cpus > 1 && self.vts[1 + 2 * cpu as usize].nr() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's side says of a constant, ns.
    fn defined(name: &str) -> u64 {
        let source = concat!(
            include_str!("../../../../../bpf/tix.bpf.c"),
            include_str!("../../../../../bpf/account.bpf.h")
        );
        let line = source
            .lines()
            .find(|l| l.starts_with(&format!("#define {name} ")))
            .expect(name);
        let value = line.split_whitespace().nth(2).expect(name);
        value.trim_end_matches(['u', 'l']).parse().expect(name)
    }

    #[test]
    fn the_constants_are_the_kernels() {
        let kernel = Constants {
            slice: KERNEL.slice,
            min_slice: defined("MIN_SLICE_NS"),
            round: defined("ROUND_NS"),
            turn: defined("TURN_NS"),
            lag_periods: defined("LAG_PERIODS"),
            lead_periods: defined("LEAD_PERIODS"),
            slack: defined("SLACK_NS"),
            steal: defined("STEAL_NS"),
            catch_up: defined("CATCH_UP_NS"),
            many_more: defined("MANY_MORE") as u32,
            catch_up_many: defined("CATCH_UP_MANY_NS"),
            cap_slices: defined("CAP_SLICES"),
            cap_every: defined("CAP_EVERY_NS"),
            lead_log: defined("LEAD_LOG"),
            overdue: defined("OVERDUE_NS"),
        };
        assert_eq!(kernel, KERNEL);
        assert_eq!(defined("TIMER_MIN_NS"), TIMER_MIN);
        assert_eq!(defined("EVEN_LOG"), u64::from(account::EVEN_LOG));
    }
}
