// SPDX-License-Identifier: GPL-2.0-only
//! Files of cgroups are brought in step with the ledger: their numbers are recorded first
//! (`record`), then written, 128 in a turn of the writer.

use super::Reconcile;
use super::record::Next;
use super::{Fresh, Todo};
use crate::reconcile::number::{self, lasts};
use crate::reconcile::protection::{self, Kernel};
use crate::reconcile::weight;
use std::collections::BTreeMap;
use tix_ledger::Resource;
use tix_model::LIFELINE;
use tix_model::{File, Mark, Written};

/// Files that are written in one turn: each takes some 10 µs.
const AT_ONCE: usize = 128;

impl Reconcile<'_> {
    /// Brings the files in step, wherever they are tixd's business.
    pub fn write_all_files(&mut self) {
        if self.observes {
            return;
        }
        let mut wanted = vec![
            (File::CpuWeight, self.cpu_weights()),
            (File::IoWeight, self.disk_weights()),
        ];
        wanted.extend(self.guarantees());
        self.write_wanted(&wanted);
    }

    pub fn write_disk_files(&mut self) {
        if !self.observes {
            let wanted = self.disk_weights();
            self.write_wanted(&[(File::IoWeight, wanted)]);
        }
    }

    fn cpu_weights(&self) -> BTreeMap<String, u64> {
        if !self.by_weight {
            return BTreeMap::new();
        }
        let terms = weight::Terms {
            resource: Resource::Cpu,
            whole: self.ledger.find(LIFELINE),
            live: false,
            most: weight::MOST,
        };
        weight::weights(self.ledger, &terms)
    }

    fn disk_weights(&self) -> BTreeMap<String, u64> {
        let terms = weight::Terms {
            resource: Resource::Disk,
            whole: None,
            live: true,
            most: self.disk.most(),
        };
        weight::weights(self.ledger, &terms)
    }

    fn guarantees(&self) -> [(File, BTreeMap<String, u64>); 2] {
        let kernel = Kernel {
            page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            recursive: self.recursive,
        };
        let all = protection::protections(self.ledger, kernel);
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

    /// Has these files have these numbers, and no others one of tixd's. All are recorded first, in
    /// one commit: a number that is recorded and never written does no harm, one that is written
    /// and not known would. What cannot be recorded is not written.
    fn write_wanted(&mut self, wanted: &[(File, BTreeMap<String, u64>)]) {
        // One after the other: what a second one took for the number before would be wrong.
        if self.marks.is_writing_files {
            self.marks.look_again = true;
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
        let told = self.register_systemd_values(all);
        let known: Vec<(Mark, Option<Written>)> = (fresh.iter())
            .map(|f| (f.mark.clone(), Some(f.now)))
            .collect();
        self.marks.is_writing_files = true;
        let fresh = fresh.into_iter().map(Todo::Write);
        let stale = (stale.into_iter()).map(|(mark, n, had)| Todo::GiveBack(mark, n, had));
        let todo = fresh.chain(stale).collect();
        self.record(&known, &told, Next::Write(todo));
    }

    /// Some of the files whose numbers are recorded are written; others have their turn then. A
    /// file of which something else is known by now is left alone, its record is mended, and what
    /// is wanted is looked at again. True: those were the last.
    pub fn write_some_files(&mut self) -> bool {
        let some = self.marks.to_write.len().min(AT_ONCE);
        let these: Vec<Todo> = self.marks.to_write.drain(..some).collect();
        for todo in these {
            match todo {
                Todo::Write(fresh) => self.write_fresh(fresh),
                Todo::GiveBack(mark, funding, had) => self.write_stale(mark, funding, had),
            }
        }
        let ends = self.marks.to_write.is_empty() && self.marks.is_writing_files;
        if ends {
            self.ends_writing_files();
            self.save_gone();
        }
        ends
    }

    pub(super) fn ends_writing_files(&mut self) {
        self.marks.is_writing_files = false;
        self.marks.dropped.clear();
    }

    fn write_fresh(&mut self, Fresh { mark, had, now }: Fresh) {
        let (file, path) = (mark.0, &mark.1);
        // Of a guarantee that is new the file says what it stands for, and systemd by now, too.
        let funded = match file {
            File::CpuWeight | File::IoWeight => self.funding(file, path) == Some(now.funding),
            File::MemoryMin | File::MemoryLow => self.ledger.find(path).is_some(),
        };
        let as_recorded = self.marks.get(file, path) == had && !self.marks.dropped.contains(&mark);
        if funded && as_recorded {
            self.marks.written.insert(mark.clone(), now);
            self.write_all(vec![(mark, now.number)], true);
        } else {
            self.marks.unsaved.insert(mark);
            self.marks.look_again = true;
        }
    }

    fn write_stale(&mut self, mark: Mark, funding: u64, had: Written) {
        if self.marks.get(mark.0, &mark.1) != Some(had) {
            self.marks.look_again = true;
            return;
        }
        self.write_all(vec![(mark.clone(), funding)], true);
        self.marks.written.remove(&mark);
        self.marks.failed.remove(&mark);
        self.marks.corrected.remove(&mark);
        self.marks.gone.insert(mark);
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
            Some(before) => match number::read(file, self.root, path) {
                Ok(n) if n == self.shown(file, had.number) => had.number,
                _ => before,
            },
        };
        (stands != next).then_some(stands)
    }

    /// Into the files, and where systemd owns the cgroups, into what systemd knows of them. Their
    /// numbers are recorded.
    pub(super) fn put_all(&mut self, all: Vec<(Mark, u64)>) {
        if self.observes || all.is_empty() {
            return;
        }
        let told = self.register_systemd_values(all.iter().map(|(mark, n)| (mark, *n)));
        self.record(&[], &told, Next::Put(all));
    }

    /// `recorded`: what systemd is told of it is in the store.
    pub(super) fn write_all(&mut self, all: Vec<(Mark, u64)>, recorded: bool) {
        for ((file, path), number) in all {
            self.try_to_put(file, &path, number);
            if recorded {
                self.tell_systemd_of(file, &path, number);
            } else {
                self.marks.untold.insert((file, path));
            }
        }
    }

    pub(super) fn tell_systemd_of(&mut self, file: File, path: &str, number: u64) {
        if let (Some(property), Some(systemd)) = (file.property(), &self.marks.systemd) {
            systemd.set(path, property, number);
            self.marks.told.said(file, path, number);
        }
    }
}
