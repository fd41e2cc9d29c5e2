// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. Check, journal, apply, push to the kernel, publish; and follow what the cgroup tree does.

use crate::cgroups::{Change, Root};
use crate::enforce::{cpu, weight};
use crate::ledger::{BASE, Cid, Event, Ledger, Op, Refusal, Resource};
use crate::store::{self, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tix_api as api;
use tokio::sync::{broadcast, mpsc, oneshot};

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

/// CPU time of a named currency: what the cgroups below it have used while they were below it.
#[derive(Debug, Default, Clone)]
struct Usage {
    total: u64,
    /// Last value read, by cgroup id.
    seen: HashMap<u64, u64>,
}

pub struct Core {
    pub ledger: Ledger,
    pub root: Root,
    pub cpu: cpu::Cpu,
    store: Store,
    usage: HashMap<Cid, Usage>,
    largest: HashMap<Cid, u64>,
    /// `cpu.weight`s that tixd wrote itself (without sched_ext), and the funding they stand for.
    written: BTreeMap<String, u64>,
    events: broadcast::Sender<api::Event>,
    pub trouble: Vec<String>,
    pub started: Instant,
    pub complete: bool,
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
            written: BTreeMap::new(),
            events: broadcast::channel(1024).0,
            trouble: Vec::new(),
            started: Instant::now(),
            complete: false,
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
        let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
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
        let destroyed = events.iter().any(|e| matches!(e, Event::Destroyed { .. }));
        if (!touched.is_empty() || destroyed) && self.cpu.push(&self.ledger, &touched) {
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

    fn save_usage(&mut self) {
        // What is there still is read afresh by the next tixd; only what is gone must be remembered.
        let gone = |cid: Cid, u: &Usage| {
            let here: u64 = self
                .counted(cid)
                .iter()
                .filter_map(|(id, _)| u.seen.get(id))
                .sum();
            u.total.saturating_sub(here)
        };
        let usage: Vec<(u64, u64)> = self.usage.iter().map(|(c, u)| (*c, gone(*c, u))).collect();
        if let Err(e) = self.store.set_usage(&usage) {
            tracing::error!("{e}");
        }
        self.saved = Instant::now();
    }

    fn name(&self, cid: Cid) -> Option<String> {
        self.ledger.get(cid).map(|c| c.name.clone())
    }

    fn tell(&self, e: &Event, uid: Option<u32>) -> Option<api::Event> {
        use api::EventKind as K;
        let mut out = blank(K::Created, String::new());
        out.uid = uid;
        match e {
            Event::Created { name, .. } => {
                (out.currency, out.message) = (Some(name.clone()), format!("{name} created"))
            }
            Event::Destroyed { name, .. } => {
                (out.kind, out.currency, out.message) = (
                    K::Destroyed,
                    Some(name.clone()),
                    format!("{name} destroyed"),
                );
            }
            Event::Funded {
                holder,
                issuer,
                amount,
                ..
            } => {
                let (h, i) = (self.name(*holder), self.name(*issuer));
                out.message = format!(
                    "{} holds {amount} cpu tickets of {}",
                    h.clone().unwrap_or_default(),
                    i.clone().unwrap_or_default()
                );
                (out.kind, out.currency, out.issuer, out.amount) = (K::Funded, h, i, Some(*amount));
                out.resource = Some(api::Resource::Cpu);
            }
            Event::Bound { name, path, .. } | Event::Unbound { name, path, .. } => {
                let bound = matches!(e, Event::Bound { .. });
                out.kind = if bound { K::Bound } else { K::Unbound };
                out.currency = self.name(*name);
                out.cgroup = Some(path.clone());
                let verb = if bound {
                    "bound to"
                } else {
                    "no longer bound to"
                };
                out.message = format!("{} {verb} {path}", out.currency.clone().unwrap_or_default());
            }
            Event::CgroupCreated { path, .. }
            | Event::CgroupRemoved { path, .. }
            | Event::CgroupChanged { path, .. } => {
                (out.kind, out.message) = match e {
                    Event::CgroupCreated { .. } => {
                        (K::CgroupCreated, format!("cgroup {path} appeared"))
                    }
                    Event::CgroupRemoved { .. } => {
                        (K::CgroupRemoved, format!("cgroup {path} went"))
                    }
                    _ => (K::CgroupChanged, format!("cgroup {path} changed")),
                };
                (out.currency, out.cgroup) = (Some(path.clone()), Some(path.clone()));
            }
            Event::Dropped { what } => {
                tracing::warn!("not in force any more: {what}");
                return None;
            }
        }
        Some(out)
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
                // What tixd wrote itself is no funding.
                let weight = match self.written.get(&path) {
                    Some(w) if *w == weight => self
                        .ledger
                        .find(&path)
                        .and_then(|c| self.ledger.get(c)?.mirror.as_ref().map(|m| m.weight))
                        .unwrap_or(weight),
                    _ => weight,
                };
                let owner = user_of_slice(&path).unwrap_or(owner);
                let events = self
                    .ledger
                    .cgroup_created(&path, id, weight, owner, inner_threads);
                self.carry_out(&events, None);
            }
            Change::Gone { path } => {
                self.written.remove(&path);
                self.count_usage();
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
            Change::Trouble(what) => {
                tracing::warn!("{what}");
                self.trouble.truncate(15);
                self.trouble.push(what);
            }
        }
    }

    fn tick(&mut self) {
        match self.cpu.poll() {
            cpu::Poll::Quiet => {}
            cpu::Poll::Loaded => {
                self.cpu.push_all(&self.ledger);
                self.save_nodes();
                let _ = self.events.send(blank(
                    api::EventKind::Scheduler,
                    "scheduler loaded again".to_owned(),
                ));
            }
            cpu::Poll::Lost(why) => {
                let _ = self.events.send(blank(
                    api::EventKind::Scheduler,
                    format!("scheduler left: {why}"),
                ));
                self.write_weights();
            }
        }
        self.count_usage();
        if self.saved.elapsed().as_secs() >= 30 {
            self.save_usage();
        }
    }

    /// The cgroups whose use counts for a named currency: those it funds, directly or not, each counted once with its descendants.
    fn counted(&self, cid: Cid) -> Vec<(u64, String)> {
        let mut paths: Vec<(String, u64)> = self
            .ledger
            .below(cid, Resource::Cpu)
            .into_iter()
            .filter_map(|c| {
                self.ledger
                    .get(c)?
                    .mirror
                    .as_ref()
                    .map(|m| (m.path.clone(), m.id))
            })
            .collect();
        paths.sort();
        let mut out: Vec<(u64, String)> = Vec::new();
        for (path, id) in paths {
            let inside = out.iter().any(|(_, p)| {
                path.strip_prefix(p.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
            });
            if !inside {
                out.push((id, path));
            }
        }
        out
    }

    fn count_usage(&mut self) {
        let named: Vec<Cid> = self
            .ledger
            .iter()
            .filter(|(_, c)| !c.is_mirror())
            .map(|(c, _)| c)
            .collect();
        for cid in named {
            let read: Vec<(u64, u64)> = self
                .counted(cid)
                .into_iter()
                .filter_map(|(id, path)| {
                    let cgroup = self.root.cgroup(&path).ok().filter(|c| c.id == id)?;
                    Some((id, cgroup.used_usec().ok()?))
                })
                .collect();
            let usage = self.usage.entry(cid).or_default();
            for (id, now) in read {
                let last = usage.seen.insert(id, now).unwrap_or(0);
                usage.total += now.saturating_sub(last);
            }
        }
        let ledger = &self.ledger;
        self.usage.retain(|c, _| ledger.get(*c).is_some());
        self.largest.retain(|c, _| ledger.get(*c).is_some());
    }

    /// CPU time of `cid` so far, microseconds.
    pub fn used_usec(&mut self, cid: Cid) -> u64 {
        let now = match self.ledger.get(cid).and_then(|c| c.mirror.as_ref()) {
            Some(m) => self
                .root
                .cgroup(&m.path)
                .and_then(|c| c.used_usec())
                .unwrap_or(0),
            None => self.usage.get(&cid).map_or(0, |u| u.total),
        };
        let largest = self.largest.entry(cid).or_insert(0);
        *largest = now.max(*largest);
        *largest
    }

    /// Reads the clocks of all named currencies.
    pub fn refresh_usage(&mut self) {
        self.count_usage();
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

    /// Without sched_ext: the nearest that `cpu.weight` can do.
    fn write_weights(&mut self) {
        let wanted = if self.cpu.hopeless() {
            weight::weights(&self.ledger)
        } else {
            BTreeMap::new()
        };
        let stale: Vec<String> = self
            .written
            .keys()
            .filter(|p| !wanted.contains_key(*p))
            .cloned()
            .collect();
        for path in stale {
            self.written.remove(&path);
            if let Some(own) = self
                .ledger
                .find(&path)
                .and_then(|c| self.ledger.get(c)?.mirror.as_ref().map(|m| m.weight))
            {
                self.write_weight(&path, own);
            }
        }
        for (path, w) in wanted {
            if self.written.get(&path) != Some(&w) {
                self.written.insert(path.clone(), w);
                self.write_weight(&path, w);
            }
        }
    }

    fn write_weight(&mut self, path: &str, weight: u64) {
        if let Err(e) = self
            .root
            .cgroup(path)
            .and_then(|c| c.write("cpu.weight", &weight.to_string()))
            && !e.is_gone()
        {
            tracing::warn!("{e}");
        }
    }
}

fn blank(kind: api::EventKind, message: String) -> api::Event {
    api::Event {
        time_usec: now_usec(),
        kind,
        currency: None,
        issuer: None,
        resource: None,
        amount: None,
        cgroup: None,
        uid: None,
        message,
    }
}

/// `/user.slice/user-1000.slice` belongs to uid 1000, though its directory is root's.
pub fn user_of_slice(path: &str) -> Option<u32> {
    path.strip_prefix("/user.slice/user-")?
        .strip_suffix(".slice")?
        .parse()
        .ok()
}
