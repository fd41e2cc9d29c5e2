// SPDX-License-Identifier: GPL-2.0-only
//! How others have the clocks of cgroups read, beside the writer.
//!
//! Reading one takes some 10 µs, so reading all takes longer than anybody may wait for the writer.
//! They are read on another thread, for everybody who asks meanwhile at once, and no more often
//! than each [`EACH`]; with many cgroups so seldom that it takes a quarter of one CPU at most.

use super::{Failure, Handle};
use crate::parts::blocking;
use crate::reconcile::clocks::{self, Clocks, Wanted};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tix_cgroupfs::Root;
use tokio::time::Instant;

/// The least time from one reading to the next.
const EACH: Duration = Duration::from_millis(100);
/// Reading takes at most one part in so many of the time.
const PART: u32 = 4;

impl Handle {
    /// Has the clocks of all cgroups read after this was asked, and tells when. That may have to
    /// wait until they may be read again.
    ///
    /// # Errors
    /// When tixd is ending.
    pub async fn read_clocks_now(&self) -> Result<u64, Failure> {
        let asked = clocks::monotonic_usec();
        let mut read_at = 0;
        for _ in 0..2 {
            self.read_clocks().await?;
            read_at = self.call(|core| core.usage.read_at_usec()).await?;
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
            .call(|core| core.tree.root.path().to_owned())
            .await?;
        // Others wait for this one, root perhaps.
        let first = self.first();
        let wanted: Vec<Wanted> = first
            .slices(|core, cid| clocks::wanted(&core.ledger, cid, core.cpu.in_charge()))
            .await?;
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
