// SPDX-License-Identifier: GPL-2.0-only
//! Boot a guest, run a script of experiments in it, and read their reports.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::load::report::Report;

/// The top of the working tree.
pub fn tree() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// What kind of guest, and what for. `tests/vm/run` boots it.
#[derive(Clone, Debug)]
pub struct Guest {
    cpus: usize,
    threads: usize,
    memory: String,
    icount: Option<u32>,
    timeout_s: u64,
    disk: Option<String>,
    carry: Vec<PathBuf>,
    /// Restored with tix in force, and with this program.
    restored: Option<PathBuf>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            cpus: 1,
            threads: 1,
            memory: "2G".into(),
            icount: None,
            timeout_s: 600,
            disk: None,
            carry: Vec::new(),
            restored: None,
        }
    }
}

impl Guest {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus;
        self
    }

    /// So many of the CPUs are siblings on one core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    pub fn memory(mut self, size: &str) -> Self {
        self.memory = size.into();
        self
    }

    /// An empty disk, as `tests/vm/run --disk` takes it.
    pub fn disk(mut self, spec: &str) -> Self {
        self.disk = Some(spec.into());
        self
    }

    /// These programs alone, and busybox: a guest that can be suspended.
    pub fn carry<'a>(mut self, programs: impl IntoIterator<Item = &'a Path>) -> Self {
        self.carry = programs.into_iter().map(Path::to_owned).collect();
        self
    }

    /// One instruction is 2^shift ns of the guest's clock.
    pub fn icount(mut self, shift: u32) -> Self {
        self.icount = Some(shift);
        self
    }

    /// Give up after so many seconds of the host's.
    pub fn timeout(mut self, seconds: u64) -> Self {
        self.timeout_s = seconds;
        self
    }

    /// Run a shell script as root in a new guest. It must succeed. Each experiment in it prints a
    /// report. As many guests at a time as there are CPUs.
    pub fn run(&self, script: &str) -> Result<Reports> {
        Reports::parse(&self.text(script)?)
    }

    /// Run `inner` where tix is in force, in a guest that is restored so instead of booted. `LOAD` is
    /// `tix-load` that insists on tix. Fails when tix was ejected. A kernel under test is booted.
    pub fn run_under_tix(&self, tix_load: &Path, inner: &str) -> Result<Reports> {
        if kernel_under_test() {
            return self.run(&under_tix(tix_load, inner)?);
        }
        example("scx_tix")?;
        let restored = Self {
            restored: Some(tix_load.to_owned()),
            ..self.clone()
        };
        restored.run(&format!(
            "LOAD=\"{} --require tix\"
             {inner}
             cd /sys/kernel/sched_ext
             if [ \"$(cat state) $(cat enable_seq)\" != 'enabled 1' ]; then
                 echo 'tix was ejected:' >&2
                 dmesg | tail -n 100 >&2
                 exit 124
             fi",
            tix_load.display()
        ))
    }

    /// The same, for what a script prints.
    pub fn text(&self, script: &str) -> Result<String> {
        let _turn = turn()?;
        let mut command = Command::new(tree().join("tests/vm/run"));
        command.args(["--cpus", &self.cpus.to_string()]);
        command.args(["--threads", &self.threads.to_string()]);
        command.args(["--memory", &self.memory]);
        command.args(["--timeout", &self.timeout_s.to_string()]);
        let mut script = format!("set -eu\n{script}");
        if let Some(shift) = self.icount {
            command.args(["--icount", &shift.to_string()]);
            script = format!("export TIX_ICOUNT={shift}\n{script}");
        }
        if let Some(program) = &self.restored {
            command.args(["--restored", "scheduler"]);
            command.arg("--with").arg(program);
        }
        if let Some(disk) = &self.disk {
            command.args(["--disk", disk]);
        }
        for program in &self.carry {
            command.arg("--carry").arg(program);
        }
        command.args(["--", "/bin/sh", "-c", &script]);
        let out = command.output().context("run tests/vm/run")?;
        let stdout = String::from_utf8_lossy(&out.stdout);
        let stderr = String::from_utf8_lossy(&out.stderr);
        eprintln!("{stderr}");
        ensure!(
            out.status.success(),
            "the guest's script ended with {}:\n{script}\nstdout:\n{stdout}\nstderr:\n{stderr}",
            out.status
        );
        Ok(stdout.into_owned())
    }
}

