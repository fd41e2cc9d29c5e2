// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. Check, journal, apply, push to the kernel, publish; and
//! follow what the cgroup tree does.

mod beside;
mod bounds;
mod bring;
mod clocks;
mod commit;
mod demand;
pub mod event;
mod foreign;
mod giveback;
mod handle;
mod idle;
mod marks;
mod notices;
mod overhaul;
mod record;
mod repeated;
mod running;
mod tell;
mod told;
mod turns;
mod usage;

use crate::policy;
use crate::reconcile::presence::{Outlook, Poll};
use crate::reconcile::{cpu, disk, limit, memory};
use beside::Lane;
pub use bounds::kernels_throttle;
use clocks::Clocks;
use commit::Group;
pub use commit::Unstored;
use demand::Demand;
use event::{EventKind, WatchEvent};
pub use giveback::{GivenBack, give_back};
use handle::Asks;
pub use handle::{Handle, SLICE_STEPS, Stopwatch};
use marks::Marks;
use notices::Notices;
use overhaul::Overhaul;
use repeated::{Kind, Notice};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
pub use tell::acts;
use tix_cgroupfs::{Change, Root};
use tix_ledger::{Caller, Cgroup, Cid, Event, Ledger, Op, Refusal, Unheld};
use tix_model::File;
use tix_store::{self as store, Loaded, Record, Store};
use tix_systemd::PropertySync;
use tokio::sync::{broadcast, mpsc};
use usage::{Counted, Usage};

/// Changes of the tree that wait. Then the follower does, and the kernel's own queue of them takes
/// over, which tells when it is full: then the tree is listed anew.
pub const TREE_QUEUE: usize = 1024;

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{0}")]
    NotKept(String),
    #[error(transparent)]
    Beside(#[from] std::io::Error),
    #[error("{0} was taken back a moment ago")]
    Undone(i64),
    #[error("tixd is ending")]
    Ending,
}

pub struct Core {
    pub ledger: Ledger,
    pub root: Root,
    pub cpu: cpu::Cpu,
    /// Which limits hold, as of the last `Core::refresh`.
    pub throttles: limit::Throttles,
    /// What those do to whom.
    pub bounds: bounds::Bounds,
    store: Arc<Mutex<Store>>,
    pub notices: Notices,
    group: Group,
    /// Records that are not kept yet.
    late: Vec<Record>,
    /// Bytes that operations have had logged so far.
    logged: u64,
    /// Numbers in the log of what was taken back lately.
    undone: VecDeque<i64>,
    /// A group is being kept: no row changes until it is.
    keeping: bool,
    /// The store was used since it was tidied.
    untidy: bool,
    /// There is something to keep.
    keep_due: bool,
    /// The most steps in the ledger between two turns of those who ask, and where the last turn
    /// began.
    longest_turn: u64,
    turn_began: u64,
    /// The most files of cgroups that were written in a turn, and those of this one.
    most_files: u64,
    files: u64,
    /// What is done with the store, and with files of cgroups, by other threads.
    storing: Lane,
    reading: Lane,
    clocks: Clocks,
    /// Currencies that are to be pushed to the kernel, and those that are gone.
    touched: Vec<Cid>,
    removed: Vec<Cid>,
    /// Why the ledger cannot be written.
    pub unwritable: Option<String>,
    pub unstored: Unstored,
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
    pub systemd: Option<PropertySync>,
    /// What systemd would not have, by cgroup.
    pub unsettled: BTreeMap<String, String>,
    events: broadcast::Sender<WatchEvent>,
    /// The paths of cgroups that appear.
    appear: broadcast::Sender<String>,
    /// What of the tree cannot be read, by path.
    pub trouble: BTreeMap<String, String>,
    /// What the policy is, for `status`.
    pub policy: policy::Status,
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
    /// Takes the tree from `changes` until it is complete, puts what was kept into force on it, and
    /// brings the kernel in step.
    pub async fn start(
        root: Root,
        (store, loaded): (Store, Loaded),
        mut cpu: cpu::Cpu,
        systemd: Option<PropertySync>,
        changes: &mut mpsc::Receiver<Change>,
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
            bounds: bounds::Bounds::default(),
            group: Group::default(),
            late: Vec::new(),
            logged: 0,
            undone: VecDeque::new(),
            keeping: false,
            keep_due: false,
            untidy: false,
            longest_turn: 0,
            turn_began: 0,
            most_files: 0,
            files: 0,
            storing: Lane::start("store")?,
            reading: Lane::start("clocks")?,
            clocks: Clocks::default(),
            touched: Vec::new(),
            removed: Vec::new(),
            unwritable: None,
            unstored: Unstored::default(),
            unheld: Vec::new(),
            usage,
            counted: Counted::default(),
            largest: HashMap::new(),
            marks,
            demand: Demand::default(),
            disk,
            systemd,
            unsettled: BTreeMap::new(),
            events: broadcast::channel(1024).0,
            appear: broadcast::channel(1024).0,
            trouble: BTreeMap::new(),
            policy: policy::Status::default(),
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
        core.keep_soon(&swept);
        if !core.cpu.in_charge() && core.cpu.outlook() == Outlook::Loading {
            core.cpu.loaded().await;
        }
        core.settled = true;
        core.cpu.push_all(&core.ledger);
        core.save_marks(&[], &forgotten);
        core.write_marks();
        // What follows compares the files with the numbers that are in force.
        core.finish_keeping().await;
        core.tell_last_words();
        core.check_guarantees();
        core.look_at_guarantees();
        core.finish_keeping().await;
        tracing::info!("{} currencies, {rows} rows read", core.ledger.len());
        Ok(core)
    }

