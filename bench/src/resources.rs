// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's experiments with the disk and with memory (§5.3, §5.4) by the real daemon in a guest, in real time: a table, and his figures.

use anyhow::Result;
use plotters::prelude::*;
use serde::de::DeserializeOwned;

use tix_tests::guest::{Guest, tree};
use tix_tests::hold::Figure;
use tix_tests::load::report::columns;

use crate::machine;
use crate::plot::{self, Drawn, legend};

const SIZE: (u32, u32) = (900, 480);
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(130, 130, 130),
];
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
    // Its lines are of what each has had so far.
    let mut so_far = vec![0; figure.names.len()];
    let lines = figure.samples.iter().map(|s| {
        so_far.iter_mut().zip(s).for_each(|(sum, n)| *sum += n);
        so_far.iter().map(|n| *n as f64).collect()
    });
    let lines: Vec<Vec<f64>> = lines.collect();
    plot::save("disk", |svg| {
        picture(
            svg,
            (
                "Requests served, a hard half of the disk and four others",
                "requests",
            ),
            &figure,
            &lines,
        )
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
    let mib = |s: &Vec<u64>| s.iter().map(|n| *n as f64 / MIB).collect();
    let lines: Vec<Vec<f64>> = figure.samples.iter().map(mib).collect();
    plot::save("memory", |svg| {
        picture(
            svg,
            ("Memory of four that want all of it", "MiB"),
            &figure,
            &lines,
        )
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

fn picture(
    svg: &mut String,
    (title, unit): (&str, &str),
    figure: &Figure,
    lines: &[Vec<f64>],
) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let most = lines.iter().flatten().copied().fold(1.0, f64::max);
    let end = lines.len() as f64 * figure.every_s;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc(unit)
        .draw()?;
    for (n, name) in figure.names.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let at = lines.iter().enumerate();
        let points = at.map(|(i, s)| ((i + 1) as f64 * figure.every_s, s[n]));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
        if let Some(bytes) = figure.guaranteed.get(n) {
            let mib = *bytes as f64 / MIB;
            let guaranteed = [(0.0, mib), (end, mib)];
            chart.draw_series(DashedLineSeries::new(
                guaranteed,
                4,
                4,
                colour.stroke_width(1),
            ))?;
        }
    }
    legend(&mut chart)?;
    root.present()?;
    Ok(())
}
