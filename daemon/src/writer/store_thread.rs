// SPDX-License-Identifier: GPL-2.0-only
//! The thread that has the ledger's file.
//!
//! What is to be written is written in the order in which it was asked for, before what is read.

use crate::lane::{Lane, Rank};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tix_store::Store;

/// Old records are looked for, and what was used is saved, so often.
const EACH: Duration = Duration::from_secs(30);

/// Each of its jobs comes to a `T`.
pub(super) struct StoreThread<T> {
    store: Arc<Mutex<Store>>,
    lane: Lane<T>,
    /// It was used since it was tidied.
    untidy: bool,
    /// There may be more to prune.
    pub(super) pruning: bool,
    saved: Instant,
}

impl<T: Send + 'static> StoreThread<T> {
    /// # Errors
    /// When the kernel gives no thread.
    pub(super) fn start(store: Store) -> io::Result<StoreThread<T>> {
        Ok(StoreThread {
            store: Arc::new(Mutex::new(store)),
            lane: Lane::start("store")?,
            untidy: false,
            pruning: true,
            saved: Instant::now(),
        })
    }

    pub(super) fn write(&mut self, job: impl FnOnce(&mut Store) -> T + Send + 'static) {
        let store = Arc::clone(&self.store);
        self.untidy = true;
        self.lane.push(Rank::Writer, move || job(&mut lock(&store)));
    }

    /// It is to be a slice: what is written next waits for it.
    pub(super) fn read(&mut self, rank: Rank, job: impl FnOnce(&Store) -> T + Send + 'static) {
        let store = Arc::clone(&self.store);
        self.lane.push(rank, move || job(&lock(&store)));
    }

    /// What the job that has ended came to. May be cancelled.
    pub(super) async fn done(&mut self) -> T {
        self.lane.done().await
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lane.is_idle()
    }

    pub(super) fn is_writing(&self) -> bool {
        self.lane.is_writing()
    }

    /// Was it used since it was tidied, which it is going to be? At rest no thread is woken for it.
    pub(super) fn take_untidy(&mut self) -> bool {
        std::mem::take(&mut self.untidy)
    }

    /// Is it time for what is done now and then?
    pub(super) fn is_time(&self) -> bool {
        self.saved.elapsed() >= EACH
    }

    pub(super) fn saved_now(&mut self) {
        self.saved = Instant::now();
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // Who panicked holding it has brought tixd down.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
