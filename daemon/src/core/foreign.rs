// SPDX-License-Identifier: GPL-2.0-only
//! What others write into files that are tixd's business. A weight is their funding (see `marks`); a guarantee is written again, but not
//! as often as they like.

use super::Core;
use super::marks::{File, Mark, Written};
use crate::enforce::disk;
use crate::enforce::steward::Properties;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Corrected {
    at: Instant,
    said: Instant,
    /// Once more, when it is time.
    again: bool,
}

/// Whoever may write to a file may do so as often as it likes: that often it is written again, and told to the log.
const CORRECT_EACH: Duration = Duration::from_secs(1);
const SAY_EACH: Duration = Duration::from_secs(60);

/// The next `n` from `first` on after `last`, or the first ones: found without looking at the others.
fn turn<V>(all: &BTreeMap<Mark, V>, first: Mark, last: Option<&Mark>, n: usize) -> Vec<Mark> {
    let some = |from: Bound<Mark>| -> Vec<Mark> {
        let rest = all.range((from, Bound::Unbounded)).take(n);
        rest.map(|(mark, _)| mark.clone()).collect()
    };
    let next = last.map(|last| some(Bound::Excluded(last.clone())));
    next.filter(|next| !next.is_empty())
        .unwrap_or_else(|| some(Bound::Included(first)))
}

impl Core {
    /// Somebody has written to a file of the cgroup `path` that is no funding.
    pub(super) fn touched(&mut self, path: &str) {
        if self.observes() {
            return;
        }
        for file in [File::IoWeight, File::MemoryMin, File::MemoryLow] {
            let Some(w) = self.marks.get(file, path) else {
                continue;
            };
            if self.marks.coming.contains(&(file, path.to_owned())) {
                continue;
            }
            let found = file.read(&self.root, path);
            match found {
                Ok(n) if n == self.shown(file, w.number) => {
                    if file == File::IoWeight && !disk::agrees(&self.root, path, w.number) {
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

    /// Somebody has set a guarantee to `found`: that is what stands there when tix guarantees nothing any more, and in force is what is more.
    fn correct(&mut self, file: File, path: &str, found: u64, w: Written) {
        let number = w.number;
        let (mark, now) = ((file, path.to_owned()), Instant::now());
        let last = self.marks.corrected.get_mut(&mark);
        let said = match last {
            Some(last) if last.at.elapsed() < CORRECT_EACH => {
                last.again = true;
                return;
            }
            Some(last) if last.said.elapsed() < SAY_EACH => last.said,
            _ if found > number => now,
            _ => {
                let what = format!(
                    "{} of {path} was set to {found}, and is {number} again: it is what tix guarantees",
                    file.name(),
                );
                tracing::warn!("{what}");
                self.note(tix_api::EventKind::Held, &what);
                now
            }
        };
        let corrected = Corrected {
            at: now,
            said,
            again: false,
        };
        self.marks.corrected.insert(mark, corrected);
        self.heed(file, path, found, w);
    }

    /// What others have set a guarantee to is what stands there in the end; until then it is no less than what tix guarantees.
    fn heed(&mut self, file: File, path: &str, found: u64, w: Written) {
        let there = self.root.cgroup(path).map(|c| c.id).ok();
        if found != w.funding && there == self.mirror_id(path) && !self.was_told(file, path, found)
        {
            let funding = Written {
                funding: found,
                ..w
            };
            let mark = (file, path.to_owned());
            self.marks.written.insert(mark.clone(), funding);
            self.save_marks(&[(mark, Some(funding))], &[]);
            self.overhaul.due = true;
        }
        if found < w.number {
            self.put(file, path, w.number);
        }
    }

    /// Guarantees are what files say, not what was written once: the machine may have been started anew since, or others have written
    /// while nobody listened.
    pub(super) fn check_guarantees(&mut self) {
        let files = [File::MemoryMin, File::MemoryLow].into_iter();
        let all: Vec<(Mark, Written)> = files
            .flat_map(|f| self.marks.of(f).map(move |(p, w)| ((f, p.clone()), *w)))
            .collect();
        for ((file, path), w) in all {
            match file.read(&self.root, &path) {
                Ok(n) if n != w.number => self.heed(file, &path, n, w),
                _ => {}
            }
        }
    }

    /// Once a second: what could not be written before, or too often; and some guarantees are looked at, should nobody have said that they
    /// were written to (the kernel drops events when there are many).
    pub(super) fn put_again(&mut self) {
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
        self.forget_told();
        self.save_unsaved();
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
            None => self.unsettled.remove(&path),
            Some(why) => self.unsettled.insert(path, why),
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
