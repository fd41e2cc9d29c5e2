// SPDX-License-Identifier: GPL-2.0-only
//! Calls of the kernel side's control programs, and reads of its maps.

use crate::{Error, sys};
use bytemuck::Pod;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::os::fd::OwnedFd;

/// Runs a pinned SEC("syscall") program on `args`, in place.
pub(crate) fn call(
    program: &OwnedFd,
    args: &mut impl Pod,
    what: &'static str,
) -> Result<(), Error> {
    let ret = sys::run(program, args);
    if ret < 0 {
        return Err(Error::Call {
            what,
            source: libbpf_rs::Error::from_raw_os_error(-ret),
        });
    }
    Ok(())
}

pub(crate) fn check(err: i32, what: &'static str) -> Result<(), Error> {
    if err == 0 {
        Ok(())
    } else {
        Err(Error::Refused { what, errno: -err })
    }
}

pub(crate) fn read_only_value(map: &MapHandle) -> Result<Vec<u8>, Error> {
    map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map(Option::unwrap_or_default)
        .map_err(|source| Error::Call {
            what: "cannot read a map",
            source,
        })
}
