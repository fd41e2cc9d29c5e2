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
    follower.look_again("/a/b").unwrap();
    told(&[("/a/b/c", false), ("/a/b", false)]);
}

/// Whoever makes a cgroup writes its weight at once: perhaps when it has just been read.
#[test]
fn a_weight_that_is_written_while_a_new_cgroup_is_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let open = OFlags::DIRECTORY | OFlags::RDONLY;
    let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
    fill(&top);
    cgroup(&top, b"a");
    // That this is no number is told between the reads of both files.
    std::fs::write(dir.path().join("a/io.weight"), "many\n").unwrap();
    let weights = std::cell::RefCell::new(Vec::new());
    let mut is_written = false;
    let tell = |change| {
        match change {
            Change::Trouble { path, .. } if !is_written => {
                assert_eq!(path, "/a");
                std::fs::write(dir.path().join("a/cpu.weight"), "300\n").unwrap();
                is_written = true;
            }
            Change::Here { path, weight, .. } if path == "/a" => weights.borrow_mut().push(weight),
            _ => {}
        }
        true
    };
    let mut follower = Follower::new(Root::open_any(dir.path()).unwrap(), tell).unwrap();
    follower.list("/").unwrap();
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let changed = follower.drain(&mut buffer).unwrap();
    for path in &changed.dirs {
        follower.look_at_written(path).unwrap();
    }
    assert_eq!(*weights.borrow(), [100, 300]);
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

/// Whoever says again and again what a cgroup gives has tixd list nothing for it.
#[test]
fn what_is_said_again_is_not_listed_again() {
    const MANY: u64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let open = OFlags::DIRECTORY | OFlags::RDONLY;
    let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
    fill(&top);
    let a = cgroup(&top, b"a");
    for n in 0..MANY {
        cgroup(&a, n.to_string().as_bytes());
    }
    let gone = std::cell::Cell::new(0);
    let tell = |change| {
        gone.set(gone.get() + u64::from(matches!(change, Change::Gone { .. })));
        true
    };
    let mut follower = Follower::new(Root::open_any(dir.path()).unwrap(), tell).unwrap();
    follower.list("/").unwrap();
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    // In one piece: nobody reads an empty file.
    let file = dir.path().join("a/cgroup.subtree_control");
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let mut says = |follower: &mut Follower<_>, what: &str| {
        use std::os::unix::fs::FileExt;
        file.write_all_at(what.as_bytes(), 0).unwrap();
        let changed = follower.drain(&mut buffer).unwrap();
        assert!(changed.switches.contains("/a"));
        let before = follower.listings;
        follower.look_at_switches(changed.switches).unwrap();
        follower.listings - before
    };
    for _ in 0..1000 {
        assert_eq!(says(&mut follower, "cpu\n"), 0);
    }
    assert_eq!((says(&mut follower, "pid\n"), gone.get()), (1, MANY));
    // That took some time, and it is not done again before it is time.
    let put_off = |follower: &mut Follower<_>, by| {
        let known = follower.known.get_mut("/a").unwrap();
        assert!(known.not_before.is_some());
        known.not_before = Some(Instant::now() + by);
    };
    put_off(&mut follower, Duration::from_secs(3600));
    for what in ["cpu\n", "pid\n", "cpu\n"] {
        assert_eq!(says(&mut follower, what), 0);
    }
    assert!(follower.pause().unwrap() > Duration::ZERO);
    put_off(&mut follower, Duration::ZERO);
    follower.look_at_switches(BTreeSet::new()).unwrap();
    assert_eq!(follower.pause(), None);
    assert_eq!(follower.known.len() as u64, 2 + MANY);
    // A child that was looked at while it was off has the parent listed by the next word.
    let weight = dir.path().join("a/0/cpu.weight");
    let text = std::fs::read(&weight).unwrap();
    std::fs::remove_file(&weight).unwrap();
    follower.look_again("/a/0").unwrap();
    std::fs::write(&weight, text).unwrap();
    put_off(&mut follower, Duration::ZERO);
    assert_eq!(says(&mut follower, "cpu\n"), 1 + MANY);
    assert_eq!(follower.known.len() as u64, 2 + MANY);
}

/// A number that is written back before anybody looked is said: tixd's own has stood there in
/// between. Written a thousand times, it is said once and then when it is time.
#[test]
fn what_was_written_back_is_said_and_not_as_often_as_it_is_written() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let open = OFlags::DIRECTORY | OFlags::RDONLY;
    let top = openat(CWD, dir.path(), open, Mode::empty()).unwrap();
    fill(&top);
    cgroup(&top, b"a");
    let said = std::cell::RefCell::new(Vec::new());
    let tell = |change| {
        if let Change::Here { path, weight, .. } = change {
            said.borrow_mut().push((path, weight));
        }
        true
    };
    let mut follower = Follower::new(Root::open_any(dir.path()).unwrap(), tell).unwrap();
    follower.list("/").unwrap();
    said.take();
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let file = dir.path().join("a/cpu.weight");
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let mut looks = |follower: &mut Follower<_>| {
        let dirs = follower.drain(&mut buffer).unwrap().dirs;
        let looked = dirs.iter().try_for_each(|d| follower.look_at_written(d));
        looked.unwrap();
    };
    for n in 0..1000 {
        file.write_all_at(b"300\n", 0).unwrap();
        file.write_all_at(b"100\n", 0).unwrap();
        looks(&mut follower);
        if n == 0 {
            let known = follower.known.get_mut("/a").unwrap();
            known.said = Some(Instant::now() + Duration::from_secs(3600));
        }
    }
    assert_eq!(said.take(), [("/a".into(), 100)]);
    assert!(follower.pause().unwrap() > Duration::from_secs(3600));
    follower.known.get_mut("/a").unwrap().said = None;
    follower.say_again().unwrap();
    assert_eq!(said.take(), [("/a".into(), 100)]);
    assert_eq!(follower.pause(), None);
}
