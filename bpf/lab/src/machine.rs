// SPDX-License-Identifier: GPL-2.0-only
//! The machine: what its C side takes and gives (`kernel.c`, `intf.h`), and a safe side for it.

use std::ffi::{CStr, c_char, c_void};

use crate::{ANY, Action, Event, NICE_0, Program, Waits, hog};

/// What a node is made as: a currency, or a limit (`TIX_NODE_NAMED`, `TIX_NODE_LIMIT`).
const NAMED: u32 = 2;
const LIMIT: u32 = 8;

#[repr(C)]
struct RawAction {
    arg: u64,
    what: u32,
    pad: u32,
}

const FUNDERS: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawEdge {
    issuer: u32,
    amount: u32,
}

#[repr(C)]
struct RawFunding {
    node: u32,
    by_parent: u32,
    nr: u32,
    err: i32,
    hard: u32,
    pad: u32,
    delta: i64,
    id: u64,
    issuer_id: [u64; FUNDERS],
    edge: [RawEdge; FUNDERS],
    part: [u16; FUNDERS],
}

#[repr(C)]
struct RawName {
    create: u32,
    node: u32,
    err: i32,
    pad: u32,
    cid: u64,
}

#[repr(C)]
struct RawLimit {
    node: u32,
    cap: u32,
    err: i32,
    pad: u32,
    quota_us: u64,
    period_us: u64,
    id: u64,
    cap_id: u64,
}

type Next = extern "C" fn(*mut c_void, u32, u64, *mut RawAction);
type Happened = extern "C" fn(*mut c_void, u32, u32, u32, u64);

unsafe extern "C" {
    fn lab_new(cpus: u32, switch_ns: u64, next: Next, event: Happened, ctx: *mut c_void) -> i32;
    fn lab_free();
    fn lab_run(until: u64) -> u64;
    fn lab_cgroup(parent: u32, weight: u32) -> u32;
    fn lab_thread(cgroup: u32, weight: u32, cpus: u64, is_kernel: bool) -> u32;
    fn lab_weight(cgroup: u32, weight: u32);
    fn lab_limit(cgroup: u32, period_us: u64, quota_us: u64);
    fn lab_move(thread: u32, cgroup: u32);
    fn lab_nice(thread: u32, weight: u32);
    fn lab_cpus(thread: u32, cpus: u64);
    fn lab_wake(thread: u32);
    fn lab_exit(thread: u32);
    fn lab_used(thread: u32) -> u64;
    fn lab_moves(thread: u32) -> u64;
    fn lab_is_runnable(thread: u32) -> bool;
    fn lab_is_running(thread: u32) -> bool;
    fn lab_cpu_of(thread: u32) -> u32;
    fn lab_now() -> u64;
    fn lab_decisions() -> u64;
    fn lab_switches() -> u64;
    fn lab_failure() -> *const c_char;
    fn lab_counts() -> Counts;
    fn lab_node(cgroup: u32) -> u32;
    fn lab_fund(args: *mut RawFunding) -> i32;
    fn lab_name(args: *mut RawName) -> i32;
    fn lab_cap(args: *mut RawLimit) -> i32;
    fn lab_total(total: u64);
    fn lab_dump();
    fn lab_trace();
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub picks: u64,
    pub keeps: u64,
    pub taken_over: u64,
    pub preempts: u64,
    pub overdue: u64,
    pub lent_ns: u64,
    pub pad: [u64; 2],
}

struct Side {
    programs: Vec<Option<Box<dyn Program>>>,
    waits: Vec<Waits>,
    /// By thread: since when it waits for its first run after it woke up.
    woke_at: Vec<Option<u64>>,
    /// By CPU: the thread that runs there, or 0.
    running: Vec<u32>,
    /// With their times, if they are recorded.
    events: Option<Vec<(u64, Event)>>,
}

impl Side {
    fn add(&mut self, program: Option<Box<dyn Program>>) {
        self.programs.push(program);
        self.waits.push(Waits::default());
        self.woke_at.push(None);
    }

