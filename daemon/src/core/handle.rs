// SPDX-License-Identifier: GPL-2.0-only
//! How others reach the writer: what they ask, in which order it comes, and whose time it takes.

use super::{Core, Failure, commit};
use crate::ledger::{Caller, Event, Ledger, Op, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tix_api as api;
use tokio::sync::{broadcast, mpsc, oneshot};

type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// What the writer is asked: to look, which sees only what is kept, or to change something.
pub enum Ask {
    Look(Job),
    Change(Job),
}

/// How others reach the writer.
#[derive(Clone)]
pub struct Handle {
    asks: mpsc::Sender<Ask>,
    /// For what does not wait behind others' requests.
    first: mpsc::Sender<Ask>,
    events: broadcast::Sender<api::Event>,
    appear: broadcast::Sender<String>,
    /// Where the writer's time is counted, nanoseconds.
    spent: Option<Arc<AtomicU64>>,
}

/// What the writer is asked, root's before others'.
pub struct Asks {
    first: mpsc::Receiver<Ask>,
    rest: mpsc::Receiver<Ask>,
}

impl Asks {
    pub async fn recv(&mut self) -> Option<Ask> {
        tokio::select! {
            biased;
            Some(ask) = self.first.recv() => Some(ask),
            ask = self.rest.recv() => ask,
        }
    }

    pub fn try_recv(&mut self) -> Option<Ask> {
        let first = self.first.try_recv().ok();
        first.or_else(|| self.rest.try_recv().ok())
    }
}

/// Counts the time until it is dropped.
pub struct Stopwatch(Option<Arc<AtomicU64>>, Instant);

impl Stopwatch {
    pub fn start(spent: &Option<Arc<AtomicU64>>) -> Stopwatch {
        Stopwatch(spent.clone(), Instant::now())
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        if let Some(spent) = &self.0 {
            let time = u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
            spent.fetch_add(time, Ordering::Relaxed);
        }
    }
}

impl Handle {
    /// The same, before all others.
    pub fn first(&self) -> Handle {
        Handle {
            asks: self.first.clone(),
            ..self.clone()
        }
    }

    /// The same, with the writer's time counted.
    pub fn counted(&self, spent: Arc<AtomicU64>) -> Handle {
        Handle {
            spent: Some(spent),
            ..self.clone()
        }
    }

    /// Runs `f` on the writer's state, between operations.
    pub async fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (tx, rx) = oneshot::channel();
        let spent = self.spent.clone();
        let job: Job = Box::new(move |core| {
            let _time = Stopwatch::start(&spent);
            // The asker may have gone meanwhile.
            let _ = tx.send(f(core));
        });
        let sent = self.asks.send(Ask::Look(job)).await;
        sent.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)
    }

    /// Does what `plan` says of the ledger as it is then, all or none, and returns what its second half says of it, and of what was
    /// done, when that is kept.
    pub async fn change<T, R>(
        &self,
        caller: Caller,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Send + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        let (tx, rx) = oneshot::channel();
        let spent = self.spent.clone();
        let job: Job = Box::new(move |core| {
            let _time = Stopwatch::start(&spent);
            match plan(&core.ledger) {
                Ok((ops, reply)) => core.stage(
                    &ops,
                    &caller,
                    Box::new(move |core, done| {
                        // The asker may have gone meanwhile.
                        let _ = tx.send(done.map(|events| reply(&core.ledger, events)));
                    }),
                ),
                Err(e) => {
                    let _ = tx.send(Err(e.into()));
                }
            }
        });
        let sent = self.asks.send(Ask::Change(job)).await;
        sent.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)?
    }

    /// Everything that happens: telling of it costs something while anybody listens.
    pub fn events(&self) -> broadcast::Receiver<api::Event> {
        self.events.subscribe()
    }

    /// The paths of cgroups, as they appear.
    pub fn appear(&self) -> broadcast::Receiver<String> {
        self.appear.subscribe()
    }
}

pub fn pair(
    events: broadcast::Sender<api::Event>,
    appear: broadcast::Sender<String>,
) -> (Handle, Asks) {
    let (asks, rest) = mpsc::channel(commit::GROUP);
    let (before, first) = mpsc::channel(commit::GROUP);
    let handle = Handle {
        asks,
        first: before,
        events,
        appear,
        spent: None,
    };
    (handle, Asks { first, rest })
}
