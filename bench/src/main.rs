// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons of tix with the kernel's own scheduler and with scx_simple and scx_flatcg from the
//! kernel's own tools, in guests on the instruction-counting clock, and the ledger's speed on this
//! machine: a table on stdout, JSON below `bench/results/`.

mod costs;
mod lab;
mod ledger;
mod machine;
mod peers;
mod shares;

use anyhow::Result;
use clap::{Parser, ValueEnum};

/// Compare tix with its peers.
#[derive(Parser)]
#[command(name = "bench/run", version)]
struct Cli {
    /// What to compare; everything but the ledger by default (bench/run adds that).
    #[arg(value_enum)]
    what: Vec<What>,
    /// Only these schedulers: kernel, simple, flatcg, tix.
    #[arg(long, value_delimiter = ',')]
    schedulers: Vec<String>,
    /// Numbers of cgroups for the costs of a switch.
    #[arg(long, value_delimiter = ',', default_value = "2,10,100,1000,10000")]
    n: Vec<usize>,
    #[command(flatten)]
    lab: lab::Options,
    #[command(flatten)]
    reality: lab::events::Options,
    #[command(flatten)]
    ledger: ledger::Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Instructions per context switch of yielding threads.
    Switches,
    /// Instructions per context switch of pairs over pipes.
    Pipes,
    /// Shares 1:2:3:4:5 and the largest service error.
    Shares,
    /// The laboratory: service time error of tix's rule and others, simulated on this machine.
    Error,
    /// Likewise, with clients that sleep, change share, use parts of quanta, on several CPUs.
    Reality,
    /// The ledger: start-up, memory, latency and throughput. Must be built for release.
    Ledger,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let all = [What::Shares, What::Switches, What::Pipes];
    let what = if cli.what.is_empty() {
        &all[..]
    } else {
        &cli.what
    };
    let of_schedulers = what
        .iter()
        .any(|w| !matches!(w, What::Ledger | What::Error | What::Reality));
    let schedulers = match of_schedulers {
        true => peers::schedulers(&cli.schedulers)?,
        false => vec![],
    };
    for what in what {
        match what {
            What::Switches => costs::compare("yield", &schedulers, &cli.n)?,
            What::Pipes => costs::compare("pipe", &schedulers, &cli.n)?,
            What::Shares => shares::compare(&schedulers)?,
            What::Error => lab::measure(&cli.lab)?,
            What::Reality => lab::events::measure(&cli.reality)?,
            What::Ledger => ledger::measure(&cli.ledger)?,
        }
    }
    Ok(())
}
