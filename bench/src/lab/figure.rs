// SPDX-License-Identifier: GPL-2.0-only
//! Nieh's Figures 1 and 2 from our numbers: the mean range of service time error by the number of clients, one line a rule and direction.

use super::Point;
use super::rules::Kind;
use super::shares::Spread;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use tix_tests::guest::tree;

const SIZE: (u32, u32) = (900, 520);

/// Writes `bench/results/error-SPREAD.svg` for each spread that there are points of.
pub fn draw(points: &[Point]) -> Result<()> {
    for spread in Spread::ALL {
        let of: Vec<&Point> = points.iter().filter(|p| p.spread == spread).collect();
        if of.is_empty() {
            continue;
        }
        let name = format!("error-{spread:?}.svg").to_lowercase();
        let path = tree().join("bench/results").join(name);
        let mut svg = String::new();
        picture(&mut svg, spread, &of).map_err(|e| anyhow!("draw {}: {e}", path.display()))?;
        std::fs::write(&path, svg)?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
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

fn picture(
    svg: &mut String,
    spread: Spread,
    points: &[&Point],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let most = points.iter().map(|p| p.clients).max().unwrap_or(2) as f64;
    let far = |f: fn(&Point) -> f64| points.iter().map(move |p| squeezed(f(p)));
    let high = far(|p| p.mean_high).fold(1.0, f64::max);
    let low = far(|p| p.mean_low).fold(-1.0, f64::min);
    let title = format!("Service time error, {spread:?} shares").to_lowercase();
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((2f64..most).log_scale(), low * 1.05..high * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("clients")
        .y_desc("quanta, mean of each case's lowest and highest")
        .y_label_formatter(&|y| format!("{:+.1}", y.signum() * (y.abs().exp2() - 1.0)))
        .draw()?;
    for rule in Kind::ALL {
        let of: Vec<&&Point> = points.iter().filter(|p| p.rule == rule).collect();
        let line = |f: fn(&Point) -> f64| {
            let at = of.iter().map(|p| (p.clients as f64, squeezed(f(p))));
            LineSeries::new(at.collect::<Vec<_>>(), colour(rule).stroke_width(2))
        };
        if of.is_empty() {
            continue;
        }
        chart
            .draw_series(line(|p| p.mean_high))?
            .label(rule.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour(rule)));
        chart.draw_series(line(|p| p.mean_low))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
