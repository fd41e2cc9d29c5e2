// SPDX-License-Identifier: GPL-2.0-only
//! The picture of a run: who used how much of the machine, over time.

use std::path::Path;

use anyhow::{Context, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::record::{Record, system_fraction, used_fraction};

const SIZE: (u32, u32) = (960, 420);
/// Told apart by colour-blind readers too.
const COLOURS: [RGBColor; 2] = [RGBColor(0, 90, 160), RGBColor(213, 94, 0)];
const INK: RGBColor = RGBColor(60, 60, 60);
const FAINT: RGBColor = RGBColor(225, 225, 225);

pub fn draw(record: &Record, svg: &Path) -> Result<()> {
    let picture = SVGBackend::new(svg, SIZE).into_drawing_area();
    // plotters' errors borrow the picture: say them and let go.
    paint(&picture, record).map_err(|error| anyhow::anyhow!("{error}"))?;
    picture
        .present()
        .with_context(|| format!("cannot write {}", svg.display()))
}

fn paint<B: DrawingBackend>(
    picture: &DrawingArea<B, plotters::coord::Shift>,
    record: &Record,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    B::ErrorType: 'static,
{
    let end = record.samples.last().map_or(1.0, |sample| sample.at);
    let text = |size: u32| ("sans-serif", size).into_font().color(&INK);
    picture.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(picture)
        .margin_top(40)
        .margin_right(130)
        .margin_left(10)
        .margin_bottom(8)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..102.0)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0} %"))
        .x_desc("seconds (dashed: what the tickets say)")
        .y_desc("share of the CPU used")
        .label_style(text(14))
        .axis_desc_style(text(14))
        .draw()?;
    for scene in &record.scenes {
        chart.draw_series(LineSeries::new(
            [(scene.from, 0.0), (scene.from, 102.0)],
            FAINT.stroke_width(2),
        ))?;
        let (x, y) = chart.backend_coord(&(scene.from, 102.0));
        picture.draw(&Text::new(scene.title.clone(), (x + 4, y - 20), text(14)))?;
        // The ideal, over the steady window that is judged.
        for (ideal, colour) in scene.ideal.iter().zip(COLOURS) {
            let y = ideal * 100.0;
            chart.draw_series(DashedLineSeries::new(
                [(scene.steady_from, y), (scene.to, y)],
                6,
                5,
                colour.stroke_width(1),
            ))?;
        }
    }
    for (who, (person, colour)) in record.people.iter().zip(COLOURS).enumerate() {
        let points: Vec<_> = (record.samples.windows(2))
            .map(|pair| {
                let (before, after) = (&pair[0], &pair[1]);
                let shared = 1.0 - system_fraction(before, after, record.cpus);
                (
                    (before.at + after.at) / 2.0,
                    100.0 * used_fraction(before, after, who, record.cpus) / shared,
                )
            })
            .collect();
        let Some(&last) = points.last() else { continue };
        chart.draw_series(LineSeries::new(points, colour.stroke_width(3)))?;
        let (x, y) = chart.backend_coord(&(end, last.1));
        let label = text(15)
            .color(&colour)
            .pos(Pos::new(HPos::Left, VPos::Center));
        picture.draw(&Text::new(person.name.clone(), (x + 10, y), label.clone()))?;
        picture.draw(&Text::new(
            format!("{} tickets", person.tickets),
            (x + 10, y + 18),
            label,
        ))?;
    }
    Ok(())
}
