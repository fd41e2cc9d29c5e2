// SPDX-License-Identifier: GPL-2.0-only
//! Shares 1:2:3:4:5 on one CPU, and shares on several, by scheduler.

use anyhow::{Result, ensure};

use tix_tests::guest::{Guest, Reports};
use tix_tests::load::report::{Report, columns};
use tix_tests::load::shares::{Service, Shares};

use crate::guests::{Comparison, Job};
use crate::machine;
use crate::peers::Scheduler;

pub fn compare(schedulers: &[Scheduler]) -> Result<Comparison> {
    let run = ["--seconds 30 shares --shares 1,2,3,4,5".to_owned()];
    let job = |scheduler: &Scheduler| {
        Ok(Job {
            what: format!("shares with {}", scheduler.name),
            guest: Guest::new().icount(3).timeout(600),
            script: scheduler.script(&run)?,
            long: 0,
        })
    };
    let names: Vec<String> = schedulers.iter().map(|s| s.name.clone()).collect();
    Ok(Comparison {
        jobs: schedulers.iter().map(job).collect::<Result<_>>()?,
        report: Box::new(move |said| report(&names, &said)),
    })
}

fn report(names: &[String], said: &[Reports]) -> Result<()> {
    let mut reports: Vec<Report<Shares>> = Vec::new();
    for (said, name) in said.iter().zip(names) {
        reports.push(said.get("shares", name)?);
    }
    let row = |r: &Report<Shares>| {
        let mut cells = vec![r.scheduler.clone()];
        let shares = r.result.leaves.iter();
        cells.extend(shares.map(|l| format!("{:.3}", l.share * 100.0)));
        cells.push(format!("{:.2}", r.result.largest_service_error_ms));
        cells.push(format!("{:.0}", r.result.switches_per_s));
        cells
    };
    let rows: Vec<_> = reports.iter().map(row).collect();
    let head = [
        "shares %",
        "1",
        "2",
        "3",
        "4",
        "5",
        "error ms",
        "switches/s",
    ];
    println!("Five busy threads, one CPU, 30 s; due 6.667 13.333 20.000 26.667 33.333");
    print!("{}", columns(&head, &rows));
    machine::write("shares", &reports)
}

/// What is run on several CPUs, by their number. Cgroups with as many threads as there are CPUs can use what they are due, whatever that is.
/// One with a single thread is due a CPU at most, and the others what it leaves over; nothing is sampled there, as there is no slack for
/// what the sampler takes.
const SEVERAL: [(usize, [&str; 2]); 2] = [
    (
        2,
        [
            "--threads 2 --shares 1,2,3,4,5",
            "--sample-ms 0 --shares 6,1,1,1,1",
        ],
    ),
    (
        4,
        [
            "--threads 4 --shares 1,2,3,4,5",
            "--sample-ms 0 --shares 20,10,2,2,1",
        ],
    ),
];

/// On two and on four CPUs. Not of scx_simple, which knows no weights, nor of scx_flatcg, which did not stay loaded on four CPUs.
pub fn several(schedulers: &[Scheduler]) -> Result<Comparison> {
    let mut jobs = Vec::new();
    let named = |s: &&Scheduler| ["kernel", "tix"].contains(&s.name.as_str());
    for scheduler in schedulers.iter().filter(named) {
        for (cpus, runs) in SEVERAL {
            let runs = runs.map(|run| format!("--seconds 20 shares {run}"));
            jobs.push(Job {
                what: format!("shares with {} on {cpus} CPUs", scheduler.name),
                guest: Guest::new().cpus(cpus).icount(3).timeout(900),
                script: scheduler.script(&runs)?,
                long: 0,
            });
        }
    }
    ensure!(
        !jobs.is_empty(),
        "`cpus` compares kernel and tix only: name one of them in --schedulers"
    );
    Ok(Comparison {
        jobs,
        report: Box::new(|said| report_several(&said)),
    })
}

fn report_several(said: &[Reports]) -> Result<()> {
    let mut reports: Vec<Report<Shares>> = Vec::new();
    for value in said.iter().flat_map(Reports::all) {
        reports.push(serde_json::from_value(value.clone())?);
    }
    let row = |r: &Report<Shares>| {
        let list = |of: fn(&Service) -> f64| {
            let all = r
                .result
                .leaves
                .iter()
                .map(|l| format!("{:.2}", of(l) * 100.0));
            all.collect::<Vec<_>>().join(" ")
        };
        let off = r.result.largest_relative_error * 100.0;
        vec![
            r.label.clone(),
            r.cpus.to_string(),
            list(|l| l.ideal),
            list(|l| l.share),
            format!("{off:.2}"),
        ]
    };
    let rows: Vec<_> = reports.iter().map(row).collect();
    println!("Shares on several CPUs, % of the machine, 20 s");
    print!("{}", columns(&["", "CPUs", "due", "got", "off %"], &rows));
    machine::write("shares-smp", &reports)
}
