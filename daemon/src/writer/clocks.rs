// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's clocks of cgroups (`cpu.stat`), read beside the writer.
//!
//! Reading one takes some 10 µs, so reading all takes longer than anybody may wait for the writer.
//! They are read on another thread, for everybody who asks meanwhile at once, and no more often
//! than each [`EACH`]; with many cgroups so seldom that it takes a quarter of one CPU at most. A
//! sample says when its clocks were read.

use super::beside::Rank;
use super::{Core, Failure, Handle};
use crate::parts::blocking;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tix_cgroupfs::Root;
use tix_ledger::Cid;
use tokio::time::Instant;

/// The least time from one reading to the next.
const EACH: Duration = Duration::from_millis(100);
/// Reading takes at most one part in so many of the time.
const PART: u32 = 4;
/// So many are read on the writer: each takes some 10 µs.
const FEW: usize = 16;
/// What named currencies use is counted each so many seconds: cgroups that go are counted up to
/// then.
const COUNT_EACH: u64 = 2;

/// Cgroups whose clocks are to be read: inode, path, and whether its processes are asked for, too.
pub(super) type Wanted = Vec<(u64, String, bool)>;

/// What was read, by the inode of the cgroup's directory.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) used_usec: HashMap<u64, u64>,
    /// Those that have processes that are not frozen, among those that were asked for that.
    pub(super) populated: HashSet<u64>,
    /// When, as the monotonic clock has it.
    pub(super) monotonic_usec: u64,
}

impl Clocks {
    /// Reads them. Blocks.
    pub(super) fn read(root: &Root, wanted: &Wanted) -> Clocks {
        let mut clocks = Clocks {
            monotonic_usec: monotonic_usec(),
            ..Clocks::default()
        };
        for (id, path, processes) in wanted {
            // What goes meanwhile has no clock any more.
            if let Ok(used) = root.used_usec(path) {
                clocks.used_usec.insert(*id, used);
            }
            if *processes && is_populated(root, path) {
                clocks.populated.insert(*id);
            }
        }
        clocks
    }
}

/// Has processes that could run.
fn is_populated(root: &Root, path: &str) -> bool {
    let events = root.cgroup(path).and_then(|c| c.read("cgroup.events"));
    events.is_ok_and(|t| {
        let has = |line: &str| t.lines().any(|l| l == line);
        has("populated 1") && !has("frozen 1")
    })
}

fn monotonic_usec() -> u64 {
    let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    mono.tv_sec.unsigned_abs() * 1_000_000 + mono.tv_nsec.unsigned_abs() / 1_000
}

impl Handle {
    /// Has the clocks of all cgroups read after this was asked, and tells when. That may have to
    /// wait until they may be read again.
    ///
    /// # Errors
    /// When tixd is ending.
    pub async fn read_clocks_now(&self) -> Result<u64, Failure> {
        let asked = monotonic_usec();
        let mut read_at = 0;
        for _ in 0..2 {
            self.read_clocks().await?;
            read_at = self.call(|core| core.clocks.monotonic_usec).await?;
            if read_at >= asked {
                break;
            }
            let due = self.clocks.lock().await.0;
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
        }
        Ok(read_at)
    }

    /// Has the clocks of all cgroups as they are now, or were a moment ago.
    ///
    /// # Errors
    /// When tixd is ending.
    pub async fn read_clocks(&self) -> Result<(), Failure> {
        let mut turn = self.clocks.lock().await;
        if turn.0.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let start = Instant::now();
        let root = self
            .first()
            .call(|core| core.root.path().to_owned())
            .await?;
        // Others wait for this one, root perhaps.
        let first = self.first();
        let wanted: Wanted = first.slices(|core, cid| core.wanted_clock(cid)).await?;
        let read = blocking(move || {
            let began = Instant::now();
            let clocks = Root::open_any(&root).map(|root| Clocks::read(&root, &wanted));
            (clocks, began.elapsed())
        });
        let (clocks, took) = read.await?;
        if let Some(spent) = &self.spent {
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            spent.fetch_add(took, Ordering::Relaxed);
        }
        match clocks {
            Ok(clocks) => first.call(move |core| core.take_clocks(clocks)).await?,
            Err(e) => tracing::warn!("{e}"),
        }
        turn.0 = Some(start + EACH.max(took * PART));
        Ok(())
    }
}

impl Core {
    /// What is to be read of the cgroup that `cid` mirrors.
    pub(super) fn wanted_clock(&self, cid: Cid) -> Option<(u64, String, bool)> {
        let c = self.ledger.get(cid)?;
        let m = c.mirror.as_ref()?;
        // Where the scheduler's tables do not say who runs, whoever has processes does.
        let leaf = cid != tix_ledger::BASE && c.mirrored_children().next().is_none();
        Some((m.id, m.path.clone(), leaf && !self.cpu.in_charge()))
    }

    fn take_clocks(&mut self, clocks: Clocks) {
        self.clocks = clocks;
        self.count_usage();
        self.refresh();
    }

    /// Has the clocks read that named currencies' use is counted by. Called once a second.
    pub(super) fn count_usage_beside(&mut self) {
        let seconds = self.started.elapsed().as_secs();
        if !seconds.is_multiple_of(COUNT_EACH) || !self.reading.is_idle() {
            return;
        }
        let wanted = self.counted_cgroups();
        if wanted.is_empty() {
            return;
        }
        // A thread that is woken for it each second costs more than these.
        if wanted.len() <= FEW {
            let clocks = Clocks::read(&self.root, &wanted);
            return self.count_by(clocks);
        }
        let root = self.root.path().to_owned();
        self.reading.push(Rank::Writer, move || {
            let clocks = Root::open_any(&root).map(|root| Clocks::read(&root, &wanted));
            Box::new(move |core| match clocks {
                Ok(clocks) => core.count_by(clocks),
                Err(e) => tracing::warn!("{e}"),
            })
        });
    }

    fn count_by(&mut self, clocks: Clocks) {
        self.clocks.used_usec.extend(clocks.used_usec);
        self.count_usage();
    }
}
