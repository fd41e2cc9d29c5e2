// SPDX-License-Identifier: GPL-2.0-only
//! hackbench: groups of senders and receivers that pass small messages through pipes as fast as they can. Nearly all of its time is
//! wake-ups and switches.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::Arena;
use super::report::Table;
use super::sys;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hackbench {
    pub groups: usize,
    pub loops: usize,
    /// How long each run took, in seconds.
    pub seconds: Vec<f64>,
    pub median_s: f64,
}

/// `groups` of 20 senders and 20 receivers each, `loops` messages from each sender to each receiver, `runs` times, in one cgroup.
pub fn run(root: &Path, groups: usize, loops: usize, runs: usize) -> Result<Hackbench> {
    let arena = Arena::new(root)?;
    let procs = arena.add("hackbench".as_ref(), 100)?.join("cgroup.procs");
    // Goes through a shell, which enters the cgroup first; both are of the normal class, unlike we.
    let script = format!("echo $$ >{} && exec \"$@\"", procs.display());
    let args = ["--pipe", "--process", "--groups", &groups.to_string()].map(str::to_owned);
    let mut seconds = Vec::new();
    for _ in 0..runs {
        sys::sleep(1_000_000_000);
        let out = Command::new("sh")
            .args(["-c", &script, "sh", "hackbench"])
            .args(&args)
            .args(["--loops", &loops.to_string()])
            .output()
            .context("run hackbench, of Debian's package rt-tests")?;
        let text = String::from_utf8_lossy(&out.stdout);
        let time = text.lines().find_map(|l| l.strip_prefix("Time: "));
        ensure!(
            out.status.success(),
            "hackbench: {}: {text}{}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
        let time = time.and_then(|t| t.trim().parse::<f64>().ok());
        seconds.push(time.with_context(|| format!("hackbench says no time: {text}"))?);
    }
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let median_s = *sorted
        .get(sorted.len() / 2)
        .context("no run was asked for")?;
    Ok(Hackbench {
        groups,
        loops,
        seconds,
        median_s,
    })
}

impl Table for Hackbench {
    fn table(&self) -> String {
        format!(
            "{} groups, {} loops: {:.3} s, median of {}\n",
            self.groups,
            self.loops,
            self.median_s,
            self.seconds.len()
        )
    }
}
