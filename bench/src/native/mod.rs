// SPDX-License-Identifier: GPL-2.0-only
//! Pick and enqueue of vtrr.h as a C compiler makes it for this machine, beside a binary heap and a red-black tree that do the same job:
//! nanoseconds on this machine, and instructions, which a guest counts (few machines let one count their own: virtual ones do not).

mod contention;
mod jit;
mod queue;
pub mod queues;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tix_tests::guest::Guest;
use tix_tests::load::report::columns;

use crate::machine;
use queues::{Kind, Weights};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Decisions on this machine")]
#[group(id = "decisions")]
pub struct Options {
    /// Numbers of clients.
    #[arg(
        long = "clients",
        value_delimiter = ',',
        default_value = "2,10,100,1000,10000,100000"
    )]
    sizes: Vec<usize>,
    /// Nanoseconds only: no guest counts instructions.
    #[arg(long)]
    no_guest: bool,
    /// This is that guest.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Decisions in one measurement, of which the median is taken.
const DECISIONS: u64 = 200_000;
const TIMES: usize = 7;
/// In the guest, which repeats itself.
const DECISIONS_INSIDE: u64 = 20_000;
/// Clients of one queue where CPUs compete for it.
const CROWD: usize = 1_000;

/// Of one decision.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cost {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Cost {
    fn of(mut all: Vec<f64>) -> Cost {
        all.sort_by(f64::total_cmp);
        let at = |i: usize| all.get(i).copied().unwrap_or(f64::NAN);
        Cost {
            median: at(all.len() / 2),
            least: at(0),
            most: at(all.len().saturating_sub(1)),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timing {
    pub queue: Kind,
    pub weights: Weights,
    pub clients: usize,
    /// Nanoseconds.
    pub ns: Cost,
}

/// What the guest says.
#[derive(Deserialize)]
struct Inside {
    kernel: String,
    timings: Vec<Timing>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "experiment", rename_all = "lowercase")]
pub enum Run {
    /// One decision.
    Decision {
        #[serde(flatten)]
        timing: Timing,
        /// As a guest counted them, and its kernel.
        instructions: Option<f64>,
        counted_on: Option<String>,
        /// Cache lines that it changes in the memory of vtrr.h.
        lines: Option<f64>,
        lines_most: Option<usize>,
    },
    /// Threads that do nothing but decide.
    Contention {
        threads: usize,
        /// One queue under a lock, or one each.
        shared: bool,
        clients: usize,
        /// Of all threads together, millions per second.
        millions_per_s: Cost,
    },
}

/// Every queue with every kind of weights and number of clients, turn by turn so that what else goes on hits all alike.
fn timings(sizes: &[usize], decisions: u64, times: usize) -> Vec<Timing> {
    let mut all = Vec::new();
    for (weights, &clients) in Weights::ALL
        .iter()
        .flat_map(|w| sizes.iter().map(move |n| (*w, n)))
    {
        let of = weights.clients(clients, 1);
        let mut queues: Vec<_> = (Kind::ALL.into_iter())
            .filter_map(|kind| Some((kind, kind.of(&of)?, Vec::with_capacity(times))))
            .collect();
        for (_, queue, _) in &mut queues {
            black_box(queue.run(decisions));
        }
        for _ in 0..times {
            for (_, queue, ns) in &mut queues {
                // Another one's clients were in the caches just now.
                black_box(queue.run(decisions / 4));
                let began = Instant::now();
                black_box(queue.run(decisions));
                ns.push(began.elapsed().as_secs_f64() * 1e9 / decisions as f64);
            }
        }
        for (kind, _, ns) in queues {
            all.push(Timing {
                queue: kind,
                weights,
                clients,
                ns: Cost::of(ns),
            });
        }
    }
    all
}

pub fn measure(options: &Options) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "what is measured must be built for release: bench/run native"
    );
    ensure!(
        options.sizes.iter().all(|n| (1..=1_000_000).contains(n)),
        "--clients are 1 … 1,000,000"
    );
    if options.inside {
        return inside(&options.sizes);
    }
    if let Err(err) = jit::Jit::of(&[(1 << 20, 0)]) {
        eprintln!("native: not in BPF, which this machine does not load: {err:#}");
    }
    eprintln!("native: decisions");
    let mut timings = timings(&options.sizes, DECISIONS, TIMES);
    eprintln!("native: contention");
    let crowds = crowds()?;
    let counted = match options.no_guest {
        true => None,
        false => match count(&options.sizes) {
            Ok(inside) => Some(inside),
            Err(err) => {
                eprintln!("native: no instructions, as no guest counted them: {err:#}");
                None
            }
        },
    };
    eprintln!("native: cache lines");
    let mut runs = Vec::new();
    for timing in timings.drain(..) {
        let same = |t: &&Timing| {
            (t.queue, t.weights, t.clients) == (timing.queue, timing.weights, timing.clients)
        };
        let found = counted
            .as_ref()
            .and_then(|i| i.timings.iter().find(same).map(|t| (t.ns.median, i)));
        let lines = (timing.queue == Kind::Tix)
            .then(|| contention::lines(timing.weights, timing.clients, 500));
        runs.push(Run::Decision {
            instructions: found.map(|f| f.0),
            counted_on: found.map(|f| f.1.kernel.clone()),
            lines: lines.map(|l| l.0),
            lines_most: lines.map(|l| l.1),
            timing,
        });
    }
    runs.extend(crowds);
    print(&runs, &options.sizes);
    machine::write("native", &runs)
}

