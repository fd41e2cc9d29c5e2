// SPDX-License-Identifier: GPL-2.0-only
//! Weights that were written and look as before.

use super::{Change, Follower, Known};
use std::time::{Duration, Instant};

/// How often a weight is said that is written again and again as it was.
const SAID_EACH: Duration = Duration::from_secs(1);

impl Known {
    pub(super) fn here(&self, path: String) -> Change {
        let (weight, disk, (owner, group), inner_threads) = self.told;
        Change::Here {
            path,
            id: self.id,
            weight,
            disk,
            owner,
            group,
            inner_threads,
        }
    }
}

impl<F: FnMut(Change) -> bool> Follower<F> {
    /// Somebody wrote there. What is there may be what was there when it was looked at last, and
    /// another number have stood there in between that nobody else has seen: tixd's own.
    pub(super) fn look_at_written(&mut self, path: &str) -> Result<(), ()> {
        let told = |me: &Self| me.known.get(path).map(|k| (k.id, k.told));
        let before = told(self);
        self.look_again(path)?;
        if before.is_some() && told(self) == before {
            self.again.insert(path.to_owned());
            self.say_again()?;
        }
        Ok(())
    }

    pub(super) fn said_again_at(&self, path: &str) -> Option<Instant> {
        Some(self.known.get(path)?.said? + SAID_EACH)
    }

    /// Says those again for which it is time: whoever has a cgroup may write its weight as often as
    /// it likes.
    pub(super) fn say_again(&mut self) -> Result<(), ()> {
        let (all, now) = (std::mem::take(&mut self.again), Instant::now());
        let early = |p: &String| self.said_again_at(p).is_some_and(|at| now < at);
        let (later, due) = all.into_iter().partition(early);
        self.again = later;
        for path in due {
            let Some(known) = self.known.get_mut(&path) else {
                continue;
            };
            known.said = Some(now);
            let change = known.here(path);
            self.say(change)?;
        }
        Ok(())
    }
}
