// SPDX-License-Identifier: GPL-2.0-only
//! The ledger's speed: a real tixd, built for release, that serves a large ledger and changes nothing in the kernel.

pub mod clients;
pub mod fill;
pub mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tix_tests::guest::tree;
use tix_tests::load::report::columns;

use crate::machine;
use server::Tixd;

/// Connections that root may have open.
pub const CLIENTS: usize = 64;
/// Operations that each has under way when it does not wait for one after the other.
pub const DEPTH: usize = 16;
const STARTS: usize = 3;

/// How large, and where.
#[derive(clap::Args)]
pub struct Options {
    /// Currencies in the ledger.
    #[arg(long, default_value_t = 100_000)]
    currencies: u64,
    /// Tickets in the ledger.
    #[arg(long, default_value_t = 1_000_000)]
    tickets: u64,
    /// For how long clients ask, seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// A directory on the disk to measure on; a part of it is used and removed again. By default the build directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Another tixd than the one that was built beside this program.
    #[arg(long)]
    tixd: Option<PathBuf>,
}

/// Microseconds.
#[derive(Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub p99: f64,
    pub longest: f64,
}

impl Spread {
    pub fn of(mut times: Vec<Duration>) -> Spread {
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        let at = |part: usize| {
            let time = times.get(last * part / 100).copied();
            time.unwrap_or_default().as_secs_f64() * 1e6
        };
        Spread {
            median: at(50),
            p99: at(99),
            longest: at(100),
        }
    }
}

/// What a crowd of clients got done.
#[derive(Serialize, Deserialize)]
pub struct Crowd {
    pub clients: usize,
    pub depth: usize,
    pub operations: usize,
    pub per_second: f64,
    /// From asking to the answer.
    pub us: Spread,
    /// CPU time of tixd for one operation.
    pub cpu_us: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Run {
    /// Of the last minute, before it began: who else used the machine.
    pub load: String,
    pub currencies: u64,
    pub tickets: u64,
    /// The ledger's file.
    pub megabytes: f64,
    /// A write of 4 KiB at the end of a file, and `fdatasync`.
    pub fsync_us: Spread,
    pub start_s: f64,
    pub start_cpu_s: f64,
    pub start_empty_s: f64,
    pub bytes_per_ticket: f64,
    /// After all these operations.
    pub bytes_per_ticket_later: f64,
    pub fund_us: Spread,
    pub crowds: Vec<Crowd>,
    /// Operations that were acknowledged and that the ledger had after tixd was killed.
    pub kept: u64,
}

pub fn measure(options: &Options) -> Result<()> {
    let me = std::env::current_exe().context("where am I")?;
    let beside = me.with_file_name("tixd");
    let program = options.tixd.clone().unwrap_or(beside);
    ensure!(
        !cfg!(debug_assertions) && program.exists(),
        "what is measured must be built for release: bench/run ledger"
    );
    let parent = options.dir.clone().unwrap_or(tree().join("target"));
    let dir = parent.join(format!("bench-ledger-{}", std::process::id()));
    let result = within(options, &program, &dir);
    // Nothing is left behind, whatever came of it.
    let removed = fs::remove_dir_all(&dir);
    let run = result?;
    removed?;
    print(&run);
    machine::write("ledger", &[run])
}

fn within(options: &Options, program: &Path, dir: &Path) -> Result<Run> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let (empty, full) = (dir.join("empty"), dir.join("full"));
    for dir in [&empty, &full] {
        fs::create_dir_all(dir)?;
    }
    let fsync_us = fsync(&dir.join("probe"))?;
    let tixd = Tixd::start(program, &empty)?;
    let (start_empty_s, base) = (tixd.start.as_secs_f64(), tixd.memory()?);
    tixd.end()?;

    eprintln!("ledger: filling it");
    let state = full.join("state");
    let filled = fill::fill(&state, options.currencies, options.tickets)?;
    let tickets = &filled.of_the_cpu;
    let size = state.join("ledger.sqlite").metadata()?.len();
    eprintln!("ledger: starting");
    let mut starts = Vec::new();
    for _ in 1..STARTS {
        let tixd = Tixd::start(program, &full)?;
        starts.push((tixd.start, tixd.start_cpu));
        tixd.end()?;
    }
    let tixd = Tixd::start(program, &full)?;
    starts.push((tixd.start, tixd.start_cpu));
    let (starts, start_cpus) = starts.into_iter().unzip();
    let per_ticket = |bytes: u64| bytes.saturating_sub(base) as f64 / filled.tickets as f64;
    let bytes_per_ticket = per_ticket(tixd.memory()?);

