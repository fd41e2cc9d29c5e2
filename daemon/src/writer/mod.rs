// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. Check, journal, apply, push to the kernel, publish; and
//! follow what the cgroup tree does.

mod clocks;
mod commit;
pub mod event;
mod handle;
mod notices;
mod overhaul;
mod tell;
mod turns;
mod watchers;

use crate::lane::Lane;
use crate::policy;
use crate::reconcile::activity::{self, Activity};
use crate::reconcile::clocks::Clocks;
use crate::reconcile::limit::Throttles;
use crate::reconcile::presence::{Outlook, Poll};
use crate::reconcile::provenance::{Marks, Reconcile, Recording};
use crate::reconcile::usage::Usage;
use crate::reconcile::{cpu, disk, idle, memory};
use commit::Group;
pub use commit::{Rehearsed, Unstored};
use event::{EventKind, WatchEvent};
use handle::Asks;
pub use handle::{Handle, SLICE_STEPS, Stopwatch};
use notices::Notices;
use overhaul::Overhaul;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tell::Words;
use tix_cgroupfs::{Change, Root};
use tix_ledger::{Caller, Cgroup, Cid, Event, Ledger, Op, Refusal, Unheld};
use tix_model::File;
use tix_store::{self as store, Loaded, Record, Store};
use tix_systemd::{Properties, PropertySync};
use tokio::sync::mpsc;
use watchers::{Kind, Notice, Watchers};

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
    #[error("tixd is ending")]
    Ending,
}

/// What the writer does when a job with the store is done.
type Then = Box<dyn FnOnce(&mut Core) + Send>;

pub struct Core {
    pub ledger: Ledger,
    pub root: Root,
    pub cpu: cpu::Cpu,
    /// As of the last `Core::refresh`.
    pub activity: Activity,
    store: Arc<Mutex<Store>>,
    pub notices: Notices,
    group: Group,
    /// Records that are not kept yet.
    late: Vec<Record>,
    /// Bytes that operations have had logged so far.
    logged: u64,
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
    /// The most files of cgroups that were written in a turn.
    most_files: u64,
    /// What is done with the store by another thread.
    storing: Lane<Then>,
    /// Currencies that are to be pushed to the kernel, and those that are gone.
    touched: Vec<Cid>,
    removed: Vec<Cid>,
    /// Why the ledger cannot be written.
    pub unwritable: Option<String>,
    pub unstored: Unstored,
    /// Guarantees that are not worth what they say.
    pub unheld: Vec<Unheld>,
    pub usage: Usage,
    pub marks: Marks,
    pub disk: disk::Disk,
    /// The tree is mounted with `memory_recursiveprot`.
    pub recursive: bool,
    watchers: Watchers,
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
        let (marks, forgotten) = Marks::read(&store, systemd)?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut disk = disk::Disk::new(std::path::Path::new("/sys"));
        disk.look(&root);
        let notices = Notices::read(&store)?;
        let usage = Usage::start(store.usage()?)?;
        let mut core = Core {
            ledger,
            recursive: memory::is_recursive(root.path(), &mounts),
            root,
            cpu,
            activity: Activity::default(),
            group: Group::default(),
            late: Vec::new(),
            logged: 0,
            keeping: false,
            keep_due: false,
            untidy: false,
            longest_turn: 0,
            turn_began: 0,
            most_files: 0,
            storing: Lane::start("store")?,
            touched: Vec::new(),
            removed: Vec::new(),
            unwritable: None,
            unstored: Unstored::default(),
            unheld: Vec::new(),
            usage,
            marks,
            disk,
            watchers: Watchers::new(),
            trouble: BTreeMap::new(),
            policy: policy::Status::default(),
            started: Instant::now(),
            complete: false,
            settled: false,
            saved: Instant::now(),
            pruning: true,
            overhaul: Overhaul::default(),
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
        core.files().save_marks(&[], &forgotten);
        core.write_marks();
        // What follows compares the files with the numbers that are in force.
        core.finish_keeping().await;
        core.files().tell_last_words();
        core.files().check_guarantees();
        core.look_at_guarantees();
        core.finish_keeping().await;
        tracing::info!("{} currencies, {rows} rows read", core.ledger.len());
        Ok(core)
    }

