// SPDX-License-Identifier: GPL-2.0-only
//! A simulated machine under the scheduler: all of the BPF program, compiled for the host.
//!
//! [`run`] gives a closure a machine of so many CPUs. Threads on it do what their programs say;
//! time is simulated, and passes in [`Machine::run`]. The machine's state is thread-local on the
//! C side, so each one has a host thread of its own, and the same programs always end the same.

pub mod adversary;
pub mod history;
mod raw;
mod waits;

use std::ffi::{CStr, c_void};

use raw::*;

pub use waits::Waits;

/// An action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Compute for so many ns.
    Run(u64),
    /// Sleep for so many ns.
    Sleep(u64),
    /// Sleep until another thread wakes it; at once if one has since the last time.
    Wait,
    Yield,
    /// Wake that thread.
    Wake(u32),
    Lock(u32),
    Unlock(u32),
    /// Go to that cgroup.
    Move(u32),
    /// Have that weight among the threads of the cgroup; 100 is nice 0.
    Nice(u32),
    /// Run on these CPUs alone.
    Cpus(u64),
    Exit,
    /// Compute for so many ns and let nobody interrupt that, as long stretches of the kernel do.
    Hold(u64),
}

/// An event of a thread, where that is recorded ([`Machine::record`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Wake {
        thread: u32,
    },
    Sleep {
        thread: u32,
    },
    /// From now on this CPU runs that thread; 0 if it is idle.
    Switch {
        cpu: u32,
        thread: u32,
    },
}

/// The program of a thread: asked at its start, and whenever it is done with an action.
pub trait Program: Send {
    fn next(&mut self, now: u64) -> Action;
}

impl<F: FnMut(u64) -> Action + Send> Program for F {
    fn next(&mut self, now: u64) -> Action {
        self(now)
    }
}

/// Computes for ever.
pub fn hog() -> Box<dyn Program> {
    Box::new(|_| Action::Run(1_000_000_000))
}

/// Computes for `run` ns and sleeps for `sleep` ns, again and again.
pub fn periodic(run: u64, sleep: u64) -> Box<dyn Program> {
    let mut runs = false;
    Box::new(move |_| {
        runs = !runs;
        if runs {
            Action::Run(run)
        } else {
            Action::Sleep(sleep)
        }
    })
}

/// Each of these actions after the other, again and again.
pub fn cycle(actions: Vec<Action>) -> Box<dyn Program> {
    let mut at = 0;
    Box::new(move |_| {
        let action = actions[at];
        at = (at + 1) % actions.len();
        action
    })
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

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
/// All CPUs.
pub const ANY: u64 = u64::MAX;
/// A thread's weight at nice 0.
pub const NICE_0: u32 = 100;

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
        self.make(raw::NAMED)
    }

    /// A limit that counts for no cgroup yet ([`Machine::cap`]).
    pub fn limit(&mut self, period_us: u64, quota_us: u64) -> Node {
        let limit = self.make(raw::LIMIT);
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
