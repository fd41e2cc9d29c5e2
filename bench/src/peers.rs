// SPDX-License-Identifier: GPL-2.0-only
//! The schedulers that are compared, and how a script gets each into force.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use tix_tests::guest::{tree, under_tix};

/// One of them.
pub struct Scheduler {
    pub name: String,
    /// The command that loads it and stays; none for the kernel's own and for tix.
    loader: Option<String>,
}

/// `tix-load` as it was built beside this program.
pub fn tix_load() -> Result<PathBuf> {
    let me = std::env::current_exe().context("where am I")?;
    let path = me.with_file_name("tix-load");
    ensure!(path.exists(), "{} is not built", path.display());
    Ok(path)
}

/// Those called in `only`, or all; the peers are built if they are among them.
pub fn schedulers(only: &[String]) -> Result<Vec<Scheduler>> {
    let names = ["kernel", "simple", "flatcg", "tix"];
    if let Some(odd) = only.iter().find(|o| !names.contains(&o.as_str())) {
        bail!(
            "there is no scheduler {odd}; there are {}",
            names.join(", ")
        );
    }
    let wanted = names
        .iter()
        .filter(|n| only.is_empty() || only.iter().any(|o| o == *n));
    let mut built = None;
    let mut schedulers = Vec::new();
    for &name in wanted {
        let loader = match name {
            "simple" | "flatcg" => {
                if built.is_none() {
                    built = Some(build()?);
                }
                // In order of arrival: the least that a scheduler of sched_ext can do.
                let fifo = if name == "simple" { " -f" } else { "" };
                let of = |dir: &PathBuf| format!("{}/scx_{name}{fifo}", dir.display());
                built.as_ref().map(of)
            }
            _ => None,
        };
        schedulers.push(Scheduler {
            name: name.into(),
            loader,
        });
    }
    Ok(schedulers)
}

fn build() -> Result<PathBuf> {
    let out = Command::new(tree().join("bench/peers"))
        .stderr(Stdio::inherit())
        .output()
        .context("run bench/peers")?;
    ensure!(out.status.success(), "bench/peers: {}", out.status);
    Ok(String::from_utf8_lossy(&out.stdout).trim().into())
}

impl Scheduler {
    /// A script that runs `tix-load` with each of these arguments, the scheduler in force throughout.
    pub fn script(&self, runs: &[String]) -> Result<String> {
        let load = tix_load()?;
        let lines = |prefix: &str| -> String {
            let line = |run: &String| format!("{prefix} --label {} {run}\n", self.name);
            runs.iter().map(line).collect()
        };
        if self.name == "tix" {
            return under_tix(&load, &lines("$LOAD"));
        }
        let mut prefix = format!("{} --require {}", load.display(), self.name);
        if let Some(loader) = &self.loader {
            // The workloads stop and start it: what it prints meanwhile is of no interest.
            prefix += &format!(" --load '{loader} >/dev/null'");
        }
        Ok(lines(&prefix))
    }
}
