// SPDX-License-Identifier: GPL-2.0-only
//! The numbers that systemd has from tixd for cgroups' files.
//!
//! The problem: systemd sets what it was told whenever it reads its units or makes a cgroup anew,
//! and an earlier number until it has been told the later one. Neither is anybody's tickets. The
//! rule: a number that systemd was told, and that may still be set, is no funding. It is in the
//! store before systemd is told, since systemd does not forget it when tixd ends. Worked example:
//! told 434, then 500: until systemd knows of 500, and 10 s longer, 434 in the file is systemd's
//! doing. Limits: 16 numbers of a file are remembered.

use super::Reconcile;
use crate::reconcile::number::{self, lasts};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use tix_model::{File, Mark, Numbers};
use tix_store::{self as store, Store};

/// A number for one file: systemd is told it when there is time.
#[derive(Debug, Clone, Copy)]
struct SystemdValue {
    number: u64,
    at: Instant,
    /// systemd has been told. What could not be recorded is not told, and nobody sets it.
    said: bool,
    /// When systemd knew of it.
    known: Option<Instant>,
    /// When systemd knew a later one. Until then it has this one, and sets it whenever it looks at
    /// the unit.
    replaced: Option<Instant>,
}

/// A number may be read for so long after systemd knew a later one.
const LATE: Duration = Duration::from_secs(10);
/// How many numbers of a file are remembered.
const MOST: usize = 16;

impl SystemdValue {
    fn new(number: u64, at: Instant) -> SystemdValue {
        SystemdValue {
            number,
            at,
            said: false,
            known: None,
            replaced: None,
        }
    }

    fn may_be_set(&self) -> bool {
        self.replaced.is_none_or(|at| at.elapsed() < LATE)
    }
}

/// Of each file the numbers that systemd was told, the last one last.
#[derive(Debug, Default)]
pub(super) struct SystemdValues(BTreeMap<Mark, VecDeque<SystemdValue>>);

impl SystemdValues {
    /// What an earlier tixd told systemd; which of it systemd knew to be out of date is not known
    /// any more.
    pub(super) fn new(kept: Vec<(Mark, Numbers)>) -> SystemdValues {
        let now = Instant::now();
        // Of one alone there is nothing that systemd could mistake for it.
        let told = |numbers: Numbers| {
            let known = (numbers.len() == 1).then_some(now);
            // Whether it came to telling it the last one is not known.
            let told = |n| SystemdValue {
                known,
                said: true,
                ..SystemdValue::new(n, now)
            };
            numbers.into_iter().map(told).collect()
        };
        SystemdValues(kept.into_iter().map(|(m, n)| (m, told(n))).collect())
    }

    /// What systemd has been told of `mark`, and last `number`. Is that news, which has to be kept?
    pub(super) fn tell(&mut self, mark: &Mark, number: u64) -> bool {
        let its = self.0.entry(mark.clone()).or_default();
        let now = SystemdValue::new(number, Instant::now());
        if let Some(last) = its.back_mut().filter(|t| t.number == number) {
            let (known, said) = (last.known, last.said);
            *last = SystemdValue { known, said, ..now };
            return false;
        }
        its.retain(|t| t.number != number && t.may_be_set());
        its.push_back(now);
        if its.len() > MOST {
            // The first is what systemd has; of the others it is told the last one it has time for.
            let over = its.iter().position(|t| t.replaced.is_some()).unwrap_or(1);
            its.remove(over);
        }
        true
    }

    /// systemd is told `number` now.
    pub(super) fn said(&mut self, file: File, path: &str, number: u64) {
        let its = self.0.get_mut(&(file, path.to_owned()));
        let all = its.into_iter().flatten();
        if let Some(told) = all.rev().find(|t| t.number == number) {
            told.said = true;
        }
    }

    /// At `now` systemd has `number` for that, and nothing that it was told before.
    pub(super) fn knows(&mut self, file: File, path: &str, number: u64, now: Instant) {
        let Some(told) = self.0.get_mut(&(file, path.to_owned())) else {
            return;
        };
        let Some(this) = told.iter().position(|t| t.number == number) else {
            return;
        };
        told[this].known.get_or_insert(now);
        for t in told.range_mut(..this) {
            t.replaced.get_or_insert(now);
        }
    }

    /// Has systemd known for a while that it is to have `number` there, and nothing else?
    pub(super) fn is_known(&self, file: File, path: &str, number: u64) -> bool {
        let told = self.0.get(&(file, path.to_owned()));
        let last = told.and_then(|told| told.back());
        let known = last.filter(|t| t.number == number).and_then(|t| t.known);
        known.is_some_and(|at| at.elapsed() >= LATE)
    }

