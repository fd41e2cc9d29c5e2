// SPDX-License-Identifier: GPL-2.0-only
//! Whose turn it is with the one writer: requests that only read, requests that change something,
//! the tree, and what other threads have done for it.
//!
//! A turn is short: a part of a long request, or changes that are stored together. While something
//! is being stored requests that read have their turns still; what would change rows waits.

use super::handle::{Asks, Job, Queue};
use super::{Core, now_usec, warned};
use std::time::{Duration, Instant};
use tix_cgroupfs::Change;
use tix_ledger::{Caller, Op, TIXD};
use tix_store::Store;
use tokio::sync::mpsc;

/// After a turn that took longer, connections are read before the next one.
const LONG: Duration = Duration::from_millis(1);
/// Changes that arrive within this time go into one group.
const MOST: Duration = Duration::from_millis(10);
/// Changes of the tree, and steps in the ledger for them, after which others have their turn: they
/// are kept together.
const TREE_CHANGES: usize = 256;
const TREE_STEPS: u64 = 200_000;

/// How long turns have been.
pub struct Turns {
    pub started: Instant,
    /// Steps in the ledger where the turn began, and the most of one turn.
    began: u64,
    longest: u64,
    /// The most files of cgroups that were written in one.
    most_files: u64,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns {
            started: Instant::now(),
            began: 0,
            longest: 0,
            most_files: 0,
        }
    }

    /// Another begins; `steps`: the ledger's, `files`: those written in the last one.
    fn next(&mut self, steps: u64, files: u64) {
        self.longest = self.longest.max(steps - self.began);
        self.began = steps;
        self.most_files = self.most_files.max(files);
    }

    /// The most files of cgroups written so far in one turn; counted anew from now on.
    pub fn take_most_files(&mut self) -> u64 {
        std::mem::take(&mut self.most_files)
    }

    /// The most steps in the ledger ([`tix_ledger::Ledger::steps`]) so far for which whoever asks,
    /// root too, has waited for others; counted anew from now on.
    pub fn take_longest(&mut self) -> u64 {
        std::mem::take(&mut self.longest)
    }
}

impl Core {
    /// Serves until every handle is gone or `stop` says so.
    pub async fn run(
        mut self,
        mut asks: Asks,
        mut changes: mpsc::Receiver<Change>,
        stop: impl Future<Output = ()>,
    ) -> Core {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        self.turns.began = self.ledger.steps();
        loop {
            self.serve_requests();
            self.keep_if_due();
            self.turns
                .next(self.ledger.steps(), self.marks.take_files());
            let (free, writes) = (!self.commits.is_keeping(), self.marks.has_to_write());
            // In no order: neither those who ask nor those who make cgroups keep the rest waiting.
            tokio::select! {
                () = &mut stop => break,
                then = self.commits.store.done() => then(&mut self),
                clocks = self.usage.read() => self.usage.count_by(&self.ledger, clocks),
                Some(change) = changes.recv(), if free => {
                    self.tree_changes(change, &mut changes).await;
                }
                look = asks.looks.recv() => match look {
                    Some(look) => self.answer(look, &mut asks.looks).await,
                    None => break,
                },
                Some(change) = asks.changes.recv(), if free => {
                    self.change(change, &mut asks.changes).await;
                }
                in_force = self.cpu.loaded() => self.loaded(in_force),
                () = self.deferred.time(), if free => self.reconcile_if_time(),
                () = std::future::ready(()), if writes => self.write_some(&mut asks).await,
                _ = tick.tick() => self.tick(),
            }
        }
        self.save_usage();
        self.files().record_done();
        self.finish_keeping().await;
        self
    }

    /// Takes those off the book whose time is over, as many as one operation does.
    fn expire_offers(&mut self) {
        let now = now_usec();
        if self.commits.is_keeping()
            || self.commits.unwritable.is_some()
            || self.ledger.book().expired(now).next().is_none()
        {
            return;
        }
        let tixd = Caller {
            uid: TIXD,
            ..Caller::default()
        };
        if let Err(e) = self.submit(&[Op::Expire { now }], &tixd) {
            tracing::warn!("{e}");
        }
    }

