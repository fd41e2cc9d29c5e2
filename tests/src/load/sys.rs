// SPDX-License-Identifier: GPL-2.0-only
//! The system calls that the standard library does not offer, each with an error that says what failed. No other module may contain unsafe
//! code.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Error;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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

/// The policy of who asks for a sched_ext scheduler (linux/sched.h).
pub const SCHED_EXT: i32 = 7;

/// Set the scheduling policy of `pid`, and the priority that a real-time one has.
pub fn set_policy(pid: i32, policy: i32, priority: i32) -> Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` outlives the call.
    let rc = unsafe { libc::sched_setscheduler(pid, policy, &param) };
    ensure!(rc == 0, "policy of {pid}: {}", Error::last_os_error());
    Ok(())
}

/// Whether this kernel has core scheduling (CONFIG_SCHED_CORE) at all.
pub fn has_cookies() -> Result<bool> {
    let mut mine = 0u64;
    match cookie(libc::PR_SCHED_CORE_GET, 0, Some(&mut mine)) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(e) => Err(e).context("has this CPU siblings?"),
    }
}

/// Give `pid`, one thread, a cookie that nobody else has.
pub fn new_cookie(pid: i32) -> Result<()> {
    cookie(libc::PR_SCHED_CORE_CREATE, pid, None).with_context(|| format!("a cookie for {pid}"))
}

/// Have the cookie that `pid` has.
pub fn share_cookie(pid: i32) -> Result<()> {
    cookie(libc::PR_SCHED_CORE_SHARE_FROM, pid, None)
        .with_context(|| format!("the cookie of {pid}"))
}

fn cookie(how: i32, pid: i32, to: Option<&mut u64>) -> Result<(), Error> {
    /// PR_SCHED_CORE_SCOPE_THREAD
    const THREAD: libc::c_ulong = 0;
    let to = to.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: `to` is nothing, or outlives the call.
    let rc = unsafe {
        let (how, pid) = (how as libc::c_ulong, pid as libc::c_ulong);
        libc::prctl(libc::PR_SCHED_CORE, how, pid, THREAD, to)
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(Error::last_os_error())
    }
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

/// Set the nice value of every thread of user `uid`.
pub fn set_nice_of_all(uid: u32, nice: i32) -> Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::setpriority(libc::PRIO_USER, uid, nice) };
    ensure!(
        rc == 0,
        "nice {nice} of user {uid}: {}",
        Error::last_os_error()
    );
    Ok(())
}

/// Be user `uid` from now on.
pub fn become_user(uid: u32) -> Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::setresuid(uid, uid, uid) };
    ensure!(rc == 0, "become user {uid}: {}", Error::last_os_error());
    Ok(())
}

/// Wait until all who read by RCU now are done (synchronize_rcu); on one CPU the kernel has no need to.
pub fn wait_for_grace_period() -> Result<()> {
    /// MEMBARRIER_CMD_GLOBAL
    const GLOBAL: libc::c_int = 1;
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    ensure!(rc == 0, "membarrier: {}", Error::last_os_error());
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

/// What processes may share.
///
/// # Safety
/// It is made of atomic integers and nothing else.
pub unsafe trait Cells {}

// SAFETY: as it is declared.
unsafe impl Cells for super::board::Head {}
// SAFETY: likewise.
unsafe impl Cells for super::board::Slot {}

/// Memory shared with the processes forked from this one: a head, and slots.
pub struct Shared<H: Cells, S: Cells> {
    base: *mut u8,
    slots: usize,
    of: PhantomData<(H, S)>,
}

impl<H: Cells, S: Cells> Shared<H, S> {
    const FITS: () =
        assert!(size_of::<H>() <= size_of::<S>() && align_of::<H>() <= align_of::<S>());

    fn bytes(slots: usize) -> usize {
        // The head has the room of one slot.
        (slots + 1) * size_of::<S>()
    }

    /// All of it 0.
    pub fn new(slots: usize) -> Result<Self> {
        let () = Self::FITS;
        let bytes = Self::bytes(slots);
        // SAFETY: a new anonymous mapping, zeroed, which is a valid head and valid slots.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(
            base != libc::MAP_FAILED,
            "share {bytes} bytes: {}",
            Error::last_os_error()
        );
        Ok(Self {
            base: base.cast(),
            slots,
            of: PhantomData,
        })
    }

    pub fn head(&self) -> &H {
        // SAFETY: the mapping starts with room for one slot, which the head fits into.
        unsafe { &*self.base.cast::<H>() }
    }

    pub fn slots(&self) -> &[S] {
        // SAFETY: so many slots follow the first one's room; all fields are atomic.
        unsafe { std::slice::from_raw_parts(self.base.cast::<S>().add(1), self.slots) }
    }
}

impl<H: Cells, S: Cells> Drop for Shared<H, S> {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own.
        unsafe { libc::munmap(self.base.cast(), Self::bytes(self.slots)) };
    }
}

/// Map so many new bytes of memory, touch each page of them, and give them back.
pub fn touch_new(bytes: usize) -> Result<()> {
    let (rights, how) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, which nobody else knows of, and of which nothing is left in the end.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), bytes, rights, how, -1, 0);
        ensure!(base != libc::MAP_FAILED, "map {bytes} bytes");
        for at in (0..bytes).step_by(4096) {
            base.cast::<u8>().add(at).write_volatile(1);
        }
        libc::munmap(base, bytes);
    }
    Ok(())
}

/// Do nothing when SIGUSR1 comes, but be told.
pub fn catch_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler touches nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as libc::sighandler_t) };
}

/// Send SIGUSR1 to the caller's process: to any of its threads.
pub fn signal_own() {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
}

/// This process's number.
pub fn own_pid() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::getpid() }
}

/// End with `parent`, which may be gone already.
pub fn die_with(parent: i32) {
    // SAFETY: no memory is passed.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

/// End without running the parent's destructors.
pub fn leave() -> ! {
    // SAFETY: no memory is passed.
    unsafe { libc::_exit(0) }
}

/// Send a signal to a child that is not reaped yet.
pub fn signal(child: i32, signal: i32) {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(child, signal) };
}

/// Wait for a child to end.
pub fn reap(pid: i32) -> Result<()> {
    // SAFETY: asks for no status.
    let got = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    ensure!(got == pid, "wait for {pid}: {}", Error::last_os_error());
    Ok(())
}

/// Reap any child; false if there is none, or, unless it is to `wait`, none that has ended.
pub fn reap_any(wait: bool) -> bool {
    let how = if wait { 0 } else { libc::WNOHANG };
    // SAFETY: asks for no status.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), how) > 0 }
}

/// Gives whole pages of memory back, which are zero from then on.
pub fn give_back(pages: &mut [u8]) -> Result<()> {
    let (at, len) = (pages.as_mut_ptr().cast(), pages.len());
    // SAFETY: nobody else has them, and zeros are bytes like others.
    let done = unsafe { libc::madvise(at, len, libc::MADV_DONTNEED) };
    ensure!(done == 0, "give memory back: {}", Error::last_os_error());
    Ok(())
}

/// Write one byte to an open descriptor.
pub fn give(fd: RawFd) -> bool {
    // SAFETY: one byte of a constant is read.
    unsafe { libc::write(fd, [0u8; 1].as_ptr().cast(), 1) == 1 }
}

/// Read one.
pub fn take(fd: RawFd) -> bool {
    let mut byte = [0u8; 1];
    // SAFETY: room for one byte.
    unsafe { libc::read(fd, byte.as_mut_ptr().cast(), 1) == 1 }
}

/// Set a variable that programs started from now on have; called before there is another thread.
pub fn set_variable(name: &str, value: &str) {
    // SAFETY: no thread but this one reads the environment yet.
    unsafe { std::env::set_var(name, value) };
}

/// A counter of the kernel's own events of this number on one CPU.
pub fn software_event(number: u64, cpu: usize) -> Result<File> {
    /// The first version of the kernel's perf_event_attr is enough.
    #[repr(C)]
    struct Attr {
        kind: u32,
        size: u32,
        config: u64,
        rest: [u64; 6],
    }
    const SOFTWARE: u32 = 1;
    let attr = Attr {
        kind: SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: number,
        rest: [0; 6],
    };
    // SAFETY: `attr` outlives the call and carries its own size; the descriptor is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_perf_event_open, &attr, -1, cpu as i32, -1, 0);
        ensure!(fd >= 0, "{}", Error::last_os_error());
        Ok(File::from_raw_fd(fd as i32))
    }
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
