// SPDX-License-Identifier: GPL-2.0-only
//! Where tixd is asked: at sockets that systemd has made (`tixd.socket`, `tixd-root.socket`), or at
//! its own where systemd passes none.
//!
//! What systemd made it keeps while tixd is away: who connects then is not refused, but waits for
//! the next tixd.

use crate::sys;
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as Socket, UnixStream};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// What the sockets are called by `FileDescriptorName=` in the units.
const NAMES: [&str; 2] = ["everybody", "root"];

/// What each may do is decided by who the kernel says they are.
pub struct Doors {
    pub(super) everybody: Door,
    /// For root alone, who does not queue behind those who connect as fast as they can.
    pub(super) root: Door,
}

impl Doors {
    /// Those that systemd passes; and of the others `path`, open for everybody, and root's beside
    /// it. The second time in a process none are passed.
    ///
    /// # Errors
    /// If another tixd serves at `path`, or the sockets cannot be made or used.
    pub fn open(path: &Path) -> Result<Doors> {
        let mut passed: HashMap<String, OwnedFd> = sys::passed()?.into_iter().collect();
        let [everybody, root] = NAMES.map(|name| passed.remove(name));
        for (name, _) in passed {
            tracing::warn!(
                "systemd passes a socket called {name:?}, which nobody is asked at: \
                 FileDescriptorName= is to be one of {NAMES:?}"
            );
        }
        Ok(Doors {
            everybody: Door::open(everybody, path, 0o666)?,
            root: Door::open(root, &tix_api::root_socket(path), 0o600)?,
        })
    }
}

pub(super) struct Door {
    pub listener: UnixListener,
    /// It is ours to remove.
    made: Option<PathBuf>,
}

impl Door {
    fn open(passed: Option<OwnedFd>, path: &Path, mode: u32) -> Result<Door> {
        let (socket, made) = match passed {
            Some(socket) => (Socket::from(socket), None),
            None => (make(path, mode)?, Some(path.to_owned())),
        };
        socket.set_nonblocking(true)?;
        Ok(Door {
            listener: UnixListener::from_std(socket)?,
            made,
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // Fails if somebody else removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn make(path: &Path, mode: u32) -> Result<Socket> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    match UnixStream::connect(path) {
        Ok(_) => {
            return Err(Error::new(
                ErrorKind::AddrInUse,
                format!(
                    "{}: another tixd is serving there; stop it first",
                    path.display()
                ),
            ));
        }
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let socket = Socket::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn its_own_sockets_go_with_it_and_what_is_left_of_others_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/tixd.sock");
        let (doors, root) = (Doors::open(&path).unwrap(), tix_api::root_socket(&path));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&root)), (0o666, 0o600));
        let Err(second) = Doors::open(&path) else {
            panic!("two serve at one socket");
        };
        assert!(second.to_string().contains("another tixd"), "{second}");
        drop(doors);
        assert!(!path.exists() && !root.exists());
        drop(Socket::bind(&path).unwrap());
        assert!(path.exists());
        Doors::open(&path).unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_socket_that_was_passed_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passed.sock");
        let passed = Socket::bind(&path).unwrap();
        let door = Door::open(Some(passed.into()), Path::new("/nonexistent"), 0o600).unwrap();
        let _asks = UnixStream::connect(&path).unwrap();
        assert!(door.listener.accept().await.is_ok());
        drop(door);
        assert!(path.exists());
    }
}
