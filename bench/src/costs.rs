// SPDX-License-Identifier: GPL-2.0-only
//! Instructions per context switch, by scheduler and number of cgroups.

use anyhow::Result;

use tix_tests::guest::{Guest, Reports};
use tix_tests::load::report::{Report, columns};
use tix_tests::load::switches::Cost;

use crate::guests::{Comparison, Job};
use crate::machine;
use crate::peers::Scheduler;

/// More cgroups than this are given a guest of their own: making them takes long, and much memory.
const MANY: usize = 1_000;

/// `experiment` is `yield` or `pipe`.
pub fn compare(
    experiment: &'static str,
    schedulers: &[Scheduler],
    numbers: &[usize],
) -> Result<Comparison> {
    let (few, many): (Vec<usize>, Vec<usize>) = numbers.iter().partition(|n| **n <= MANY);
    let mut together: Vec<Vec<usize>> = many.into_iter().map(|n| vec![n]).collect();
    if !few.is_empty() {
        together.push(few);
    }
    let mut jobs = Vec::new();
    for scheduler in schedulers {
        for numbers in &together {
            let most = numbers.iter().max().copied().unwrap_or(0);
            let memory = if most > MANY { "8G" } else { "3G" };
            let runs: Vec<String> = numbers.iter().map(|n| run(experiment, *n)).collect();
            jobs.push(Job {
                what: format!("{experiment} with {}, up to {most} cgroups", scheduler.name),
                guest: Guest::new().icount(0).memory(memory).timeout(1_800),
                script: scheduler.script(&runs)?,
                long: most,
            });
        }
    }
    let names: Vec<String> = schedulers.iter().map(|s| s.name.clone()).collect();
    let numbers = numbers.to_vec();
    Ok(Comparison {
        jobs,
        report: Box::new(move |said| report(experiment, &names, &numbers, &said)),
    })
}

/// A guest's second is twenty of this machine's: few cgroups are measured for a short time, which gave the same within 0.1 %.
fn run(experiment: &str, n: usize) -> String {
    let (warmup, seconds) = if n <= 100 { (0.5, 0.5) } else { (3.0, 1.0) };
    format!("--warmup {warmup} --seconds {seconds} {experiment} --n {n}")
}

fn report(experiment: &str, names: &[String], numbers: &[usize], said: &[Reports]) -> Result<()> {
    let mut reports: Vec<Report<Cost>> = Vec::new();
    for value in said.iter().flat_map(Reports::all) {
        reports.push(serde_json::from_value(value.clone())?);
    }
    reports.sort_by_key(|r| (names.iter().position(|n| *n == r.label), r.result.n));
    let cell = |name: &str, n: usize| {
        let found = reports
            .iter()
            .find(|r| r.label == name && r.result.n == n)
            .and_then(|r| r.result.instructions_per_switch);
        found.map_or("–".into(), |i| format!("{i:.0}"))
    };
    let mut head = vec![format!("{experiment}, N cgroups")];
    head.extend(names.iter().cloned());
    let rows: Vec<Vec<String>> = numbers
        .iter()
        .map(|&n| {
            let cells = names.iter().map(|name| cell(name, n));
            std::iter::once(n.to_string()).chain(cells).collect()
        })
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    println!("Instructions per context switch");
    print!("{}", columns(&head, &rows));
    machine::write(&format!("switches-{experiment}"), &reports)
}
