// SPDX-License-Identifier: GPL-2.0-only
//! Shares 1:2:3:4:5 on one CPU, by scheduler.

use anyhow::{Context, Result};

use tix_tests::guest::Guest;
use tix_tests::load::report::{Report, columns};
use tix_tests::load::shares::Shares;

use crate::machine;
use crate::peers::Scheduler;

pub fn compare(schedulers: &[Scheduler]) -> Result<()> {
    let run = ["--seconds 30 shares --shares 1,2,3,4,5".to_owned()];
    let guest = Guest::new().icount(3).timeout(600);
    let mut reports: Vec<Report<Shares>> = Vec::new();
    for scheduler in schedulers {
        eprintln!("shares: {}", scheduler.name);
        let said = guest
            .run(&scheduler.script(&run)?)
            .with_context(|| format!("shares with {}", scheduler.name))?;
        reports.push(said.get("shares", &scheduler.name)?);
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
