// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that tixd writes into files of cgroups, for what the kernel holds by itself: `cpu.weight` while tix's scheduler is not in
//! force, `io.weight`, `memory.min` and `memory.low`.
//!
//! A weight is somebody's funding (model.md §4) unless tixd wrote it. So what tixd writes is remembered with the funding that it
//! covers, durably: the next tixd must not take it for anybody's tickets. Whatever else is read was written by others and is funding. A
//! guarantee is nobody's funding: what others write instead of it is corrected.

use super::Core;
use super::foreign::Corrected;
use super::told::{Numbers, Tellings};
use crate::cgroups::{Root, systemd};
use crate::enforce::protection::{self, Kernel};
use crate::enforce::{Error, disk, memory, weight};
use crate::ledger::{DISK_TICKETS, Resource};
use crate::lifeline;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::time::Instant;

/// A file of cgroups with one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    CpuWeight,
    /// Where BFQ holds the disk's shares `io.bfq.weight`, too.
    IoWeight,
    MemoryMin,
    MemoryLow,
}

impl File {
    pub const ALL: [File; 4] = [
        File::CpuWeight,
        File::IoWeight,
        File::MemoryMin,
        File::MemoryLow,
    ];

    pub fn name(self) -> &'static str {
        match self {
            File::CpuWeight => "cpu.weight",
            File::IoWeight => "io.weight",
            File::MemoryMin => memory::MIN,
            File::MemoryLow => memory::LOW,
        }
    }

    /// What systemd calls it. Of `cpu.weight` it is told nothing: that is written only until tix's scheduler is in force again.
    pub fn property(self) -> Option<&'static str> {
        match self {
            File::CpuWeight => None,
            File::IoWeight => Some("IOWeight"),
            File::MemoryMin => Some("MemoryMin"),
            File::MemoryLow => Some("MemoryLow"),
        }
    }

    pub(super) fn put(self, root: &Root, path: &str, number: u64) -> Result<(), Error> {
        match self {
            File::CpuWeight => {
                let cgroup = root.cgroup(path)?;
                Ok(cgroup.write("cpu.weight", &number.to_string())?)
            }
            File::IoWeight => disk::put(root, path, number),
            File::MemoryMin | File::MemoryLow => memory::put(root, path, self.name(), number),
        }
    }

    pub(super) fn read(self, root: &Root, path: &str) -> Result<u64, Error> {
        let cgroup = root.cgroup(path)?;
        match self {
            File::CpuWeight => Ok(cgroup.weight()?.unwrap_or(DISK_TICKETS)),
            File::IoWeight => Ok(cgroup.disk_weight()?.unwrap_or(DISK_TICKETS)),
            File::MemoryMin | File::MemoryLow => memory::read(&cgroup, self.name()),
        }
    }
}

/// A number that tixd wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub number: u64,
    /// What stands there when it is tixd's business no more: of a weight, the cgroup's funding; of a guarantee, what stood there before.
    pub funding: u64,
}

/// By file and the cgroup's path.
pub type Mark = (File, String);

#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) written: BTreeMap<Mark, Written>,
    pub(super) told: Tellings,
    /// What of both is not in the store yet, which could not be written.
    pub(super) unsaved: BTreeSet<Mark>,
    /// Forgotten, and in the store yet.
    gone: Vec<(Mark, Option<Written>)>,
    gone_told: Vec<(Mark, Numbers)>,
    /// Recorded, or about to be, and then to be written.
    pub(super) coming: BTreeSet<Mark>,
    /// What could not be brought about, and why.
    pub(super) failed: BTreeMap<Mark, String>,
    /// Guarantees that others wrote over.
    pub(super) corrected: BTreeMap<Mark, Corrected>,
    /// The last ones that were looked at, and tried again.
    pub(super) looked: Option<Mark>,
    pub(super) tried: Option<Mark>,
    /// When it was last seen to what systemd was told.
    pub(super) swept: Option<Instant>,
}

impl Marks {
    pub(super) fn new(known: Vec<(Mark, Written)>, told: Tellings) -> Marks {
        Marks {
            written: known.into_iter().collect(),
            told,
            ..Marks::default()
        }
    }

    pub(super) fn get(&self, file: File, path: &str) -> Option<Written> {
        self.written.get(&(file, path.to_owned())).copied()
    }

