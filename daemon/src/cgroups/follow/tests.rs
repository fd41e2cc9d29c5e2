// SPDX-License-Identifier: GPL-2.0-only
//! A tree of directories, and what is told of it.

use super::*;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A cgroup as the follower sees one, which gives cpu to its children.
fn cgroup(parent: &OwnedFd, name: &[u8]) -> OwnedFd {
    let name = OsStr::from_bytes(name);
    mkdirat(parent, name, Mode::RWXU).unwrap();
    let dir = openat(
        parent,
        name,
        OFlags::DIRECTORY | OFlags::RDONLY,
        Mode::empty(),
    )
    .unwrap();
    fill(&dir);
    dir
}

fn fill(dir: &OwnedFd) {
    for (file, text) in [("cpu.weight", "100\n"), ("cgroup.subtree_control", "cpu\n")] {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let fd = openat(dir, file, flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&fd, text.as_bytes()).unwrap();
    }
}

/// What is told of the tree in `dir`, and whether all of it is watched.
fn told(dir: &Path) -> (Vec<String>, Vec<(String, String)>, bool) {
    let (mut here, mut trouble) = (Vec::new(), Vec::new());
    let tell = |change| {
        match change {
            Change::Here { path, .. } => here.push(path),
            Change::Trouble { path, what } => trouble.push((path, what)),
            _ => {}
        }
        true
    };
    let mut follower = Follower::new(Root::open_any(dir).unwrap(), tell).unwrap();
    follower.list("/").unwrap();
    let watched = !follower.blind && follower.known.values().all(|k| k.wd.is_some());
    (here, trouble, watched)
}

#[test]
fn whoever_digs_deep_is_followed_so_far_and_nobody_else_suffers() {
    for name in [&b"d"[..], &[b'd'; 200]] {
        let dir = tempfile::tempdir().unwrap();
        let open = OFlags::DIRECTORY | OFlags::RDONLY;
        let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
        fill(&top);
        cgroup(&top, b"z");
        let mut at = cgroup(&top, b"a");
        for _ in 0..3000 {
            at = cgroup(&at, name);
        }
        let (here, trouble, watched) = told(dir.path());
        assert!(here.contains(&"/z".to_owned()) && watched);
        let deepest = here.iter().map(|p| p.matches('/').count()).max().unwrap();
        let longest = here.iter().map(String::len).max().unwrap();
        assert!(
            (10..=DEEPEST).contains(&deepest) && longest <= LONGEST,
            "{deepest}, {longest}"
        );
        assert_eq!(trouble.len(), 1, "{trouble:?}");
        assert!(here.contains(&trouble[0].0), "{trouble:?}");
    }
}

/// What is told of the cgroups that go, in the order in which it is.
#[test]
fn a_cgroup_without_the_controller_is_there_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let open = OFlags::DIRECTORY | OFlags::RDONLY;
    let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
    fill(&top);
    let a = cgroup(&top, b"a");
    cgroup(&cgroup(&a, b"b"), b"c");
    let gone = std::cell::RefCell::new(Vec::new());
    let tell = |change| {
        match change {
            Change::Gone { path, is_there } => gone.borrow_mut().push((path, is_there)),
            Change::Here { path, .. } => gone.borrow_mut().push((path, true)),
            _ => {}
        }
        true
    };
    let mut follower = Follower::new(Root::open_any(dir.path()).unwrap(), tell).unwrap();
    let told = |paths: &[(&str, bool)]| {
        let told: Vec<(String, bool)> = gone.take();
        let told: Vec<(&str, bool)> = told.iter().map(|(p, is)| (p.as_str(), *is)).collect();
        assert_eq!(told, paths);
    };
    follower.list("/").unwrap();
    told(&[("/", true), ("/a", true), ("/a/b", true), ("/a/b/c", true)]);
    let gives = |path: &str, what: &str| {
        let file = dir.path().join(path).join("cgroup.subtree_control");
        std::fs::write(file, what).unwrap();
    };
    gives("a", "memory\n");
    follower.list("/a").unwrap();
    told(&[("/a/b/c", true), ("/a/b", true)]);
    // Nothing has changed.
    follower.list("/a").unwrap();
    told(&[]);
    gives("a", "cpu memory\n");
    follower.list("/a").unwrap();
    told(&[("/a/b", true), ("/a/b/c", true)]);
    // Removed while it is without.
    gives("a", "\n");
    follower.list("/a").unwrap();
    told(&[("/a/b/c", true), ("/a/b", true)]);
    std::fs::remove_dir_all(dir.path().join("a/b")).unwrap();
    follower.look_again("/a/b", false).unwrap();
    told(&[("/a/b/c", false), ("/a/b", false)]);
}

#[test]
fn a_name_that_is_no_text_is_the_kernels_alone() {
    let dir = tempfile::tempdir().unwrap();
    let open = OFlags::DIRECTORY | OFlags::RDONLY;
    let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
    fill(&top);
    cgroup(&top, b"a\xff");
    cgroup(&top, b"b\x1b[2J");
    assert_eq!(
        told(dir.path()),
        (vec!["/".into(), "/b\u{1b}[2J".into()], vec![], true)
    );
}