    pub fn handle(&self) -> (Handle, Asks) {
        handle::pair(self.watchers.events(), self.watchers.appear())
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
        self.watchers.announce(&self.ledger, done);
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
                let fresh = self.files().mirror_id(&path) != Some(id);
                let weight = self
                    .files()
                    .funding_of(File::CpuWeight, &path, weight, fresh);
                let disk = self.files().funding_of(File::IoWeight, &path, disk, fresh);
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
                        self.files().put_marked(&path);
                    }
                    self.overhaul_if_time();
                }
            }
            Change::Gone { path, is_there } => {
                self.trouble.remove(&path);
                self.files().forget_all(&path);
                let events = match is_there {
                    true => self.ledger.switch_off_cgroup(&path),
                    false => self.ledger.take_cgroup(&path),
                };
                self.tree_did(events);
            }
            Change::Touched { path } => self.files().touched(&path),
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
        self.watchers.say(kind, message);
        self.late.push(Record {
            time_usec: now_usec(),
            uid: tix_ledger::TIXD,
            kind: format!("{kind:?}").to_lowercase(),
            text: message.to_owned(),
            ..Record::default()
        });
        self.keep_soon(&[]);
    }

    /// Tells of it now, or counts it; [`Core::keep_soon`] is left to the caller.
    fn notice(&mut self, kind: Kind, subject: &str, notice: Notice) {
        self.late
            .extend(self.watchers.notice(kind, subject, notice));
    }

    /// Once a second: notices that were held back and are due.
    fn tell_held_back(&mut self) {
        let records = self.watchers.tell_held_back();
        if !records.is_empty() {
            self.late.extend(records);
            self.keep_soon(&[]);
        }
    }

    /// The marks, with what they follow from.
    fn files(&mut self) -> Reconcile<'_> {
        Reconcile {
            marks: &mut self.marks,
            ledger: &self.ledger,
            root: &self.root,
            disk: &self.disk,
            observes: !self.cpu.outlook().enforces(),
            by_weight: self.cpu.by_weight(),
            recursive: self.recursive,
            complete: self.complete,
        }
    }

    /// Brings the files in step, wherever they are tixd's business.
    fn write_marks(&mut self) {
        if self.settled {
            self.files().write_all_files();
        }
    }

    /// Some files that are recorded are written.
    fn write_bite(&mut self) {
        if self.files().write_bite() && !self.keeping {
            self.overhaul_if_time();
        }
    }

    /// Does what the marks ask for, after each turn.
    fn serve_marks(&mut self) {
        let asks = self.marks.take_asks();
        self.overhaul.due |= self.marks.take_look_again();
        for (path, what) in asks.corrected {
            let event = WatchEvent::new(EventKind::Held, what);
            let notice = Notice::new(event, "", None).warning();
            self.notice(Kind::Corrected, &path, notice);
            self.keep_soon(&[]);
        }
        for recording in asks.record {
            self.record(recording);
        }
    }

    fn record(&mut self, recording: Recording) {
        self.with_store(
            move |store| {
                let kept = recording.put(store);
                (recording, kept)
            },
            |core, (recording, kept)| {
                let again = core.files().recorded(recording, kept);
                if core.marks.has_to_write() {
                    core.write_bite();
                }
                if again {
                    core.overhaul_if_time();
                }
            },
        );
    }

    /// systemd has been told these properties of the cgroup `path`, or would not have them.
    pub fn settled_with_systemd(
        &mut self,
        path: String,
        told: &Properties,
        trouble: Option<String>,
    ) {
        self.files().settled_with_systemd(path, told, trouble);
    }

    /// Brings the ledger's activity up to date, for values of this moment.
    fn refresh(&mut self) {
        let running = if self.cpu.in_charge() {
            let by_number = activity::by_number(&self.ledger);
            let states = self.cpu.states();
            // No row changes while others are being kept.
            if !self.keeping {
                let (ledger, root) = (&mut self.ledger, &self.root);
                let events = idle::fund_idle(ledger, root, &by_number, &states);
                self.tree_did(events);
            }
            self.activity.throttles = self.cpu.throttles(&by_number, &states);
            activity::running(&self.ledger, &by_number, &states)
        } else {
            self.activity.throttles = Throttles::default();
            activity::populated(&self.ledger, self.usage.populated())
        };
        self.activity.set_running(&mut self.ledger, &running);
    }

    /// All clocks of cgroups have been read.
    fn take_clocks(&mut self, clocks: Clocks) {
        self.usage.take_clocks(&self.ledger, clocks);
        self.refresh();
    }

    /// Without tix's scheduler the kernel's own holds `cpu.max`. After `Core::refresh`.
    pub fn read_cpu_max(&mut self, cid: Cid) {
        if !self.cpu.in_charge() {
            self.activity.read_cpu_max(&self.ledger, &self.root, cid);
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
        self.saved = Instant::now();
    }

    /// Something else holds shares of a disk now.
    pub fn disk_changed(&mut self, what: &str) {
        self.disk.look(&self.root);
        self.note(EventKind::Scheduler, what);
        self.write_disk();
    }

    fn write_disk(&mut self) {
        if self.settled {
            self.files().write_disk_files();
        }
    }

    fn words(&self) -> Words<'_> {
        Words {
            ledger: &self.ledger,
        }
    }

    /// What `systemctl status` is to show.
    fn tell_systemd(&self) {
        let line = self.cpu.line();
        // Nobody to tell is fine.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Status(&line)]);
    }

    fn tree_did(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        if self.complete {
            self.keep_soon(&events);
            self.has_touched(&events);
            self.watchers
                .announce(&self.ledger, &[(&events, tix_ledger::TIXD)]);
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
        self.watchers.say(EventKind::Scheduler, &message);
        self.tell_systemd();
    }

    /// Looks whether the scheduler is still in force.
    pub fn look(&mut self) {
        if let Poll::Lost(why) = self.cpu.poll() {
            let message = format!("scheduler left: {why}");
            self.watchers.say(EventKind::Scheduler, &message);
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
        self.files().put_again();
        if self.activity.demand.look(&mut self.ledger, &self.root) {
            tracing::debug!("others want the disk than before");
            self.write_disk();
        }
        if self.disk.is_stale() {
            self.disk.look(&self.root);
        }
        self.expire_offers();
        if !self.keeping {
            self.overhaul_if_time();
        }
        let seconds = self.started.elapsed().as_secs();
        self.usage.count_beside(&self.ledger, &self.root, seconds);
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