    pub(super) fn of(&self, file: File) -> impl Iterator<Item = (&String, &Written)> {
        self.written
            .range(all_of(file))
            .map(|((_, path), w)| (path, w))
    }
}

fn all_of(file: File) -> impl RangeBounds<Mark> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let first = Included((file, String::new()));
    let after = File::ALL.into_iter().find(|f| *f > file);
    let last = after.map_or(Unbounded, |f| Excluded((f, String::new())));
    (first, last)
}

/// Will systemd set it again when the cgroup `path` comes back?
pub(super) fn lasts(file: File, path: &str) -> bool {
    let property = file.property();
    property.is_some_and(|p| systemd::is_set(path, p))
}

impl Core {
    /// The funding that a weight read from `file` of the cgroup `path` stands for. `fresh`: the cgroup was not known before.
    pub(super) fn funding_of(&mut self, file: File, path: &str, read: u64, fresh: bool) -> u64 {
        let written = self.marks.get(file, path);
        if written.is_none() {
            match self.funding(file, path) {
                Some(known) if known == read => return read,
                None if !self.was_told(file, path, read) => return read,
                _ => {}
            }
        }
        // tixd may have written another since it was read.
        let now = file.read(&self.root, path).unwrap_or(read);
        let Some(w) = written else {
            return self.given_back_to(file, path, now);
        };
        if self.shown(file, w.number) == now {
            return w.funding;
        }
        if now != w.funding && self.was_told(file, path, now) {
            self.try_to_put(file, path, w.number);
            return w.funding;
        }
        self.forget(file, path);
        self.overhaul.due = true;
        // systemd sets what it was told a moment after it has made the cgroup.
        if fresh && self.complete && now == DISK_TICKETS {
            return w.funding;
        }
        if now != w.funding {
            tracing::info!(
                "somebody set {} of {path} to {now}: that is its funding now",
                file.name()
            );
        }
        now
    }

    /// What `file` says when `number` has been written.
    pub(super) fn shown(&self, file: File, number: u64) -> u64 {
        match file {
            File::IoWeight => self.disk.shown(number),
            _ => number,
        }
    }

    /// The funding where `now` is read of a file that tixd has nothing to do with any more: systemd may set a moment late what it was told.
    fn given_back_to(&mut self, file: File, path: &str, now: u64) -> u64 {
        let last = self.marks.told.last(file, path);
        let Some(last) = last.filter(|_| self.was_told(file, path, now)) else {
            return now;
        };
        if self.shown(file, last) != now {
            tracing::info!(
                "{} of {path} is {now}, as systemd was told before, and {last} again",
                file.name()
            );
            self.try_to_put(file, path, last);
        }
        last
    }

    /// The cgroup is gone. What systemd sets again when the unit comes back is no funding then, either.
    pub(super) fn forget_all(&mut self, path: &str) {
        for file in File::ALL {
            let mark = (file, path.to_owned());
            self.marks.failed.remove(&mark);
            self.marks.corrected.remove(&mark);
            if lasts(file, path) {
                continue;
            }
            if self.marks.written.remove(&mark).is_some() {
                self.marks.gone.push((mark.clone(), None));
            }
            if self.marks.told.forget(&mark) {
                self.marks.gone_told.push((mark, vec![]));
            }
        }
        self.unsettled.remove(path);
    }

    /// What was forgotten with cgroups that went, in one commit for all of them.
    pub(super) fn save_gone(&mut self) {
        self.save_marks(&[], &[]);
    }

    /// The cgroup is another than the one whose files were written.
    pub(super) fn put_marked(&mut self, path: &str) {
        for file in File::ALL {
            if let Some(w) = self.marks.get(file, path) {
                self.try_to_put(file, path, w.number);
            }
        }
    }

    /// The number of the cgroup that is known at `path`.
    pub(super) fn mirror_id(&self, path: &str) -> Option<u64> {
        let c = self.ledger.get(self.ledger.find(path)?)?;
        c.mirror.as_ref().map(|m| m.id)
    }

    fn forget(&mut self, file: File, path: &str) {
        let mark = (file, path.to_owned());
        if self.marks.written.remove(&mark).is_some() {
            self.save_marks(&[(mark, None)], &[]);
        }
    }

