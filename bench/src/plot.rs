// SPDX-License-Identifier: GPL-2.0-only
//! Pictures of what was measured, below `bench/results/`.

use anyhow::{Result, anyhow};
use plotters::coord::CoordTranslate;
use plotters::prelude::*;
use tix_tests::guest::tree;

pub type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Writes what `picture` draws to NAME.svg.
pub fn save(name: &str, picture: impl FnOnce(&mut String) -> Drawn) -> Result<()> {
    let path = tree().join(format!("bench/results/{name}.svg"));
    let mut svg = String::new();
    picture(&mut svg).map_err(|e| anyhow!("draw {}: {e}", path.display()))?;
    std::fs::write(&path, svg)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Which line is whose, in the upper left corner.
pub fn legend<'a, DB, CT>(chart: &mut ChartContext<'a, DB, CT>) -> Drawn
where
    DB: DrawingBackend + 'a,
    DB::ErrorType: 'static,
    CT: CoordTranslate,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