    fn tick(&mut self) {
        self.look();
        self.commits.keep_again();
        let held_back = self.watchers.tell_held_back();
        if !held_back.is_empty() {
            self.commits.log(held_back);
        }
        self.files().retry_writes();
        if self.activity.demand.look(&mut self.ledger, &self.tree.root) {
            tracing::debug!("others want the disk than before");
            self.files().write_disk_files();
        }
        if self.disk.is_stale() {
            self.disk.look(&self.tree.root);
        }
        self.expire_offers();
        if !self.commits.is_keeping() {
            self.reconcile_if_time();
        }
        let seconds = self.turns.started.elapsed().as_secs();
        self.usage
            .count_beside(&self.ledger, &self.tree.root, seconds);
        // A disk that is slower than that is not asked for more.
        if self.commits.store.is_writing() {
            return;
        }
        let now_and_then = self.commits.store.is_time();
        if now_and_then || self.commits.store.pruning {
            self.with_store(
                |store| store.prune(now_usec()),
                |core, pruned| core.commits.store.pruning = warned(pruned) > Some(0),
            );
        }
        // At rest no thread is woken for it.
        if self.commits.store.take_untidy() {
            self.with_store(Store::tidy, |_, tidied| {
                warned(tidied);
            });
            self.commits.store.take_untidy();
        }
        if now_and_then {
            self.save_usage();
        }
    }

    fn save_usage(&mut self) {
        let changed = self.usage.take_unsaved(&self.ledger);
        if !changed.is_empty() {
            let then = |_: &mut Core, done| {
                if let Err(e) = done {
                    tracing::error!("{e}");
                }
            };
            self.with_store(move |store| store.set_usage(&changed), then);
        }
        self.commits.store.saved_now();
    }

    /// What is being kept, and what is to be kept yet, is.
    pub(super) async fn finish_keeping(&mut self) {
        loop {
            self.serve_requests();
            self.keep_if_due();
            if self.marks.has_to_write() {
                self.write_some_files();
            } else if !self.commits.store.is_idle() {
                let then = self.commits.store.done().await;
                then(self);
            } else {
                return;
            }
        }
    }

    /// Some files of cgroups, and what has been asked by then, root's first.
    async fn write_some(&mut self, asks: &mut Asks) {
        self.write_some_files();
        // Connections whose requests have arrived put them in.
        tokio::task::yield_now().await;
        if let Some(look) = asks.looks.try_recv() {
            self.answer(look, &mut asks.looks).await;
        }
        if !self.commits.is_keeping()
            && let Some(change) = asks.changes.try_recv()
        {
            self.change(change, &mut asks.changes).await;
        }
    }

    /// This one, and whatever else is asked by now.
    async fn answer(&mut self, first: Job, looks: &mut Queue) {
        let start = Instant::now();
        first(self);
        // What root asks goes before others' long requests; but it must have been read.
        while start.elapsed() < LONG
            && let Some(look) = looks.try_recv()
        {
            look(self);
        }
        give_way(start).await;
    }

    /// This one, and whatever else is asked for by now: they are kept together.
    async fn change(&mut self, first: Job, changes: &mut Queue) {
        let start = Instant::now();
        first(self);
        while !self.commits.is_full() && start.elapsed() < MOST {
            let mut next = changes.try_recv();
            if next.is_none() {
                // Connections whose requests have arrived meanwhile put them in.
                tokio::task::yield_now().await;
                next = changes.try_recv();
            }
            match next {
                Some(change) => change(self),
                None => break,
            }
        }
        give_way(start).await;
    }

    /// This one, and what else has happened by now: kept together.
    async fn tree_changes(&mut self, first: Change, changes: &mut mpsc::Receiver<Change>) {
        let (start, began) = (self.ledger.steps(), Instant::now());
        self.tree_changed(first);
        for _ in 1..TREE_CHANGES {
            if self.ledger.steps() - start > TREE_STEPS {
                break;
            }
            match changes.try_recv() {
                Ok(change) => self.tree_changed(change),
                Err(_) => break,
            }
        }
        let revoked = self.ledger.revoke_overdrawn();
        self.tree_did(revoked);
        self.push_touched();
        self.files().save_gone();
        give_way(began).await;
    }
}

/// After a long turn connections are read and written before the next one.
async fn give_way(start: Instant) {
    if start.elapsed() > LONG {
        tokio::task::yield_now().await;
    }
}
