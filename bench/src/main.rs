// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons of tix with the kernel's own scheduler and with scx_simple and scx_flatcg from the
//! kernel's own tools, in guests on the instruction-counting clock: a table on stdout, JSON below
//! `bench/results/`.

mod costs;
mod machine;
mod peers;
mod shares;

use anyhow::Result;
use clap::{Parser, ValueEnum};

/// Compare tix with its peers.
#[derive(Parser)]
#[command(name = "bench/run", version)]
struct Cli {
    /// What to compare; everything by default.
    #[arg(value_enum)]
    what: Vec<What>,
    /// Only these schedulers: kernel, simple, flatcg, tix.
    #[arg(long, value_delimiter = ',')]
    schedulers: Vec<String>,
    /// Numbers of cgroups for the costs of a switch.
    #[arg(long, value_delimiter = ',', default_value = "2,10,100,1000,10000")]
    n: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Instructions per context switch of yielding threads.
    Switches,
    /// Instructions per context switch of pairs over pipes.
    Pipes,
    /// Shares 1:2:3:4:5 and the largest service error.
    Shares,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let schedulers = peers::schedulers(&cli.schedulers)?;
    let all = [What::Shares, What::Switches, What::Pipes];
    let what = if cli.what.is_empty() {
        &all[..]
    } else {
        &cli.what
    };
    for what in what {
        match what {
            What::Switches => costs::compare("yield", &schedulers, &cli.n)?,
            What::Pipes => costs::compare("pipe", &schedulers, &cli.n)?,
            What::Shares => shares::compare(&schedulers)?,
        }
    }
    Ok(())
}
