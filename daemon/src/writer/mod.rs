// SPDX-License-Identifier: GPL-2.0-only
//! The one writer: it alone has the ledger. A change is checked, applied in memory, stored (one
//! fsync for several), pushed to the kernel, and then told to who asked and who watches. It also
//! follows what the cgroup tree does.
//!
//! `turns` has its loop, `follow` what one change has others do; each other file is a part that
//! owns its state.

mod clocks;
mod commit;
mod deferred;
pub mod event;
mod follow;
mod handle;
mod lately;
mod notices;
mod store_thread;
mod tell;
mod tree;
mod turns;
mod watchers;

use crate::directory::Directory;
use crate::lane::Rank;
use crate::policy;
pub use crate::policy::user_of_slice;
use crate::reconcile::activity::Activity;
use crate::reconcile::presence::Outlook;
use crate::reconcile::provenance::Marks;
use crate::reconcile::usage::Usage;
use crate::reconcile::{cpu, disk};
pub use commit::{Commits, Undoes, Unstored};
pub use deferred::DeferredReconcile;
use event::EventKind;
use handle::Asks;
pub use handle::{Handle, SLICE_STEPS, Stopwatch};
use std::time::{SystemTime, UNIX_EPOCH};
use tell::Teller;
pub use tell::acts;
use tix_cgroupfs::{Change, Root};
use tix_ledger::{Caller, Event, Ledger, Op, Refusal, TIXD};
use tix_model::LIFELINE;
use tix_store::{self as store, Loaded, Record, Store};
use tix_systemd::PropertySync;
use tokio::sync::mpsc;
pub use tree::Tree;
pub use turns::Turns;
use watchers::Watchers;

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
    #[error("{0} is being taken back, or was a moment ago")]
    Undone(i64),
    #[error("{0} is not taken back: {1} may have been changed meanwhile")]
    Overtaken(i64, String),
    #[error("tixd is ending")]
    Ending,
}

/// What the writer does when a job with the store is done.
type Then = Box<dyn FnOnce(&mut Core) + Send>;

/// The parts, each of which owns its state. What one does that concerns another goes through the
/// writer, which hands each what it needs.
pub struct Core {
    pub ledger: Ledger,
    pub tree: Tree,
    pub cpu: cpu::Cpu,
    pub disk: disk::Disk,
    /// As of when the clocks of cgroups were read last.
    pub activity: Activity,
    pub usage: Usage,
    /// The numbers in cgroups' files.
    pub marks: Marks,
    pub deferred: DeferredReconcile,
    pub commits: Commits,
    watchers: Watchers,
    pub turns: Turns,
    /// What the policy is, for `status`.
    pub policy: policy::Status,
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
        let mut disk = disk::Disk::new(std::path::Path::new("/sys"));
        disk.look(&root);
        let mut core = Core {
            ledger,
            tree: Tree::new(root),
            cpu,
            disk,
            activity: Activity::default(),
            usage: Usage::start(store.usage()?)?,
            marks,
            deferred: DeferredReconcile::default(),
            commits: Commits::new(store)?,
            watchers: Watchers::new(),
            turns: Turns::new(),
            policy: policy::Status::default(),
        };
        while !core.tree.complete {
            match changes.recv().await {
                Some(change) => core.tree_changed(change),
                None => return Err(Failure::Ending),
            }
        }
        let rows = loaded.rows.len();
        core.ledger.load(loaded.rows);
        let swept = core.ledger.sweep();
        core.commits.keep_soon(&core.ledger, &swept);
        if !core.cpu.in_charge() && core.cpu.outlook() == Outlook::Loading {
            core.cpu.loaded().await;
        }
        core.cpu.push_all(&core.ledger);
        core.files().save_marks(&[], &forgotten);
        core.write_files();
        // What follows compares the files with the numbers that are in force.
        core.finish_keeping().await;
        core.files().restore_last_values();
        core.files().check_guarantees();
        core.check_worth();
        core.finish_keeping().await;
        tracing::info!("{} currencies, {rows} rows read", core.ledger.len());
        Ok(core)
    }

    pub fn handle(&self) -> (Handle, Asks) {
        handle::pair(self.watchers.events(), self.watchers.appear())
    }

    /// Moves currencies of users with plain names, which they made before there were spaces, into
    /// their makers' spaces. Done at the start, once: there are none afterwards. Nobody asked for
    /// it, so nobody can be told that it failed: what cannot be kept now is kept later.
    pub async fn move_into_spaces(&mut self, directory: &Directory) {
        let makers = self.ledger.without_space();
        if makers.is_empty() {
            return;
        }
        let users = directory.names(makers).await;
        let renamed = self.ledger.move_into_spaces(&users, &[LIFELINE]);
        let mut records = Vec::new();
        for r in &renamed {
            let mut text = format!(
                "{}, made by uid {}, is called {} now: plain names are root's and the policy's",
                r.was, r.maker, r.name
            );
            let gone = tell::Gone::of(&r.events);
            for e in &r.events {
                text.push_str("; ");
                text.push_str(&Teller(&self.ledger).report(e, None, &gone).event.message);
            }
            tracing::warn!("{text}");
            records.push(Record {
                time_usec: now_usec(),
                uid: TIXD,
                kind: "rename".to_owned(),
                subject: r.name.clone(),
                text,
                op: String::new(),
                owner: Some(r.owner),
            });
        }
        let events: Vec<Event> = renamed.into_iter().flat_map(|r| r.events).collect();
        self.commits.log(records);
        self.finish_keeping().await;
        self.carry_out(&[(&events, TIXD)]);
    }

    /// Applies it now, for tixd itself; with several operations all or none. Should it not be kept
    /// the log of tixd says so.
    ///
    /// # Errors
    /// It was refused.
    pub fn submit(&mut self, ops: &[Op], caller: &Caller) -> Result<(), Failure> {
        self.commits.submit(&mut self.ledger, ops, caller)
    }

    /// Makes these changes to the ledger's rows, all or none, or only sees whether they could be
    /// made.
    ///
    /// # Errors
    /// The rows make no ledger.
    pub fn import(
        &mut self,
        changes: &[tix_ledger::Change],
        dry_run: bool,
        caller: &Caller,
    ) -> Result<(), Failure> {
        self.commits
            .import(&mut self.ledger, changes, dry_run, caller)
    }

    /// Tells those who watch, and the log.
    pub fn note(&mut self, kind: EventKind, message: &str) {
        self.watchers.say(kind, message);
        self.commits.note(kind, message);
    }

    /// Has another thread do something with the ledger's file, in the order of these calls, and the
    /// writer what follows from it.
    fn with_store<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Store) -> T + Send + 'static,
        then: impl FnOnce(&mut Core, T) + Send + 'static,
    ) {
        self.commits.store.write(move |store| {
            let done = job(store);
            Box::new(move |core| then(core, done))
        });
    }

    /// The same for what only reads it: after what is to be written, and a slice at a time.
    fn read_store(&mut self, rank: Rank, job: impl FnOnce(&Store) + Send + 'static) {
        self.commits.store.read(rank, move |store| {
            job(store);
            Box::new(|_| ())
        });
    }
}

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
