// SPDX-License-Identifier: GPL-2.0-only
//! What a run leaves behind: the JSON file, from which the table and the plot are made.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One run of the demo. Shares are fractions (0 … 1), times are seconds since the first scene began.
#[derive(Serialize, Deserialize)]
pub struct Record {
    pub kernel: String,
    pub cpus: usize,
    /// What `tixctl status` said when the scene began.
    pub status: serde_json::Value,
    pub people: Vec<PersonRecord>,
    /// The largest distance between a steady share and its ideal that passes.
    pub tolerance: f64,
    pub scenes: Vec<Scene>,
    pub samples: Vec<Sample>,
    pub passed: bool,
}

#[derive(Serialize, Deserialize)]
pub struct PersonRecord {
    pub name: String,
    pub slice: String,
    pub tickets: u32,
}

/// A part of the story, with what everybody got in its steady window: the part after the programs
/// have been started or stopped and the scheduler has settled.
#[derive(Default, Serialize, Deserialize)]
pub struct Scene {
    pub title: String,
    pub from: f64,
    pub steady_from: f64,
    pub to: f64,
    /// What the tickets say each person gets, in the order of `Record::people`.
    pub ideal: Vec<f64>,
    /// The fraction of the machine that the system itself used in the steady window.
    pub system: f64,
    /// One for each person; empty while the scene plays.
    pub results: Vec<SceneResult>,
}

#[derive(Serialize, Deserialize)]
pub struct SceneResult {
    pub person: String,
    /// The fraction of what the system left that the tickets say.
    pub ideal: f64,
    /// The fraction of it used in the steady window.
    pub used: f64,
    pub passed: bool,
}

/// The machine at one moment. CPU times are cumulative, in microseconds.
#[derive(Clone, Serialize, Deserialize)]
pub struct Sample {
    pub at: f64,
    /// CPU time that nobody used, of all CPUs.
    pub idle_usec: u64,
    pub people: Vec<PersonSample>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PersonSample {
    pub entitlement: f64,
    pub share: f64,
    pub used_usec: u64,
    pub programs: Vec<ProgramSample>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct ProgramSample {
    pub name: String,
    pub entitlement: Option<f64>,
    pub share: Option<f64>,
    pub used_usec: u64,
}

impl Record {
    pub fn read(path: &Path) -> Result<Record> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a record of the demo", path.display()))
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The fraction of the machine that person `who` used between two samples.
pub fn used_fraction(before: &Sample, after: &Sample, who: usize, cpus: usize) -> f64 {
    fraction(
        after.people[who]
            .used_usec
            .saturating_sub(before.people[who].used_usec),
        before,
        after,
        cpus,
    )
}

/// The same for a program, by name: 0 if it was not there at both moments.
pub fn program_fraction(
    before: &Sample,
    after: &Sample,
    who: usize,
    name: &str,
    cpus: usize,
) -> f64 {
    let used = |sample: &Sample| {
        sample.people[who]
            .programs
            .iter()
            .find(|program| program.name == name)
            .map(|program| program.used_usec)
    };
    match (used(before), used(after)) {
        (Some(was), Some(is)) => fraction(is.saturating_sub(was), before, after, cpus),
        _ => 0.0,
    }
}

/// What the system itself used: neither these people nor idle. Interrupts and the kernel's own threads are in no
/// cgroup's figure, so this is the rest, not a sum.
pub fn system_fraction(before: &Sample, after: &Sample, cpus: usize) -> f64 {
    let people: f64 = (0..after.people.len())
        .map(|who| used_fraction(before, after, who, cpus))
        .sum();
    let idle = after.idle_usec.saturating_sub(before.idle_usec);
    (1.0 - people - fraction(idle, before, after, cpus)).max(0.0)
}

fn fraction(usec: u64, before: &Sample, after: &Sample, cpus: usize) -> f64 {
    let wall = (after.at - before.at) * 1e6 * cpus as f64;
    if wall > 0.0 { usec as f64 / wall } else { 0.0 }
}
