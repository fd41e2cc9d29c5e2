// SPDX-License-Identifier: GPL-2.0-only
//! What looks at the whole ledger when any of it has changed: weights without the scheduler, and
//! guarantees that cannot be held. In a small ledger that is done with each commit. In a large one
//! it would be most of what a commit takes: there it waits, so that it takes no more than a part of
//! the time.

use super::Core;
use std::time::{Duration, Instant};

/// So long may it take with each commit.
const QUICK: Duration = Duration::from_micros(200);
/// Otherwise one part in so many of the time.
const PART: u32 = 10;

#[derive(Default)]
pub(super) struct Overhaul {
    /// Something has changed.
    pub due: bool,
    /// Not before then.
    not_before: Option<Instant>,
}

impl Overhaul {
    fn is_time(&self) -> bool {
        self.not_before.is_none_or(|at| Instant::now() >= at)
    }

    /// When it is time for what is due. May be cancelled.
    pub(super) async fn time(&self) {
        match self.not_before.filter(|_| self.due) {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

impl Core {
    /// Does what is due, unless it has been done a moment ago and takes long.
    pub(super) fn overhaul_if_time(&mut self) {
        self.overhaul.due |= self.marks.take_look_again();
        if !self.overhaul.due || !self.overhaul.is_time() {
            return;
        }
        self.overhaul.due = false;
        let start = Instant::now();
        self.write_marks();
        self.look_at_guarantees();
        let took = start.elapsed();
        self.overhaul.not_before = (took > QUICK).then(|| start + took * PART);
    }
}