    fn happened(&mut self, event: Event, now: u64) {
        match event {
            Event::Wake { thread } => self.woke_at[thread as usize] = Some(now),
            Event::Sleep { .. } => (),
            Event::Switch { cpu, thread } => {
                if let Some(woke_at) = self.woke_at[thread as usize].take() {
                    self.waits[thread as usize].add(now - woke_at);
                }
                let was = std::mem::replace(&mut self.running[cpu as usize], thread);
                if was == thread {
                    return;
                }
            }
        }
        if let Some(events) = &mut self.events {
            events.push((now, event));
        }
    }
}

/// A machine under the scheduler. Cgroup 0 is the root.
pub struct Machine {
    side: Box<Side>,
    cpus: u32,
    names: u64,
}

extern "C" fn next(ctx: *mut c_void, thread: u32, now: u64, action: *mut RawAction) {
    // SAFETY: `ctx` is the machine's own Side, which nothing else uses while time passes.
    let side = unsafe { &mut *ctx.cast::<Side>() };
    // SAFETY: the caller's own, which is zeroed.
    let out = unsafe { &mut *action };
    let program = side
        .programs
        .get_mut(thread as usize)
        .and_then(Option::as_mut);
    let next = program.map_or(Action::Wait, |p| p.next(now));
    (out.what, out.arg) = match next {
        Action::Run(ns) => (0, ns),
        Action::Sleep(ns) => (1, ns),
        Action::Wait => (2, 0),
        Action::Yield => (3, 0),
        Action::Wake(thread) => (4, thread.into()),
        Action::Lock(lock) => (5, lock.into()),
        Action::Unlock(lock) => (6, lock.into()),
        Action::Move(cgroup) => (7, cgroup.into()),
        Action::Nice(weight) => (8, weight.into()),
        Action::Cpus(cpus) => (9, cpus),
        Action::Exit => (10, 0),
        Action::Hold(ns) => (11, ns),
    };
}

extern "C" fn happened(ctx: *mut c_void, event: u32, thread: u32, cpu: u32, now: u64) {
    // SAFETY: as above.
    let side = unsafe { &mut *ctx.cast::<Side>() };
    let event = match event {
        0 => Event::Wake { thread },
        1 => Event::Sleep { thread },
        _ => Event::Switch { cpu, thread },
    };
    side.happened(event, now);
}

// SAFETY of the calls below: each Machine lives on the one host thread that made its C side (run),
// cannot leave it, and every index that it hands out stays valid as long as it does; the C side
// checks cgroups and threads that programs name.
impl Machine {
    fn new(cpus: u32, switch_ns: u64) -> Machine {
        let mut side = Box::new(Side {
            programs: vec![],
            waits: vec![],
            woke_at: vec![],
            running: vec![0; cpus as usize],
            events: None,
        });
        side.add(None);
        let ctx = std::ptr::from_mut::<Side>(&mut side).cast();
        // SAFETY: see above.
        let err = unsafe { lab_new(cpus, switch_ns, next, happened, ctx) };
        assert_eq!(err, 0, "the scheduler does not start");
        Machine {
            side,
            cpus,
            names: 1 << 40,
        }
    }

    /// A cgroup below `parent`, with that cpu.weight.
    pub fn cgroup(&mut self, parent: u32, weight: u32) -> u32 {
        // SAFETY: see above.
        unsafe { lab_cgroup(parent, weight) }
    }

    pub fn thread(&mut self, cgroup: u32, program: Box<dyn Program>) -> u32 {
        self.thread_on(cgroup, ANY, NICE_0, program)
    }

    /// A thread that may run on `cpus`, a bit each, and has that weight in its cgroup.
    pub fn thread_on(
        &mut self,
        cgroup: u32,
        cpus: u64,
        weight: u32,
        program: Box<dyn Program>,
    ) -> u32 {
        self.side.add(Some(program));
        // SAFETY: see above.
        unsafe { lab_thread(cgroup, weight, cpus, false) }
    }

    /// One of the kernel's own, in the root cgroup, that does the work of `cpu`: it goes first.
    pub fn kernel_thread(&mut self, cpu: u32, program: Box<dyn Program>) -> u32 {
        self.side.add(Some(program));
        // SAFETY: see above.
        unsafe { lab_thread(0, NICE_0, 1 << cpu, true) }
    }

