// SPDX-License-Identifier: GPL-2.0-only
//! hackbench, a server's workers, and a sleeper among hogs, by scheduler, on one CPU.

use anyhow::Result;
use serde_json::Value;

use tix_tests::guest::{Guest, Reports};
use tix_tests::load::hackbench::Hackbench;
use tix_tests::load::latency::Latency;
use tix_tests::load::report::{Report, columns};
use tix_tests::load::requests::Requests;

use crate::guests::{Comparison, Job};
use crate::machine;
use crate::peers::Scheduler;

/// Hogs beside the sleeper, each in a cgroup of its own.
const HOGS: [usize; 3] = [2, 8, 32];

pub fn compare(schedulers: &[Scheduler]) -> Result<Comparison> {
    // Nothing but instructions counts: a guest runs its five the same whatever ran in another before.
    let mut runs = vec![
        "hackbench --groups 5 --loops 60 --runs 5".to_owned(),
        "--warmup 0.5 --seconds 2 requests --workers 4 --runs 5".to_owned(),
    ];
    runs.extend(HOGS.map(|n| format!("--warmup 1 --seconds 5 latency --n {n}")));
    let job = |scheduler: &Scheduler| {
        Ok(Job {
            what: format!("wake-ups with {}", scheduler.name),
            guest: Guest::new().icount(1).memory("3G").timeout(1_800),
            script: scheduler.script(&runs)?,
            long: 500,
        })
    };
    let names: Vec<String> = schedulers.iter().map(|s| s.name.clone()).collect();
    Ok(Comparison {
        jobs: schedulers.iter().map(job).collect::<Result<_>>()?,
        report: Box::new(move |said| report(&names, &said)),
    })
}

/// How late half of them were at most, and all but one per cent, µs.
fn late(p50_us: f64, p99_us: f64) -> String {
    format!("{p50_us:.0}/{p99_us:.0}")
}

fn report(names: &[String], said: &[Reports]) -> Result<()> {
    let mut head = ["on one CPU", "hackbench s", "requests/s", "p50/p99 µs"]
        .map(str::to_owned)
        .to_vec();
    head.extend(HOGS.map(|n| format!("among {n}")));
    let (mut rows, mut all) = (Vec::new(), Vec::<Value>::new());
    for (said, name) in said.iter().zip(names) {
        let hackbench: Report<Hackbench> = said.get("hackbench", name)?;
        let requests: Report<Requests> = said.get("requests", name)?;
        let mut row = vec![
            name.clone(),
            format!("{:.3}", hackbench.result.median_s),
            format!("{:.0}", requests.result.median.per_second),
            late(requests.result.median.p50_us, requests.result.median.p99_us),
        ];
        for value in said.all().iter().filter(|v| v["experiment"] == "latency") {
            let sleeper: Report<Latency> = serde_json::from_value(value.clone())?;
            row.push(late(sleeper.result.p50_us, sleeper.result.p99_us));
        }
        rows.push(row);
        all.extend(said.all().iter().cloned());
    }
    println!(
        "hackbench, a server's four workers, and a sleeper among hogs: how late they run once woken up"
    );
    print!(
        "{}",
        columns(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    );
    machine::write("wakeups", &all)
}
