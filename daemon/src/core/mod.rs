// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. Check, journal, apply, push to the kernel, publish; and follow what the cgroup tree does.

mod tell;
mod usage;
mod weights;

use crate::cgroups::{Change, Root};
use crate::enforce::cpu;
use crate::enforce::presence::{Outlook, Poll};
use crate::ledger::{BASE, Cid, Event, Ledger, Op, Refusal};
use crate::store::{self, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tell::blank;
use tix_api as api;
use tokio::sync::{broadcast, mpsc, oneshot};
use usage::Usage;
use weights::Weights;
pub use weights::Written;

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("tixd is ending")]
    Ending,
}

pub struct Core {
    pub ledger: Ledger,
    pub root: Root,
    pub cpu: cpu::Cpu,
    store: Store,
    usage: HashMap<Cid, Usage>,
    largest: HashMap<Cid, u64>,
    weights: Weights,
    events: broadcast::Sender<api::Event>,
    /// What of the tree cannot be read, by path.
    pub trouble: BTreeMap<String, String>,
    pub started: Instant,
    /// The whole tree has been told.
    pub complete: bool,
    /// And the scheduler is in force, or it is known that it is not.
    settled: bool,
    saved: Instant,
}

type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// How others reach the writer.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    events: broadcast::Sender<api::Event>,
}

impl Handle {
    /// Runs `f` on the writer's state, between operations.
    pub async fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (tx, rx) = oneshot::channel();
        let job: Job = Box::new(move |core| {
            // The asker may have gone meanwhile.
            let _ = tx.send(f(core));
        });
        self.jobs.send(job).await.map_err(|_| Failure::Ending)?;
        rx.await.map_err(|_| Failure::Ending)
    }

    pub fn events(&self) -> broadcast::Receiver<api::Event> {
        self.events.subscribe()
    }
}

pub fn now_usec() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}

impl Core {
    /// Takes the tree from `changes` until it is complete, replays the journal onto it, and brings the kernel in step.
    pub async fn start(
        root: Root,
        store: Store,
        mut cpu: cpu::Cpu,
        changes: &mut mpsc::UnboundedReceiver<Change>,
    ) -> Result<Core, Failure> {
        let entries = store.entries()?;
        let next = entries.iter().map(|e| match &e.op {
            Op::Create { cid, .. } | Op::Run { cid, .. } => cid + 1,
            _ => 1,
        });
        let ledger = Ledger::new(next.max().unwrap_or(1));
        cpu.start(&store.nodes()?);
        let weights = Weights::new(store.weights()?);
        let usage = store
            .usage()?
            .into_iter()
            .map(|(c, total)| {
                (
                    c,
                    Usage {
                        total,
                        ..Usage::default()
                    },
                )
            })
            .collect();
        let mut core = Core {
            ledger,
            root,
            cpu,
            usage,
            largest: HashMap::new(),
            weights,
            events: broadcast::channel(1024).0,
            trouble: BTreeMap::new(),
            started: Instant::now(),
            complete: false,
            settled: false,
            saved: Instant::now(),
            store,
        };
        while !core.complete {
            match changes.recv().await {
                Some(change) => core.tree_changed(change),
                None => return Err(Failure::Ending),
            }
        }
        for e in &entries {
            for event in core.ledger.replay(&e.op, e.uid) {
                if let Event::Dropped { what } = event {
                    tracing::warn!("not in force any more: {what}");
                }
            }
        }
        let orphans: Vec<Op> = core
            .ledger
            .iter()
            .filter(|(_, c)| {
                c.transient
                    .as_deref()
                    .is_some_and(|p| core.ledger.find(p).is_none())
            })
            .map(|(_, c)| Op::Destroy {
                name: c.name.clone(),
            })
            .collect();
        if !orphans.is_empty() {
            core.submit(&orphans, 0)?;
        }
        if !core.cpu.in_charge() && core.cpu.outlook() == Outlook::Loading {
            core.cpu.loaded().await;
        }
        core.settled = true;
        if core.cpu.push_all(&core.ledger) {
            core.save_nodes();
        }
        core.write_weights();
        tracing::info!(
            "{} currencies, {} operations replayed",
            core.ledger.len(),
            entries.len()
        );
        Ok(core)
    }

