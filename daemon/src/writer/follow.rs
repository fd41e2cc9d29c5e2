// SPDX-License-Identifier: GPL-2.0-only
//! Consequences: changes of the tree and of the ledger are kept, brought to the kernel, and told.
//!
//! Each part of [`Core`] does its own; what concerns several is here.

use super::commit::{Batch, Group};
use super::event::EventKind;
use super::watchers::Notice;
use super::{Core, Failure, user_of_slice};
use crate::reconcile::activity;
use crate::reconcile::clocks::Clocks;
use crate::reconcile::idle;
use crate::reconcile::limit::Throttles;
use crate::reconcile::presence::Poll;
use crate::reconcile::provenance::{Reconcile, Recording};
use tix_cgroupfs::Change;
use tix_ledger::{Cgroup, Cid, Event, TIXD};
use tix_model::File;
use tix_store::Error;
use tix_systemd::Properties;

impl Core {
    /// Brings the kernel in step with what was done by whom, and tells those who watch.
    pub(super) fn carry_out(&mut self, done: &[(&[Event], u32)]) {
        if !self.tree.complete {
            return;
        }
        for (events, _) in done {
            self.cpu.has_touched(events);
        }
        self.push_touched();
        self.watchers.announce(&self.ledger, done);
    }

    /// At once, for all events since this was done last.
    pub(super) fn push_touched(&mut self) {
        if self.cpu.push_touched(&self.ledger) {
            self.deferred.due = true;
            self.reconcile_if_time();
        }
    }

