// SPDX-License-Identifier: GPL-2.0-only
//! What tixd wrote into cgroups' files is taken back when tix goes for good: weights are what they
//! are without it, and guarantees what others had set.

use super::systemd_values::{self, SystemdValues};
use crate::reconcile::disk::Disk;
use crate::reconcile::number;
use tix_cgroupfs::Root;
use tix_model::Numbers;
use tix_model::{File, Mark, Written};
use tix_store::{self as store, Store};
use tix_systemd::PropertySync;

/// What came of it.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// So many files say again what they said.
    pub files: usize,
    /// What could not be taken back, and why.
    pub trouble: Vec<String>,
}

/// Takes back what the marks of `store` tell of, where nobody has written something else since.
/// `systemd`: where it is told.
///
/// # Errors
/// When the marks cannot be read, or not forgotten. What the files say is not among them: see
/// [`GivenBack`].
pub fn give_back(
    root: &Root,
    store: &mut Store,
    disk: &Disk,
    systemd: Option<&PropertySync>,
) -> Result<GivenBack, store::Error> {
    let told = systemd_values::read(store)?;
    give_back_told(root, store, disk, systemd, told)
}

/// The same, where systemd was told that, or has forgotten it.
fn give_back_told(
    root: &Root,
    store: &mut Store,
    disk: &Disk,
    systemd: Option<&PropertySync>,
    (mut told, forgotten): (SystemdValues, Vec<(Mark, Numbers)>),
) -> Result<GivenBack, store::Error> {
    let mut done = GivenBack::default();
    let mut gone: Vec<(Mark, Option<Written>)> = Vec::new();
    let mut last_values = forgotten;
    for (mark, written) in store.marks()? {
        let (file, path) = &mark;
        let shown = |number: u64| match file {
            File::IoWeight => disk.shown(number),
            _ => number,
        };
        // Or it was killed before it came to write that.
        let numbers = std::iter::once(written.number).chain(written.before);
        let by_tixd = |n: u64| numbers.clone().any(|number| shown(number) == n);
        // While no tixd ran systemd may have set what one told it.
        let by_systemd = |n: u64| {
            told.of(*file, path).any(|told| match file {
                File::IoWeight => disk.shown_by_systemd(told) == n,
                _ => told == n,
            })
        };
        let found = (root.cgroup(path).ok()).and_then(|_| number::read(*file, root, path).ok());
        let (ours, theirs) = match found {
            Some(n) if by_tixd(n) || by_systemd(n) => (true, None),
            theirs => (false, theirs),
        };
        if ours {
            match number::put(*file, root, path, written.funding) {
                Ok(()) => done.files += 1,
                Err(e) => {
                    done.trouble.push(e.to_string());
                    continue;
                }
            }
        }
        // Also where there is no such cgroup now: systemd sets it when the unit comes back. What
        // others have set meanwhile stays.
        if let (Some(property), Some(systemd)) = (file.property(), systemd) {
            let last = match (file, theirs) {
                (_, None) => written.funding,
                (File::IoWeight, Some(n)) => disk.for_systemd(n),
                (_, Some(n)) => n,
            };
            systemd.set(path, property, last);
            if systemd.may_tell(path) && told.tell(&mark, last) {
                last_values.push(told.kept(&mark));
            }
        }
        gone.push((mark, None));
    }
    store.set_marks(&gone, &last_values)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, read_to_string, write};

    #[test]
    fn what_tixd_wrote_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let file = |name: &str| tree.join(name);
        for name in ["a", "b", "c"] {
            create_dir_all(file(name)).unwrap();
        }
        write(file("a/io.weight"), "default 300\n").unwrap();
        write(file("a/memory.min"), "8192\n").unwrap();
        write(file("b/io.weight"), "default 50\n").unwrap();
        write(file("c/io.weight"), "default 7\n").unwrap();
        let (mut store, _) = Store::open(&dir.path().join("state")).unwrap();
        let mark = |file, path: &str, number, funding| {
            let written = Written {
                number,
                funding,
                before: None,
            };
            ((file, path.to_owned()), Some(written))
        };
        let marks = [
            mark(File::IoWeight, "/a", 300, 100),
            mark(File::MemoryMin, "/a", 8192, 4096),
            // Somebody has written something else since.
            mark(File::IoWeight, "/b", 300, 100),
            mark(File::IoWeight, "/gone", 300, 100),
        ];
        store.set_marks(&marks, &[]).unwrap();
        let root = Root::open_any(&tree).unwrap();
        write(file("io.cost.qos"), "").unwrap();
        let mut disk = Disk::new(dir.path());
        disk.look(&root);
        let done = give_back(&root, &mut store, &disk, None).unwrap();
        assert_eq!((done.files, done.trouble), (2, vec![]));
        let said = |name: &str| read_to_string(file(name)).unwrap();
        assert_eq!(said("a/io.weight"), "default 100\n");
        assert_eq!(said("a/memory.min"), "4096\n");
        assert_eq!(said("b/io.weight"), "default 50\n");
        assert_eq!(said("c/io.weight"), "default 7\n");
        assert!(store.marks().unwrap().is_empty());
    }

    #[test]
    fn what_systemd_set_while_no_tixd_ran_was_tixds() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let weight = |slice: &str| tree.join(slice).join("io.weight");
        let (mut store, _) = Store::open(&dir.path().join("state")).unwrap();
        let (mut marks, mut told) = (vec![], vec![]);
        for (slice, says) in [("a.slice", 434), ("b.slice", 77)] {
            create_dir_all(tree.join(slice)).unwrap();
            write(weight(slice), format!("default {says}\n")).unwrap();
            let mark = (File::IoWeight, format!("/{slice}"));
            let written = Written {
                number: 500,
                funding: 100,
                before: None,
            };
            marks.push((mark.clone(), Some(written)));
            told.push((mark, vec![434, 500]));
        }
        store.set_marks(&marks, &told).unwrap();
        let root = Root::open_any(&tree).unwrap();
        write(tree.join("io.cost.qos"), "").unwrap();
        let mut disk = Disk::new(dir.path());
        disk.look(&root);
        let systemd = PropertySync::default();
        let said = (SystemdValues::new(store.told().unwrap()), vec![]);
        let done = give_back_told(&root, &mut store, &disk, Some(&systemd), said).unwrap();
        assert_eq!((done.files, done.trouble), (1, vec![]));
        let says = |slice: &str| read_to_string(weight(slice)).unwrap();
        assert_eq!(says("a.slice"), "default 100\n");
        // That is nothing of tixd's.
        assert_eq!(says("b.slice"), "default 77\n");
        // systemd may set all of these until it has been told the last: of the second that is what
        // others set.
        let numbers: Vec<_> = store.told().unwrap().into_iter().map(|t| t.1).collect();
        assert_eq!(numbers, [[434, 500, 100], [434, 500, 77]]);
    }
}