    pub fn hogs(&mut self, cgroup: u32, nr: usize) -> Vec<u32> {
        (0..nr).map(|_| self.thread(cgroup, hog())).collect()
    }

    /// Let so many ns pass.
    #[track_caller]
    pub fn run(&mut self, ns: u64) {
        // SAFETY: see above.
        unsafe { lab_run(lab_now() + ns) };
        // SAFETY: a string of the machine's own, ended by 0.
        let failure = unsafe { CStr::from_ptr(lab_failure()) };
        assert!(failure.is_empty(), "{}", failure.to_string_lossy());
    }

    pub fn now(&self) -> u64 {
        // SAFETY: see above.
        unsafe { lab_now() }
    }

    /// CPU time of a thread so far, ns.
    pub fn used(&self, thread: u32) -> u64 {
        // SAFETY: see above.
        unsafe { lab_used(thread) }
    }

    pub fn used_by(&self, threads: &[u32]) -> u64 {
        threads.iter().map(|t| self.used(*t)).sum()
    }

    /// What these threads use of the machine's CPU time in the coming `ns`, 1 for all of it.
    #[track_caller]
    pub fn shares(&mut self, groups: &[&[u32]], ns: u64) -> Vec<f64> {
        let before: Vec<u64> = groups.iter().map(|g| self.used_by(g)).collect();
        self.run(ns);
        let all = ns as f64 * f64::from(self.cpus);
        let used = |(g, was): (&&[u32], &u64)| (self.used_by(g) - was) as f64 / all;
        groups.iter().zip(&before).map(used).collect()
    }

    /// How long that thread has waited each time that it woke up, so far.
    pub fn waits(&self, thread: u32) -> &Waits {
        &self.side.waits[thread as usize]
    }

    pub fn forget_waits(&mut self) {
        self.side.waits.fill(Waits::default());
    }

    /// Record what happens from now on.
    pub fn record(&mut self) {
        self.side.events = Some(vec![]);
    }

    /// What has happened since then, each with its time, ns.
    pub fn events(&self) -> &[(u64, Event)] {
        self.side.events.as_deref().unwrap_or_default()
    }

    pub fn moves(&self, thread: u32) -> u64 {
        // SAFETY: see above.
        unsafe { lab_moves(thread) }
    }

    /// Tell what the scheduler keeps, to standard error.
    pub fn dump(&self) {
        // SAFETY: see above.
        unsafe { lab_dump() }
    }

    /// The same in a line, for a look at how it goes on.
    pub fn trace(&self) {
        // SAFETY: see above.
        unsafe { lab_trace() }
    }

    pub fn is_runnable(&self, thread: u32) -> bool {
        // SAFETY: see above.
        unsafe { lab_is_runnable(thread) }
    }

    pub fn is_running(&self, thread: u32) -> bool {
        // SAFETY: see above.
        unsafe { lab_is_running(thread) }
    }

    pub fn cpu_of(&self, thread: u32) -> u32 {
        // SAFETY: see above.
        unsafe { lab_cpu_of(thread) }
    }

    pub fn decisions(&self) -> u64 {
        // SAFETY: see above.
        unsafe { lab_decisions() }
    }

    pub fn switches(&self) -> u64 {
        // SAFETY: see above.
        unsafe { lab_switches() }
    }

    /// What all CPUs have decided, added up.
    pub fn counts(&self) -> Counts {
        // SAFETY: see above.
        unsafe { lab_counts() }
    }

    pub fn set_weight(&mut self, cgroup: u32, weight: u32) {
        // SAFETY: see above.
        unsafe { lab_weight(cgroup, weight) }
    }

    /// cpu.max; a quota of 0 is none.
    pub fn set_limit(&mut self, cgroup: u32, period_us: u64, quota_us: u64) {
        // SAFETY: see above.
        unsafe { lab_limit(cgroup, period_us, quota_us) }
    }

    pub fn move_to(&mut self, thread: u32, cgroup: u32) {
        // SAFETY: see above.
        unsafe { lab_move(thread, cgroup) }
    }

    pub fn set_nice(&mut self, thread: u32, weight: u32) {
        // SAFETY: see above.
        unsafe { lab_nice(thread, weight) }
    }

