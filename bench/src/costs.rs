// SPDX-License-Identifier: GPL-2.0-only
//! Instructions per context switch, by scheduler: how many cgroups there are, how deep they lie, how different their weights are, on how
//! many CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;

use tix_tests::guest::{Guest, Reports};
use tix_tests::load::report::{Report, columns};
use tix_tests::load::switches::{Cost, Kind};

use crate::guests::{Comparison, Job};
use crate::machine;
use crate::peers::Scheduler;
use crate::text::grouped;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Costs of a switch (switches, pipes)")]
#[group(id = "costs")]
pub struct Options {
    /// Numbers of cgroups.
    #[arg(
        long,
        value_name = "CGROUPS",
        value_delimiter = ',',
        default_value = "2,10,100,1000"
    )]
    n: Vec<usize>,
    /// How many levels deep the cgroups lie.
    #[arg(
        long,
        value_name = "LEVELS",
        value_delimiter = ',',
        default_value = "1"
    )]
    depth: Vec<usize>,
    /// Give each cgroup a weight of its own, spread over 1 … 10,000, instead of 100.
    #[arg(long)]
    distinct: bool,
    /// CPUs of the guest.
    #[arg(long, value_name = "CPUS", value_delimiter = ',', default_value = "1")]
    guest_cpus: Vec<usize>,
}

impl Options {
    fn settings(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        for &cpus in &self.guest_cpus {
            for &depth in &self.depth {
                all.extend(self.n.iter().map(|&n| Setting {
                    cpus,
                    depth,
                    distinct: self.distinct,
                    n,
                }));
            }
        }
        all
    }
}

/// Under what a switch is measured; ordered as tables show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    pub cpus: usize,
    /// Levels.
    pub depth: usize,
    /// Weights.
    pub distinct: bool,
    /// Cgroups.
    pub n: usize,
}

impl Setting {
    const fn plain(n: usize) -> Setting {
        Setting {
            cpus: 1,
            depth: 1,
            distinct: false,
            n,
        }
    }

    pub fn of(report: &Report<Cost>) -> Setting {
        Setting {
            cpus: report.cpus,
            depth: report.result.depth,
            distinct: report.result.distinct_weights,
            n: report.result.n,
        }
    }

    /// What `tix-load` is told. A guest's second is five of this machine's: few cgroups are measured for a short time, which gave the same
    /// within 0.1 %. Among many what the kernel's own scheduler costs, and scx_flatcg, moves by 1 to 2 % in the first seconds.
    fn run(self, kind: Kind) -> String {
        let (warmup, seconds) = if self.n <= 100 {
            (0.3, 0.3)
        } else {
            (3.0, 1.0)
        };
        let distinct = if self.distinct { " --distinct" } else { "" };
        let (experiment, n, depth) = (name(kind), self.n, self.depth);
        format!(
            "--warmup {warmup} --seconds {seconds} {experiment} --n {n} --depth {depth}{distinct}"
        )
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&grouped(self.n as f64))?;
        if self.distinct {
            f.write_str(" of different weights")?;
        }
        if self.depth > 1 {
            write!(f, ", {} deep", self.depth)?;
        }
        if self.cpus > 1 {
            write!(f, ", {} CPUs", self.cpus)?;
        }
        Ok(())
    }
}

/// More cgroups than this are given a guest of their own: making them takes long, and much memory.
const MANY: usize = 1_000;

/// Where a switch could become dearer than many cgroups on one CPU make it.
const WIDE: [Setting; 4] = [
    Setting {
        distinct: true,
        ..Setting::plain(MANY)
    },
    Setting {
        depth: 6,
        ..Setting::plain(MANY)
    },
    Setting {
        cpus: 4,
        ..Setting::plain(100)
    },
    Setting {
        cpus: 4,
        ..Setting::plain(MANY)
    },
];

/// The most that is asked for.
const CROWD: [Setting; 1] = [Setting::plain(10_000)];

/// The files that hold these costs, and what writes them.
pub const FILES: [(&str, &str); 4] = [
    ("switches-yield", "switches"),
    ("switches-pipe", "pipes"),
    ("switches-wide", "wide"),
    ("switches-crowd", "crowd"),
];

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Yield => "yield",
        Kind::Pipe => "pipe",
    }
}

/// Threads that yield, or pairs over pipes.
pub fn compare(kind: Kind, schedulers: &[Scheduler], options: &Options) -> Result<Comparison> {
    let file = match kind {
        Kind::Yield => FILES[0].0,
        Kind::Pipe => FILES[1].0,
    };
    of_all(file, &[kind], schedulers, &options.settings())
}

/// In the order of tables.
pub const BOTH: [Kind; 2] = [Kind::Yield, Kind::Pipe];

/// Both, where it is wide.
pub fn wide(schedulers: &[Scheduler]) -> Result<Comparison> {
    of_all(FILES[2].0, &BOTH, schedulers, &WIDE)
}

