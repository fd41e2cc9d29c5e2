// SPDX-License-Identifier: GPL-2.0-only
//! Processes that stand at a gate until all are there, work when it opens, and keep a slot on a
//! board that everybody sees. They end with the crew, and with the program.

use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::sys;

/// Gates of a crew; a member waits at one of them.
pub const GATES: usize = 2;

/// What a member writes about itself, on a cache line of its own.
#[repr(C, align(64))]
pub struct Slot {
    /// 1 when it stands at its gate.
    ready: AtomicU32,
    /// When it was started.
    born: AtomicU64,
    /// When it last looked at the clock, in ns; 0 before it ran at all.
    pub seen: AtomicU64,
    /// The longest time between two looks: the longest it waited for a CPU.
    pub wait: AtomicU64,
    /// What it counts, by the work's own meaning.
    pub count: AtomicU64,
}

#[repr(C)]
struct Head {
    gate: [AtomicU32; GATES],
    /// When each gate opened.
    opened: [AtomicU64; GATES],
}

/// Memory shared with the members.
struct Board {
    base: *mut u8,
    bytes: usize,
}

impl Board {
    fn new(slots: usize) -> Result<Self> {
        let bytes = (slots + 1) * size_of::<Slot>();
        // SAFETY: a new anonymous mapping, zeroed, which is a valid Head and valid Slots.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(
            base != libc::MAP_FAILED,
            "share {bytes} bytes: {}",
            std::io::Error::last_os_error()
        );
        Ok(Self {
            base: base.cast(),
            bytes,
        })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping starts with room for one slot, which the head fits into.
        unsafe { &*self.base.cast::<Head>() }
    }

    fn slots(&self) -> &[Slot] {
        let n = self.bytes / size_of::<Slot>() - 1;
        // SAFETY: n slots follow the first one's room; all fields are atomic.
        unsafe { std::slice::from_raw_parts(self.base.cast::<Slot>().add(1), n) }
    }
}

const _: () = assert!(size_of::<Head>() <= size_of::<Slot>());

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping is this board's own.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

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
        // SAFETY: no memory is passed.
        let parent = unsafe { libc::getpid() };
        slot.born.store(sys::now(), Ordering::Relaxed);
        let pid = sys::fork(cgroup)?;
        if pid == 0 {
            // SAFETY: the child asks to end with its parent, which may be gone already.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(1);
                }
            }
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
            // SAFETY: leaves without running the parent's destructors.
            unsafe { libc::_exit(0) };
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
        // SAFETY: a child that is not reaped yet.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            reap(pid)
        }
    }

    /// A sum over every member of a counter in its `sched` file.
    pub fn sched_total(&self, name: &str) -> Result<u64> {
        let pids = self.pids.iter().copied().flatten();
        pids.map(|pid| sys::sched_counter(pid, name)).sum()
    }
}

/// # Safety
/// `pid` is a child of this process, not reaped yet.
unsafe fn reap(pid: i32) -> Result<()> {
    // SAFETY: as the caller promised.
    let got = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    ensure!(
        got == pid,
        "wait for {pid}: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

impl Drop for Crew {
    fn drop(&mut self) {
        let left: Vec<i32> = self.pids.iter().copied().flatten().collect();
        // SAFETY: children that are not reaped yet.
        unsafe {
            for &pid in &left {
                libc::kill(pid, libc::SIGKILL);
            }
            for &pid in &left {
                let _ = reap(pid);
            }
        }
    }
}
