// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU scheduler is in force, as the kernel says, and a scheduler started for one experiment.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

const SYS: &str = "/sys/kernel/sched_ext";

/// The kernel's word on sched_ext at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Force {
    /// `enabled`, `disabled`, `enabling`, … or `unsupported`.
    pub state: String,
    /// The name the loaded scheduler gave itself; empty when there is none.
    pub ops: String,
    /// How often a scheduler was loaded since boot. It moves when one was ejected and came back.
    pub enable_seq: u64,
    /// Threads the scheduler refused; more than none is a fault.
    pub rejected: u64,
    /// The kernel's counters of odd events, `name value` a line.
    pub events: String,
}

fn read(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("{SYS}/{name}")).ok()?;
    Some(text.trim().to_owned())
}

impl Force {
    /// Ask the kernel.
    pub fn now() -> Self {
        let Some(state) = read("state") else {
            return Self {
                state: "unsupported".into(),
                ..Self::default()
            };
        };
        let number = |name| read(name).and_then(|v| v.parse().ok()).unwrap_or(0);
        Self {
            state,
            ops: read("root/ops").unwrap_or_default(),
            enable_seq: number("enable_seq"),
            rejected: number("nr_rejected"),
            events: read("root/events").unwrap_or_default(),
        }
    }

    /// The name to print: the scheduler's own, or `kernel`.
    pub fn name(&self) -> &str {
        if self.state == "enabled" {
            &self.ops
        } else {
            "kernel"
        }
    }

    /// Is what `wanted` asks for in force? `kernel` means no sched_ext scheduler at all. A name
    /// matches up to an underscore: libraries append a version to it.
    pub fn require(&self, wanted: &str) -> Result<()> {
        let fits = match wanted {
            "kernel" => self.state == "disabled" || self.state == "unsupported",
            name => {
                self.state == "enabled"
                    && (self.ops == name || self.ops.starts_with(&format!("{name}_")))
            }
        };
        ensure!(
            fits,
            "{wanted} is not in force: sched_ext is {}, ops {:?}",
            self.state,
            self.ops
        );
        Ok(())
    }
}

/// A scheduler's loader, running for as long as this lives.
pub struct Loader {
    child: Child,
}

impl Loader {
    /// Start `command` (through the shell, so that it can carry arguments) and wait until its
    /// scheduler is in force.
    pub fn start(command: &str, patience: Duration) -> Result<Self> {
        Force::now()
            .require("kernel")
            .context("before loading another scheduler")?;
        let child = Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("exec {command}"))
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .spawn()
            .with_context(|| format!("start {command}"))?;
        let mut loader = Self { child };
        let until = Instant::now() + patience;
        loop {
            if Force::now().state == "enabled" {
                return Ok(loader);
            }
            if let Some(status) = loader.child.try_wait()? {
                bail!("{command} ended with {status} before its scheduler was in force");
            }
            ensure!(
                Instant::now() < until,
                "{command}: no scheduler in force after {patience:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// End the loader as a user would (SIGINT) and wait until the machine is the kernel's again.
    pub fn stop(mut self, patience: Duration) -> Result<()> {
        let loader = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself.
        let _ = rustix::process::kill_process(loader, rustix::process::Signal::INT);
        let until = Instant::now() + patience;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < until, "the loader ignores SIGINT");
            std::thread::sleep(Duration::from_millis(20));
        }
        while Force::now().require("kernel").is_err() {
            ensure!(
                Instant::now() < until,
                "the loader ended and its scheduler stayed"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
