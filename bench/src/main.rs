// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons of tix with the kernel's own scheduler and with scx_simple and scx_flatcg from the
//! kernel's own tools, in guests on the instruction-counting clock; of its rule with others; and
//! its speed and the ledger's on this machine: a table on stdout, JSON below `bench/results/`, and
//! the documents' tables and pictures from that.

mod costs;
mod dealer;
mod documents;
mod exchanges;
mod guests;
mod lab;
mod ledger;
mod machine;
mod native;
mod peers;
mod plot;
mod progress;
mod resources;
mod shares;
mod stores;
mod text;
mod wakeups;

use std::time::Instant;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tix_tests::load::switches::Kind;

/// Compare tix with its peers.
#[derive(Parser)]
#[command(name = "bench/run", version)]
struct Cli {
    /// What to compare; by default everything but `disk`, `memory`, `exchange`, `stores`, `cpus`,
    /// `wide` and `crowd`, and then the documents' tables.
    #[arg(value_enum, conflicts_with = "all")]
    what: Vec<What>,
    /// Really everything.
    #[arg(long)]
    all: bool,
    /// Only these schedulers: kernel, simple, flatcg, tix.
    #[arg(long, value_delimiter = ',')]
    schedulers: Vec<String>,
    #[command(flatten)]
    costs: costs::Options,
    #[command(flatten)]
    lab: lab::Options,
    #[command(flatten)]
    reality: lab::reality::Options,
    #[command(flatten)]
    native: native::Options,
    #[command(flatten)]
    ledger: ledger::Options,
    #[command(flatten)]
    dealer: dealer::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// vtrr.h on this machine beside a heap and a tree, and many CPUs at one queue.
    Native,
    /// The ledger: start-up, memory, latency and throughput.
    Ledger,
    /// The dealer: new offers against a large book, alone and through tixd.
    Dealer,
    /// The laboratory: service time error of tix's rule and others, simulated on this machine.
    Error,
    /// Sullivan's Figure 8: a hard half of a disk; in a guest, in real time.
    Disk,
    /// Sullivan's Figure 7: guaranteed memory; in a guest, in real time.
    Memory,
    /// Sullivan's Figures 9 and 10: CPU tickets for disk tickets; in a guest, in real time.
    Exchange,
    /// Sullivan's Figure 11: two key-value stores, memory for disk tickets; in a guest, in real time.
    Stores,
    /// Shares 1:2:3:4:5 and the largest service error.
    Shares,
    /// Shares on two and four CPUs, those included that one thread cannot use.
    Cpus,
    /// Instructions per context switch of yielding threads.
    Switches,
    /// Instructions per context switch of pairs over pipes.
    Pipes,
    /// Both with a thousand different weights, six levels deep, on four CPUs.
    Wide,
    /// Both with 10,000 cgroups, in guests of 8 GB.
    Crowd,
    /// hackbench, a server's workers, a sleeper among hogs.
    Wakeups,
    /// The whole scheduler on a simulated machine: clients that sleep, change share, use parts of
    /// quanta, on several CPUs.
    Reality,
    /// Measure nothing: the documents' tables and pictures from the results that there are.
    Documents,
}

/// What `make bench` runs, with `LONG` if it is to be everything. What is timed by the wall clock comes first and has the machine to
/// itself. What runs in guests comes last, all of it together, whatever its place here.
const ALL: [What; 17] = [
    What::Native,
    What::Ledger,
    What::Dealer,
    What::Error,
    What::Reality,
    What::Disk,
    What::Memory,
    What::Exchange,
    What::Stores,
    What::Shares,
    What::Switches,
    What::Pipes,
    What::Wakeups,
    What::Cpus,
    What::Wide,
    What::Crowd,
    What::Documents,
];
/// What `make bench` leaves out, as it takes longest.
const LONG: [What; 9] = [
    What::Disk,
    What::Memory,
    What::Exchange,
    What::Stores,
    What::Pipes,
    What::Wakeups,
    What::Cpus,
    What::Wide,
    What::Crowd,
];

fn main() -> Result<()> {
    let cli = Cli::parse();
    let what = match cli.what.is_empty() {
        true => (ALL.into_iter())
            .filter(|w| cli.all || !LONG.contains(w))
            .collect(),
        false => cli.what,
    };
    let of_schedulers = [
        What::Shares,
        What::Cpus,
        What::Switches,
        What::Pipes,
        What::Wakeups,
        What::Wide,
        What::Crowd,
    ];
    // Before anything else: what keeps them from being built is better known now than in a quarter of an hour.
    let schedulers = match what.iter().any(|w| of_schedulers.contains(w)) {
        true => peers::schedulers(&cli.schedulers)?,
        false => vec![],
    };
    let mut comparisons = Vec::new();
    for what in &what {
        let began = Instant::now();
        match what {
            What::Native => native::measure(&cli.native)?,
            What::Ledger => ledger::measure(&cli.ledger)?,
            What::Dealer => dealer::measure(&cli.dealer)?,
            What::Error => lab::measure(&cli.lab)?,
            What::Reality => lab::reality::measure(&cli.reality)?,
            What::Disk => resources::disk()?,
            What::Memory => resources::memory()?,
            What::Exchange => exchanges::measure()?,
            What::Stores => stores::measure()?,
            What::Shares => comparisons.push(shares::compare(&schedulers)?),
            What::Cpus => comparisons.push(shares::several(&schedulers)?),
            What::Switches => {
                comparisons.push(costs::compare(Kind::Yield, &schedulers, &cli.costs)?);
            }
            What::Pipes => {
                comparisons.push(costs::compare(Kind::Pipe, &schedulers, &cli.costs)?);
            }
            What::Wide => comparisons.push(costs::wide(&schedulers)?),
            What::Crowd => comparisons.push(costs::crowd(&schedulers)?),
            What::Wakeups => comparisons.push(wakeups::compare(&schedulers)?),
            What::Documents => (),
        }
        took(&format!("{what:?}"), began);
    }
    let began = Instant::now();
    if !comparisons.is_empty() {
        guests::run(comparisons)?;
        took("guests", began);
    }
    match what.contains(&What::Documents) {
        true => documents::run(),
        false => Ok(()),
    }
}

/// What took a second or more, on stderr.
fn took(what: &str, began: Instant) {
    let seconds = began.elapsed().as_secs();
    if seconds > 0 {
        eprintln!("{}: {seconds} s", what.to_lowercase());
    }
}