    /// What systemd may set: the last number that it was told whenever the unit comes back, those
    /// before until it knows better, and a little longer.
    pub(super) fn of(&self, file: File, path: &str) -> impl Iterator<Item = u64> {
        let all = self.0.get(&(file, path.to_owned())).into_iter();
        let said = all.flatten().filter(|t| t.said && t.may_be_set());
        said.map(|t| t.number)
    }

    /// What it was told last.
    pub(super) fn last(&self, file: File, path: &str) -> Option<u64> {
        let all = self.0.get(&(file, path.to_owned()))?;
        all.iter().rev().find(|t| t.said).map(|t| t.number)
    }

    /// What it was told last, or is to be told.
    pub(super) fn newest(&self, file: File, path: &str) -> Option<u64> {
        let all = self.0.get(&(file, path.to_owned()))?;
        all.back().map(|t| t.number)
    }

    /// What stands in `file` by others' doing, where nothing of tixd's is in force and `read` is
    /// found: systemd may set a moment late what it was told, and that is no guarantee of others.
    /// What it was told last is what tixd gave back.
    pub(super) fn before(&self, file: File, path: &str, read: u64) -> u64 {
        match self.of(file, path).any(|n| n == read) {
            true => self.last(file, path).unwrap_or(read),
            false => read,
        }
    }

    /// What is to be kept of `mark`; nothing, if there is nothing.
    pub(super) fn kept(&self, mark: &Mark) -> (Mark, Numbers) {
        let all = self.0.get(mark).into_iter().flatten();
        let numbers = all.filter(|t| t.may_be_set()).map(|t| t.number);
        (mark.clone(), numbers.collect())
    }

    /// Of which systemd may know an earlier number than the last.
    fn unsure(&self) -> Vec<(Mark, u64)> {
        let several = self.0.iter().filter(|(_, told)| told.len() > 1);
        several
            .filter_map(|(mark, told)| Some((mark.clone(), told.back()?.number)))
            .collect()
    }

    pub(super) fn forget(&mut self, mark: &Mark) -> bool {
        self.0.remove(mark).is_some()
    }

    /// Drops what systemd does not have any more, and all of what is none of `here` and was told
    /// longer than `old` ago. Returns where something was dropped.
    fn sweep(&mut self, old: Duration, here: impl Fn(&Mark) -> bool) -> Vec<Mark> {
        let mut swept = Vec::new();
        self.0.retain(|mark, told| {
            let many = told.len();
            told.retain(SystemdValue::may_be_set);
            let fresh = told.back().is_some_and(|t| t.at.elapsed() < old);
            let stays = fresh || here(mark);
            if !stays || told.len() != many {
                swept.push(mark.clone());
            }
            stays
        });
        swept
    }
}

/// What an earlier tixd told systemd and systemd has yet, and of what it has nothing: it forgets
/// when the machine is started anew.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(store: &Store) -> Result<(SystemdValues, Vec<(Mark, Numbers)>), store::Error> {
    let all = store.told()?.into_iter();
    let (had, gone): (Vec<_>, Vec<_>) = all.partition(|((file, path), _)| lasts(*file, path));
    let gone = gone.into_iter().map(|(mark, _)| (mark, vec![])).collect();
    Ok((SystemdValues::new(had), gone))
}