    pub fn handle(&self) -> (Handle, Asks) {
        handle::pair(self.events.clone(), self.appear.clone())
    }

    /// Brings the kernel in step with what was done by whom, and tells those who watch.
    fn carry_out(&mut self, done: &[(&[Event], u32)]) {
        if !self.complete {
            return;
        }
        for (events, _) in done {
            self.has_touched(events);
        }
        self.push_touched();
        self.announce(done);
    }

    /// What these events are of is to be pushed to the kernel.
    fn has_touched(&mut self, events: &[Event]) {
        self.touched.extend(events.iter().flat_map(Event::touched));
        self.removed
            .extend(events.iter().filter_map(Event::removed));
    }

    /// At once, for all events since this was done last: it looks at whatever exchanges may rest
    /// with.
    fn push_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let removed = std::mem::take(&mut self.removed);
        if !touched.is_empty() || !removed.is_empty() {
            self.cpu.push(&self.ledger, &touched, &removed);
            self.overhaul.due = true;
            self.overhaul_if_time();
        }
    }

    /// Tells those who watch.
    fn announce(&mut self, done: &[(&[Event], u32)]) {
        let all = || done.iter().flat_map(|(events, _)| events.iter());
        for e in all() {
            if let Event::CgroupCreated { path, .. } = e {
                // Nobody waiting for it is fine, here and below.
                let _ = self.appear.send(path.clone());
            }
        }
        if self.events.receiver_count() == 0 {
            return;
        }
        // An operation may have destroyed what another one of the group has just funded.
        let gone = tell::Gone::of(all());
        for (events, uid) in done {
            for e in *events {
                let uid = Some(*uid).filter(|u| *u != tix_ledger::TIXD);
                let _ = self.events.send(self.tell(e, uid, &gone).event);
            }
        }
    }

    fn tree_changed(&mut self, change: Change) {
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
                let events = self.ledger.put_cgroup(&Cgroup {
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
            Change::Gone { path, is_there } => {
                self.trouble.remove(&path);
                self.forget_all(&path);
                let events = match is_there {
                    true => self.ledger.switch_off_cgroup(&path),
                    false => self.ledger.take_cgroup(&path),
                };
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
    pub fn note(&mut self, kind: EventKind, message: &str) {
        self.say(kind, message);
        self.late.push(Record {
            time_usec: now_usec(),
            uid: tix_ledger::TIXD,
            kind: format!("{kind:?}").to_lowercase(),
            text: message.to_owned(),
            ..Record::default()
        });
        self.keep_soon(&[]);
    }

    fn tree_did(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        if self.complete {
            self.keep_soon(&events);
            self.has_touched(&events);
            self.announce(&[(&events, tix_ledger::TIXD)]);
        }
    }

    /// `cid`, which backs the cgroups `paths`, is the lifeline from now on.
    pub fn keep_lifeline(&mut self, cid: Cid, paths: &[String]) {
        let events = self.ledger.keep_lifeline(cid, paths.iter().cloned());
        self.tree_did(events);
    }

    /// Says which guarantees cannot be held, and which can be again.
    fn look_at_guarantees(&mut self) {
        let now = self.ledger.unheld();
        if now == self.unheld {
            return;
        }
        let before = std::mem::replace(&mut self.unheld, now);
        let (mut news, now) = (Vec::new(), &self.unheld);
        let known: HashSet<&Unheld> = before.iter().collect();
        let still: HashSet<(Cid, Cid)> = now.iter().map(|u| (u.holder, u.issuer)).collect();
        for u in now.iter().filter(|u| !known.contains(u)) {
            let what = format!(
                "{} of {} for {} are worth {} only: {} has no more",
                tix_model::units::show_bytes(u.bytes),
                u.resource.name(),
                self.ledger.name(u.holder),
                tix_model::units::show_bytes(u.worth),
                self.ledger.name(u.issuer),
            );
            news.push((EventKind::Unheld, u.holder, what));
        }
        for u in &before {
            if !still.contains(&(u.holder, u.issuer)) && self.ledger.get(u.holder).is_some() {
                let name = self.ledger.name(u.holder);
                let what = format!("the guarantee of {name} is held again");
                news.push((EventKind::Held, u.holder, what));
            }
        }
        for (kind, holder, message) in news {
            let (name, mut e) = (self.ledger.name(holder), WatchEvent::new(kind, message));
            let owner = self.ledger.get(holder).map_or(0, |c| c.owner);
            e.currency = Some(name.clone());
            e.concerns = vec![owner];
            self.notice(Kind::Held, &name, Notice::new(e, &name, Some(owner)));
        }
        self.keep_soon(&[]);
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
        let _ = self
            .events
            .send(WatchEvent::new(EventKind::Scheduler, message));
        self.tell_systemd();
    }

    /// Looks whether the scheduler is still in force.
    pub fn look(&mut self) {
        if let Poll::Lost(why) = self.cpu.poll() {
            let message = format!("scheduler left: {why}");
            let _ = self
                .events
                .send(WatchEvent::new(EventKind::Scheduler, message));
            self.write_marks();
            self.tell_systemd();
        }
    }

    /// Takes those off the book whose time is over, as many as one operation does.
    fn expire_offers(&mut self) {
        let now = now_usec();
        if self.keeping
            || self.unwritable.is_some()
            || self.ledger.book().expired(now).next().is_none()
        {
            return;
        }
        let tixd = Caller {
            uid: tix_ledger::TIXD,
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
        if !self.keeping {
            self.overhaul_if_time();
        }
        self.count_usage_beside();
        // A disk that is slower than that is not asked for more.
        if self.storing.is_writing() {
            return;
        }
        let now_and_then = self.saved.elapsed().as_secs() >= 30;
        if now_and_then || self.pruning {
            self.with_store(
                |store| store.prune(now_usec()),
                |core, pruned| core.pruning = warned(pruned) > Some(0),
            );
        }
        self.tidy_store();
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
