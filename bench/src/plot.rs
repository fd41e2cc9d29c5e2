// SPDX-License-Identifier: GPL-2.0-only
//! Pictures of what was measured, below `bench/results/`.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tix_tests::guest::tree;

pub type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Colours that colour-blind readers tell apart.
pub const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(130, 130, 130),
];
pub const GRID: RGBColor = RGBColor(215, 215, 215);
pub const LABELS: (&str, u32) = ("sans-serif", 14);

/// Where a key begins beside a chart, and below one, pixels.
pub const BESIDE: (i32, i32) = (4, 60);
pub const BELOW: (i32, i32) = (64, 14);
/// Pixels from one line of a key to the next.
const LINE: i32 = 20;

/// The picture that `paint` makes, as SVG.
pub fn svg(size: (u32, u32), paint: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    let painted = || -> Drawn {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        paint(&root)?;
        root.present()?;
        Ok(())
    };
    painted().map_err(|e| anyhow!("draw a picture: {e}"))?;
    Ok(svg)
}

/// Writes a picture to `bench/results/NAME.svg`, if that has another one.
pub fn save(name: &str, svg: &str) -> Result<()> {
    let path = tree().join(format!("bench/results/{name}.svg"));
    if std::fs::read_to_string(&path).is_ok_and(|old| old == svg) {
        return Ok(());
    }
    std::fs::write(&path, svg)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Text `size` pixels high, anchored at its left end and its middle.
pub fn text(size: u32) -> TextStyle<'static> {
    let style = ("sans-serif", size).into_text_style(&(10_000, 10_000));
    style.pos(Pos::new(HPos::Left, VPos::Center))
}

/// Which line is whose: a key in an area of its own, where it covers nothing. It begins at `at`.
pub fn key(area: &Area, at: (i32, i32), entries: &[(&str, ShapeStyle)]) -> Drawn {
    for (n, (name, style)) in entries.iter().enumerate() {
        let (x, y) = (at.0, at.1 + LINE * n as i32);
        area.draw(&PathElement::new([(x, y), (x + 22, y)], *style))?;
        area.draw(&Text::new(*name, (x + 28, y), text(13)))?;
    }
    Ok(())
}