impl Reconcile<'_> {
    /// systemd is going to be told of these. What is returned is to be recorded before that is
    /// done, as [`Reconcile::put_all`] does it.
    pub(super) fn register_systemd_values<'a>(
        &mut self,
        all: impl Iterator<Item = (&'a Mark, u64)>,
    ) -> Vec<(Mark, Numbers)> {
        let Some(systemd) = &self.marks.systemd else {
            return vec![];
        };
        let mut news = Vec::new();
        for (mark, number) in all.filter(|((_, path), _)| systemd.may_tell(path)) {
            if mark.0.property().is_some() && self.marks.told.tell(mark, number) {
                news.push(self.marks.told.kept(mark));
            }
        }
        news
    }

    /// Is it systemd's doing that `file` says `number`, and that tixd's?
    pub(super) fn is_systemd_value(&self, file: File, path: &str, number: u64) -> bool {
        let mut told = self.marks.told.of(file, path);
        told.any(|n| self.set_by_systemd(file, n) == number)
    }

    fn set_by_systemd(&self, file: File, number: u64) -> u64 {
        match file {
            File::IoWeight => self.disk.shown_by_systemd(number),
            _ => number,
        }
    }

    /// A tixd that was killed may not have come to tell systemd its last word. Where nothing of
    /// tixd's is in force any more systemd has it now, or else what others have set meanwhile: an
    /// earlier one is nobody's.
    pub fn restore_last_values(&mut self) {
        let mut last_values = Vec::new();
        for ((file, path), number) in self.marks.told.unsure() {
            let Ok(found) = number::read(file, self.root, &path) else {
                continue;
            };
            let ours = found == self.shown(file, number);
            let marked = self.marks.get(file, &path).is_some();
            if ours || (!marked && self.is_systemd_value(file, &path, found)) {
                last_values.push(((file, path), number));
            } else if !marked && (file != File::IoWeight || self.disk.has_iocost) {
                last_values.push(((file, path), found));
            }
        }
        self.put_all(last_values);
    }

    /// What systemd was told of units that it has no more, and what it has been told better since.
    pub(super) fn forget_systemd_values(&mut self) {
        const EACH: Duration = Duration::from_secs(60);
        if self.marks.swept.is_some_and(|at| at.elapsed() < EACH) {
            return;
        }
        self.marks.swept = Some(Instant::now());
        let here = |(file, path): &Mark| self.ledger.find(path).is_some() || lasts(*file, path);
        let swept = self.marks.told.sweep(EACH, here);
        let told: Vec<_> = swept.iter().map(|m| self.marks.told.kept(m)).collect();
        self.save_marks(&[], &told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: &str = "/system.slice";

    fn guarantee() -> Mark {
        (File::MemoryMin, SLICE.to_owned())
    }

    #[test]
    fn what_systemd_sets_late_was_nobody_elses() {
        let mut told = SystemdValues::default();
        let before = |told: &SystemdValues, read| told.before(File::MemoryMin, SLICE, read);
        assert_eq!(before(&told, 64), 64);
        // Guaranteed for a unit in it, given back as the unit ended, and set by systemd after that.
        for n in [64, 0] {
            assert!(told.tell(&guarantee(), n));
            told.said(File::MemoryMin, SLICE, n);
        }
        assert_eq!(before(&told, 64), 0);
        assert_eq!(before(&told, 0), 0);
        assert_eq!(before(&told, 32), 32);
        // However long ago it was told the first: it sets that until it knows of the second.
        let long_ago = Instant::now().checked_sub(2 * LATE).unwrap();
        told.knows(File::MemoryMin, SLICE, 64, long_ago);
        assert_eq!(before(&told, 64), 0);
        told.knows(File::MemoryMin, SLICE, 0, long_ago);
        assert_eq!(before(&told, 64), 64);
        // Of another file nothing was told.
        assert_eq!(told.before(File::MemoryLow, SLICE, 64), 64);
    }

    #[test]
    fn what_could_not_be_recorded_was_never_told() {
        let mut told = SystemdValues::default();
        let before = |told: &SystemdValues, read| told.before(File::MemoryMin, SLICE, read);
        // Recording 64 fails: 64 is somebody else's, then.
        assert!(told.tell(&guarantee(), 64));
        assert_eq!((before(&told, 64), before(&told, 32)), (64, 32));
        assert_eq!(told.of(File::MemoryMin, SLICE).count(), 0);
        told.said(File::MemoryMin, SLICE, 64);
        // Recording 96 fails: what was given back is 64 still.
        assert!(told.tell(&guarantee(), 96));
        assert_eq!((before(&told, 64), before(&told, 96)), (64, 96));
        assert_eq!(told.newest(File::MemoryMin, SLICE), Some(96));
        // Nor is it, when it is wanted again and recorded, news of old.
        assert!(!told.tell(&guarantee(), 96));
        told.said(File::MemoryMin, SLICE, 96);
        assert_eq!(before(&told, 64), 96);
    }

    #[test]
    fn the_next_tixd_knows_it_as_well() {
        let mut told = SystemdValues::default();
        for n in [434, 500] {
            told.tell(&guarantee(), n);
        }
        let mut next = SystemdValues::new(vec![told.kept(&guarantee())]);
        assert_eq!(next.before(File::MemoryMin, SLICE, 434), 500);
        assert_eq!(next.unsure(), [(guarantee(), 500)]);
        // Once systemd knows better there is nothing left to be unsure of.
        assert!(!next.tell(&guarantee(), 500));
        let long_ago = Instant::now().checked_sub(2 * LATE).unwrap();
        next.knows(File::MemoryMin, SLICE, 500, long_ago);
        assert_eq!(next.sweep(LATE, |_| true), [guarantee()]);
        assert_eq!(next.kept(&guarantee()), (guarantee(), vec![500]));
        assert!(next.unsure().is_empty());
    }

    #[test]
    fn what_systemd_has_is_the_last_to_be_forgotten() {
        let mut told = SystemdValues::default();
        for n in 1..=100 {
            told.tell(&guarantee(), n);
        }
        let (_, numbers) = told.kept(&guarantee());
        assert_eq!((numbers[0], numbers.len()), (1, MOST));
        assert_eq!(numbers.last(), Some(&100));
    }
}
