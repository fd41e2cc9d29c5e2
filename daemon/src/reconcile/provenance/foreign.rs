// SPDX-License-Identifier: GPL-2.0-only
//! What others write into files that are tixd's business. A weight is their funding ([`super`]);
//! a guarantee is written again, but not as often as they like.

use super::Reconcile;
use crate::reconcile::disk;
use crate::reconcile::number;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};
use tix_model::{File, Mark, Written};
use tix_systemd::Properties;

#[derive(Debug)]
pub(super) struct Corrected {
    at: Instant,
    /// Once more, when it is time.
    again: bool,
}

/// Whoever may write to a file may do so as often as it likes: that often it is written again.
const CORRECT_EACH: Duration = Duration::from_secs(1);

/// The next `n` from `first` on after `last`, or the first ones: found without looking at the
/// others.
fn turn<V>(all: &BTreeMap<Mark, V>, first: Mark, last: Option<&Mark>, n: usize) -> Vec<Mark> {
    let some = |from: Bound<Mark>| -> Vec<Mark> {
        let rest = all.range((from, Bound::Unbounded)).take(n);
        rest.map(|(mark, _)| mark.clone()).collect()
    };
    let next = last.map(|last| some(Bound::Excluded(last.clone())));
    next.filter(|next| !next.is_empty())
        .unwrap_or_else(|| some(Bound::Included(first)))
}

