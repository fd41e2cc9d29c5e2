// SPDX-License-Identifier: GPL-2.0-only
//! A file system layer for SQLite that writes down what it is asked to do, and fails, or ends the
//! process, where it is told to.
//!
//! It goes between SQLite and its own layer for Unix, for all databases of this process; those in a
//! directory that was not announced by [`Disk::at`] are let through as they are.
#![allow(unsafe_code)]

use rusqlite::ffi;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What was done to the files, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Write {
        file: String,
        at: usize,
        data: Vec<u8>,
    },
    Truncate {
        file: String,
        size: usize,
    },
    Sync {
        file: String,
    },
    Delete {
        file: String,
        /// The directory was synced after it.
        durable: bool,
    },
    /// Said by the test: this many commits are acknowledged.
    Acknowledged(u64),
}

/// How a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `ENOSPC`, with half of what was to be written on the disk.
    Full,
    /// `EIO`, with half of what was to be written on the disk.
    Short,
    /// `EIO`, with nothing done.
    Nothing,
    /// `EIO`, with all of it done.
    All,
}

#[derive(Default)]
pub struct State {
    pub steps: Vec<Step>,
    /// Steps so far that could have failed.
    pub count: u64,
    /// The steps that fail, by number.
    pub failing: Option<(std::ops::Range<u64>, Fault)>,
    /// The process ends in the middle of this one.
    pub kill_at: Option<u64>,
    /// A sync takes as long as this says.
    pub stalled: bool,
    /// Steps are only counted.
    pub forget: bool,
}

impl State {
    fn note(&mut self, step: Step) {
        if !self.forget {
            self.steps.push(step);
        }
    }

    /// Counts a step; says whether and how it fails.
    fn next(&mut self) -> Option<Fault> {
        let n = self.count;
        self.count += 1;
        match &self.failing {
            Some((which, fault)) if which.contains(&n) => Some(*fault),
            _ => None,
        }
    }

    fn killed_now(&self) -> bool {
        self.kill_at == Some(self.count)
    }
}

/// What goes on in one directory.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

static DISKS: OnceLock<Mutex<HashMap<PathBuf, Disk>>> = OnceLock::new();
static UNIX: OnceLock<Vfs> = OnceLock::new();

struct Vfs(*mut ffi::sqlite3_vfs);
// SAFETY: SQLite's own layer, which it keeps for ever and calls from any thread itself.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

thread_local! {
    static ERRNO: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) };
}

const ENOSPC: c_int = 28;
const EIO: c_int = 5;

impl Disk {
    /// From now on, what is done in `dir` is written down.
    pub fn at(dir: &Path) -> Disk {
        UNIX.get_or_init(register);
        let disk = Disk(Arc::default());
        let mut disks = DISKS.get_or_init(Mutex::default).lock().unwrap();
        disks.insert(dir.to_owned(), disk.clone());
        disk
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// From now on it is not any more.
    pub fn forget(dir: &Path) {
        let mut disks = DISKS.get_or_init(Mutex::default).lock().unwrap();
        disks.remove(dir);
    }

    fn of(name: *const c_char) -> Option<(Disk, String)> {
        if name.is_null() {
            return None;
        }
        // SAFETY: SQLite gives names that end with a zero and stay for the call.
        let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
        let path = Path::new(name);
        let disks = DISKS.get_or_init(Mutex::default).lock().unwrap();
        let disk = disks.get(path.parent()?)?.clone();
        let file = path.file_name()?.to_str()?.to_owned();
        Some((disk, file))
    }
}

/// An open file: SQLite's part first, then ours; that of the layer below follows in the same
/// allocation.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    on: Option<Box<(Disk, String)>>,
}

fn unix() -> *mut ffi::sqlite3_vfs {
    UNIX.get().unwrap().0
}

fn register() -> Vfs {
    // SAFETY: `below` is SQLite's default layer and stays for ever, as does `ours`, which is
    // leaked. Its methods are those of `below` except where they are replaced by ones of the same
    // meaning.
    unsafe {
        let below = ffi::sqlite3_vfs_find(std::ptr::null());
        let mut ours: ffi::sqlite3_vfs = std::ptr::read(below);
        ours.pNext = std::ptr::null_mut();
        ours.zName = c"recording".as_ptr();
        ours.szOsFile += c_int::try_from(size_of::<File>()).unwrap();
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        ours.xGetLastError = Some(last_error);
        assert_eq!(
            ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 1),
            ffi::SQLITE_OK
        );
        Vfs(below)
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The file of the layer below.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: szOsFile was made so that it follows.
    unsafe { file.cast::<File>().add(1).cast() }
}

