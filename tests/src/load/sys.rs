// SPDX-License-Identifier: GPL-2.0-only
//! The system calls that the standard library does not offer, each with an error that says what failed.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

fn clock(id: libc::clockid_t) -> Result<u64> {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` outlives the call.
    let rc = unsafe { libc::clock_gettime(id, &mut ts) };
    ensure!(rc == 0, "clock {id}: {}", Error::last_os_error());
    Ok(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// CPU time of another process in nanoseconds, exact while it runs on another CPU
/// (the clock id is the kernel's own encoding: inverted pid, process-wide, scheduler time).
pub fn cpu_ns(pid: i32) -> Result<u64> {
    clock((!pid << 3) | 2).with_context(|| format!("CPU time of process {pid}"))
}

/// Sleep until CLOCK_MONOTONIC reads `at`.
pub fn sleep_until(at: u64) {
    let ts = libc::timespec {
        tv_sec: (at / 1_000_000_000) as i64,
        tv_nsec: (at % 1_000_000_000) as i64,
    };
    // SAFETY: `ts` outlives the call. An interrupted sleep is taken up again.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &ts,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Sleep for so many nanoseconds.
pub fn sleep(ns: u64) {
    sleep_until(now() + ns);
}

/// Become SCHED_FIFO with a priority; children start as ordinary threads again.
pub fn become_fifo(priority: i32) -> Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` outlives the call.
    let rc = unsafe { libc::sched_setscheduler(0, policy, &param) };
    ensure!(rc == 0, "SCHED_FIFO: {}", Error::last_os_error());
    Ok(())
}

/// Set the scheduling policy of `pid`: SCHED_FIFO at priority 1, or ordinary.
pub fn set_fifo(pid: i32, fifo: bool) -> Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(fifo),
    };
    let policy = if fifo {
        libc::SCHED_FIFO
    } else {
        libc::SCHED_OTHER
    };
    // SAFETY: `param` outlives the call.
    let rc = unsafe { libc::sched_setscheduler(pid, policy, &param) };
    ensure!(rc == 0, "policy of {pid}: {}", Error::last_os_error());
    Ok(())
}

/// Restrict `pid` (0: the caller) to these CPUs.
pub fn set_cpus(pid: i32, cpus: &[usize]) -> Result<()> {
    // SAFETY: the set is plain data and outlives the call.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(pid, size_of_val(&set), &set)
    };
    ensure!(
        rc == 0,
        "bind {pid} to {cpus:?}: {}",
        Error::last_os_error()
    );
    Ok(())
}

/// Set the nice value of `pid`.
pub fn set_nice(pid: i32, nice: i32) -> Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid as u32, nice) };
    ensure!(rc == 0, "nice {nice} of {pid}: {}", Error::last_os_error());
    Ok(())
}

/// CPUs that are online.
pub fn cpus() -> usize {
    // SAFETY: no memory is passed.
    (unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).max(1) as usize
}

/// Wait while `word` is `value`; returns at once if it is not.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the word lives in a shared mapping that outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Change `word` to `value` and wake everybody who waits on it.
pub fn futex_open(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    // SAFETY: the word lives in a shared mapping that outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Fork into the cgroup whose directory is `cgroup`. Returns 0 in the child.
pub fn fork(cgroup: Option<&std::fs::File>) -> Result<i32> {
    #[repr(C)]
    #[derive(Default)]
    struct CloneArgs {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let args = CloneArgs {
        flags: if cgroup.is_some() {
            CLONE_INTO_CGROUP
        } else {
            0
        },
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.map_or(0, |f| f.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    // SAFETY: a plain fork (no shared memory, no new stack) of a program with one thread; the child
    // runs no code that depends on what the C library does around fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) };
    ensure!(pid >= 0, "fork: {}", Error::last_os_error());
    Ok(pid as i32)
}

/// A pipe: the end to read and the end to write.
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, owned from here on.
    unsafe {
        ensure!(
            libc::pipe2(fds.as_mut_ptr(), 0) == 0,
            "pipe: {}",
            Error::last_os_error()
        );
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Allow many open files: pipes of thousands of pairs.
pub fn raise_file_limit(files: u64) -> Result<()> {
    let limit = libc::rlimit {
        rlim_cur: files,
        rlim_max: files,
    };
    // SAFETY: `limit` outlives the call.
    let rc = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    ensure!(rc == 0, "{files} open files: {}", Error::last_os_error());
    Ok(())
}

/// Context switches since boot, on all CPUs.
pub fn switches() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    stat.lines()
        .find_map(|l| l.strip_prefix("ctxt "))
        .and_then(|v| v.parse().ok())
        .context("no ctxt line in /proc/stat")
}

/// A counter of a process's `sched` file, such as `se.nr_migrations` or `nr_switches`.
pub fn sched_counter(pid: i32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/sched");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    text.lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .and_then(|(_, v)| v.trim().parse().ok())
        .with_context(|| format!("no {name} in {path}"))
}

/// The running kernel's release.
pub fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned()
}
