// SPDX-License-Identifier: GPL-2.0-only
//! Results with what they were measured on, written where the README's tables come from.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use tix_tests::guest::tree;

/// The host. On the instruction-counting clock it should not matter; it is noted all the same.
#[derive(Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
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

#[derive(Serialize)]
struct Results<'a, T> {
    comparison: &'a str,
    tix: String,
    machine: Machine,
    /// Each as the workload reported it, the guest's kernel included.
    runs: &'a [T],
}

/// Write `bench/results/NAME.json`.
pub fn write<T: Serialize>(name: &str, runs: &[T]) -> Result<()> {
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(tree())
        .output();
    let results = Results {
        comparison: name,
        tix: commit.map_or(String::new(), |o| {
            String::from_utf8_lossy(&o.stdout).trim().into()
        }),
        machine: Machine::this(),
        runs,
    };
    let dir = tree().join("bench/results");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(&results)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