/// Wait for one of the machine's guest slots, one per CPU, and hold it until dropped. An emulated
/// guest keeps a CPU busy; on the instruction-counting clock more of them would only be slower.
pub fn turn() -> Result<File> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let slots = std::thread::available_parallelism().map_or(1, usize::from);
    let slot = |n: usize| -> Result<File> {
        let path = tree().join(format!("target/guest{n}.lock"));
        File::create(&path).with_context(|| format!("create {}", path.display()))
    };
    for n in 0..slots {
        let file = slot(n)?;
        if file.try_lock().is_ok() {
            return Ok(file);
        }
    }
    let file = slot(ASKED.fetch_add(1, Ordering::Relaxed) % slots)?;
    file.lock().context("lock a guest slot")?;
    Ok(file)
}

/// What the experiments of one guest said.
#[derive(Debug)]
pub struct Reports(Vec<Value>);

impl Reports {
    /// Of what a script printed.
    pub fn parse(stdout: &str) -> Result<Self> {
        let lines = stdout.lines().filter(|l| l.starts_with("{\"experiment\""));
        let reports: Result<Vec<_>, _> = lines.map(serde_json::from_str).collect();
        let reports = reports.context("a report is not JSON")?;
        ensure!(!reports.is_empty(), "no experiment reported:\n{stdout}");
        Ok(Self(reports))
    }

    /// These, and those of another guest.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The one report of this experiment with this label.
    pub fn get<T: DeserializeOwned>(&self, experiment: &str, label: &str) -> Result<Report<T>> {
        let mut found = self
            .0
            .iter()
            .filter(|v| v["experiment"] == experiment && v["label"] == label);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(serde_json::from_value(one.clone())?),
            (None, _) => bail!("no report of {experiment} {label:?}"),
            _ => bail!("several reports of {experiment} {label:?}"),
        }
    }

    pub fn all(&self) -> &[Value] {
        &self.0
    }
}

/// A script that runs `inner` with tix in force: the loader runs it, fails when tix was ejected
/// meanwhile, and takes tix out again. `LOAD` is `tix-load` that insists on tix.
pub fn under_tix(tix_load: &Path, inner: &str) -> Result<String> {
    under_tix_with("", tix_load, inner)
}

/// The same, of a loader with options.
pub fn under_tix_with(options: &str, tix_load: &Path, inner: &str) -> Result<String> {
    let loader = example("scx_tix")?;
    ensure!(
        !inner.contains('\''),
        "the script is passed in single quotes"
    );
    Ok(format!(
        "{loader} {options} -- /bin/sh -c '\nset -eu\nLOAD=\"{load} --require tix\"\n{inner}\n'",
        loader = loader.display(),
        load = tix_load.display()
    ))
}

/// Is a kernel chosen? It is booted, and no state of it is saved.
pub fn kernel_under_test() -> bool {
    std::env::var_os("KERNEL").is_some()
}

/// One of the scheduler's programs without the daemon, built first, once by each test program.
pub fn example(name: &str) -> Result<PathBuf> {
    built(name, &["-p", "tix-bpf", "--example", name])?;
    Ok(target().join("debug/examples").join(name))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree().join("target"), Into::into)
}

fn built(name: &str, which: &[&str]) -> Result<()> {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().expect("no builder panics");
    if !built.iter().any(|one| one == name) {
        build(name, which)?;
        built.push(name.to_owned());
    }
    Ok(())
}

fn build(name: &str, which: &[&str]) -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "-q"])
        .args(which)
        .current_dir(tree())
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "{name} does not build");
    Ok(())
}