/// Both, among as many as there can be.
pub fn crowd(schedulers: &[Scheduler]) -> Result<Comparison> {
    of_all(FILES[3].0, &BOTH, schedulers, &CROWD)
}

fn of_all(
    file: &'static str,
    kinds: &[Kind],
    schedulers: &[Scheduler],
    settings: &[Setting],
) -> Result<Comparison> {
    let mut jobs = Vec::new();
    for scheduler in schedulers {
        for ((cpus, many), runs) in guests(kinds, settings) {
            let memory = if many > 0 { "8G" } else { "3G" };
            let guest = Guest::new().icount(0).cpus(cpus);
            let size = if many > 0 { many } else { MANY };
            let on = if cpus == 1 { "CPU" } else { "CPUs" };
            jobs.push(Job {
                what: format!(
                    "{file} with {}, up to {size} cgroups on {cpus} {on}",
                    scheduler.name
                ),
                guest: guest.memory(memory).timeout(3_600),
                script: scheduler.script(&runs)?,
                long: size * runs.len(),
            });
        }
    }
    let names: Vec<String> = schedulers.iter().map(|s| s.name.clone()).collect();
    let settings: BTreeSet<Setting> = settings.iter().copied().collect();
    let kinds = kinds.to_vec();
    Ok(Comparison {
        jobs,
        report: Box::new(move |said| report(file, &kinds, &names, &settings, &said)),
    })
}

/// The guests that it takes, and what is run in each: by their CPUs and, where there are many, the number of cgroups. Loading a scheduler
/// takes as long as measuring a little, so few guests.
fn guests(kinds: &[Kind], settings: &[Setting]) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut guests: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for setting in settings {
        let many = if setting.n > MANY { setting.n } else { 0 };
        let runs = guests.entry((setting.cpus, many)).or_default();
        runs.extend(kinds.iter().map(|k| setting.run(*k)));
    }
    guests
}

fn report(
    file: &str,
    kinds: &[Kind],
    names: &[String],
    settings: &BTreeSet<Setting>,
    said: &[Reports],
) -> Result<()> {
    let mut reports: Vec<Report<Cost>> = Vec::new();
    for value in said.iter().flat_map(Reports::all) {
        reports.push(serde_json::from_value(value.clone())?);
    }
    let place = |r: &Report<Cost>| names.iter().position(|n| *n == r.label);
    reports.sort_by_key(|r| (place(r), name(r.result.kind), Setting::of(r)));
    let cell = |scheduler: &str, setting: Setting| cell(&reports, kinds, scheduler, setting);
    let mut head = vec!["cgroups"];
    head.extend(names.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|s| {
            let cells = names.iter().map(|name| cell(name, *s));
            std::iter::once(s.to_string()).chain(cells).collect()
        })
        .collect();
    println!("Instructions per context switch, {file}");
    print!("{}", columns(&head, &rows));
    machine::write(file, &reports)
}

/// What a scheduler's switch costs there, of each kind.
pub fn cell(reports: &[Report<Cost>], kinds: &[Kind], scheduler: &str, setting: Setting) -> String {
    let of = |kind: Kind| {
        let here = |r: &&Report<Cost>| {
            r.label == scheduler && r.result.kind == kind && Setting::of(r) == setting
        };
        let cost = reports.iter().find(here)?.result.instructions_per_switch?;
        Some(grouped(cost))
    };
    let or_none = |cost: Option<String>| cost.unwrap_or("–".into());
    let costs = kinds.iter().map(|k| or_none(of(*k)));
    costs.collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_in_words_and_as_options() {
        let words = |s: Setting| s.to_string();
        assert_eq!(words(Setting::plain(10_000)), "10,000");
        let all = Setting {
            cpus: 4,
            depth: 6,
            distinct: true,
            n: 1_000,
        };
        assert_eq!(words(all), "1,000 of different weights, 6 deep, 4 CPUs");
        assert_eq!(
            all.run(Kind::Pipe),
            "--warmup 3 --seconds 1 pipe --n 1000 --depth 6 --distinct"
        );
    }

    #[test]
    fn as_few_guests_as_it_takes() {
        let of = |settings: &[Setting]| -> Vec<_> {
            let guests = guests(&BOTH, settings).into_iter();
            guests.map(|(of, runs)| (of, runs.len())).collect()
        };
        assert_eq!(of(&WIDE), [((1, 0), 4), ((4, 0), 4)]);
        assert_eq!(of(&CROWD), [((1, 10_000), 2)]);
    }

    #[test]
    fn options_multiply() {
        let options = Options {
            n: vec![10, 100],
            depth: vec![1, 6],
            distinct: true,
            guest_cpus: vec![1, 4],
        };
        let settings = options.settings();
        assert_eq!(settings.len(), 8);
        assert!(settings.iter().all(|s| s.distinct));
    }
}
