// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's exchanges of tickets (§5.5) by the real daemon in a guest, in real time: a table, and his Figures 9 and 10.

use anyhow::{Context, Result, ensure};
use plotters::coord::Shift;
use plotters::prelude::*;

use tix_tests::hold::exchange::{Exchanges, Got};
use tix_tests::load::report::columns;

use crate::plot::{self, Drawn, legend};
use crate::resources::measured;

const SIZE: (u32, u32) = (900, 420);
const CPU: RGBColor = RGBColor(0, 90, 181);
const DISK: RGBColor = RGBColor(220, 50, 32);
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
        "Figures 9 and 10: CPU tickets for disk tickets, one for one, of 1,000 each of seven; disk by {}",
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
    plot::save("exchange", |svg| picture(svg, &lines))
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

fn picture(svg: &mut String, lines: &[Line]) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    let by = |f: fn(&Line) -> f64| lines.iter().map(|l| (l.amount as f64, f(l))).collect();
    chart(
        &left,
        ("What both gain", "%"),
        &[
            ("who computes", CPU, 2, by(|l| l.gain[0])),
            ("who reads", DISK, 2, by(|l| l.gain[1])),
        ],
        None,
    )?;
    chart(
        &right,
        ("What everybody has", "% of the resource"),
        &[
            ("CPU, exchanged", CPU, 2, by(|l| l.cpu[0])),
            ("CPU, another's", CPU, 1, by(|l| l.cpu[1])),
            ("disk, exchanged", DISK, 2, by(|l| l.disk[0])),
            ("disk, least of four others", DISK, 1, by(|l| l.disk[1])),
        ],
        Some(GUARANTEED),
    )?;
    root.present()?;
    Ok(())
}

/// Name, colour, width and points of a line.
type Series<'a> = (&'a str, RGBColor, u32, Vec<(f64, f64)>);

fn chart(
    area: &DrawingArea<SVGBackend, Shift>,
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
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.3)?;
    chart
        .configure_mesh()
        .x_desc("tickets exchanged")
        .y_desc(unit)
        .draw()?;
    for (name, colour, width, points) in all {
        let style = colour.stroke_width(*width);
        chart
            .draw_series(LineSeries::new(points.clone(), style))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    if let Some(part) = guaranteed {
        let line = [(0.0, part), (end, part)];
        chart
            .draw_series(DashedLineSeries::new(line, 4, 4, BLACK.stroke_width(1)))?
            .label("a seventh: guaranteed")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK));
    }
    legend(&mut chart)
}
