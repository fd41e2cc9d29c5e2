// SPDX-License-Identifier: GPL-2.0-only
//! How others reach the writer: what they ask, in which order it comes, and whose time it takes.

use super::event::WatchEvent;
use super::{Core, Failure, Undoes, commit};
use crate::lane::Rank;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tix_ledger::{BASE, Caller, Cid, Event, Ledger, Op, Refusal};
use tix_store::Store;
use tokio::sync::{Mutex, broadcast, mpsc, oneshot};

pub(super) type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// Steps in the ledger ([`Ledger::steps`]) after which a long request makes room for others'
/// requests. Some 20 ns each, and what is made of them.
pub const SLICE_STEPS: u64 = 20_000;
/// Currencies that a slice tells of at most.
const SLICE: usize = 1_000;

/// When all clocks may be read again; whoever reads them has it meanwhile.
#[derive(Debug, Default)]
pub(super) struct ClocksTurn(pub(super) Option<tokio::time::Instant>);

/// How others reach the writer.
#[derive(Clone)]
pub struct Handle {
    asks: Door,
    /// For what does not wait behind others' requests.
    first: Door,
    events: broadcast::Sender<WatchEvent>,
    appear: broadcast::Sender<String>,
    /// Of what is read of the ledger's file.
    rank: Rank,
    /// Where the writer's time is counted, nanoseconds.
    pub(super) spent: Option<Arc<AtomicU64>>,
    /// Where the bytes are counted that changes have logged.
    logged: Option<Arc<AtomicU64>>,
    /// Whose turn it is to have all clocks read.
    pub(super) clocks: Arc<Mutex<ClocksTurn>>,
}

/// Two queues of one rank: those who look do not wait behind those who change something.
#[derive(Clone)]
struct Door {
    looks: mpsc::Sender<Job>,
    changes: mpsc::Sender<Job>,
}

/// What the writer is asked, root's before others'.
pub struct Queue {
    first: mpsc::Receiver<Job>,
    rest: mpsc::Receiver<Job>,
}

impl Queue {
    pub async fn recv(&mut self) -> Option<Job> {
        tokio::select! {
            biased;
            Some(ask) = self.first.recv() => Some(ask),
            ask = self.rest.recv() => ask,
        }
    }

    pub fn try_recv(&mut self) -> Option<Job> {
        let first = self.first.try_recv().ok();
        first.or_else(|| self.rest.try_recv().ok())
    }
}

