// SPDX-License-Identifier: GPL-2.0-only
//! The whole scheduler on a simulated machine (tix_lab), beside an ideal one: clients that sleep,
//! come back, use part of a quantum, change share, on several CPUs.

mod trace;

use crate::machine as results;
use crate::progress::Progress;
use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tix_lab::history::History;
use tix_lab::history::judge::{self, Error, QUANTUM};
use tix_lab::history::replay::{self, Record};
use tix_lab::history::scenarios::{self, Case, Scenario};
use tix_tests::load::report::columns;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Reality")]
#[group(id = "reality")]
pub struct Options {
    /// Only these scenarios.
    #[arg(long, value_parser = scenario, value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Numbers of CPUs.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    cpus: Vec<u32>,
    /// Random histories of each scenario for each number of CPUs.
    #[arg(long, default_value_t = 30)]
    histories: u64,
    /// Simulated time of each, ms.
    #[arg(long, default_value_t = 3_000)]
    simulated: u64,
    /// Only the history that is drawn from this seed, of each scenario that is named: the error
    /// of each principal.
    #[arg(long)]
    seed: Option<u64>,
    /// Only the history in this file (bpf/lab/src/history/mod.rs tells how it is written).
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write the one history to this file, with all that happened in it, to be run again.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write a trace of the one history, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    let named = |s: &Scenario| s.name() == name;
    let found = Scenario::ALL.into_iter().find(named);
    found.ok_or_else(|| format!("the scenarios are {}", names()))
}

/// Of many histories of one scenario on so many CPUs.
#[derive(Clone, Debug, Serialize)]
struct Point {
    scenario: &'static str,
    cpus: u32,
    histories: u64,
    /// Service error, quanta: its mean size over time and principals, the mean of each history's
    /// lowest and highest, and the worst of all, with the seed that has it.
    mean: f64,
    mean_low: f64,
    mean_high: f64,
    low: f64,
    low_seed: u64,
    high: f64,
    high_seed: u64,
    /// ms: the longest that a thread was runnable without a CPU.
    longest_wait: f64,
    /// Threads taken over from another CPU, a second and CPU.
    stolen: f64,
}

/// Waits of a thread that mostly sleeps, among hogs of more tickets, quanta.
#[derive(Clone, Debug, Serialize)]
struct Latency {
    cpus: u32,
    hogs: u32,
    wakes: usize,
    p50: f64,
    p99: f64,
    most: f64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Error(Point),
    Latency(Latency),
}

const HOGS: [u32; 4] = [1, 2, 8, 32];

/// Runs what was asked for: one history, or all scenarios.
pub fn measure(options: &Options) -> Result<()> {
    if let Some(path) = &options.events {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let history = History::read(&text).with_context(|| path.display().to_string())?;
        let case = Case {
            history,
            cycles: vec![],
        };
        return one(&case, 0, options);
    }
    let scenarios = match options.scenarios.is_empty() {
        true => Scenario::ALL.to_vec(),
        false => options.scenarios.clone(),
    };
    let points = |f: &dyn Fn(Scenario, u32) -> Result<()>| {
        (options.cpus.iter()).try_for_each(|c| scenarios.iter().try_for_each(|s| f(*s, *c)))
    };
    if let Some(seed) = options.seed {
        return points(&|scenario, cpus| {
            println!("{} on {cpus} CPUs, seed {seed}", scenario.name());
            let case = scenario.case(cpus, options.simulated * 1_000_000, seed);
            one(&case, seed, options)
        });
    }
    all(&scenarios, options)
}

