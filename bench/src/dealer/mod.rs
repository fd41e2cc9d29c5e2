// SPDX-License-Identifier: GPL-2.0-only
//! The dealer's speed: offers matched against a large book, alone; and offers made of a real tixd, each kept before it is answered.

mod api;
mod book;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tix_tests::load::report::columns;

use crate::ledger::{Crowd, Spread};
use crate::machine;

/// How large, and where.
#[derive(clap::Args)]
#[command(next_help_heading = "The dealer")]
#[group(id = "dealer")]
pub struct Options {
    /// Offers that rest on the book while others are matched.
    #[arg(long, default_value_t = 1_000_000)]
    offers: u64,
    /// Parties that offer through the API.
    #[arg(long, default_value_t = 1_000)]
    parties: u64,
    /// For how long clients offer, seconds.
    #[arg(long, default_value_t = 10)]
    offer_seconds: u64,
    /// A directory on the disk for it; a part of it is used and removed again. By default the build directory.
    #[arg(long)]
    offer_dir: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
pub struct Book {
    pub resting: u64,
    /// New offers against that.
    pub offers: u64,
    pub per_second: f64,
    /// Of each.
    pub us: Spread,
    /// Exchanges that came of them.
    pub deals: u64,
}

#[derive(Serialize, Deserialize)]
pub struct Run {
    /// Of the last minute, before it began: who else used the machine.
    pub load: String,
    pub book: Book,
    pub parties: u64,
    pub crowds: Vec<Crowd>,
    /// Offers that were acknowledged; and the last number that the ledger had given away after tixd was killed, to an offer or an exchange.
    pub acknowledged: u64,
    pub last_number: u64,
}

pub fn measure(options: &Options) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "what is measured must be built for release: bench/run dealer"
    );
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    eprintln!("dealer: the book");
    let book = book::measure(options.offers);
    let api = api::measure(options)?;
    let run = Run {
        load,
        book,
        parties: options.parties,
        crowds: api.crowds,
        acknowledged: api.acknowledged,
        last_number: api.last_number,
    };
    print(&run);
    machine::write("dealer", &[run])
}

fn print(run: &Run) {
    println!(
        "The dealer with {} offers on its book; load {} before",
        run.book.resting, run.load
    );
    let row = |what: &str, value: String, target: &str| {
        let cells = [what, &value, target];
        cells.map(str::to_owned).to_vec()
    };
    let spread = |s: &Spread| format!("{:.1} ({:.1}, {:.1})", s.median, s.p99, s.longest);
    let mut rows = vec![
        row(
            "new offers against the book: /s",
            format!("{:.0}", run.book.per_second),
            "≥ 100000",
        ),
        row("… each, µs (99 %, longest)", spread(&run.book.us), ""),
        row(
            "… exchanges for each",
            format!("{:.2}", run.book.deals as f64 / run.book.offers as f64),
            "",
        ),
    ];
    for c in &run.crowds {
        let who = format!("{} clients, {} each", c.clients, c.depth);
        let target = if c.depth == 1 { "" } else { "≥ 10000" };
        let per_second = format!("{:.0}", c.per_second);
        rows.push(row(&format!("{who}: offers kept /s"), per_second, target));
        rows.push(row(
            &format!("{who}, µs (99 %, longest)"),
            spread(&c.us),
            "",
        ));
        let cpu = format!("{:.1}", c.cpu_us);
        rows.push(row(&format!("{who}: CPU of tixd, µs"), cpu, ""));
    }
    print!("{}", columns(&["", "measured", "wanted"], &rows));
}