    pub(super) fn save_marks(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
    ) {
        // Who observes does not know better than who writes.
        if self.observes() {
            self.marks.gone.clear();
            self.marks.gone_told.clear();
            return;
        }
        self.after_marks(changed, told, |_| ());
    }

    /// The same; `then` is done when they are kept, or cannot be.
    fn after_marks(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
        then: impl FnOnce(&mut Core) + Send + 'static,
    ) {
        // What was forgotten before comes before.
        let changed = [std::mem::take(&mut self.marks.gone), changed.to_vec()].concat();
        let told = [std::mem::take(&mut self.marks.gone_told), told.to_vec()].concat();
        if changed.is_empty() && told.is_empty() {
            return then(self);
        }
        self.with_store(
            move |store| {
                let kept = store.set_marks(&changed, &told);
                (changed, told, kept)
            },
            |core, (changed, told, kept)| {
                if let Err(e) = kept {
                    if core.marks.unsaved.is_empty() {
                        tracing::error!("{e}; that is tried again each second");
                    }
                    let marks = changed.into_iter().map(|(m, _)| m);
                    let marks = marks.chain(told.into_iter().map(|(m, _)| m));
                    core.marks.unsaved.extend(marks);
                }
                then(core);
            },
        );
    }

    /// Once a second: what could not be saved, as it is by now.
    pub(super) fn save_unsaved(&mut self) {
        if self.marks.unsaved.is_empty() || !self.storing.is_idle() {
            return;
        }
        let marks = &self.marks;
        let now = |m: &Mark| (m.clone(), marks.written.get(m).copied());
        let changed: Vec<_> = marks.unsaved.iter().map(now).collect();
        let told: Vec<_> = marks.unsaved.iter().map(|m| marks.told.kept(m)).collect();
        self.marks.unsaved.clear();
        self.save_marks(&changed, &told);
    }

    fn funding(&self, file: File, path: &str) -> Option<u64> {
        let cid = self.ledger.find(path)?;
        let m = self.ledger.get(cid)?.mirror.as_ref()?;
        match file {
            File::CpuWeight => Some(m.weight),
            File::IoWeight => Some(m.disk),
            File::MemoryMin | File::MemoryLow => match self.marks.get(file, path) {
                Some(w) => Some(w.funding),
                // Unreadable: it is tried, and said when it is not possible.
                None => {
                    let read = file.read(&self.root, path).unwrap_or(0);
                    Some(self.marks.told.before(file, path, read))
                }
            },
        }
    }

    /// Brings the files in step, wherever they are tixd's business.
    pub(super) fn write_marks(&mut self) {
        if !self.settled || self.observes() {
            return;
        }
        let by_weight = self.cpu.by_weight();
        self.bring(File::CpuWeight, |core| match by_weight {
            true => weight::weights(
                &core.ledger,
                &weight::Terms {
                    resource: Resource::Cpu,
                    whole: core.ledger.find(lifeline::NAME),
                    live: false,
                    most: weight::MOST,
                },
            ),
            false => BTreeMap::new(),
        });
        self.write_disk();
        self.write_memory();
    }

    pub(super) fn write_disk(&mut self) {
        if !self.settled || self.observes() {
            return;
        }
        self.bring(File::IoWeight, |core| {
            let terms = weight::Terms {
                resource: Resource::Disk,
                whole: None,
                live: true,
                most: core.disk.most(),
            };
            weight::weights(&core.ledger, &terms)
        });
    }

    /// Something else holds shares of a disk now.
    pub fn disk_changed(&mut self, what: &str) {
        self.disk.look(&self.root);
        self.note(tix_api::EventKind::Scheduler, what);
        self.write_disk();
    }

    fn write_memory(&mut self) {
        let kernel = Kernel {
            page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            recursive: self.recursive,
        };
        let all = protection::protections(&self.ledger, kernel);
        for file in [File::MemoryMin, File::MemoryLow] {
            let number = |p: &protection::Protection| match file {
                File::MemoryMin => p.min,
                _ => p.low,
            };
            self.bring(file, |core| {
                all.iter()
                    .filter(|(_, p)| number(p) > 0)
                    .map(|(path, p)| {
                        // What was guaranteed before is not taken away.
                        let before = core.funding(file, path).unwrap_or(0);
                        (path.clone(), number(p).max(before))
                    })
                    .collect()
            });
        }
    }