/// What the writer is asked: to look at something, at any time; or to change something, when what
/// was changed before is kept.
pub struct Asks {
    pub looks: Queue,
    pub changes: Queue,
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
            rank: Rank::Root,
            ..self.clone()
        }
    }

    /// The same, with the writer's time counted, and what is logged.
    pub fn counted(&self, spent: Arc<AtomicU64>, logged: Arc<AtomicU64>) -> Handle {
        Handle {
            spent: Some(spent),
            logged: Some(logged),
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
        let sent = self.asks.looks.send(job).await;
        sent.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)
    }

    /// Does what `plan` says of the ledger as it is then, all or none, and returns what its second
    /// half says of it, and of what was done, when that is kept. `undoes`: what it takes back.
    pub async fn change<T, R>(
        &self,
        caller: Caller,
        undoes: Option<Undoes>,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Send + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        let (tx, rx) = oneshot::channel();
        let (spent, logged) = (self.spent.clone(), self.logged.clone());
        let job: Job = Box::new(move |core| {
            let _time = Stopwatch::start(&spent);
            match plan(&core.ledger) {
                Ok((ops, reply)) => {
                    let before = core.commits.logged;
                    core.commits.stage_for(
                        &mut core.ledger,
                        &ops,
                        &caller,
                        undoes,
                        Box::new(move |ledger, done| {
                            // The asker may have gone meanwhile.
                            let _ = tx.send(done.map(|events| reply(ledger, events)));
                        }),
                    );
                    if let Some(logged) = logged {
                        logged.fetch_add(core.commits.logged - before, Ordering::Relaxed);
                    }
                }
                Err(e) => {
                    let _ = tx.send(Err(e.into()));
                }
            }
        });
        let sent = self.asks.changes.send(job).await;
        sent.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)?
    }

    /// Runs `f`, which may change the ledger, and returns what it says when all of that is kept.
    ///
    /// # Errors
    /// What `f` changed could not be kept, and is undone.
    pub async fn act<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (tx, rx) = oneshot::channel();
        let spent = self.spent.clone();
        let job: Job = Box::new(move |core| {
            let _time = Stopwatch::start(&spent);
            let found = f(core);
            // With no operation of its own: it comes after all that `f` has submitted.
            core.commits.stage(
                &mut core.ledger,
                &[],
                &Caller::ROOT,
                Box::new(move |_, done| {
                    // The asker may have gone meanwhile.
                    let _ = tx.send(done.map(|_| found));
                }),
            );
        });
        let sent = self.asks.changes.send(job).await;
        sent.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)?
    }

    /// What `each` says of every currency, base first, in slices between which others have their
    /// turn. A currency that comes or goes meanwhile may be in it or not.
    ///
    /// # Errors
    /// When tixd is ending.
    pub async fn slices<T: Send + 'static>(
        &self,
        each: impl Fn(&mut Core, Cid) -> Option<T> + Clone + Send + 'static,
    ) -> Result<Vec<T>, Failure> {
        let (mut all, mut next) = (Vec::new(), Some(BASE));
        while let Some(from) = next {
            let each = each.clone();
            let (some, rest) = self.call(move |core| slice(core, from, each)).await?;
            all.extend(some);
            next = rest;
        }
        Ok(all)
    }

    /// What `f` reads of the ledger's file, beside the writer, after what is being written to it.
    /// It is to be a slice: what is written next waits for it. Its time is counted as the writer's
    /// is.
    ///
    /// # Errors
    /// When tixd is ending.
    pub async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (tx, rx) = oneshot::channel();
        let (rank, spent) = (self.rank, self.spent.clone());
        let read = move |store: &Store| {
            let _time = Stopwatch::start(&spent);
            // The asker may have gone meanwhile.
            let _ = tx.send(f(store));
        };
        self.call(move |core| core.read_store(rank, read)).await?;
        rx.await.map_err(|_| Failure::Ending)
    }

    /// Everything that happens: telling of it costs something while anybody listens.
    pub fn events(&self) -> broadcast::Receiver<WatchEvent> {
        self.events.subscribe()
    }

    /// The paths of cgroups, as they appear.
    pub fn appear(&self) -> broadcast::Receiver<String> {
        self.appear.subscribe()
    }
}

pub fn pair(
    events: broadcast::Sender<WatchEvent>,
    appear: broadcast::Sender<String>,
) -> (Handle, Asks) {
    let door = || {
        let (looks, look) = mpsc::channel(commit::GROUP);
        let (changes, change) = mpsc::channel(commit::GROUP);
        (Door { looks, changes }, look, change)
    };
    let ((asks, look, change), (first, first_look, first_change)) = (door(), door());
    let handle = Handle {
        asks,
        first,
        events,
        appear,
        rank: Rank::Others,
        spent: None,
        logged: None,
        clocks: Arc::default(),
    };
    let asks = Asks {
        looks: Queue {
            first: first_look,
            rest: look,
        },
        changes: Queue {
            first: first_change,
            rest: change,
        },
    };
    (handle, asks)
}

/// What `each` says of the currencies from `from` on, and where to go on.
fn slice<T>(
    core: &mut Core,
    from: Cid,
    each: impl Fn(&mut Core, Cid) -> Option<T>,
) -> (Vec<T>, Option<Cid>) {
    let start = core.ledger.steps();
    let some: Vec<Cid> = core.ledger.cids_from(from).take(SLICE + 1).collect();
    let (mut out, mut done) = (Vec::new(), 0);
    for cid in some.iter().take(SLICE) {
        if core.ledger.steps() - start > SLICE_STEPS {
            break;
        }
        out.extend(each(core, *cid));
        done += 1;
    }
    (out, some.get(done).copied())
}