    /// Serves until every handle is gone or `stop` says so.
    pub async fn run(
        mut self,
        mut jobs: mpsc::Receiver<Job>,
        mut changes: mpsc::UnboundedReceiver<Change>,
        stop: impl Future<Output = ()>,
    ) -> Core {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(change) = changes.recv() => self.tree_changed(change),
                job = jobs.recv() => match job {
                    Some(job) => job(&mut self),
                    None => break,
                },
                in_force = self.cpu.loaded() => self.loaded(in_force),
                _ = tick.tick() => self.tick(),
            }
        }
        self.save_usage();
        self
    }

    pub fn handle(&self) -> (Handle, mpsc::Receiver<Job>) {
        let (jobs, rx) = mpsc::channel(256);
        (
            Handle {
                jobs,
                events: self.events.clone(),
            },
            rx,
        )
    }

    /// Check, journal, apply, push, publish. With several operations: each is checked when its turn comes; what went before stays.
    pub fn submit(&mut self, ops: &[Op], uid: u32) -> Result<(), Failure> {
        for op in ops {
            self.ledger.check(op, uid)?;
            self.store.append(std::slice::from_ref(op), uid)?;
            let events = self.ledger.apply(op, uid)?;
            self.carry_out(&events, Some(uid));
        }
        Ok(())
    }

    fn carry_out(&mut self, events: &[Event], uid: Option<u32>) {
        let mut touched: Vec<Cid> = events.iter().flat_map(Event::touched).collect();
        touched.sort_unstable();
        touched.dedup();
        if !self.complete {
            return;
        }
        let removed: Vec<Cid> = events.iter().filter_map(Event::removed).collect();
        if (!touched.is_empty() || !removed.is_empty())
            && self.cpu.push(&self.ledger, &touched, &removed)
        {
            self.save_nodes();
        }
        self.write_weights();
        for e in events {
            if let Some(e) = self.tell(e, uid) {
                // Nobody watching is fine.
                let _ = self.events.send(e);
            }
        }
    }

    fn save_nodes(&mut self) {
        if let Err(e) = self.store.set_nodes(&self.cpu.nodes()) {
            tracing::error!("{e}");
        }
    }

    fn tree_changed(&mut self, change: Change) {
        match change {
            Change::Here {
                path,
                id,
                weight,
                owner,
                inner_threads,
            } => {
                self.trouble.remove(&path);
                let weight = self.funding_of(&path, weight);
                let owner = user_of_slice(&path).unwrap_or(owner);
                let events = self
                    .ledger
                    .cgroup_created(&path, id, weight, owner, inner_threads);
                self.carry_out(&events, None);
            }
            Change::Gone { path } => {
                self.trouble.remove(&path);
                self.forget_weight(&path);
                if self.ledger.funded_apart(&path) {
                    self.count_usage();
                }
                if self.complete && self.ledger.matters(&path) {
                    let ops = self.ledger.wilted(&path);
                    if let Err(e) = self.submit(&ops, 0) {
                        tracing::error!("after {path} went: {e}");
                    }
                }
                let events = self.ledger.cgroup_removed(&path);
                self.carry_out(&events, None);
            }
            Change::Complete => self.complete = true,
            Change::Trouble { path, what } => {
                if self.trouble.get(&path) != Some(&what) {
                    tracing::warn!("{what}");
                    self.trouble.insert(path, what);
                }
            }
        }
    }

    /// Loading the scheduler has come to an end.
    fn loaded(&mut self, in_force: bool) {
        if in_force && self.cpu.push_all(&self.ledger) {
            self.save_nodes();
        }
        self.write_weights();
        let message = match in_force {
            true => "scheduler loaded again".to_owned(),
            false => format!(
                "scheduler not loaded: {}",
                self.cpu.reason().unwrap_or_default()
            ),
        };
        // Nobody watching is fine.
        let _ = self.events.send(blank(api::EventKind::Scheduler, message));
    }

    /// Looks whether the scheduler is still in force.
    pub fn look(&mut self) {
        if let Poll::Lost(why) = self.cpu.poll() {
            let message = format!("scheduler left: {why}");
            let _ = self.events.send(blank(api::EventKind::Scheduler, message));
            self.write_weights();
        }
    }

    fn tick(&mut self) {
        self.look();
        self.count_usage();
        if self.saved.elapsed().as_secs() >= 30 {
            self.save_usage();
        }
    }

    /// Which currencies have runnable threads of their own, this one excepted: who looks is awake, and would count in every snapshot.
    pub fn running(&self) -> HashSet<Cid> {
        if self.cpu.in_charge() {
            let me = self.own_currency();
            let by_id: HashMap<u64, Cid> = self
                .ledger
                .iter()
                .filter_map(|(cid, c)| Some((c.mirror.as_ref()?.id, cid)))
                .collect();
            let states = self.cpu.states();
            return states
                .iter()
                .filter(|n| n.self_active)
                .filter_map(|n| {
                    if n.node == tix_bpf::BASE {
                        Some((n, BASE))
                    } else {
                        Some((n, *by_id.get(&n.cgid)?))
                    }
                })
                .filter(|(n, cid)| *cid != me || n.runnable > 1)
                .map(|(_, cid)| cid)
                .collect();
        }
        // Without the scheduler nobody tells who is runnable: whoever has processes counts.
        let populated = |path: &str| {
            self.root
                .cgroup(path)
                .and_then(|c| c.read("cgroup.events"))
                .is_ok_and(|t| t.lines().any(|l| l == "populated 1"))
        };
        self.ledger
            .iter()
            .filter(|(cid, c)| {
                *cid != BASE
                    && c.mirrored_children().next().is_none()
                    && c.mirror.as_ref().is_some_and(|m| populated(&m.path))
            })
            .map(|(cid, _)| cid)
            .collect()
    }

    /// The currency of the principal that tixd itself is in.
    fn own_currency(&self) -> Cid {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut path = text
            .lines()
            .find_map(|l| l.strip_prefix("0::"))
            .unwrap_or("/");
        loop {
            if let Some(cid) = self.ledger.find(path) {
                return cid;
            }
            path = match path.rfind('/') {
                Some(end) if end > 0 => &path[..end],
                _ => return BASE,
            };
        }
    }
}

/// `/user.slice/user-1000.slice` belongs to uid 1000, though its directory is root's.
pub fn user_of_slice(path: &str) -> Option<u32> {
    path.strip_prefix("/user.slice/user-")?
        .strip_suffix(".slice")?
        .parse()
        .ok()
}