    pub(super) fn observes(&self) -> bool {
        !self.cpu.outlook().enforces()
    }

    fn bring(&mut self, file: File, wanted: impl Fn(&Core) -> BTreeMap<String, u64>) {
        let wanted = wanted(self);
        let stale: Vec<(String, u64)> = self
            .marks
            .of(file)
            .filter(|(p, _)| !wanted.contains_key(*p))
            .filter(|(p, _)| self.ledger.find(p).is_some() || !lasts(file, p))
            .map(|(p, w)| (p.clone(), self.funding(file, p).unwrap_or(w.funding)))
            .collect();
        let fresh: Vec<(String, Written)> = wanted
            .into_iter()
            .filter_map(|(path, number)| {
                let funding = self.funding(file, &path)?;
                let written = Written { number, funding };
                (self.marks.get(file, &path) != Some(written)).then_some((path, written))
            })
            .collect();
        if stale.is_empty() && fresh.is_empty() {
            return;
        }
        // Known before it is done: a number that was never written does no harm here, one that was and is not known would.
        let known: Vec<(Mark, Option<Written>)> = (fresh.iter())
            .map(|(path, written)| ((file, path.clone()), Some(*written)))
            .collect();
        let marks = fresh.iter().map(|(p, w)| ((file, p.clone()), *w));
        self.marks.written.extend(marks);
        let all = fresh.iter().map(|(path, w)| (path, w.number));
        let all = all.chain(stale.iter().map(|(path, funding)| (path, *funding)));
        let told = self.about_to_tell(file, all);
        self.marks
            .coming
            .extend(known.iter().map(|(m, _)| m.clone()));
        self.after_marks(&known, &told, move |core| {
            for (path, written) in &fresh {
                core.marks.coming.remove(&(file, path.clone()));
                // Another may be wanted by now.
                if core.marks.get(file, path) == Some(*written) {
                    core.put(file, path, written.number);
                }
            }
        });
        let mut gone: Vec<(Mark, Option<Written>)> = Vec::new();
        for (path, funding) in stale {
            self.put(file, &path, funding);
            let mark = (file, path);
            self.marks.written.remove(&mark);
            self.marks.failed.remove(&mark);
            self.marks.corrected.remove(&mark);
            gone.push((mark, None));
        }
        if !gone.is_empty() {
            self.save_marks(&gone, &[]);
        }
    }

    /// Into the file, and where systemd owns the cgroup, into what systemd knows of it.
    pub(super) fn put(&mut self, file: File, path: &str, number: u64) {
        if self.observes() {
            return;
        }
        self.try_to_put(file, path, number);
        let told = self.about_to_tell(file, std::iter::once((&path.to_owned(), number)));
        let path = path.to_owned();
        self.after_marks(&[], &told, move |core| {
            if let (Some(property), Some(steward)) = (file.property(), &core.steward) {
                steward.set(&path, property, number);
            }
        });
    }

    pub(super) fn try_to_put(&mut self, file: File, path: &str, number: u64) {
        if self.observes() {
            return;
        }
        let mark = (file, path.to_owned());
        match file.put(&self.root, path, number) {
            Ok(()) => {
                self.marks.failed.remove(&mark);
            }
            Err(_) if self.root.cgroup(path).is_err_and(|e| e.is_gone()) => {
                self.marks.failed.remove(&mark);
            }
            Err(e) => {
                let what = e.to_string();
                if self.marks.failed.get(&mark) != Some(&what) {
                    tracing::warn!("{what}");
                    self.marks.failed.insert(mark, what);
                }
            }
        }
    }

    /// What could not be written, and why.
    pub fn not_written(&self) -> impl Iterator<Item = &str> {
        self.marks.failed.values().map(String::as_str)
    }

    /// Is any cgroup guaranteed memory?
    pub fn guarantees_memory(&self) -> bool {
        let mut all = [File::MemoryMin, File::MemoryLow].into_iter();
        all.any(|f| self.marks.of(f).next().is_some())
    }

    /// What of the cgroup `path` tixd has set.
    pub fn set_by_tix(&self, file: File, path: &str) -> Option<Written> {
        self.marks.get(file, path)
    }
}
