// SPDX-License-Identifier: GPL-2.0-only
//! Busy threads in weighted cgroups whose sets of CPUs overlap: what a cgroup cannot use because of
//! its CPUs, and of who else is on them, goes to those who can.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

/// A weight, and the CPUs as `cpuset.cpus` has them: `200:0-2`.
#[derive(Clone, Debug)]
pub struct Group {
    weight: u32,
    text: String,
    /// A bit for each.
    cpus: u64,
}

impl FromStr for Group {
    type Err = Error;
    fn from_str(text: &str) -> Result<Group> {
        let (weight, list) = text.split_once(':').context("no WEIGHT:CPUS")?;
        let mut cpus = 0;
        for part in list.split('+') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u32, u32) = (from.parse()?, to.parse()?);
            ensure!(from <= to && to < 64, "no CPUs {part}");
            cpus |= (from..=to).map(|cpu| 1 << cpu).sum::<u64>();
        }
        Ok(Group {
            weight: weight.parse()?,
            text: list.replace('+', ","),
            cpus,
        })
    }
}

/// What one had, in CPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    pub weight: u32,
    pub cpus: String,
    pub due: f64,
    pub got: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cpusets {
    pub parts: Vec<Part>,
    /// The largest difference, in CPUs.
    pub off: f64,
}

/// What each is due of `cpus` CPUs, with so many threads: by weight, and what one cannot use is for
/// the others (max-min fairness). A set of rates can be had if, of each set of CPUs, those that may
/// use no other want no more than there is.
pub fn due(groups: &[Group], threads: usize, cpus: u32) -> Vec<f64> {
    let all = (1u64 << cpus) - 1;
    let mut due = vec![0.0; groups.len()];
    let mut open = vec![true; groups.len()];
    while open.contains(&true) {
        // By how much each unit of weight may yet be given, until a set of CPUs is full, or
        // somebody's threads are all running.
        let room = |set: u64| {
            let within = |&i: &usize| groups[i].cpus & all & !set == 0;
            let here: Vec<usize> = (0..groups.len()).filter(within).collect();
            let used: f64 = here.iter().map(|&i| due[i]).sum();
            let weight = here.iter().filter(|&&i| open[i]);
            let weight: u32 = weight.map(|&i| groups[i].weight).sum();
            let left = f64::from(set.count_ones()) - used;
            (weight > 0).then(|| (left / f64::from(weight), here))
        };
        let own = |i: usize| {
            let left = threads as f64 - due[i];
            open[i].then(|| (left / f64::from(groups[i].weight), vec![i]))
        };
        let sets = (1..=all).filter_map(room);
        let full = sets.chain((0..groups.len()).filter_map(own));
        let Some((by, who)) = full.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        for i in (0..groups.len()).filter(|&i| open[i]) {
            due[i] += by * f64::from(groups[i].weight);
        }
        who.into_iter().for_each(|i| open[i] = false);
    }
    due
}

/// With so many threads each. Before, the last one's CPUs are `changes` times all others in turn,
/// and its own again.
pub fn run(
    root: &Path,
    groups: &[Group],
    threads: usize,
    changes: usize,
    warmup: f64,
    seconds: f64,
) -> Result<Cpusets> {
    let cpus = sys::cpus() as u32;
    let arena = Arena::new(root)?;
    let parent = root.parent().context("the experiment needs a parent")?;
    for dir in [parent, root] {
        cgroups::set(dir, "cgroup.subtree_control", "+cpuset")?;
    }
    let mut crew = Crew::new(groups.len() * threads)?;
    let mut dirs = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let path = arena.add(format!("g{i}").as_ref(), group.weight)?;
        cgroups::set(&path, "cpuset.cpus", &group.text)?;
        let dir = cgroups::open(&path)?;
        for _ in 0..threads {
            crew.spawn(Some(&dir), 0, |me| me.spin())?;
        }
        dirs.push(path);
    }
    crew.muster()?;
    crew.open(0);
    let last = groups.last().zip(dirs.last()).context("no groups")?;
    for _ in 0..changes {
        let others = (0..cpus).filter(|cpu| last.0.cpus >> cpu & 1 == 0);
        let others: Vec<String> = others.map(|cpu| cpu.to_string()).collect();
        sys::sleep(1_000_000_000);
        cgroups::set(last.1, "cpuset.cpus", others.join(","))?;
        sys::sleep(1_000_000_000);
        cgroups::set(last.1, "cpuset.cpus", &last.0.text)?;
    }
    sys::sleep((warmup * 1e9) as u64);
    let look = || -> Result<Vec<u64>> { (0..crew.len()).map(|m| crew.cpu_ns(m)).collect() };
    let (began, before) = (sys::now(), look()?);
    sys::sleep_until(began + (seconds * 1e9) as u64);
    let (ended, after) = (sys::now(), look()?);
    let had: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let due = due(groups, threads, cpus);
    let part = |((group, due), had): ((&Group, f64), &[u64])| Part {
        weight: group.weight,
        cpus: group.text.clone(),
        due,
        got: had.iter().sum::<u64>() as f64 / (ended - began) as f64,
    };
    let parts = groups.iter().zip(due).zip(had.chunks(threads)).map(part);
    let parts: Vec<Part> = parts.collect();
    let off = parts.iter().map(|p| (p.got - p.due).abs());
    Ok(Cpusets {
        off: off.fold(0.0, f64::max),
        parts,
    })
}

impl Table for Cpusets {
    fn table(&self) -> String {
        let row = |p: &Part| {
            let cpus = |x: f64| format!("{x:.3}");
            vec![
                p.cpus.clone(),
                p.weight.to_string(),
                cpus(p.due),
                cpus(p.got),
            ]
        };
        let rows: Vec<_> = self.parts.iter().map(row).collect();
        columns(&["CPUs", "weight", "due", "got"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_where_sets_of_cpus_overlap() {
        let cases = [
            ("100:0,200:0-2,300:0", vec![0.25, 2.0, 0.75]),
            ("100:0,200:0-2,300:1-3", vec![2.0 / 3.0, 4.0 / 3.0, 2.0]),
            ("100:0-3,300:0-3", vec![1.0, 3.0]),
            ("100:0+2,100:0-3", vec![2.0, 2.0]),
        ];
        for (text, right) in cases {
            let groups: Result<Vec<Group>> = text.split(',').map(Group::from_str).collect();
            let found = due(&groups.expect(text), 4, 4);
            for (found, right) in found.iter().zip(&right) {
                assert!((found - right).abs() < 1e-9, "{text}: {found}, not {right}");
            }
        }
        let lone = [Group::from_str("100:0-3").expect("a group")];
        assert_eq!(due(&lone, 2, 4), [2.0]);
    }
}
