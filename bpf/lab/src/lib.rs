// SPDX-License-Identifier: GPL-2.0-only
//! A simulated machine under the scheduler: all of the BPF program, compiled for the host.
//!
//! [`run`] gives a closure a machine of so many CPUs. Threads on it do what their programs say;
//! time is simulated, and passes in [`Machine::run`]. The machine's state is thread-local on the
//! C side, so each one has a host thread of its own, and the same programs always end the same.

pub mod adversary;
pub mod history;
mod machine;
mod waits;

pub use machine::{BASE, Counts, Machine, Node, run, run_with};
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

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
/// All CPUs.
pub const ANY: u64 = u64::MAX;
/// A thread's weight at nice 0.
pub const NICE_0: u32 = 100;