fn save(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()).with_context(|| format!("write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn one(case: &Case, seed: u64, options: &Options) -> Result<()> {
    let (record, errors) = simulate(case, seed);
    print!("{}", details(&errors));
    let (wait, thread) = judge::longest_wait(&record);
    println!(
        "Thread {thread} waited longest: {:.1} ms",
        wait as f64 / 1e6
    );
    println!("CPUs took over {} threads\n", record.stolen);
    save(options.save.as_deref(), || record.history.write())?;
    save(options.trace.as_deref(), || trace::write(&record))
}

fn details(errors: &[Error]) -> String {
    let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
    let row = |e: &Error| {
        vec![
            e.node.to_string(),
            format!("{:+.2}", e.low),
            ms(e.low_at),
            format!("{:+.2}", e.high),
            ms(e.high_at),
            format!("{:.2}", e.mean),
            format!("{:+.2}", e.last),
        ]
    };
    let rows: Vec<_> = errors.iter().map(row).collect();
    let head = [
        "node",
        "lowest",
        "at ms",
        "highest",
        "at ms",
        "mean",
        "at the end",
    ];
    columns(&head, &rows)
}

fn simulate(case: &Case, seed: u64) -> (Record, Vec<Error>) {
    let record = replay::run(&case.history, &case.cycles, seed);
    let errors = judge::errors(&record);
    (record, errors)
}

fn point(scenario: Scenario, cpus: u32, options: &Options) -> Point {
    let end = options.simulated * 1_000_000;
    let seeds = 0..options.histories.max(1);
    let of = |seed| {
        let (record, errors) = simulate(&scenario.case(cpus, end, seed), seed);
        let low = errors.iter().map(|e| e.low).fold(0.0, f64::min);
        let high = errors.iter().map(|e| e.high).fold(0.0, f64::max);
        let mean = errors.iter().map(|e| e.mean).sum::<f64>() / errors.len() as f64;
        let wait = judge::longest_wait(&record).0;
        (low, high, mean, wait, record.stolen, seed)
    };
    let all: Vec<_> = seeds.into_par_iter().map(of).collect();
    let n = all.len() as f64;
    let lowest = all.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let highest = all.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let seconds = end as f64 / 1e9;
    Point {
        scenario: scenario.name(),
        cpus,
        histories: all.len() as u64,
        mean: all.iter().map(|a| a.2).sum::<f64>() / n,
        mean_low: all.iter().map(|a| a.0).sum::<f64>() / n,
        mean_high: all.iter().map(|a| a.1).sum::<f64>() / n,
        low: lowest.map_or(0.0, |a| a.0),
        low_seed: lowest.map_or(0, |a| a.5),
        high: highest.map_or(0.0, |a| a.1),
        high_seed: highest.map_or(0, |a| a.5),
        longest_wait: all.iter().map(|a| a.3).max().unwrap_or(0) as f64 / 1e6,
        stolen: all.iter().map(|a| a.4).sum::<u64>() as f64 / n / seconds / f64::from(cpus),
    }
}

fn latency(cpus: u32, each: u32, options: &Options) -> Latency {
    let end = options.simulated * 1_000_000;
    let of = |seed| {
        let (case, thread) = scenarios::sleeper(cpus, each * cpus, end);
        let record = replay::run(&case.history, &case.cycles, seed);
        judge::latencies(&record, thread)
    };
    let seeds = 0..options.histories.max(1);
    let mut all: Vec<u64> = seeds.into_par_iter().flat_map_iter(of).collect();
    all.sort_unstable();
    let at = |part: f64| {
        let i = (all.len() as f64 * part) as usize;
        let ns = all.get(i.min(all.len().saturating_sub(1)));
        ns.copied().unwrap_or(0) as f64 / QUANTUM as f64
    };
    Latency {
        cpus,
        hogs: each * cpus,
        wakes: all.len(),
        p50: at(0.5),
        p99: at(0.99),
        most: at(1.0),
    }
}

fn all(scenarios: &[Scenario], options: &Options) -> Result<()> {
    let progress = Progress::of(options.cpus.len() * (scenarios.len() + HOGS.len()));
    let (mut points, mut latencies) = (vec![], vec![]);
    for cpus in &options.cpus {
        for scenario in scenarios {
            points.push(point(*scenario, *cpus, options));
            progress.step();
        }
        for each in HOGS {
            latencies.push(latency(*cpus, each, options));
            progress.step();
        }
    }
    print!("{}\n{}", table(&points), waits(&latencies));
    let results: Vec<Entry> = (points.into_iter().map(Entry::Error))
        .chain(latencies.into_iter().map(Entry::Latency))
        .collect();
    results::write("reality", &results)
}

fn table(points: &[Point]) -> String {
    let row = |p: &Point| {
        vec![
            p.scenario.to_owned(),
            p.cpus.to_string(),
            p.histories.to_string(),
            format!("{:.2}", p.mean),
            format!("{:+.2}", p.mean_low),
            format!("{:+.2}", p.mean_high),
            format!("{:+.2}", p.low),
            format!("{:+.2}", p.high),
            format!("{:.0}", p.longest_wait),
            format!("{:.1}", p.stolen),
        ]
    };
    let rows: Vec<_> = points.iter().map(row).collect();
    let head = [
        "scenario",
        "CPUs",
        "cases",
        "mean",
        "mean low",
        "mean high",
        "lowest",
        "highest",
        "wait ms",
        "moved/s",
    ];
    let text = columns(&head, &rows);
    format!("Service error beside the ideal machine, quanta of 1 ms\n{text}")
}

fn waits(latencies: &[Latency]) -> String {
    let row = |l: &Latency| {
        vec![
            l.cpus.to_string(),
            l.hogs.to_string(),
            l.wakes.to_string(),
            format!("{:.2}", l.p50),
            format!("{:.2}", l.p99),
            format!("{:.2}", l.most),
        ]
    };
    let rows: Vec<_> = latencies.iter().map(row).collect();
    let head = ["CPUs", "hogs", "wake-ups", "p50", "p99", "longest"];
    let text = columns(&head, &rows);
    format!(
        "From wake-up to CPU, quanta: a thread that works 0.1 ms and sleeps 5 ... 50 ms, \
         among hogs of ten times its tickets\n{text}"
    )
}
