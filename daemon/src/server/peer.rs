// SPDX-License-Identifier: GPL-2.0-only
//! Who is at the other end of a connection, as the kernel said when it connected.

use crate::sys;
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use tix_ledger::Caller;
use tokio::net::UnixStream;

/// Uid, groups, and process.
pub fn of(stream: &UnixStream) -> std::io::Result<(Caller, Process)> {
    let peer = stream.peer_cred()?;
    let process = Process {
        pid: peer.pid().unwrap_or(0),
        fd: getsockopt(stream, PeerPidfd).ok(),
    };
    let caller = Caller {
        uid: peer.uid(),
        gid: peer.gid(),
        groups: sys::peer_groups(stream.as_fd())?,
        user: None,
        place: match peer.uid() {
            0 => process.cgroup(),
            _ => None,
        },
    };
    Ok((caller, process))
}

/// The process that connected. Its number may be another's by the time it is of interest.
#[derive(Debug, Default)]
pub struct Process {
    /// 0: not known, or not to be seen from here.
    pid: i32,
    /// What tells it from another of that number; Linux 6.5 and later have it.
    fd: Option<OwnedFd>,
}

impl Process {
    /// The cgroup that it is in, if it is still there.
    pub fn cgroup(&self) -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).ok()?;
        let path = text.lines().find_map(|l| l.strip_prefix("0::"))?;
        // Looked at afterwards: what was read until now was its own.
        (!self.has_ended()).then(|| path.to_owned())
    }

    fn has_ended(&self) -> bool {
        let Some(fd) = &self.fd else { return false };
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    const SOCKET: &str = "TIX_TEST_SOCKET";

    /// What the next test starts: connects, and lives until its standard input is closed.
    #[test]
    #[ignore = "another test starts it"]
    fn connects() {
        let Some(path) = std::env::var_os(SOCKET) else {
            return;
        };
        let _stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn a_number_that_may_be_anothers_by_now_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::bind(&path).unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "server::peer::tests::connects", "--ignored"])
                .env(SOCKET, &path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let (caller, process) = of(&stream).unwrap();
            assert_eq!(caller.uid, rustix::process::getuid().as_raw());
            assert_eq!(process.pid, i32::try_from(child.id()).unwrap());
            let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
            let own = own.lines().find_map(|l| l.strip_prefix("0::"));
            assert_eq!(process.cgroup().as_deref(), own);
            drop(child.stdin.take());
            child.wait().unwrap();
            // As if another process had its number: this one is there, so all that is read of it is
            // read.
            let pid = i32::try_from(std::process::id()).unwrap();
            let reused = Process { pid, ..process };
            if reused.fd.is_some() {
                assert_eq!(reused.cgroup(), None);
            }
        });
    }
}
