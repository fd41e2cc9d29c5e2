// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's experiments with the disk and with memory (§5.3, §5.4) by the real daemon in a guest,
//! in real time: a table, and his figures.

use anyhow::{Context, Result};
use plotters::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use tix_tests::guest::{Guest, tree};
use tix_tests::hold::Figure;
use tix_tests::load::report::columns;

use crate::machine;
use crate::plot::{self, Area, COLOURS, Drawn, GRID, LABELS};
use crate::text::grouped;

const SIZE: (u32, u32) = (900, 440);
const KEY: u32 = 170;
const MIB: f64 = 1024.0 * 1024.0;

pub fn disk() -> Result<()> {
    let figure: Figure = measured("disk", "1G,iops=100")?;
    let sum = |n: usize| figure.samples.iter().map(|s| s[n]).sum::<u64>();
    let all: u64 = (0..figure.names.len()).map(sum).sum();
    let row = |(n, name): (usize, &String)| {
        let part = sum(n) as f64 / all as f64 * 100.0;
        vec![name.clone(), sum(n).to_string(), format!("{part:.2} %")]
    };
    let rows: Vec<Vec<String>> = figure.names.iter().enumerate().map(row).collect();
    let seconds = figure.samples.len() as f64 * figure.every_s;
    println!(
        "Figure 8: a disk shared by {}; {:.1} requests/s, {:.1} without weights",
        figure.mechanism,
        all as f64 / seconds,
        figure.without.unwrap_or_default()
    );
    print!("{}", columns(&["due", "requests", "of all"], &rows));
    plot::save("disk", &disk_picture(&figure)?)
}

/// Lines of what each has had so far, as the paper's.
pub fn disk_picture(figure: &Figure) -> Result<String> {
    let mut so_far = vec![0; figure.names.len()];
    let lines = figure.samples.iter().map(|s| {
        so_far.iter_mut().zip(s).for_each(|(sum, n)| *sum += n);
        so_far.iter().map(|n| *n as f64).collect()
    });
    let lines: Vec<Vec<f64>> = lines.collect();
    let title = "Disk requests served: a guaranteed half of the disk, and four others";
    plot::svg(SIZE, |root| {
        picture(root, (title, "requests served so far"), figure, &lines)
    })
}

pub fn memory() -> Result<()> {
    let figure: Figure = measured("memory", "2G")?;
    let least = |n: usize| figure.samples.iter().map(|s| s[n]).min().unwrap_or(0);
    let row = |(n, name): (usize, &String)| {
        vec![name.clone(), format!("{:.1} MiB", least(n) as f64 / MIB)]
    };
    let rows: Vec<Vec<String>> = figure.names.iter().enumerate().map(row).collect();
    println!(
        "Figure 7: memory by {}, {} samples, one in {:.1} s",
        figure.mechanism,
        figure.samples.len(),
        figure.every_s
    );
    print!("{}", columns(&["of 84 MiB", "least"], &rows));
    plot::save("memory", &memory_picture(&figure)?)
}

pub fn memory_picture(figure: &Figure) -> Result<String> {
    let mib = |s: &Vec<u64>| s.iter().map(|n| *n as f64 / MIB).collect();
    let lines: Vec<Vec<f64>> = figure.samples.iter().map(mib).collect();
    let title = "Memory of four programs that want all of it (dashed: guaranteed)";
    plot::svg(SIZE, |root| {
        picture(root, (title, "memory in use, MiB"), figure, &lines)
    })
}

/// What experiment `name` saw in a guest with that disk.
pub fn measured<T: DeserializeOwned>(name: &str, disk: &str) -> Result<T> {
    let script = format!("{}/target/release/tix-hold {name}", tree().display());
    let said = Guest::new().disk(disk).timeout(1200).run(&script)?;
    machine::write(name, said.all())?;
    let result = said.all().first().map(|r| r["result"].clone());
    Ok(serde_json::from_value(result.unwrap_or_default())?)
}

/// What experiment `name` saw when it was last measured.
pub fn recorded<T: DeserializeOwned>(name: &str) -> Result<T> {
    let results = machine::read::<Value>(name)?;
    let run = results.runs.into_iter().next().context("no run in it")?;
    Ok(serde_json::from_value(run["result"].clone())?)
}

fn picture(root: &Area, (title, unit): (&str, &str), figure: &Figure, lines: &[Vec<f64>]) -> Drawn {
    let (left, right) = root.split_horizontally(SIZE.0 - KEY);
    let most = lines.iter().flatten().copied().fold(1.0, f64::max);
    let end = lines.len() as f64 * figure.every_s;
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("seconds")
        .y_desc(unit)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| grouped(*y))
        .label_style(LABELS)
        .draw()?;
    let mut entries = Vec::new();
    for (n, name) in figure.names.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let at = lines.iter().enumerate();
        let points = at.map(|(i, s)| ((i + 1) as f64 * figure.every_s, s[n]));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        entries.push((name.as_str(), colour.stroke_width(2)));
        if let Some(bytes) = figure.guaranteed.get(n).filter(|bytes| **bytes > 0) {
            let mib = *bytes as f64 / MIB;
            let line = [(0.0, mib), (end, mib)];
            let style = colour.stroke_width(1);
            chart.draw_series(DashedLineSeries::new(line, 4, 4, style))?;
        }
    }
    plot::key(&right, plot::BESIDE, &entries)
}