unsafe fn on<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a (Disk, String)> {
    // SAFETY: `open` initialised it, and it lives until `close`.
    unsafe { (*file.cast::<File>()).on.as_deref() }
}

/// Calls the method of the layer below.
macro_rules! below {
    ($file:ident . $method:ident ( $($arg:expr),* )) => {{
        // SAFETY: the file below was opened by that layer, and its methods stay as long as it is
        // open.
        unsafe {
            let inner = inner($file);
            ((*(*inner).pMethods).$method.unwrap())(inner, $($arg),*)
        }
    }};
}

fn fail(code: c_int, fault: Fault) -> c_int {
    match fault {
        Fault::Full => {
            ERRNO.set(ENOSPC);
            if code == ffi::SQLITE_IOERR_WRITE {
                ffi::SQLITE_FULL
            } else {
                code
            }
        }
        _ => {
            ERRNO.set(EIO);
            code
        }
    }
}

fn die() -> ! {
    let me = rustix::process::getpid();
    // Nothing more is done by this process, whatever happens to be on its stack.
    rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
    loop {
        std::thread::park();
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives szOsFile bytes, of which the first are ours. pMethods says whether it is
    // to be closed.
    unsafe {
        let on = Disk::of(name).map(Box::new);
        let base = ffi::sqlite3_file {
            pMethods: std::ptr::null(),
        };
        std::ptr::write(file.cast::<File>(), File { base, on });
        let rc = ((*unix()).xOpen.unwrap())(unix(), name, inner(file), flags, out);
        if rc == ffi::SQLITE_OK {
            (*file).pMethods = &METHODS;
        } else {
            drop((*file.cast::<File>()).on.take());
        }
        rc
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let rc = below!(file.xClose());
    // SAFETY: `open` initialised it, and nothing uses it after this.
    drop(unsafe { (*file.cast::<File>()).on.take() });
    rc
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    if let Some((disk, file)) = Disk::of(name) {
        let mut s = disk.state();
        if s.killed_now() {
            die();
        }
        if let Some(fault) = s.next() {
            return fail(ffi::SQLITE_IOERR_DELETE, fault);
        }
        let durable = sync_dir != 0;
        s.note(Step::Delete { file, durable });
    }
    // SAFETY: handed on as it came.
    unsafe { ((*unix()).xDelete.unwrap())(unix(), name, sync_dir) }
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    ERRNO.get()
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    n: c_int,
    at: i64,
) -> c_int {
    let mut fault = None;
    let mut len = n;
    // SAFETY: see `on`.
    if let Some((disk, name)) = unsafe { on(file) } {
        let mut s = disk.state();
        if s.killed_now() {
            below!(file.xWrite(data, n / 2, at));
            die();
        }
        fault = s.next();
        len = match fault {
            Some(Fault::Full | Fault::Short) => n / 2,
            Some(Fault::Nothing) => 0,
            Some(Fault::All) | None => n,
        };
        let count = usize::try_from(len).unwrap();
        if count > 0 {
            // SAFETY: SQLite gives n bytes.
            let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), count) };
            s.note(Step::Write {
                file: name.clone(),
                at: usize::try_from(at).unwrap(),
                data: data.to_owned(),
            });
        }
    }
    let rc = match len {
        0 => ffi::SQLITE_OK,
        len => below!(file.xWrite(data, len, at)),
    };
    fault.map_or(rc, |f| fail(ffi::SQLITE_IOERR_WRITE, f))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: see `on`.
    if let Some((disk, name)) = unsafe { on(file) } {
        let mut s = disk.state();
        if s.killed_now() {
            die();
        }
        if let Some(fault) = s.next() {
            return fail(ffi::SQLITE_IOERR_TRUNCATE, fault);
        }
        s.note(Step::Truncate {
            file: name.clone(),
            size: usize::try_from(size).unwrap(),
        });
    }
    below!(file.xTruncate(size))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see `on`.
    if let Some((disk, name)) = unsafe { on(file) } {
        while disk.state().stalled {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut s = disk.state();
        if s.killed_now() {
            die();
        }
        // Whatever becomes of it, nothing is known to be on the disk unless it succeeds.
        if let Some(fault) = s.next() {
            return fail(ffi::SQLITE_IOERR_FSYNC, fault);
        }
        s.note(Step::Sync { file: name.clone() });
    }
    below!(file.xSync(flags))
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    data: *mut c_void,
    n: c_int,
    at: i64,
) -> c_int {
    below!(file.xRead(data, n, at))
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    below!(file.xFileSize(size))
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    below!(file.xLock(level))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    below!(file.xUnlock(level))
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    below!(file.xCheckReservedLock(out))
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    below!(file.xFileControl(op, arg))
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    below!(file.xSectorSize())
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    below!(file.xDeviceCharacteristics())
}
