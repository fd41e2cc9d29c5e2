// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. Check, journal, apply, push to the kernel, publish; and follow what the cgroup tree does.

mod commit;
mod demand;
mod foreign;
mod giveback;
mod handle;
mod marks;
mod notices;
mod overhaul;
mod repeated;
mod running;
mod tell;
mod told;
mod usage;

use crate::cgroups::{Change, Root};
use crate::enforce::presence::{Outlook, Poll};
use crate::enforce::{cpu, disk, limit, memory, steward};
use crate::ledger::{Caller, Cgroup, Cid, Event, Ledger, Op, Refusal, Unheld};
use crate::store::{self, Loaded, Record, Store};
use commit::Group;
use demand::Demand;
pub use giveback::{GivenBack, give_back};
use handle::Asks;
pub use handle::{Ask, Handle, Stopwatch};
use marks::Marks;
pub use marks::{File, Mark, Written};
use notices::Notices;
use overhaul::Overhaul;
use repeated::{Kind, Notice};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tell::blank;
pub(crate) use tell::to_api;
use tix_api as api;
use tokio::sync::{broadcast, mpsc};
pub use told::Numbers;
use usage::{Counted, Usage};

/// After an answer that took longer, connections are read before the next one.
const LONG: Duration = Duration::from_millis(1);

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{0}")]
    NotKept(String),
    #[error("tixd is ending")]
    Ending,
}

pub struct Core {
    pub ledger: Ledger,
    pub root: Root,
    pub cpu: cpu::Cpu,
    /// Which limits hold, as of the last [`Core::refresh`].
    pub throttles: limit::Throttles,
    store: Arc<Mutex<Store>>,
    pub notices: Notices,
    group: Group,
    /// Records that could not be kept yet.
    late: Vec<Record>,
    /// Why the ledger cannot be written.
    pub unwritable: Option<String>,
    /// Guarantees that are not worth what they say.
    pub unheld: Vec<Unheld>,
    usage: HashMap<Cid, Usage>,
    counted: Counted,
    largest: HashMap<Cid, u64>,
    marks: Marks,
    demand: Demand,
    pub disk: disk::Disk,
    /// The tree is mounted with `memory_recursiveprot`.
    pub recursive: bool,
    /// Tells systemd what is set where systemd owns the cgroup.
    pub steward: Option<steward::Steward>,
    /// What systemd would not have, by cgroup.
    pub unsettled: BTreeMap<String, String>,
    events: broadcast::Sender<api::Event>,
    /// The paths of cgroups that appear.
    appear: broadcast::Sender<String>,
    /// What of the tree cannot be read, by path.
    pub trouble: BTreeMap<String, String>,
    /// What the policy is, for `status`.
    pub policy: api::PolicyStatus,
    pub started: Instant,
    /// The whole tree has been told.
    pub complete: bool,
    /// And the scheduler is in force, or it is known that it is not.
    settled: bool,
    saved: Instant,
    /// There may be more to prune.
    pruning: bool,
    overhaul: Overhaul,
    repeats: repeated::Notices,
}

pub fn now_usec() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}

impl Core {
    /// Takes the tree from `changes` until it is complete, puts what was kept into force on it, and brings the kernel in step.
    pub async fn start(
        root: Root,
        (store, loaded): (Store, Loaded),
        mut cpu: cpu::Cpu,
        steward: Option<steward::Steward>,
        changes: &mut mpsc::UnboundedReceiver<Change>,
    ) -> Result<Core, Failure> {
        let mut ledger = Ledger::new(loaded.next_cid, memory());
        ledger.number_from(loaded.next_cid, loaded.next_exchange);
        cpu.start();
        let (told, forgotten) = told::read(&store)?;
        let marks = Marks::new(store.marks()?, told);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut disk = disk::Disk::new(std::path::Path::new("/sys"));
        disk.look(&root);
        let notices = Notices::read(&store)?;
        let usage = store
            .usage()?
            .into_iter()
            .map(|(c, total)| (c, Usage::of_the_gone(total)))
            .collect();
        let mut core = Core {
            ledger,
            recursive: memory::is_recursive(root.path(), &mounts),
            root,
            cpu,
            throttles: limit::Throttles::default(),
            group: Group::default(),
            late: Vec::new(),
            unwritable: None,
            unheld: Vec::new(),
            usage,
            counted: Counted::default(),
            largest: HashMap::new(),
            marks,
            demand: Demand::default(),
            disk,
            steward,
            unsettled: BTreeMap::new(),
            events: broadcast::channel(1024).0,
            appear: broadcast::channel(1024).0,
            trouble: BTreeMap::new(),
            policy: api::PolicyStatus {
                directory: String::new(),
                files: 0,
                rules: 0,
                problems: vec![],
            },
            started: Instant::now(),
            complete: false,
            settled: false,
            saved: Instant::now(),
            pruning: true,
            overhaul: Overhaul::default(),
            repeats: repeated::Notices::new(1),
            store: Arc::new(Mutex::new(store)),
            notices,
        };
        while !core.complete {
            match changes.recv().await {
                Some(change) => core.tree_changed(change),
                None => return Err(Failure::Ending),
            }
        }
        let rows = loaded.rows.len();
        core.ledger.load(loaded.rows);
        let swept = core.ledger.sweep();
        core.keep_or_later(&swept);
        if !core.cpu.in_charge() && core.cpu.outlook() == Outlook::Loading {
            core.cpu.loaded().await;
        }
        core.settled = true;
        core.cpu.push_all(&core.ledger);
        core.save_marks(&[], &forgotten);
        core.write_marks();
        core.tell_last_words();
        core.check_guarantees();
        core.look_at_guarantees();
        tracing::info!("{} currencies, {rows} rows read", core.ledger.len());
        Ok(core)
    }

