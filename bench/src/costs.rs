// SPDX-License-Identifier: GPL-2.0-only
//! Instructions per context switch, by scheduler and number of cgroups.

use anyhow::{Context, Result};

use tix_tests::guest::Guest;
use tix_tests::load::report::{Report, columns};
use tix_tests::load::switches::Cost;

use crate::machine;
use crate::peers::Scheduler;

/// `experiment` is `yield` or `pipe`; one guest per scheduler.
pub fn compare(experiment: &str, schedulers: &[Scheduler], numbers: &[usize]) -> Result<()> {
    let runs: Vec<String> = numbers
        .iter()
        .map(|n| format!("--warmup 3 --seconds 1 {experiment} --n {n}"))
        .collect();
    let most = numbers.iter().max().copied().unwrap_or(0);
    let memory = if most > 1_000 { "8G" } else { "3G" };
    let guest = Guest::new().icount(0).memory(memory).timeout(1_800);
    let mut reports: Vec<Report<Cost>> = Vec::new();
    for scheduler in schedulers {
        eprintln!("{experiment}: {}", scheduler.name);
        let said = guest
            .run(&scheduler.script(&runs)?)
            .with_context(|| format!("{experiment} with {}", scheduler.name))?;
        for value in said.all() {
            reports.push(serde_json::from_value(value.clone())?);
        }
    }
    let cell = |name: &str, n: usize| {
        let found = reports
            .iter()
            .find(|r| r.label == name && r.result.n == n)
            .and_then(|r| r.result.instructions_per_switch);
        found.map_or("–".into(), |i| format!("{i:.0}"))
    };
    let mut head = vec![format!("{experiment}, N cgroups")];
    head.extend(schedulers.iter().map(|s| s.name.clone()));
    let rows: Vec<Vec<String>> = numbers
        .iter()
        .map(|&n| {
            let cells = schedulers.iter().map(|s| cell(&s.name, n));
            std::iter::once(n.to_string()).chain(cells).collect()
        })
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    println!("Instructions per context switch");
    print!("{}", columns(&head, &rows));
    machine::write(&format!("switches-{experiment}"), &reports)
}
