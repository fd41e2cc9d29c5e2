// SPDX-License-Identifier: GPL-2.0-only
//! A tixd that serves the ledger in a directory, and changes nothing on the machine.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};

pub struct Tixd {
    child: Child,
    dir: PathBuf,
    /// From its being started to its first answer.
    pub start: Duration,
    /// The CPU time that took.
    pub start_cpu: Duration,
}

/// Where this machine has cgroup v2.
fn cgroup2() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let path = mounts.lines().find_map(|l| {
        let mut words = l.split(' ').skip(1);
        let path = words.next()?;
        (words.next() == Some("cgroup2")).then(|| path.into())
    });
    path.context("no cgroup2 is mounted here")
}

impl Tixd {
    /// Starts `program` on the ledger in `dir/state`.
    pub fn start(program: &Path, dir: &Path) -> Result<Tixd> {
        fs::create_dir_all(dir.join("policies"))?;
        let before = Instant::now();
        let child = Command::new(program)
            .arg("--observe")
            .arg("--state")
            .arg(dir.join("state"))
            .arg("--socket")
            .arg(dir.join("socket"))
            .arg("--policies")
            .arg(dir.join("policies"))
            .arg("--cgroup-root")
            .arg(cgroup2()?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut tixd = Tixd {
            child,
            dir: dir.to_owned(),
            start: Duration::ZERO,
            start_cpu: Duration::ZERO,
        };
        let mut stream = loop {
            match tixd.connect() {
                Ok(stream) => break stream,
                Err(_) if before.elapsed() < Duration::from_secs(60) => {
                    ensure!(tixd.child.try_wait()?.is_none(), "tixd has ended");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => return Err(e).context("tixd does not listen"),
            }
        };
        // It listens before it has read its ledger, and answers when it has.
        stream.write_all(b"{\"method\":\"org.tix.Tix.Status\"}\0")?;
        answer(&mut stream, &mut Vec::new())?;
        tixd.start = before.elapsed();
        tixd.start_cpu = tixd.cpu()?;
        Ok(tixd)
    }

    pub fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.dir.join("socket"))
    }

    /// `VmRSS`, bytes.
    pub fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("no VmRSS")? * 1024)
    }

    /// CPU time that the thread has used which does everything but follow the cgroup tree.
    pub fn cpu(&self) -> Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id()))?;
        let ns = text.split_whitespace().next().and_then(|w| w.parse().ok());
        Ok(Duration::from_nanos(ns.context("no schedstat")?))
    }

    fn signal(mut self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.child), signal)?;
        self.child.wait()?;
        Ok(())
    }

    pub fn end(self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// As a power cut would.
    pub fn kill(self) -> Result<()> {
        self.signal(Signal::KILL)
    }
}

impl Drop for Tixd {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next answer from `stream`; `rest` has what was read beyond it, before and after.
pub fn answer(stream: &mut UnixStream, rest: &mut Vec<u8>) -> Result<()> {
    let mut more = [0; 4096];
    loop {
        if let Some(end) = rest.iter().position(|b| *b == 0) {
            good(&rest[..end])?;
            rest.drain(..=end);
            return Ok(());
        }
        match stream.read(&mut more)? {
            0 => bail!("tixd has closed the connection"),
            n => rest.extend_from_slice(&more[..n]),
        }
    }
}

/// It did what it was asked to.
pub fn good(answer: &[u8]) -> Result<()> {
    // Every error begins with its name: parsing each answer would cost the CPU time that is measured.
    ensure!(
        !answer.starts_with(b"{\"error\""),
        "{}",
        String::from_utf8_lossy(answer)
    );
    Ok(())
}