    pub fn set_cpus(&mut self, thread: u32, cpus: u64) {
        // SAFETY: see above.
        unsafe { lab_cpus(thread, cpus) }
    }

    pub fn wake(&mut self, thread: u32) {
        // SAFETY: see above.
        unsafe { lab_wake(thread) }
    }

    pub fn end(&mut self, thread: u32) {
        // SAFETY: see above.
        unsafe { lab_exit(thread) }
    }

    /// The scheduler's node of a cgroup.
    pub fn node(&self, cgroup: u32) -> Node {
        // SAFETY: see above.
        let index = unsafe { lab_node(cgroup) };
        Node {
            index,
            id: if index == 0 { 0 } else { u64::from(cgroup) + 1 },
        }
    }

    /// A currency without a cgroup.
    pub fn currency(&mut self) -> Node {
        self.make(NAMED)
    }

    /// A limit that counts for no cgroup yet ([`Machine::cap`]).
    pub fn limit(&mut self, period_us: u64, quota_us: u64) -> Node {
        let limit = self.make(LIMIT);
        self.limit_or_cap(limit, BASE, period_us, quota_us);
        limit
    }

    /// That limit counts for `cgroup`.
    pub fn cap(&mut self, cgroup: u32, limit: Node) {
        self.limit_or_cap(self.node(cgroup), limit, 0, 0);
    }

    fn limit_or_cap(&mut self, node: Node, cap: Node, period_us: u64, quota_us: u64) {
        let mut args = RawLimit {
            node: node.index,
            cap: cap.index,
            err: 0,
            pad: 0,
            quota_us,
            period_us,
            id: node.id,
            cap_id: cap.id,
        };
        // SAFETY: see above.
        assert_eq!(unsafe { lab_cap(&mut args) }, 0, "the limit is refused");
    }

    /// A node that is no cgroup's.
    fn make(&mut self, create: u32) -> Node {
        self.names += 1;
        let mut args = RawName {
            create,
            node: 0,
            err: 0,
            pad: 0,
            cid: self.names,
        };
        // SAFETY: see above.
        assert_eq!(unsafe { lab_name(&mut args) }, 0);
        Node {
            index: args.node,
            id: self.names,
        }
    }

    /// Have `node` be backed by these tickets alone: (issuer, amount, hard).
    pub fn fund(&mut self, node: Node, tickets: &[(Node, u32, bool)], delta: i64) {
        let mut args = RawFunding {
            node: node.index,
            by_parent: 0,
            nr: tickets.len() as u32,
            err: 0,
            hard: 0,
            pad: 0,
            delta,
            id: node.id,
            issuer_id: [0; FUNDERS],
            edge: [RawEdge::default(); FUNDERS],
            part: [0; FUNDERS],
        };
        for (i, (issuer, amount, hard)) in tickets.iter().enumerate() {
            args.edge[i] = RawEdge {
                issuer: issuer.index,
                amount: *amount,
            };
            args.issuer_id[i] = issuer.id;
            args.part[i] = (0xffff / tickets.len()) as u16;
            args.hard |= u32::from(*hard) << i;
        }
        // SAFETY: see above.
        assert_eq!(unsafe { lab_fund(&mut args) }, 0, "the tickets are refused");
    }

    /// What exchange tickets are counted against.
    pub fn set_total(&mut self, total: u64) {
        // SAFETY: see above.
        unsafe { lab_total(total) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: see above; nothing of it is used any more.
        unsafe { lab_free() }
    }
}

/// A node of the funding graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    index: u32,
    id: u64,
}

/// Base, the currency of all of the machine.
pub const BASE: Node = Node { index: 0, id: 0 };

/// Run `what` with a machine of `cpus` CPUs, where a switch costs `switch_ns`.
pub fn run_with<R: Send>(
    cpus: u32,
    switch_ns: u64,
    what: impl FnOnce(&mut Machine) -> R + Send,
) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || what(&mut Machine::new(cpus, switch_ns)));
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The same where switches cost nothing.
pub fn run<R: Send>(cpus: u32, what: impl FnOnce(&mut Machine) -> R + Send) -> R {
    run_with(cpus, 0, what)
}