    pub(super) fn tree_changed(&mut self, change: Change) {
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
                self.tree.found(&path);
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
                if self.tree.complete {
                    if fresh {
                        self.files().put_marked(&path);
                    }
                    self.reconcile_if_time();
                }
            }
            Change::Gone { path, is_there } => {
                self.tree.found(&path);
                self.files().forget_all(&path);
                let events = match is_there {
                    true => self.ledger.switch_off_cgroup(&path),
                    false => self.ledger.take_cgroup(&path),
                };
                self.tree_did(events);
            }
            Change::Touched { path } => self.files().touched(&path),
            Change::Complete => self.tree.complete = true,
            Change::Mended { path } => self.tree.mended(&path),
            Change::Trouble { path, what } => self.tree.trouble(path, what),
        }
    }

    pub(super) fn tree_did(&mut self, events: Vec<Event>) {
        if !events.is_empty() && self.tree.complete {
            self.commits.keep_soon(&self.ledger, &events);
            self.cpu.has_touched(&events);
            self.watchers.announce(&self.ledger, &[(&events, TIXD)]);
        }
    }

    /// `cid`, which backs the cgroups `paths`, is the lifeline from now on.
    pub fn keep_lifeline(&mut self, cid: Cid, paths: &[String]) {
        let events = self.ledger.keep_lifeline(cid, paths.iter().cloned());
        self.tree_did(events);
    }

    /// Has what has changed kept, if nothing is being kept.
    pub(super) fn keep_if_due(&mut self) {
        let Some(batch) = self.commits.take_due(&mut self.ledger) else {
            return;
        };
        if batch.is_empty() {
            return self.acknowledge(batch.into_group(), Ok(()));
        }
        self.with_store(
            move |store| {
                let done = batch.put(store);
                (batch, done)
            },
            |core, (batch, done)| core.kept(batch, done),
        );
    }

    fn kept(&mut self, mut batch: Batch, done: Result<(), Error>) {
        let (commits, ledger) = (&mut self.commits, &mut self.ledger);
        let kept = commits.kept(ledger, &self.watchers, &mut batch, done);
        let failed = kept.is_err();
        self.acknowledge(batch.into_group(), kept);
        if failed {
            self.commits.count_unstored(&mut self.ledger);
        }
    }

    /// Carries out what was kept, or takes back what was not, and tells who asked for it.
    fn acknowledge(&mut self, group: Group, kept: Result<(), String>) {
        let Group { pending, mark, .. } = group;
        match kept {
            Ok(()) => {
                let done: Vec<(&[Event], u32)> = (pending.iter())
                    .map(|p| (p.events.as_slice(), p.uid))
                    .collect();
                self.carry_out(&done);
                for p in pending {
                    if p.imports {
                        self.imported();
                    }
                    (p.ack)(&self.ledger, Ok(&p.events));
                }
            }
            Err(why) => {
                if !pending.is_empty() {
                    self.ledger.undo(mark);
                    // The scheduler may have been loaded meanwhile, and files written.
                    self.cpu.push_all(&self.ledger);
                    self.deferred.due = true;
                }
                for p in pending {
                    self.commits.not_undone(p.undoes);
                    (p.ack)(&self.ledger, Err(Failure::NotKept(why.clone())));
                }
            }
        }
    }

    fn imported(&mut self) {
        self.cpu.push_all(&self.ledger);
        self.write_files();
        self.check_worth();
        self.watchers
            .say(EventKind::Policy, "a ledger was imported");
    }

    /// The marks, with what they follow from.
    pub(super) fn files(&mut self) -> Reconcile<'_> {
        Reconcile {
            marks: &mut self.marks,
            ledger: &self.ledger,
            root: &self.tree.root,
            disk: &self.disk,
            observes: !self.cpu.outlook().enforces(),
            by_weight: self.cpu.by_weight(),
            recursive: self.tree.recursive,
            complete: self.tree.complete,
        }
    }

    /// Brings the files in step, wherever they are tixd's business.
    pub(super) fn write_files(&mut self) {
        self.files().write_all_files();
    }

    /// Some files whose numbers are recorded are written.
    pub(super) fn write_some_files(&mut self) {
        if self.files().write_some_files() && !self.commits.is_keeping() {
            self.reconcile_if_time();
        }
    }

    /// Does what the marks ask for, after each turn.
    pub(super) fn serve_requests(&mut self) {
        let requests = self.marks.take_requests();
        self.deferred.due |= self.marks.take_look_again();
        for (path, what) in requests.corrected {
            let notice = Notice::corrected(&path, what);
            self.commits.log(self.watchers.notice(notice));
        }
        for recording in requests.record {
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
                    core.write_some_files();
                }
                if again {
                    core.reconcile_if_time();
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

    /// Does what is due, unless it has been done a moment ago and takes long.
    pub(super) fn reconcile_if_time(&mut self) {
        self.deferred.due |= self.marks.take_look_again();
        if let Some(start) = self.deferred.begin() {
            self.write_files();
            self.check_worth();
            self.deferred.end(start);
        }
    }

    /// Says which guarantees cannot be held, and which can be again.
    pub(super) fn check_worth(&mut self) {
        for change in self.deferred.guarantees.look(&self.ledger) {
            let notice = Notice::guarantee(&self.ledger, change);
            self.commits.log(self.watchers.notice(notice));
        }
    }

    /// Brings the ledger's activity up to date, for values of this moment.
    fn refresh(&mut self) {
        let running = if self.cpu.in_charge() {
            let by_number = activity::by_number(&self.ledger);
            let states = self.cpu.states();
            // No row changes while others are being kept.
            if !self.commits.is_keeping() {
                let (ledger, root) = (&mut self.ledger, &self.tree.root);
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
    pub(super) fn take_clocks(&mut self, clocks: Clocks) {
        self.usage.take_clocks(&self.ledger, clocks);
        self.refresh();
    }

    /// Without tix's scheduler the kernel's own holds `cpu.max`. After `Core::refresh`.
    pub fn read_cpu_max(&mut self, cid: Cid) {
        if !self.cpu.in_charge() {
            self.activity
                .read_cpu_max(&self.ledger, &self.tree.root, cid);
        }
    }

    /// Something else holds shares of a disk now.
    pub fn disk_changed(&mut self, what: &str) {
        self.disk.look(&self.tree.root);
        self.note(EventKind::Scheduler, what);
        self.files().write_disk_files();
    }

    /// Loading the scheduler has come to an end.
    pub(super) fn loaded(&mut self, in_force: bool) {
        if in_force {
            self.cpu.push_all(&self.ledger);
        }
        self.write_files();
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
            self.write_files();
            self.tell_systemd();
        }
    }

    /// What `systemctl status` is to show.
    fn tell_systemd(&self) {
        let line = self.cpu.line();
        // Nobody to tell is fine.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Status(&line)]);
    }
}
