// SPDX-License-Identifier: GPL-2.0-only
//! Shares 1:2:3:4:5 on one CPU, by scheduler.

use anyhow::Result;

use tix_tests::guest::{Guest, Reports};
use tix_tests::load::report::{Report, columns};
use tix_tests::load::shares::Shares;

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