    /// Serves until every handle is gone or `stop` says so.
    pub async fn run(
        mut self,
        mut asks: Asks,
        mut changes: mpsc::UnboundedReceiver<Change>,
        stop: impl Future<Output = ()>,
    ) -> Core {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        loop {
            // In no order: neither those who ask nor those who make cgroups keep the rest waiting.
            tokio::select! {
                () = &mut stop => break,
                Some(change) = changes.recv() => self.tree_changed(change),
                ask = asks.recv() => match ask {
                    Some(ask) => self.answer(ask, &mut asks).await,
                    None => break,
                },
                in_force = self.cpu.loaded() => self.loaded(in_force),
                () = self.overhaul.time() => self.overhaul_if_time(),
                _ = tick.tick() => self.tick(),
            }
        }
        self.save_usage();
        self.record_done();
        self
    }

    /// This one, and whatever else is asked by now, with one commit for changes that follow each other.
    async fn answer(&mut self, first: Ask, asks: &mut Asks) {
        let mut next = Some(first);
        let mut left = commit::GROUP;
        while let Some(ask) = next {
            left -= 1;
            match ask {
                Ask::Look(job) => {
                    self.commit();
                    let start = Instant::now();
                    job(self);
                    // What root asks goes before others' long requests; but it must have been read.
                    if start.elapsed() > LONG {
                        break;
                    }
                }
                Ask::Change(job) => job(self),
            }
            if left == 0 {
                break;
            }
            next = asks.try_recv();
            if next.is_none() && self.group.len() > 0 {
                // Connections whose requests have arrived meanwhile put them in.
                tokio::task::yield_now().await;
                next = asks.try_recv();
            }
        }
        self.commit_beside().await;
    }

    pub fn handle(&self) -> (Handle, Asks) {
        handle::pair(self.events.clone(), self.appear.clone())
    }

    /// Brings the kernel in step with what was done by whom, and tells those who watch.
    fn carry_out(&mut self, done: &[(&[Event], u32)]) {
        let all = || done.iter().flat_map(|(events, _)| events.iter());
        if !self.complete {
            return;
        }
        let mut touched: Vec<Cid> = all().flat_map(Event::touched).collect();
        touched.sort_unstable();
        touched.dedup();
        let removed: Vec<Cid> = all().filter_map(Event::removed).collect();
        if !touched.is_empty() || !removed.is_empty() {
            self.cpu.push(&self.ledger, &touched, &removed);
            self.overhaul.due = true;
            self.overhaul_if_time();
        }
        for e in all() {
            if let Event::CgroupCreated { path, .. } = e {
                // Nobody waiting for it is fine, here and below.
                let _ = self.appear.send(path.clone());
            }
        }
        if self.events.receiver_count() == 0 {
            return;
        }
        for (events, uid) in done {
            for e in *events {
                let uid = Some(*uid).filter(|u| *u != crate::ledger::TIXD);
                let _ = self.events.send(self.tell(e, uid).event);
            }
        }
    }

    fn tree_changed(&mut self, change: Change) {
        self.commit();
        match change {
            Change::Here {
                path,
                id,
                weight,
                disk,
                owner,
                group,
                inner_threads,
            } => {
                self.trouble.remove(&path);
                let fresh = self.mirror_id(&path) != Some(id);
                let weight = self.funding_of(File::CpuWeight, &path, weight, fresh);
                let disk = self.funding_of(File::IoWeight, &path, disk, fresh);
                let events = self.ledger.cgroup_here(&Cgroup {
                    path: &path,
                    id,
                    weight,
                    disk,
                    // A user's slice belongs to the user, though its directory is root's.
                    owner: user_of_slice(&path).unwrap_or(owner),
                    group,
                    inner_threads,
                });
                self.tree_did(events);
                if self.complete {
                    if fresh {
                        self.put_marked(&path);
                    }
                    self.overhaul_if_time();
                }
            }
            Change::Gone { path } => {
                self.trouble.remove(&path);
                self.forget_all(&path);
                if self.ledger.funded_apart(&path) {
                    self.count_usage();
                }
                let events = self.ledger.cgroup_removed(&path);
                self.tree_did(events);
            }
            Change::Touched { path } => self.touched(&path),
            Change::Complete => self.complete = true,
            Change::Mended { path } => {
                if let Some(what) = self.trouble.remove(&path) {
                    tracing::info!("over: {what}");
                }
            }
            Change::Trouble { path, what } => {
                if self.trouble.get(&path) != Some(&what) {
                    tracing::warn!("{what}");
                    self.trouble.insert(path, what);
                }
            }
        }
    }