/// Threads from 1 to as many as there are CPUs.
fn crowds() -> Result<Vec<Run>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut runs = Vec::new();
    for threads in 1..=cpus {
        for shared in [true, false] {
            let rate = |_| {
                let rate = contention::rate(threads, shared, CROWD, Duration::from_millis(200))?;
                Ok(rate / 1e6)
            };
            runs.push(Run::Contention {
                threads,
                shared,
                clients: CROWD,
                millions_per_s: Cost::of((0..TIMES).map(rate).collect::<Result<_>>()?),
            });
        }
    }
    Ok(runs)
}

/// This very program in a guest on the instruction-counting clock, where an instruction takes a nanosecond.
fn count(sizes: &[usize]) -> Result<Inside> {
    eprintln!("native: a guest counts instructions");
    let me = std::env::current_exe().context("where am I")?;
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let script = format!(
        "{} native --inside --clients {}",
        me.display(),
        sizes.join(",")
    );
    let said = Guest::new().icount(0).timeout(900).run(&script)?;
    let one = said.all().first().context("it said nothing")?;
    Ok(serde_json::from_value(one.clone())?)
}

fn inside(sizes: &[usize]) -> Result<()> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let timings = timings(sizes, DECISIONS_INSIDE, 1);
    let said = json!({ "experiment": "native", "kernel": kernel.trim(), "timings": timings });
    println!("{said}");
    Ok(())
}

fn print(runs: &[Run], sizes: &[usize]) {
    let mut head = vec!["clients".to_owned()];
    for kind in Kind::ALL {
        head.extend([format!("{}, ns", kind.name()), "instructions".into()]);
    }
    head.extend(["lines".to_owned(), "most".into()]);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    for weights in Weights::ALL {
        let mut rows: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for &n in sizes {
            rows.insert(n, vec![n.to_string()]);
        }
        let mut of_lines: BTreeMap<usize, [String; 2]> = BTreeMap::new();
        for run in runs {
            let Run::Decision {
                timing,
                instructions,
                lines,
                lines_most,
                ..
            } = run
            else {
                continue;
            };
            if timing.weights != weights {
                continue;
            }
            let cells = rows.entry(timing.clients).or_default();
            let kind = Kind::ALL.iter().position(|k| *k == timing.queue);
            cells.resize(1 + 2 * kind.unwrap_or(0), "–".into());
            cells.push(format!("{:.1}", timing.ns.median));
            cells.push(instructions.map_or("–".into(), |i| format!("{i:.0}")));
            if let (Some(mean), Some(most)) = (lines, lines_most) {
                of_lines.insert(timing.clients, [format!("{mean:.1}"), most.to_string()]);
            }
        }
        for (n, cells) in &mut rows {
            cells.extend(of_lines.remove(n).into_iter().flatten());
        }
        println!("A decision, {weights:?} weights; cache lines that it changes in vtrr.h's memory");
        print!(
            "{}",
            columns(&head, &rows.into_values().collect::<Vec<_>>())
        );
    }
    let crowd = |run: &Run| match run {
        Run::Contention {
            threads,
            shared,
            millions_per_s: m,
            ..
        } => Some(vec![
            threads.to_string(),
            if *shared { "one, locked" } else { "each" }.into(),
            format!("{:.2}", m.median),
            format!("{:.2} … {:.2}", m.least, m.most),
        ]),
        Run::Decision { .. } => None,
    };
    let rows: Vec<_> = runs.iter().filter_map(crowd).collect();
    println!("Threads that do nothing but decide, {CROWD} clients a queue");
    let head = ["threads", "queue", "million/s", "range"];
    print!("{}", columns(&head, &rows));
}
