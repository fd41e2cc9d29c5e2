// SPDX-License-Identifier: GPL-2.0-only
//! Nieh's Figures 1 and 2 from our numbers: the mean range of service time error by the number of
//! clients, two lines a rule.

use super::Point;
use super::rules::Kind;
use super::shares::Spread;
use anyhow::Result;
use plotters::prelude::*;

use crate::plot::{self, Area, Drawn, GRID, LABELS};
use crate::text::grouped;

const SIZE: (u32, u32) = (960, 520);
const KEY: u32 = 110;

/// The pictures `error-SPREAD` of each spread that there are points of.
pub fn pictures(points: &[Point]) -> Result<Vec<(String, String)>> {
    let mut pictures = Vec::new();
    for spread in Spread::ALL {
        let of: Vec<&Point> = points.iter().filter(|p| p.spread == spread).collect();
        if !of.is_empty() {
            let name = format!("error-{spread:?}").to_lowercase();
            let svg = plot::svg(SIZE, |root| picture(root, spread, &of))?;
            pictures.push((name, svg));
        }
    }
    Ok(pictures)
}

fn colour(rule: Kind) -> RGBColor {
    match rule {
        Kind::Tix => RGBColor(0, 90, 181),
        Kind::Vtrr => RGBColor(220, 50, 32),
        Kind::Wrr => RGBColor(120, 94, 240),
        Kind::Wfq => RGBColor(0, 158, 115),
        Kind::Wf2q => RGBColor(86, 180, 233),
        Kind::Eevdf => RGBColor(230, 159, 0),
        Kind::Lottery => RGBColor(130, 130, 130),
    }
}

/// Far errors are shown nearer: quanta, with the sign kept, by order of magnitude beyond one.
fn squeezed(quanta: f64) -> f64 {
    quanta.signum() * (1.0 + quanta.abs()).log2()
}

/// The points of `rule`; where several sums of shares were tried, those of the largest.
fn line<'a>(points: &[&'a Point], rule: Kind) -> Vec<&'a Point> {
    let largest = |p: &Point| {
        let same = points.iter().filter(|o| o.clients == p.clients);
        same.map(|o| o.shares).max() == Some(p.shares)
    };
    let of_rule = points.iter().filter(|p| p.rule == rule);
    of_rule.filter(|p| largest(p)).copied().collect()
}

fn picture(root: &Area, spread: Spread, points: &[&Point]) -> Drawn {
    let (left, right) = root.split_horizontally(SIZE.0 - KEY);
    let most = points.iter().map(|p| p.clients).max().unwrap_or(2) as f64;
    let far = |f: fn(&Point) -> f64| points.iter().map(move |p| squeezed(f(p)));
    let high = far(|p| p.mean_high).fold(1.0, f64::max);
    let low = far(|p| p.mean_low).fold(-1.0, f64::min);
    let spread = format!("{spread:?}").to_lowercase();
    let title = format!("Service time error, ahead (above 0) and behind, {spread} shares");
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d((2f64..most).log_scale(), low * 1.05..high * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("clients")
        .y_desc("quanta: the mean of each case's furthest ahead and behind")
        .x_label_formatter(&|x| grouped(*x))
        .y_label_formatter(&|y| format!("{:+.0}", y.signum() * (y.abs().exp2() - 1.0)))
        .label_style(LABELS)
        .draw()?;
    let mut entries = Vec::new();
    for rule in Kind::ALL {
        let of = line(points, rule);
        if of.is_empty() {
            continue;
        }
        let style = colour(rule).stroke_width(2);
        let direction = |f: fn(&Point) -> f64| {
            let at = of.iter().map(|p| (p.clients as f64, squeezed(f(p))));
            LineSeries::new(at.collect::<Vec<_>>(), style)
        };
        chart.draw_series(direction(|p| p.mean_high))?;
        chart.draw_series(direction(|p| p.mean_low))?;
        entries.push((rule.name(), style));
    }
    plot::key(&right, plot::BESIDE, &entries)
}