    /// Tells those who watch, and the log.
    pub fn note(&mut self, kind: api::EventKind, message: &str) {
        self.say(kind, message);
        self.late.push(Record {
            time_usec: now_usec(),
            uid: crate::ledger::TIXD,
            kind: format!("{kind:?}").to_lowercase(),
            text: message.to_owned(),
            ..Record::default()
        });
        self.keep_or_later(&[]);
    }

    fn tree_did(&mut self, events: Vec<Event>) {
        if self.complete {
            self.keep_or_later(&events);
        }
        self.carry_out(&[(&events, crate::ledger::TIXD)]);
    }

    /// Says which guarantees cannot be held, and which can be again.
    fn look_at_guarantees(&mut self) {
        let now = self.ledger.unheld();
        if now == self.unheld {
            return;
        }
        let before = std::mem::replace(&mut self.unheld, now);
        let (mut news, now) = (Vec::new(), &self.unheld);
        for u in now.iter().filter(|u| !before.contains(u)) {
            let what = format!(
                "{} of {} for {} are worth {} only: {} has no more",
                crate::units::show_bytes(u.bytes),
                u.resource.name(),
                self.ledger.name(u.holder),
                crate::units::show_bytes(u.worth),
                self.ledger.name(u.issuer),
            );
            news.push((api::EventKind::Unheld, u.holder, what));
        }
        for u in &before {
            let still = now
                .iter()
                .any(|x| (x.holder, x.issuer) == (u.holder, u.issuer));
            if !still && self.ledger.get(u.holder).is_some() {
                let name = self.ledger.name(u.holder);
                let what = format!("the guarantee of {name} is held again");
                news.push((api::EventKind::Held, u.holder, what));
            }
        }
        for (kind, holder, message) in news {
            let (name, mut e) = (self.ledger.name(holder), blank(kind, message));
            let owner = self.ledger.get(holder).map_or(0, |c| c.owner);
            e.currency = Some(name.clone());
            e.concerns = vec![owner];
            self.notice(Kind::Held, &name, Notice::new(e, &name, Some(owner)));
        }
        self.keep_or_later(&[]);
    }

    /// Loading the scheduler has come to an end.
    fn loaded(&mut self, in_force: bool) {
        if in_force {
            self.cpu.push_all(&self.ledger);
        }
        self.write_marks();
        let message = match in_force {
            true => "scheduler loaded again".to_owned(),
            false => format!(
                "scheduler not loaded: {}",
                self.cpu.reason().unwrap_or_default()
            ),
        };
        // Nobody watching is fine.
        let _ = self.events.send(blank(api::EventKind::Scheduler, message));
        self.tell_systemd();
    }

    /// Looks whether the scheduler is still in force.
    pub fn look(&mut self) {
        if let Poll::Lost(why) = self.cpu.poll() {
            let message = format!("scheduler left: {why}");
            let _ = self.events.send(blank(api::EventKind::Scheduler, message));
            self.write_marks();
            self.tell_systemd();
        }
    }

    /// Takes those off the book whose time is over, as many as one operation does.
    fn expire_offers(&mut self) {
        let now = now_usec();
        if self.unwritable.is_some() || self.ledger.book().expired(now).next().is_none() {
            return;
        }
        let tixd = Caller {
            uid: crate::ledger::TIXD,
            ..Caller::default()
        };
        if let Err(e) = self.submit(&[Op::Expire { now }], &tixd) {
            tracing::warn!("{e}");
        }
    }

    fn tick(&mut self) {
        self.look();
        self.keep_again();
        self.tell_held_back();
        self.put_again();
        self.look_at_demand();
        if self.disk.is_stale() {
            self.disk.look(&self.root);
        }
        self.expire_offers();
        let now_and_then = self.saved.elapsed().as_secs() >= 30;
        if now_and_then || self.pruning {
            let pruned = self.store().prune(now_usec());
            self.pruning = warned(pruned) > Some(0);
        }
        let tidied = self.store().tidy();
        warned(tidied);
        self.count_usage();
        if now_and_then {
            self.save_usage();
        }
    }
}

pub use crate::policy::user_of_slice;

fn warned<T>(done: Result<T, store::Error>) -> Option<T> {
    done.inspect_err(|e| tracing::warn!("{e}")).ok()
}

/// Bytes of memory that can be reserved: what the kernel manages.
fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = total.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
