// SPDX-License-Identifier: GPL-2.0-only
//! Processes that stand at a gate until all are there, work when it opens, and keep a slot on a
//! board that everybody sees. They end with the crew, and with the program.

use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::board::{Head, Slot};
use super::sys;

/// Memory shared with the members.
type Board = sys::Shared<Head, Slot>;

/// What a member's work sees: its own slot.
pub struct Me<'a> {
    slot: &'a Slot,
}

impl Deref for Me<'_> {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        self.slot
    }
}

impl Me<'_> {
    /// Look at the clock and note how long it was since the last look.
    pub fn look(&self) -> u64 {
        let now = sys::now();
        let last = self.slot.seen.swap(now, Ordering::Relaxed);
        let gap = now.saturating_sub(last);
        if gap > self.slot.wait.load(Ordering::Relaxed) {
            self.slot.wait.store(gap, Ordering::Relaxed);
        }
        now
    }

    /// Use the CPU for ever, looking at the clock several times in the shortest slice: time
    /// between two looks counts as waiting.
    pub fn spin(&self) -> ! {
        loop {
            busy(512);
            self.slot.count.fetch_add(1, Ordering::Relaxed);
            self.look();
        }
    }

    /// Work for up to `most` ns and yield, for ever.
    pub fn spin_and_yield(&self, most: u64, seed: u64) -> ! {
        let mut random = fastrand::Rng::with_seed(seed);
        loop {
            self.look();
            if most > 0 {
                self.spin_for(random.u64(0..most));
            }
            self.slot.count.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
    }

    /// Use so many nanoseconds of CPU time.
    pub fn use_cpu(&self, ns: u64) {
        let me = sys::own_pid();
        let used = || sys::cpu_ns(me).unwrap_or(u64::MAX);
        let until = used().saturating_add(ns);
        while used() < until {
            busy(256);
        }
    }

    /// Use the CPU for so many nanoseconds of wall-clock time.
    pub fn spin_for(&self, ns: u64) {
        let until = self.look() + ns;
        loop {
            busy(256);
            if self.look() >= until {
                return;
            }
        }
    }
}

/// A loop of about `rounds` instructions or a few more.
pub fn busy(rounds: u32) {
    for i in 0..rounds {
        std::hint::black_box(i);
    }
}

/// The crew. Dropping it ends and reaps every member.
pub struct Crew {
    board: Board,
    pids: Vec<Option<i32>>,
}

impl Crew {
    /// Room for so many members over the crew's whole life.
    pub fn new(capacity: usize) -> Result<Self> {
        Ok(Self {
            board: Board::new(capacity)?,
            pids: Vec::new(),
        })
    }

    /// Start a member in a cgroup; it waits at `gate`, then does `work`, and ends if that returns.
    pub fn spawn(
        &mut self,
        cgroup: Option<&File>,
        gate: usize,
        work: impl FnOnce(&Me),
    ) -> Result<usize> {
        let index = self.pids.len();
        let slot = self
            .board
            .slots()
            .get(index)
            .with_context(|| format!("the crew has room for {index} members only"))?;
        let parent = sys::own_pid();
        slot.born.store(sys::now(), Ordering::Relaxed);
        let pid = sys::fork(cgroup)?;
        if pid == 0 {
            sys::die_with(parent);
            let head = self.board.head();
            // Have its pages before the gate: who waits for the lock of one that a thousand others
            // touch for the first time as well does not wait for a CPU.
            let me = Me { slot };
            busy(1);
            me.look();
            slot.wait.store(0, Ordering::Relaxed);
            slot.seen.store(0, Ordering::Relaxed);
            slot.ready.store(1, Ordering::Release);
            while head.gate[gate].load(Ordering::Acquire) == 0 {
                sys::futex_wait(&head.gate[gate], 0);
            }
            // The wait for the first run counts too.
            let opened = head.opened[gate].load(Ordering::Relaxed);
            let born = slot.born.load(Ordering::Relaxed);
            slot.seen.store(opened.max(born), Ordering::Relaxed);
            work(&me);
            sys::leave();
        }
        self.pids.push(Some(pid));
        Ok(index)
    }

    pub fn len(&self) -> usize {
        self.pids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The pid of a member that was not dismissed.
    pub fn pid(&self, index: usize) -> Result<i32> {
        self.pids
            .get(index)
            .copied()
            .flatten()
            .with_context(|| format!("member {index} is not there any more"))
    }

    pub fn slot(&self, index: usize) -> &Slot {
        &self.board.slots()[index]
    }

    /// Wait until every member stands at its gate.
    pub fn muster(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(600);
        for slot in &self.board.slots()[..self.pids.len()] {
            while slot.ready.load(Ordering::Acquire) == 0 {
                ensure!(
                    Instant::now() < until,
                    "not every process reached its gate within 10 minutes"
                );
                sys::sleep(1_000_000);
            }
        }
        Ok(())
    }

    /// Open a gate for those who wait there and who come later.
    pub fn open(&self, gate: usize) {
        let head = self.board.head();
        head.opened[gate].store(sys::now(), Ordering::Relaxed);
        sys::futex_open(&head.gate[gate], 1);
    }

    /// CPU time that a member has used, in ns.
    pub fn cpu_ns(&self, index: usize) -> Result<u64> {
        sys::cpu_ns(self.pid(index)?)
    }

    /// The longest that a member has waited for a CPU, up to now, in ns.
    pub fn longest_wait(&self, index: usize) -> u64 {
        let slot = self.slot(index);
        let seen = slot.seen.load(Ordering::Relaxed);
        let seen = if seen == 0 {
            let opened = self.board.head().opened[0].load(Ordering::Relaxed);
            opened.max(slot.born.load(Ordering::Relaxed))
        } else {
            seen
        };
        let open = sys::now().saturating_sub(seen);
        open.max(slot.wait.load(Ordering::Relaxed))
    }

    /// Start the members' longest waits anew, for what comes from here on.
    pub fn forget_waits(&self) {
        for slot in &self.board.slots()[..self.pids.len()] {
            slot.wait.store(0, Ordering::Relaxed);
        }
    }

    /// End a member and reap it.
    pub fn dismiss(&mut self, index: usize) -> Result<()> {
        let pid = self.pid(index)?;
        self.pids[index] = None;
        sys::signal(pid, libc::SIGKILL);
        sys::reap(pid)
    }

    /// A sum over every member of a counter in its `sched` file.
    pub fn sched_total(&self, name: &str) -> Result<u64> {
        let pids = self.pids.iter().copied().flatten();
        pids.map(|pid| sys::sched_counter(pid, name)).sum()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let left: Vec<i32> = self.pids.iter().copied().flatten().collect();
        for &pid in &left {
            sys::signal(pid, libc::SIGKILL);
        }
        for &pid in &left {
            let _ = sys::reap(pid);
        }
    }
}
