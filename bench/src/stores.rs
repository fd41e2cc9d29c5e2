// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan's exchanges between two databases (§5.6) by the real daemon in a guest, in real time: a
//! table, and his Figure 11; and what two negotiators find by themselves.

use anyhow::{Context, Result, ensure};
use plotters::prelude::*;

use tix_tests::hold::stores::{Served, Stores};
use tix_tests::load::report::columns;

use crate::plot::{self, Area, COLOURS, Drawn, GRID, LABELS, text};
use crate::resources::measured;

const SIZE: (u32, u32) = (900, 440);

/// Negotiators are to reach so much of the best exchange by hand.
const ENOUGH: f64 = 0.8;

pub fn measure() -> Result<()> {
    let stores: Stores = measured("stores", "1G,iops=400")?;
    let Stores {
        by_hand,
        negotiated,
    } = &stores;
    let none = by_hand.first().context("nothing was measured")?;
    ensure!(none.small > 0.0 && none.big > 0.0, "{none:?}");
    println!(
        "Figure 11: disk tickets of 1,000 for memory of 12 MiB, and lookups in a small store and a \
         big one"
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
        "negotiators: {:.2} of the best by hand; {ENOUGH} of it after: {when}; {} exchanges, {} of \
         them undone",
        total(&negotiated.then) / best,
        negotiated.made,
        negotiated.undone,
    );
    plot::save("stores", &picture(&stores)?)
}

/// A pair of bars for each exchange: how many times as many lookups as without one.
pub fn picture(stores: &Stores) -> Result<String> {
    let none = stores.by_hand.first().context("nothing was measured")?;
    let then = [&stores.negotiated.then];
    let exchanged: Vec<&Served> = stores.by_hand[1..].iter().chain(then).collect();
    plot::svg(SIZE, |root| paint(root, &exchanged, none))
}

fn paint(root: &Area, exchanged: &[&Served], none: &Served) -> Drawn {
    let times = |s: &Served| [s.small / none.small, s.big / none.big];
    let most = exchanged.iter().flat_map(|s| times(s)).fold(2.0, f64::max);
    let title = "Lookups a second of two stores, once disk tickets were traded for memory";
    let last = exchanged.len() - 1;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(64)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (0..last).into_segmented(),
            (0.8..most * 2.0).log_scale().base(10.0),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("what the small store gave of 1,000 disk tickets, and got of 12 MiB of memory")
        .y_desc("times those without an exchange (log scale)")
        .y_label_formatter(&|y| format!("× {y:.0}"))
        .x_label_formatter(&|at| match at {
            SegmentValue::CenterOf(n) if *n == last => "negotiators".to_owned(),
            SegmentValue::CenterOf(n) => {
                format!("{}, {} MiB", exchanged[*n].disk, exchanged[*n].memory)
            }
            _ => String::new(),
        })
        .label_style(LABELS)
        .draw()?;
    let (area, base) = (
        chart.plotting_area(),
        chart.backend_coord(&(SegmentValue::CenterOf(0), 1.0)).1,
    );
    let half = area.dim_in_pixel().0 as i32 / exchanged.len() as i32 / 2;
    for (n, served) in exchanged.iter().enumerate() {
        for (of, times) in times(served).into_iter().enumerate() {
            let (middle, top) = chart.backend_coord(&(SegmentValue::CenterOf(n), times));
            let width = half * 3 / 4;
            let left = middle - width + of as i32 * (width + 2);
            let bar = Rectangle::new(
                [(left, top), (left + width - 2, base)],
                COLOURS[of].filled(),
            );
            root.draw(&bar)?;
            let name = ["small", "big"][of];
            let digits = if times < 10.0 { 2 } else { 0 };
            root.draw(&Text::new(name, (left, top - 26), text(13)))?;
            root.draw(&Text::new(
                format!("× {times:.digits$}"),
                (left, top - 10),
                text(13),
            ))?;
        }
    }
    Ok(())
}
