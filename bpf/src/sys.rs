// SPDX-License-Identifier: GPL-2.0-only
//! What the libraries have no safe function for. No other module may contain unsafe code, but for
//! what is generated.
#![allow(unsafe_code)]

use bytemuck::Pod;
use libbpf_rs::libbpf_sys::{
    BPF_STRUCT_OPS, BPF_TRACE_RAW_TP, bpf_link_create, bpf_obj_pin, bpf_prog_test_run_opts,
    bpf_test_run_opts,
};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Runs a SEC("syscall") program on `args`, in place; the kernel's error, negative, or 0.
pub fn run(program: &OwnedFd, args: &mut impl Pod) -> i32 {
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        ..Default::default()
    };
    let bytes = bytemuck::bytes_of_mut(args);
    // The kernel writes back into ctx_in; ctx_out is refused for programs of this type.
    opts.ctx_in = bytes.as_mut_ptr().cast();
    opts.ctx_size_in = bytes.len() as u32;
    // SAFETY: opts points at `bytes`, which lives until after the call.
    unsafe { bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &mut opts) }
}

/// What is attached again.
#[derive(Debug, Clone, Copy)]
pub enum Attached {
    /// The map of a scheduler's operations.
    StructOps,
    /// A program for a tracepoint.
    Tracepoint,
}

/// Attaches what has been loaded, and pins the link at `path`.
pub fn attach(what: BorrowedFd<'_>, kind: Attached, path: &Path) -> io::Result<()> {
    let kind = match kind {
        Attached::StructOps => BPF_STRUCT_OPS,
        Attached::Tracepoint => BPF_TRACE_RAW_TP,
    };
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: no memory is passed: there are no options.
    let fd = unsafe { bpf_link_create(what.as_raw_fd(), 0, kind, std::ptr::null()) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just made it for us alone.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `path` is a string that lives until after the call.
    match unsafe { bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) } {
        0 => Ok(()),
        err => Err(io::Error::from_raw_os_error(-err)),
    }
}

/// CPUs that are online, as the C library says.
pub fn online_cpus() -> i64 {
    // SAFETY: no memory is passed.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }
}
