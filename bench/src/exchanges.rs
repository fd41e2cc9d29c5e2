// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's exchanges of tickets (§5.5) by the real daemon in a guest, in real time: a table, and
//! his Figures 9 and 10.

use anyhow::{Context, Result, ensure};
use plotters::prelude::*;

use tix_tests::hold::exchange::{Exchanges, Got};
use tix_tests::load::report::columns;

use crate::plot::{self, Area, COLOURS, Drawn, GRID, LABELS};
use crate::resources::measured;

const SIZE: (u32, u32) = (900, 520);
const KEY: u32 = 130;
const CPU: RGBColor = COLOURS[0];
const DISK: RGBColor = COLOURS[1];
/// Seven tasks: what each of them is guaranteed, per cent.
const GUARANTEED: f64 = 100.0 / 7.0;

/// One exchange, per cent.
struct Line {
    amount: u64,
    /// What those who exchange get on with faster: who computes, who reads.
    gain: [f64; 2],
    /// Of the CPU: who exchanges, who does not.
    cpu: [f64; 2],
    /// Of the disk: who exchanges, the least of those who do not.
    disk: [f64; 2],
}

pub fn measure() -> Result<()> {
    let exchanges: Exchanges = measured("exchange", "1G,iops=100")?;
    let lines = lines(&exchanges.got)?;
    println!(
        "Figures 9 and 10: CPU tickets for disk tickets, one for one, of 1,000 each of seven; \
         disk by {}",
        exchanges.mechanism
    );
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    let heads = [
        "tickets",
        "computes",
        "reads",
        "CPU",
        "of another",
        "disk",
        "of others",
    ];
    print!("{}", columns(&heads, &rows));
    plot::save("exchange", &picture(&exchanges)?)
}

fn lines(got: &[Got]) -> Result<Vec<Line>> {
    let none = got.first().context("nothing was measured")?;
    let speed = |g: &Got| [g.cpu[0] / g.seconds, g.pages[0] as f64 / g.seconds];
    let before = speed(none);
    ensure!(before.iter().all(|b| *b > 0.0), "{none:?}");
    let line = |g: &Got| {
        let now = speed(g);
        let all: u64 = g.pages.iter().sum();
        let least = g.pages[1..].iter().min().copied().unwrap_or(0);
        let page = |n: u64| n as f64 / all.max(1) as f64 * 100.0;
        Line {
            amount: g.amount,
            gain: [0, 1].map(|i| (now[i] / before[i] - 1.0) * 100.0),
            cpu: [0, 1].map(|i| g.cpu[i] / g.seconds * 100.0),
            disk: [page(g.pages[0]), page(least)],
        }
    };
    Ok(got.iter().map(line).collect())
}

fn row(l: &Line) -> Vec<String> {
    let part = |p: f64| format!("{p:.1} %");
    vec![
        l.amount.to_string(),
        format!("{:+.1} %", l.gain[0]),
        format!("{:+.1} %", l.gain[1]),
        part(l.cpu[0]),
        part(l.cpu[1]),
        part(l.disk[0]),
        part(l.disk[1]),
    ]
}

pub fn picture(exchanges: &Exchanges) -> Result<String> {
    let lines = lines(&exchanges.got)?;
    plot::svg(SIZE, |root| paint(root, &lines))
}

fn paint(root: &Area, lines: &[Line]) -> Drawn {
    let (charts, keys) = root.split_vertically(SIZE.1 - KEY);
    let (left, right) = charts.split_horizontally(SIZE.0 / 2);
    let (left_key, right_key) = keys.split_horizontally(SIZE.0 / 2);
    let by = |f: fn(&Line) -> f64| lines.iter().map(|l| (l.amount as f64, f(l))).collect();
    chart(
        (&left, &left_key),
        ("What both gain", "faster than without an exchange, %"),
        &[
            ("the task that computes", CPU, 2, by(|l| l.gain[0])),
            ("the task that reads", DISK, 2, by(|l| l.gain[1])),
        ],
        None,
    )?;
    chart(
        (&right, &right_key),
        ("What everybody has", "of the resource, %"),
        &[
            (
                "CPU of the task that got CPU tickets",
                CPU,
                2,
                by(|l| l.cpu[0]),
            ),
            ("CPU of another that computes", CPU, 1, by(|l| l.cpu[1])),
            (
                "disk of the task that got disk tickets",
                DISK,
                2,
                by(|l| l.disk[0]),
            ),
            ("disk, the least of four others", DISK, 1, by(|l| l.disk[1])),
        ],
        Some(GUARANTEED),
    )
}

/// Name, colour, width and points of a line.
type Series<'a> = (&'a str, RGBColor, u32, Vec<(f64, f64)>);

fn chart(
    (area, key): (&Area, &Area),
    (title, unit): (&str, &str),
    all: &[Series],
    guaranteed: Option<f64>,
) -> Drawn {
    let points = || all.iter().flat_map(|s| &s.3);
    let most = points().map(|p| p.1).fold(1.0, f64::max);
    let end = points().map(|p| p.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("base tickets exchanged, of 1,000")
        .y_desc(unit)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style(LABELS)
        .draw()?;
    let mut entries = Vec::new();
    for (name, colour, width, points) in all {
        let style = colour.stroke_width(*width);
        chart.draw_series(LineSeries::new(points.clone(), style))?;
        entries.push((*name, style));
    }
    if let Some(part) = guaranteed {
        let (line, style) = ([(0.0, part), (end, part)], BLACK.stroke_width(1));
        chart.draw_series(DashedLineSeries::new(line, 4, 4, style))?;
        entries.push(("dashed: a seventh, guaranteed to each", style));
    }
    plot::key(key, plot::BELOW, &entries)
}
