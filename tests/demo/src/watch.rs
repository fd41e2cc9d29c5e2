// SPDX-License-Identifier: GPL-2.0-only
//! Looking at the machine: CPU time from the kernel's `cpu.stat`, entitlement and share from tixd.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::programs::Person;
use crate::record::{PersonSample, ProgramSample, Sample};

const CGROUPS: &str = "/sys/fs/cgroup";
const ASK_EVERY: Duration = Duration::from_secs(2);

/// The part of `tixctl tree --json` that the demo shows.
#[derive(Deserialize)]
struct Tree {
    currencies: Vec<Currency>,
}

#[derive(Deserialize)]
struct Currency {
    name: String,
    cgroup: Option<String>,
    cpu: Cpu,
}

#[derive(Deserialize, Clone, Copy)]
struct Cpu {
    entitlement: f64,
    share: f64,
}

type Values = HashMap<String, Cpu>;

/// What tixd said last: by currency, and by cgroup.
#[derive(Clone, Default)]
struct Said {
    by_name: Values,
    by_cgroup: Values,
}

pub struct Watch {
    began: Instant,
    said: Arc<Mutex<Result<Said>>>,
}

impl Watch {
    /// Asks tixd now, and from then on in the background: on a slow machine an answer takes a while, and the CPU
    /// times that the demo is judged by are not to wait for it.
    pub fn new(tixctl: PathBuf) -> Result<Watch> {
        let said = Arc::new(Mutex::new(Ok(ask(&tixctl)?)));
        let shared = Arc::clone(&said);
        thread::spawn(move || {
            loop {
                thread::sleep(ASK_EVERY);
                let answer = ask(&tixctl);
                let failed = answer.is_err();
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                if failed {
                    return;
                }
            }
        });
        Ok(Watch {
            began: Instant::now(),
            said,
        })
    }

    /// Seconds since the first scene.
    pub fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub fn sample(&self, people: &[Person]) -> Result<Sample> {
        let Said { by_name, by_cgroup } =
            match &*self.said.lock().unwrap_or_else(PoisonError::into_inner) {
                Ok(said) => said.clone(),
                Err(error) => bail!("{error:#}"),
            };
        let at = self.now();
        let idle_usec = idle_usec()?;
        let mut seen = Vec::new();
        for person in people {
            let used_usec = used_usec(&cgroup(&person.cgroup))?;
            let value = by_name.get(&person.name);
            let value = value.with_context(|| {
                format!("tixctl tree does not show the currency {}", person.name)
            })?;
            let mut programs = Vec::new();
            for program in &person.programs {
                let path = format!("{}/{}", person.cgroup, program.unit);
                let value = by_cgroup.get(&path);
                programs.push(ProgramSample {
                    name: program.name.clone(),
                    entitlement: value.map(|cpu| cpu.entitlement),
                    share: value.map(|cpu| cpu.share),
                    used_usec: self::used_usec(&cgroup(&path))?,
                });
            }
            seen.push(PersonSample {
                entitlement: value.entitlement,
                share: value.share,
                used_usec,
                programs,
            });
        }
        Ok(Sample {
            at,
            idle_usec,
            people: seen,
        })
    }
}

fn ask(tixctl: &Path) -> Result<Said> {
    let out = Command::new(tixctl).args(["tree", "--json"]).output();
    let out = out.with_context(|| format!("cannot run {}", tixctl.display()))?;
    if !out.status.success() {
        bail!(
            "tixctl tree: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    let tree: Tree =
        serde_json::from_slice(&out.stdout).context("tixctl tree --json printed something else")?;
    let mut said = Said::default();
    for currency in tree.currencies {
        if let Some(path) = currency.cgroup {
            said.by_cgroup.insert(path, currency.cpu);
        }
        said.by_name.insert(currency.name, currency.cpu);
    }
    Ok(said)
}

fn cgroup(path: &str) -> PathBuf {
    Path::new(CGROUPS).join(path.trim_start_matches('/'))
}

/// What all CPUs together were idle since boot.
fn idle_usec() -> Result<u64> {
    const FILE: &str = "/proc/stat";
    let text = fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    // user nice system idle iowait …
    let idle = line.map(|line| {
        line.split_whitespace()
            .skip(3)
            .take(2)
            .map(str::parse::<u64>)
    });
    let ticks = idle.and_then(|both| both.sum::<Result<u64, _>>().ok());
    let ticks = ticks.with_context(|| format!("no idle time in {FILE}"))?;
    Ok(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

fn used_usec(cgroup: &Path) -> Result<u64> {
    let file = cgroup.join("cpu.stat");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    value
        .and_then(|v| v.parse().ok())
        .with_context(|| format!("no usage_usec in {}", file.display()))
}
