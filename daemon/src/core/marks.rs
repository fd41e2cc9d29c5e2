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

/// A number that tixd wrote, or is about to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    pub number: u64,
    /// What stands there when it is tixd's business no more: of a weight, the cgroup's funding; of a guarantee, what stood there before.
    pub funding: u64,
    /// The number of tixd's that this one takes the place of, as long as it may stand there yet.
    pub before: Option<u64>,
}

/// By file and the cgroup's path.
pub type Mark = (File, String);

/// A number that is to be recorded and then written, and what was known of the file before.
struct Fresh {
    mark: Mark,
    had: Option<Written>,
    now: Written,
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) written: BTreeMap<Mark, Written>,
    pub(super) told: Tellings,
    /// What of both is not in the store yet, which could not be written.
    pub(super) unsaved: BTreeSet<Mark>,
    /// What stands in the file by now: that it may be the number before need not be in the store
    /// any more.
    done: BTreeSet<Mark>,
    /// What systemd is to be told once that is in the store.
    untold: BTreeSet<Mark>,
    /// Why numbers are not written: they could not be recorded.
    unrecorded: Option<String>,
    /// Numbers are being recorded, to be written then.
    bringing: bool,
    /// Forgotten with its cgroup, and in the store yet.
    gone: BTreeSet<Mark>,
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
            self.stands(file, path);
            return w.funding;
        }
        let ours = self.is_before(file, &w, now) || self.was_told(file, path, now);
        if now != w.funding && ours {
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

    /// Is `now` what stood in `file` before the number of `w`, which was not written then?
    pub(super) fn is_before(&self, file: File, w: &Written, now: u64) -> bool {
        w.before.is_some_and(|n| self.shown(file, n) == now)
    }

    /// The number is there: what others set from now on is theirs, be it the one before.
    pub(super) fn stands(&mut self, file: File, path: &str) {
        let mark = (file, path.to_owned());
        let written = self.marks.written.get_mut(&mark);
        if written.and_then(|w| w.before.take()).is_some() {
            self.marks.done.insert(mark);
        }
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
                self.marks.gone.insert(mark.clone());
            }
            if self.marks.told.forget(&mark) {
                self.marks.gone.insert(mark);
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

    /// Puts into the store what has been done, or is no number of tixd's any more; later, if that
    /// is not possible now.
    pub(super) fn save_marks(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
    ) {
        self.record(changed, told, |core, recorded, marks| {
            if !recorded {
                core.marks.unsaved.extend(marks);
            }
        });
    }

    /// Puts into the store what is about to be done, in one commit, and what of before is not there
    /// yet; `then` is told whether it is there, and of which marks. If not none of it may be done: the
    /// next tixd would take for somebody's funding what it does not know to be tixd's.
    fn record(
        &mut self,
        changed: &[(Mark, Option<Written>)],
        told: &[(Mark, Numbers)],
        then: impl FnOnce(&mut Core, bool, Vec<Mark>) + Send + 'static,
    ) {
        // Who observes does not know better than who writes.
        let marks = &mut self.marks;
        let gone = std::mem::take(&mut marks.gone);
        if self.observes() {
            return then(self, true, vec![]);
        }
        let marks = &mut self.marks;
        marks.unsaved.extend(gone);
        if changed.is_empty() && told.is_empty() && marks.unsaved.is_empty() {
            if !self.storing.is_writing() {
                return then(self, true, vec![]);
            }
            // What is being recorded may turn out not to be.
            let known = |core: &mut Core, ()| {
                let recorded = core.marks.unsaved.is_empty();
                then(core, recorded, vec![]);
            };
            return self.with_store(|_| (), known);
        }
        let (unsaved, done) = (
            std::mem::take(&mut marks.unsaved),
            std::mem::take(&mut marks.done),
        );
        let late = unsaved.iter().chain(&done);
        let late = late.map(|m| (m.clone(), marks.get(m.0, &m.1)));
        let asked: Vec<Mark> = (changed.iter().map(|(m, _)| m))
            .chain(told.iter().map(|(m, _)| m))
            .cloned()
            .collect();
        // Of two the later one counts.
        let changed: Vec<_> = late.chain(changed.iter().cloned()).collect();
        let late = unsaved.iter().map(|m| marks.told.kept(m));
        let told: Vec<_> = late.chain(told.iter().cloned()).collect();
        self.with_store(
            move |store| store.set_marks(&changed, &told),
            move |core, kept| {
                if let Err(e) = &kept {
                    let why = format!(
                        "what tixd writes to cgroups' files is recorded first, and that cannot be, \
                         so it is not written: {e}"
                    );
                    tracing::error!("{why}; that is tried again each second");
                    core.marks.unrecorded = Some(why);
                    core.marks.unsaved.extend(unsaved);
                    core.marks.done.extend(done);
                }
                let recorded = kept.is_ok() && core.marks.unsaved.is_empty();
                then(core, recorded, asked);
            },
        );
    }

    /// Once a second: what could not be recorded before, and what was not done for that reason.
    pub(super) fn record_again(&mut self) {
        if self.marks.unrecorded.is_none() || self.storing.is_writing() {
            return;
        }
        self.record(&[], &[], |core, recorded, _| {
            if !recorded {
                return;
            }
            for (file, path) in std::mem::take(&mut core.marks.untold) {
                if let Some(last) = core.marks.told.last(file, &path) {
                    core.tell_steward(file, &path, last);
                }
            }
            core.marks.unrecorded = None;
            core.overhaul.due = true;
            core.overhaul_if_time();
        });
    }

    /// At the end: what the next tixd need not look for.
    pub(super) fn record_done(&mut self) {
        let marks = &self.marks;
        let done = marks.done.iter();
        let done: Vec<_> = done.map(|m| (m.clone(), marks.get(m.0, &m.1))).collect();
        self.save_marks(&done, &[]);
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
        let mut wanted = vec![
            (File::CpuWeight, self.cpu_weights()),
            (File::IoWeight, self.disk_weights()),
        ];
        wanted.extend(self.guarantees());
        self.bring(&wanted);
    }

    pub(super) fn write_disk(&mut self) {
        if self.settled && !self.observes() {
            let wanted = self.disk_weights();
            self.bring(&[(File::IoWeight, wanted)]);
        }
    }

    fn cpu_weights(&self) -> BTreeMap<String, u64> {
        if !self.cpu.by_weight() {
            return BTreeMap::new();
        }
        let terms = weight::Terms {
            resource: Resource::Cpu,
            whole: self.ledger.find(lifeline::NAME),
            live: false,
            most: weight::MOST,
        };
        weight::weights(&self.ledger, &terms)
    }

    fn disk_weights(&self) -> BTreeMap<String, u64> {
        let terms = weight::Terms {
            resource: Resource::Disk,
            whole: None,
            live: true,
            most: self.disk.most(),
        };
        weight::weights(&self.ledger, &terms)
    }

    /// Something else holds shares of a disk now.
    pub fn disk_changed(&mut self, what: &str) {
        self.disk.look(&self.root);
        self.note(tix_api::EventKind::Scheduler, what);
        self.write_disk();
    }

    fn guarantees(&self) -> [(File, BTreeMap<String, u64>); 2] {
        let kernel = Kernel {
            page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            recursive: self.recursive,
        };
        let all = protection::protections(&self.ledger, kernel);
        [File::MemoryMin, File::MemoryLow].map(|file| {
            let number = |p: &protection::Protection| match file {
                File::MemoryMin => p.min,
                _ => p.low,
            };
            let its = all.iter().filter(|(_, p)| number(p) > 0);
            let its = its.map(|(path, p)| {
                // What was guaranteed before is not taken away.
                let before = self.funding(file, path).unwrap_or(0);
                (path.clone(), number(p).max(before))
            });
            (file, its.collect())
        })
    }

    pub(super) fn observes(&self) -> bool {
        !self.cpu.outlook().enforces()
    }

    /// Has these files say that, and no others. Recorded first, all in one commit: a number that is
    /// recorded and never written does no harm, one that is written and not known would. What
    /// cannot be recorded is not written.
    fn bring(&mut self, wanted: &[(File, BTreeMap<String, u64>)]) {
        // One after the other: what a second one took for the number before would be wrong.
        if self.marks.bringing {
            self.overhaul.due = true;
            return;
        }
        let (mut stale, mut fresh) = (Vec::new(), Vec::new());
        for (file, wanted) in wanted {
            stale.extend(self.stale(*file, wanted));
            fresh.extend(self.fresh(*file, wanted));
        }
        if stale.is_empty() && fresh.is_empty() {
            return;
        }
        let all = fresh.iter().map(|f| (&f.mark, f.now.number));
        let all = all.chain(stale.iter().map(|(mark, funding, _)| (mark, *funding)));
        let told = self.about_to_tell(all);
        let known: Vec<(Mark, Option<Written>)> = (fresh.iter())
            .map(|f| (f.mark.clone(), Some(f.now)))
            .collect();
        self.marks.bringing = true;
        self.record(&known, &told, move |core, recorded, marks| {
            core.marks.bringing = false;
            match recorded {
                true => core.bring_recorded(fresh, stale),
                false => core.marks.unsaved.extend(marks),
            }
            // What has become another matter meanwhile.
            if recorded && !core.keeping {
                core.overhaul_if_time();
            }
        });
    }

    /// The second half of [`Core::bring`]. What has become another matter since is left alone, and its
    /// record mended; what is wanted is looked at again then.
    fn bring_recorded(&mut self, fresh: Vec<Fresh>, stale: Vec<(Mark, u64, Written)>) {
        let (mut numbers, mut gone) = (Vec::new(), Vec::new());
        for Fresh { mark, had, now } in fresh {
            let (file, path) = (mark.0, &mark.1);
            // Of a guarantee that is new the file says what it stands for, and systemd by now, too.
            let funded = match file {
                File::CpuWeight | File::IoWeight => self.funding(file, path) == Some(now.funding),
                File::MemoryMin | File::MemoryLow => self.ledger.find(path).is_some(),
            };
            let still = funded && self.marks.get(file, path) == had;
            if still {
                numbers.push((mark.clone(), now.number));
                self.marks.written.insert(mark, now);
            } else {
                self.marks.unsaved.insert(mark);
                self.overhaul.due = true;
            }
        }
        self.write_all(numbers, true);
        for (mark, funding, had) in stale {
            if self.marks.get(mark.0, &mark.1) != Some(had) {
                self.overhaul.due = true;
                continue;
            }
            self.write_all(vec![(mark.clone(), funding)], true);
            self.marks.written.remove(&mark);
            self.marks.failed.remove(&mark);
            self.marks.corrected.remove(&mark);
            gone.push((mark, None));
        }
        self.save_marks(&gone, &[]);
    }

    /// What is tixd's business no more, and what is to stand there then.
    fn stale(&self, file: File, wanted: &BTreeMap<String, u64>) -> Vec<(Mark, u64, Written)> {
        let its = self.marks.of(file);
        its.filter(|(p, _)| !wanted.contains_key(*p))
            .filter(|(p, _)| self.ledger.find(p).is_some() || !lasts(file, p))
            .map(|(p, w)| {
                let funding = self.funding(file, p).unwrap_or(w.funding);
                ((file, p.clone()), funding, *w)
            })
            .collect()
    }

    /// What of `wanted` is not so yet.
    fn fresh(&self, file: File, wanted: &BTreeMap<String, u64>) -> Vec<Fresh> {
        let changed = wanted.iter().filter_map(|(path, number)| {
            let number = *number;
            let funding = self.funding(file, path)?;
            let had = self.marks.get(file, path);
            if had.is_some_and(|h| (h.number, h.funding) == (number, funding)) {
                return None;
            }
            let before = had.and_then(|h| self.standing(file, path, h, number));
            let now = Written {
                number,
                funding,
                before,
            };
            let mark = (file, path.clone());
            Some(Fresh { mark, had, now })
        });
        changed.collect()
    }

    /// Which of tixd's numbers stands in `file` before `next` is written.
    fn standing(&self, file: File, path: &str, had: Written, next: u64) -> Option<u64> {
        let stands = match had.before {
            None => had.number,
            // Whether the last one was written is not known.
            Some(before) => match file.read(&self.root, path) {
                Ok(n) if n == self.shown(file, had.number) => had.number,
                _ => before,
            },
        };
        (stands != next).then_some(stands)
    }

    /// Into the files, and where systemd owns the cgroups, into what systemd knows of them. Their
    /// numbers are recorded.
    pub(super) fn put_all(&mut self, all: Vec<(Mark, u64)>) {
        if self.observes() || all.is_empty() {
            return;
        }
        let told = self.about_to_tell(all.iter().map(|(mark, n)| (mark, *n)));
        self.record(&[], &told, move |core, recorded, marks| {
            if !recorded {
                core.marks.unsaved.extend(marks);
            }
            core.write_all(all, recorded);
        });
    }

    /// `recorded`: what systemd is told of it is in the store.
    fn write_all(&mut self, all: Vec<(Mark, u64)>, recorded: bool) {
        for ((file, path), number) in all {
            self.try_to_put(file, &path, number);
            if recorded {
                self.tell_steward(file, &path, number);
            } else {
                self.marks.untold.insert((file, path));
            }
        }
    }

    fn tell_steward(&self, file: File, path: &str, number: u64) {
        if let (Some(property), Some(steward)) = (file.property(), &self.steward) {
            steward.set(path, property, number);
        }
    }

    pub(super) fn try_to_put(&mut self, file: File, path: &str, number: u64) {
        if self.observes() {
            return;
        }
        let mark = (file, path.to_owned());
        match file.put(&self.root, path, number) {
            Ok(()) => {
                self.marks.failed.remove(&mark);
                if self
                    .marks
                    .get(file, path)
                    .is_some_and(|w| w.number == number)
                {
                    self.stands(file, path);
                }
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
        let failed = self.marks.failed.values();
        failed.chain(&self.marks.unrecorded).map(String::as_str)
    }

    /// Why `file` of the cgroup `path` is not as it should be, if it is not.
    pub fn why_not_written(&self, file: File, path: &str) -> Option<&str> {
        let failed = self.marks.failed.get(&(file, path.to_owned()));
        failed.map(String::as_str)
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
