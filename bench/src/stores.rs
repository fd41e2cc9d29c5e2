// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's exchanges between two databases (§5.6) by the real daemon in a guest, in real time: a table, and his Figure 11; and what
//! two negotiators find by themselves.

use anyhow::{Context, Result, ensure};
use plotters::prelude::*;

use tix_tests::hold::stores::{Served, Stores};
use tix_tests::load::report::columns;

use crate::plot::{self, Drawn, legend};
use crate::resources::measured;

const SIZE: (u32, u32) = (900, 420);
const COLOURS: [RGBColor; 2] = [RGBColor(0, 90, 181), RGBColor(220, 50, 32)];

/// Negotiators are to reach so much of the best exchange by hand.
const ENOUGH: f64 = 0.8;

pub fn measure() -> Result<()> {
    let Stores {
        by_hand,
        negotiated,
    } = measured("stores", "1G,iops=400")?;
    let none = by_hand.first().context("nothing was measured")?;
    ensure!(none.small > 0.0 && none.big > 0.0, "{none:?}");
    println!(
        "Figure 11: disk tickets of 1,000 for memory of 12 MiB, and lookups in a small store and a big one"
    );
    let row = |(n, s): (usize, &Served)| {
        let times = |now: f64, before: f64| format!("× {:.2}", now / before);
        vec![
            match n == by_hand.len() {
                true => "negotiators".to_owned(),
                false => "by hand".to_owned(),
            },
            s.disk.to_string(),
            format!("{} MiB", s.memory),
            format!("{:.0}/s", s.small),
            times(s.small, none.small),
            format!("{:.0}/s", s.big),
            times(s.big, none.big),
        ]
    };
    let all: Vec<Served> = by_hand.iter().chain([&negotiated.then]).cloned().collect();
    let rows: Vec<Vec<String>> = all.iter().enumerate().map(row).collect();
    let heads = ["", "disk", "memory", "small", "", "big", ""];
    print!("{}", columns(&heads, &rows));
    let total = |s: &Served| s.small + s.big;
    let best = by_hand.iter().map(total).fold(0.0, f64::max);
    let reached = negotiated
        .samples
        .iter()
        .position(|s| s[0] + s[1] >= ENOUGH * best);
    let when = match reached {
        Some(n) => format!("{} s", (n + 1) * 10),
        None => "not reached".to_owned(),
    };
    println!(
        "negotiators: {:.2} of the best by hand; {ENOUGH} of it after: {when}; {} exchanges, {} of them undone",
        total(&negotiated.then) / best,
        negotiated.made,
        negotiated.undone,
    );
    plot::save("stores", |svg| picture(svg, &all, none))
}

/// A pair of bars for each exchange: how many times as many lookups as without one.
fn picture(svg: &mut String, all: &[Served], none: &Served) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let exchanged = &all[1..];
    let times = |s: &Served| [s.small / none.small, s.big / none.big];
    let most = exchanged.iter().flat_map(times).fold(2.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Lookups, times those without an exchange",
            ("sans-serif", 18),
        )
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..exchanged.len() as f64, (0.5..most * 2.0).log_scale())?;
    let name = |x: &f64| {
        let n = (*x as usize).min(exchanged.len() - 1);
        match n + 1 == exchanged.len() {
            true => "negotiators".to_owned(),
            false => format!("{} tickets, {} MiB", exchanged[n].disk, exchanged[n].memory),
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(exchanged.len())
        .x_label_offset(70)
        .x_label_formatter(&name)
        .y_label_formatter(&|y| format!("{y:.1}"))
        .draw()?;
    for (n, name) in ["small store", "big store"].into_iter().enumerate() {
        let colour = COLOURS[n];
        let bar = |(i, s): (usize, &Served)| {
            let left = i as f64 + 0.15 + 0.35 * n as f64;
            let corners = [(left, 1.0), (left + 0.3, times(s)[n])];
            Rectangle::new(corners, colour.filled())
        };
        chart
            .draw_series(exchanged.iter().enumerate().map(bar))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    legend(&mut chart)?;
    root.present()?;
    Ok(())
}
