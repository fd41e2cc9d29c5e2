// SPDX-License-Identifier: GPL-2.0-only
//! Results with what they were measured on, written where the documents' tables come from.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use tix_tests::guest::tree;

/// The host. On the instruction-counting clock it should not matter; it is noted all the same.
#[derive(Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    qemu: String,
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name"));
        let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
        let qemu = qemu.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        Self {
            cpu: model
                .unwrap_or_default()
                .trim_start_matches([' ', '\t', ':'])
                .into(),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            qemu: qemu
                .unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default()
                .into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct Results<T> {
    comparison: String,
    tix: String,
    pub machine: Machine,
    /// Each as the workload reported it, the guest's kernel included.
    pub runs: Vec<T>,
}

fn path(name: &str) -> PathBuf {
    tree().join(format!("bench/results/{name}.json"))
}

/// Was it ever written?
pub fn exists(name: &str) -> bool {
    path(name).exists()
}

/// What [`write()`] wrote.
pub fn read<T: DeserializeOwned>(name: &str) -> Result<Results<T>> {
    let path = path(name);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not as it should be", path.display()))
}

/// Write `bench/results/NAME.json`.
pub fn write<T: Serialize>(name: &str, runs: &[T]) -> Result<()> {
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(tree())
        .output();
    let results = Results {
        comparison: name.into(),
        tix: commit.map_or(String::new(), |o| {
            String::from_utf8_lossy(&o.stdout).trim().into()
        }),
        machine: Machine::this(),
        runs: runs.iter().collect(),
    };
    let path = path(name);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut text = serde_json::to_string_pretty(&results)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