    eprintln!("ledger: one client");
    let mut acknowledged = 0;
    let times = clients::one(&tixd, tickets, 2_000)?;
    acknowledged += times.len();
    let fund_us = Spread::of(times);
    let length = Duration::from_secs(options.seconds);
    let mut crowds = Vec::new();
    for (clients, depth) in [(CLIENTS, 1), (CLIENTS, DEPTH)] {
        eprintln!("ledger: {clients} clients, {depth} operations each under way");
        let before = tixd.cpu()?;
        let crowd = clients::many(&tixd, tickets, (clients, depth), length)?;
        let cpu = tixd.cpu()? - before;
        let operations = crowd.times.len();
        acknowledged += operations;
        crowds.push(Crowd {
            clients,
            depth,
            operations,
            per_second: operations as f64 / crowd.took.as_secs_f64(),
            us: Spread::of(crowd.times),
            cpu_us: cpu.as_secs_f64() * 1e6 / operations as f64,
        });
    }
    let bytes_per_ticket_later = per_ticket(tixd.memory()?);
    tixd.kill()?;
    let kept = fill::sum(&state)? - filled.sum;
    ensure!(
        kept == acknowledged as u64,
        "{acknowledged} operations were acknowledged, and {kept} were kept"
    );
    Ok(Run {
        load,
        currencies: options.currencies,
        tickets: filled.tickets,
        megabytes: size as f64 / 1e6,
        fsync_us,
        start_s: Spread::of(starts).median / 1e6,
        start_cpu_s: Spread::of(start_cpus).median / 1e6,
        start_empty_s,
        bytes_per_ticket,
        bytes_per_ticket_later,
        fund_us,
        crowds,
        kept,
    })
}

/// What the disk itself takes.
fn fsync(path: &Path) -> Result<Spread> {
    use std::io::Write;
    let mut file = fs::File::create(path)?;
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(Spread::of(times))
}

fn print(run: &Run) {
    println!(
        "The ledger with {} currencies and {} tickets, {:.0} MB; load {} before",
        run.currencies, run.tickets, run.megabytes, run.load
    );
    let row = |what: &str, value: String, target: &str| {
        let cells = [what, &value, target];
        cells.map(str::to_owned).to_vec()
    };
    let spread = |what: &str, s: &Spread, target: &str| {
        let value = format!(
            "{:.2} ({:.2}, {:.2})",
            s.median / 1e3,
            s.p99 / 1e3,
            s.longest / 1e3
        );
        row(&format!("{what}, ms (99 %, longest)"), value, target)
    };
    let mut rows = vec![
        spread("4 KiB and fdatasync", &run.fsync_us, ""),
        row("start, s", format!("{:.2}", run.start_s), "< 2"),
        row("… CPU", format!("{:.2}", run.start_cpu_s), ""),
        row("start, empty, s", format!("{:.2}", run.start_empty_s), ""),
        row(
            "bytes per ticket",
            format!("{:.0}", run.bytes_per_ticket),
            "< 500",
        ),
        row(
            "… after all",
            format!("{:.0}", run.bytes_per_ticket_later),
            "",
        ),
        spread("one client: fund", &run.fund_us, "≤ 5"),
    ];
    for c in &run.crowds {
        let who = format!("{} clients, {} each", c.clients, c.depth);
        let target = if c.depth == 1 { "≥ 20000" } else { "" };
        rows.push(row(
            &format!("{who}: /s"),
            format!("{:.0}", c.per_second),
            target,
        ));
        rows.push(spread(&who, &c.us, ""));
        rows.push(row(
            &format!("{who}: CPU of tixd, µs"),
            format!("{:.1}", c.cpu_us),
            "",
        ));
    }
    rows.push(row(
        "acknowledged, and kept when it was killed",
        run.kept.to_string(),
        "all",
    ));
    print!("{}", columns(&["", "measured", "wanted"], &rows));
}
