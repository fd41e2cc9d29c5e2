// SPDX-License-Identifier: GPL-2.0-only
//! The laboratory: how far clients get from their shares under each rule, as Nieh §5.1 measured it. Who runs next is decided by the
//! scheduler's core itself, with the kernel's arithmetic, and by the rules that it is compared with.

mod error;
pub mod figure;
pub mod reality;
pub mod rules;
pub mod shares;

use crate::machine;
use crate::plot;
use crate::progress::Progress;
use anyhow::Result;
use error::Range;
use rayon::prelude::*;
use rules::Kind;
use serde::{Deserialize, Serialize};
use shares::Spread;
use tix_tests::load::report::columns;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The laboratory")]
#[group(id = "laboratory")]
pub struct Options {
    /// Random combinations of shares for each number of clients and sum of shares; fewer where one takes long.
    #[arg(long, default_value_t = 1_000)]
    combinations: usize,
    /// Only these rules.
    #[arg(long, value_enum, value_delimiter = ',')]
    rules: Vec<Kind>,
    /// Only these spreads of shares.
    #[arg(long, value_enum, value_delimiter = ',')]
    spreads: Vec<Spread>,
}

/// Clients, and the sum of their shares: the paper's plane, and beyond it.
const PLANE: [(usize, u64); 14] = [
    (2, 100),
    (3, 2_000),
    (10, 100),
    (10, 2_000),
    (20, 2_000),
    (50, 500),
    (50, 2_000),
    (100, 200),
    (100, 2_000),
    (200, 20_000),
    (1_000, 20_000),
    (2_000, 100_000),
    (5_000, 1_000_000),
    (10_000, 1_000_000),
];
/// Quanta that are simulated for one point of the plane with one rule, at most: where one combination takes many, there are fewer.
const QUANTA: u64 = 20_000_000;

/// What came of one rule with so many clients and shares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub rule: Kind,
    pub spread: Spread,
    pub clients: usize,
    pub shares: u64,
    pub combinations: usize,
    /// Quanta: the mean of each combination's lowest and highest error, and the worst of all.
    pub mean_low: f64,
    pub mean_high: f64,
    pub low: f64,
    pub high: f64,
}

fn one(rule: Kind, spread: Spread, clients: usize, shares: u64, seed: u64) -> Range {
    let mut random = fastrand::Rng::with_seed(seed);
    let of = spread.shares(clients, shares, &mut random);
    let mut rule = rule.start(&of, seed);
    // By then the schedule repeats: each has had its share.
    error::range(rule.as_mut(), &of, shares)
}

fn point(rule: Kind, spread: Spread, (clients, shares): (usize, u64), most: usize) -> Point {
    let most = most
        .min(usize::try_from(QUANTA / shares).unwrap_or(most))
        .max(1);
    let ranges: Vec<Range> = (0..most as u64)
        .into_par_iter()
        .map(|seed| one(rule, spread, clients, shares, seed))
        .collect();
    let n = ranges.len() as f64;
    Point {
        rule,
        spread,
        clients,
        shares,
        combinations: ranges.len(),
        mean_low: ranges.iter().map(|r| r.low).sum::<f64>() / n,
        mean_high: ranges.iter().map(|r| r.high).sum::<f64>() / n,
        low: ranges.iter().map(|r| r.low).fold(0.0, f64::min),
        high: ranges.iter().map(|r| r.high).fold(0.0, f64::max),
    }
}

/// Every rule at every point of the plane.
pub fn measure(options: &Options) -> Result<()> {
    let chosen = |all: &[Kind]| match options.rules.is_empty() {
        true => all.to_vec(),
        false => options.rules.clone(),
    };
    let spreads = match options.spreads.is_empty() {
        true => Spread::ALL.to_vec(),
        false => options.spreads.clone(),
    };
    let mut todo = Vec::new();
    for spread in spreads {
        for at in PLANE {
            todo.extend(
                chosen(&Kind::ALL)
                    .into_iter()
                    .map(|rule| (rule, spread, at)),
            );
        }
    }
    let progress = Progress::of(todo.len());
    let points: Vec<Point> = todo
        .into_iter()
        .map(|(rule, spread, at)| {
            let point = point(rule, spread, at, options.combinations);
            progress.step();
            point
        })
        .collect();
    print!("{}", table(&points));
    for (name, svg) in figure::pictures(&points)? {
        plot::save(&name, &svg)?;
    }
    machine::write("error", &points)
}

fn table(points: &[Point]) -> String {
    let row = |p: &Point| {
        vec![
            format!("{:?}", p.spread).to_lowercase(),
            p.clients.to_string(),
            p.shares.to_string(),
            p.rule.name().to_owned(),
            p.combinations.to_string(),
            format!("{:+.2}", p.mean_low),
            format!("{:+.2}", p.mean_high),
            format!("{:+.2}", p.low),
            format!("{:+.2}", p.high),
        ]
    };
    let rows: Vec<_> = points.iter().map(row).collect();
    let head = [
        "shares",
        "N",
        "S",
        "rule",
        "cases",
        "mean low",
        "mean high",
        "lowest",
        "highest",
    ];
    let text = columns(&head, &rows);
    format!("Service time error, quanta: of all clients, over a whole cycle of S quanta\n{text}")
}
