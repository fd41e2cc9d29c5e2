// SPDX-License-Identifier: GPL-2.0-only
//! A part of tixd that is dead ends tixd, which says which.

use crate::server::Tixd;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

/// The descriptors of `tixd` that are links to `what`, in both processes.
fn descriptors(tixd: &Tixd, what: &str) -> Vec<OwnedFd> {
    let pid = Pid::from_child(&tixd.child);
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let dir = format!("/proc/{}/fd", tixd.child.id());
    let all = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let fits = all.filter(|fd| {
        let link = std::fs::read_link(fd.path()).unwrap_or_default();
        link.to_string_lossy().starts_with(what)
    });
    let number = |name: std::ffi::OsString| name.to_str().unwrap().parse().unwrap();
    fits.map(|fd| pidfd_getfd(&process, number(fd.file_name()), PidfdGetfdFlags::empty()).unwrap())
        .collect()
}

/// How it ended, and what it said.
fn end(mut tixd: Tixd) -> (Option<i32>, String) {
    let latest = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = tixd.child.try_wait().unwrap() {
            return (status.code(), tixd.said());
        }
        assert!(Instant::now() < latest, "tixd lives on without it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_the_follower_of_cgroups_it_ends() {
    let tixd = Tixd::start();
    tixd.connect().call("Status", serde_json::json!({}));
    // The root is the first that is watched.
    let [inotify] = &descriptors(&tixd, "anon_inode:inotify")[..] else {
        panic!("one follower has one");
    };
    inotify::remove_watch(inotify, 1).unwrap();
    let (code, said) = end(tixd);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the follower of cgroups has ended"), "{said}");
}

/// systemd passes it a socket that nobody can connect to.
#[test]
fn without_the_api_server_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let flags = SockFlag::SOCK_CLOEXEC;
    let deaf = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    let pass = "exec 3<&0 0</dev/null; LISTEN_PID=$$ exec \"$0\" \"$@\"";
    let tixd = Tixd::command(&dir);
    let child = Command::new("sh")
        .args(["-c", pass])
        .arg(tixd.get_program())
        .args(tixd.get_args())
        .envs([("LISTEN_FDS", "1"), ("LISTEN_FDNAMES", "everybody")])
        .stdin(deaf)
        .stderr(File::create(dir.path().join("said")).unwrap())
        .spawn()
        .unwrap();
    let (code, said) = end(Tixd { child, dir });
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the API server has ended"), "{said}");
    assert!(said.contains("everybody's socket"), "{said}");
}
