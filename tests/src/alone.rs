// SPDX-License-Identifier: GPL-2.0-only
//! A real tixd in a guest without systemd, where cgroups are directories that somebody made, and what wants all of a disk or of memory in
//! them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::daemon::{currency, install, is_restored, read, sh, tixctl, until, wait};
pub use crate::here::program;
use crate::load::sys;

pub const ROOT: &str = "/sys/fs/cgroup";
pub const SOCKET: &str = "/run/elsewhere/tixd.sock";
/// Under emulation, loading takes a while, and longest on the oldest kernels.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Where a restored guest has what is known of its tixd (`tests/vm/guest/setup`).
const FOUND: &str = "/run/tixd";

pub struct Tixd(Process);

enum Process {
    Started(Child),
    /// Was there when the guest was restored; nobody here is its parent.
    Found(u32),
}

impl Tixd {
    pub fn start() -> Result<Tixd> {
        Tixd::at("/var/lib/elsewhere")
    }

    /// With its ledger in this directory.
    pub fn at(state: &str) -> Result<Tixd> {
        Tixd::with(&["--state", state], "status")
    }

    /// With these arguments, and ready when it answers `line`.
    pub fn with(arguments: &[&str], line: &str) -> Result<Tixd> {
        Tixd::run(Command::new("tixd").args(arguments), line)
    }

    /// With what it says in the file `log`.
    pub fn logging(log: &str) -> Result<Tixd> {
        let file = fs::File::create(log).with_context(|| format!("create {log}"))?;
        let mut tixd = Command::new("tixd");
        tixd.args(["--state", "/var/lib/elsewhere"]).stderr(file);
        Tixd::run(&mut tixd, "status")
    }

    fn run(tixd: &mut Command, line: &str) -> Result<Tixd> {
        let tixd = tixd.args(["--socket", SOCKET]).stdin(Stdio::null());
        let _awake = Awake::new();
        let tixd = Tixd(Process::Started(tixd.spawn()?));
        // Built without optimization it takes a minute to load the scheduler.
        until("tixd answers", 3 * PATIENCE, || {
            Ok(tixctl(line)?.status != 3)
        })?;
        Ok(tixd)
    }

    /// The one that a guest was restored with.
    fn found() -> Result<Tixd> {
        let id = read(&format!("{FOUND}.pid"))?.parse()?;
        tixctl("status")?.ok()?.has("scheduler is in force")?;
        Ok(Tixd(Process::Found(id)))
    }

    pub fn id(&self) -> u32 {
        match &self.0 {
            Process::Started(child) => child.id(),
            Process::Found(id) => *id,
        }
    }

    pub fn signal(mut self, name: &str) -> Result<ExitStatus> {
        sh(&format!("kill -{name} {}", self.id()))?.ok()?;
        self.wait()
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        match &mut self.0 {
            Process::Started(child) => Ok(child.wait()?),
            Process::Found(_) => {
                let file = format!("{FOUND}.status");
                let said = || Ok(fs::read_to_string(&file).ok().filter(|s| !s.is_empty()));
                let code: i32 = wait("tixd ends", PATIENCE, said)?.trim().parse()?;
                // As a shell says it: 128 and more is a signal.
                Ok(ExitStatus::from_raw(if code > 128 {
                    code - 128
                } else {
                    code << 8
                }))
            }
        }
    }
}

impl Drop for Tixd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = match &mut self.0 {
            Process::Started(child) => child.kill().map_err(Into::into),
            Process::Found(id) => sh(&format!("kill -KILL {id}")).map(|_| ()),
        };
        let _ = self.wait();
    }
}

/// Runs where nobody else does, until dropped: the clock of a guest without systemd leaps over what is idle, and while the machine around it
/// is slow to read files for it that may be more than anybody has patience for. A thread, for which no file has to be read.
struct Awake(Arc<AtomicBool>);

impl Awake {
    fn new() -> Awake {
        let over = Arc::new(AtomicBool::new(false));
        let mine = Arc::clone(&over);
        std::thread::spawn(move || {
            sys::set_policy(0, libc::SCHED_IDLE, 0).expect("a thread for idle time");
            // Without the instruction that says that it spins: an emulated CPU leaves its loop at each, and a guest whose clock counts
            // instructions sleeps a minute where it wants a tenth of a second.
            while !mine.load(Ordering::Relaxed) {
                std::hint::black_box(());
            }
        });
        Awake(over)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What wants all it can get, in a cgroup, until it is dropped.
pub struct Hog(Child);

impl Hog {
    pub fn start(cgroup: &str, what: &[&str]) -> Result<Hog> {
        let enter = format!("echo 0 >{ROOT}{cgroup}/cgroup.procs && exec \"$@\"");
        let child = Command::new("sh")
            .args(["-c", &enter, "sh"])
            .arg(program("tix-hog")?)
            .args(what)
            .stdin(Stdio::null())
            .spawn()
            .context("start tix-hog")?;
        Ok(Hog(child))
    }
}

impl Hog {
    /// It has not ended, nor been killed.
    pub fn is_there(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// tixd on a machine without systemd: installed and started, or as the guest was restored.
pub fn tixd() -> Result<Tixd> {
    sys::set_variable("TIX_SOCKET", SOCKET);
    if is_restored() {
        return Tixd::found();
    }
    install()?;
    Tixd::start()
}

/// What `tixctl status` says is wrong.
pub fn problems() -> Result<String> {
    let status = tixctl("status --json")?.json()?;
    Ok(status["tixd"]["problems"].to_string())
}

/// Makes these cgroups, and waits until they are currencies.
pub fn cgroups(paths: &[&str]) -> Result<()> {
    for path in paths {
        fs::create_dir_all(format!("{ROOT}{path}")).with_context(|| format!("make {path}"))?;
        until("it is a currency", PATIENCE, || {
            Ok(currency(path)?.is_some())
        })?;
    }
    Ok(())
}

/// A file of a cgroup, without the last line end.
pub fn file(path: &str, name: &str) -> Result<String> {
    read(&format!("{ROOT}{path}/{name}"))
}

pub fn write(path: &str, name: &str, text: &str) -> Result<()> {
    fs::write(format!("{ROOT}{path}/{name}"), text).with_context(|| format!("write {path}/{name}"))
}

/// The number in a file of a cgroup.
pub fn number(path: &str, name: &str) -> Result<u64> {
    let text = file(path, name)?;
    text.parse()
        .with_context(|| format!("{path}/{name}: {text:?}"))
}