impl Reconcile<'_> {
    /// Somebody has written to a file of the cgroup `path` that is no funding.
    pub fn touched(&mut self, path: &str) {
        if self.observes {
            return;
        }
        for file in [File::IoWeight, File::MemoryMin, File::MemoryLow] {
            let Some(w) = self.marks.get(file, path) else {
                continue;
            };
            let found = number::read(file, self.root, path);
            match found {
                Ok(n) if n == self.shown(file, w.number) => {
                    if file == File::IoWeight && !disk::agrees(self.root, path, w.number) {
                        self.try_to_put(file, path, w.number);
                    }
                }
                // Funding, as its weight is read.
                Ok(_) if file == File::IoWeight => {}
                Ok(n) => self.correct(file, path, n, w),
                Err(_) => self.try_to_put(file, path, w.number),
            }
        }
    }

    /// A guarantee is `found` now. What somebody has set it to is what stands there when tix
    /// guarantees nothing any more, and in force is what is more; what systemd has set it to is
    /// nobody's wish.
    fn correct(&mut self, file: File, path: &str, found: u64, w: Written) {
        let (mark, now) = ((file, path.to_owned()), Instant::now());
        if let Some(last) = self.marks.corrected.get_mut(&mark)
            && last.at.elapsed() < CORRECT_EACH
        {
            last.again = true;
            return;
        }
        let corrected = Corrected {
            at: now,
            again: false,
        };
        self.marks.corrected.insert(mark, corrected);
        // One that was made anew says what new ones say: nobody has set that.
        let known = self.root.cgroup(path).map(|c| c.id).ok() == self.mirror_id(path);
        if found < w.number && known && !self.is_systemds(file, path, found, w) {
            let what = format!(
                "{} of {path} was set to {found}, and is {} again: it is what tix guarantees",
                file.name(),
                w.number,
            );
            self.marks.requests.corrected.push((path.to_owned(), what));
        }
        self.reconcile_guarantees(vec![((file, path.to_owned()), found, w)]);
    }

    /// systemd sets what it knows of a unit and of the slices above whenever it makes a cgroup.
    /// Until it has been told the present number, and a moment longer, that is one from before.
    fn is_systemds(&self, file: File, path: &str, found: u64, w: Written) -> bool {
        let tells = self
            .marks
            .systemd
            .as_ref()
            .is_some_and(|s| s.may_tell(path));
        let late = found == w.funding && !self.marks.told.is_known(file, path, w.number);
        tells && (late || self.is_systemd_value(file, path, found))
    }

    /// What others have set guarantees to is what stands there in the end; until then they are no
    /// less than what tix guarantees.
    fn reconcile_guarantees(&mut self, all: Vec<(Mark, u64, Written)>) {
        let mut changed = Vec::new();
        for ((file, path), found, w) in &all {
            let there = self.root.cgroup(path).map(|c| c.id).ok();
            let news = *found != w.funding && there == self.mirror_id(path);
            if news
                && !self.is_before(*file, w, *found)
                && !self.is_systemd_value(*file, path, *found)
            {
                let (mark, funding) = ((*file, path.clone()), *found);
                changed.push((mark, Some(Written { funding, ..*w })));
            }
        }
        if !changed.is_empty() {
            let marks = changed.iter().filter_map(|(m, w)| Some((m.clone(), (*w)?)));
            self.marks.written.extend(marks);
            self.save_marks(&changed, &[]);
            self.marks.look_again = true;
        }
        let less = all.into_iter().filter(|(_, found, w)| *found < w.number);
        self.put_all(less.map(|(mark, _, w)| (mark, w.number)).collect());
    }

    /// Guarantees are what files say, not what was written once: the machine may have been started
    /// anew since, or others have written while nobody listened.
    pub fn check_guarantees(&mut self) {
        let files = [File::MemoryMin, File::MemoryLow].into_iter();
        let all: Vec<(Mark, Written)> = files
            .flat_map(|f| self.marks.of(f).map(move |(p, w)| ((f, p.clone()), *w)))
            .collect();
        let mut otherwise = Vec::new();
        for (mark, w) in all {
            match number::read(mark.0, self.root, &mark.1) {
                Ok(n) if n == w.number => self.stands(mark.0, &mark.1),
                Ok(n) => otherwise.push((mark, n, w)),
                Err(_) => {}
            }
        }
        self.reconcile_guarantees(otherwise);
    }

    /// Once a second: what could not be written before, or too often; and some guarantees are
    /// looked at, should nobody have said that they were written to (the kernel drops events when
    /// there are many).
    pub fn retry_writes(&mut self) {
        const AT_ONCE: usize = 64;
        const LOOKED_AT: usize = 4;
        let again = self.marks.corrected.iter_mut().filter(|(_, c)| c.again);
        let mut paths: Vec<String> = (again.take(AT_ONCE))
            .map(|((_, path), c)| {
                c.again = false;
                path.clone()
            })
            .collect();
        let (marks, any) = (&self.marks, String::new());
        // Guarantees come after all weights.
        let first = (File::MemoryMin, any.clone());
        let looked = turn(&marks.written, first, marks.looked.as_ref(), LOOKED_AT);
        self.marks.looked = looked.last().cloned();
        paths.extend(looked.into_iter().map(|(_, path)| path));
        paths.iter().for_each(|path| self.touched(path));
        let (marks, first) = (&self.marks, (File::CpuWeight, any));
        let failed = turn(&marks.failed, first, marks.tried.as_ref(), AT_ONCE);
        self.marks.tried = failed.last().cloned();
        for (file, path) in failed {
            match self.marks.get(file, &path) {
                Some(w) => self.try_to_put(file, &path, w.number),
                None => {
                    self.marks.failed.remove(&(file, path));
                }
            }
        }
        self.forget_systemd_values();
        self.record_again();
    }

    /// systemd has been told these properties of the cgroup `path`, or would not have them.
    pub fn settled_with_systemd(
        &mut self,
        path: String,
        told: &Properties,
        trouble: Option<String>,
    ) {
        if trouble.is_none() {
            let now = Instant::now();
            for file in File::ALL {
                if let Some(n) = file.property().and_then(|p| told.get(p)) {
                    self.marks.told.knows(file, &path, *n, now);
                }
            }
        }
        // It may have written another number.
        self.touched(&path);
        match trouble {
            None => self.marks.unsettled.remove(&path),
            Some(why) => self.marks.unsettled.insert(path, why),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_turn() {
        let guarantee = |path: &str| (File::MemoryMin, path.to_owned());
        let mut all: BTreeMap<Mark, ()> = ["/a", "/b", "/c"].map(|p| (guarantee(p), ())).into();
        all.insert((File::IoWeight, "/w".to_owned()), ());
        let mut last = None;
        let mut seen = String::new();
        for _ in 0..3 {
            let next = turn(&all, guarantee(""), last.as_ref(), 2);
            seen.extend(next.iter().map(|(_, path)| path.as_str()));
            last = next.last().cloned();
        }
        assert_eq!(seen, "/a/b/c/a/b");
        let none = BTreeMap::<Mark, ()>::new();
        assert!(turn(&none, guarantee(""), last.as_ref(), 2).is_empty());
    }
}
