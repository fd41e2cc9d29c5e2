// SPDX-License-Identifier: GPL-2.0-only
//! What the libraries have no safe function for. No other module may contain unsafe code.
#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// NGROUPS_MAX.
const MOST_GROUPS: usize = 65_536;

/// The supplementary groups that the other end of a socket had when it connected. Not from /proc:
/// the process may be another by now.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = libc::socklen_t::try_from(groups.len() * 4).unwrap_or(0);
        // SAFETY: the kernel writes at most `bytes` bytes to `groups`, which has that many, and
        // says how many there are.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut bytes,
            )
        } != 0;
        let n = usize::try_from(bytes).unwrap_or(0) / 4;
        if !failed {
            groups.truncate(n);
            return Ok(groups);
        }
        let e = Error::last_os_error();
        if e.raw_os_error() != Some(libc::ERANGE) || n <= groups.len() || n > MOST_GROUPS {
            return Err(e);
        }
        groups.resize(n, 0);
    }
}

/// The sockets that systemd has for this process, each with its name. The second time in a process
/// there are none.
pub fn passed() -> Result<Vec<(String, OwnedFd)>> {
    let sockets = sd_notify::listen_fds_with_names(true)?;
    // SAFETY: the descriptors were passed to this process, for whoever asks for them, which the
    // variables let nobody do again.
    let owned = sockets.map(|(fd, name)| (name, unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok(owned.collect())
}
