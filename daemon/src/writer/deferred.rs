// SPDX-License-Identifier: GPL-2.0-only
//! Two checks go over the whole ledger after a change: the weights in files, while the scheduler is
//! not in force, and guarantees that cannot be held. In a small ledger that is done with each
//! commit. In a large one it would be most of what a commit takes: there the next check waits, so
//! that checks take a tenth of the time at most.

use crate::reconcile::guarantees::Guarantees;
use std::time::{Duration, Instant};

/// A check that takes no longer is done with each commit.
const QUICK: Duration = Duration::from_micros(200);
/// After a longer one, the next waits until so many times as long has passed.
const PART: u32 = 10;

#[derive(Default)]
pub struct DeferredReconcile {
    /// Something has changed.
    pub(super) due: bool,
    /// Not before then.
    not_before: Option<Instant>,
    pub guarantees: Guarantees,
}

impl DeferredReconcile {
    /// Now, if it is due and time for it; [`DeferredReconcile::end`] is told when it began.
    pub(super) fn begin(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let begins = self.due && self.not_before.is_none_or(|at| now >= at);
        self.due &= !begins;
        begins.then_some(now)
    }

    pub(super) fn end(&mut self, start: Instant) {
        let took = start.elapsed();
        self.not_before = (took > QUICK).then(|| start + took * PART);
    }

    /// When it is time for what is due. May be cancelled.
    pub(super) async fn time(&self) {
        match self.not_before.filter(|_| self.due) {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}
