// SPDX-License-Identifier: GPL-2.0-only
//! Run one experiment on this machine, as root: JSON on stdout, a table on stderr.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use tix_tests::force::{Force, Loader};
use tix_tests::load::attacks::{self, Attack};
use tix_tests::load::report::{Report, Table};
use tix_tests::load::shares::Plan;
use tix_tests::load::tickets::Mechanism;
use tix_tests::load::tree::Tree;
use tix_tests::load::{
    allowed, away, churn, compaction, cores, cpusets, figures, forks, hackbench, kthreads, latency,
    limits, migrations, nice, overdue, promises, readers, requests, ring, rounds, soak, starve,
    stops, suspend, switches, sys,
};

/// Loads to measure a CPU scheduler by.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Args)]
struct Common {
    /// The scheduler that must be in force before and after: a sched_ext scheduler's name, or
    /// `kernel` for the kernel's own.
    #[arg(long, global = true, value_name = "NAME")]
    require: Option<String>,
    /// Start this program first and wait until its scheduler is in force; stop it afterwards.
    #[arg(long, global = true, value_name = "COMMAND")]
    load: Option<String>,
    /// One instruction is 2^SHIFT ns of the clock (QEMU -icount).
    #[arg(long, global = true, env = "TIX_ICOUNT")]
    shift: Option<u32>,
    /// Kept in the output.
    #[arg(long, global = true, default_value = "")]
    label: String,
    /// The experiment's cgroup; must not exist.
    #[arg(long, global = true, default_value = "/sys/fs/cgroup/tixexp")]
    cgroup: PathBuf,
    /// Let the load run so many seconds before measuring.
    #[arg(long, global = true, default_value_t = 3.0)]
    warmup: f64,
    /// Measure for so many seconds.
    #[arg(long, global = true, default_value_t = 30.0)]
    seconds: f64,
}

#[derive(Args)]
struct Groups {
    /// Cgroups.
    #[arg(long, value_name = "CGROUPS")]
    n: usize,
    /// How many levels deep they lie.
    #[arg(long, value_name = "LEVELS", default_value_t = 1)]
    depth: usize,
    /// Give each a weight of its own, spread over 1 … 10,000, instead of 100.
    #[arg(long)]
    distinct: bool,
}

#[derive(Subcommand)]
enum Experiment {
    /// Busy threads in weighted cgroups: shares and service error.
    Shares {
        /// Weights of cgroups side by side.
        #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5")]
        shares: Vec<u32>,
        /// A tree instead, such as A:1{A1:1,A2:2},B:1.
        #[arg(long, conflicts_with = "shares")]
        tree: Option<String>,
        /// Busy threads in each leaf.
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// How often to look, in ms.
        #[arg(long, default_value_t = 10)]
        sample_ms: u64,
        /// `cpu.weight` (or tickets) of one share.
        #[arg(long, default_value_t = 100)]
        scale: u32,
        #[arg(long, value_enum, default_value = "weight")]
        mechanism: Mechanism,
        /// Processes beside them that wait for each other's locks of the kernel's.
        #[arg(long, default_value_t = 0)]
        quarrels: usize,
        /// Threads in each leaf that mostly sleep, beside the busy ones.
        #[arg(long, default_value_t = 0)]
        readers: usize,
        /// Pairs in each leaf that wake each other, beside the busy ones.
        #[arg(long, default_value_t = 0)]
        pairs: usize,
        /// The busy ones work for up to so many ns and yield, again and again.
        #[arg(long)]
        yields: Option<u64>,
    },
    /// Sullivan's Figures 5 and 6; --seconds is both halves together.
    Figures56 {
        #[arg(long, value_enum, default_value = "weight")]
        mechanism: Mechanism,
    },
    /// Instructions per switch of threads that yield for ever.
    Yield(Groups),
    /// Instructions per switch of pairs that play ping-pong.
    Pipe(Groups),
    /// Instructions a hop of a token that goes round over pipes, by processes in cgroups of their own.
    Ring {
        /// Processes.
        #[arg(long)]
        n: usize,
        /// Beside one that computes all the time.
        #[arg(long)]
        hog: bool,
    },
    /// One hog in each of these cgroups, weights exactly as given.
    Starve {
        #[arg(long, value_delimiter = ',', default_value = "1,10000")]
        weights: Vec<u32>,
    },
    /// One hog against thousands in one cgroup.
    Hogs {
        #[arg(long, default_value_t = 3000)]
        n: usize,
        /// Who has how much; the first has one hog.
        #[arg(long, default_value = "alice=300,bob=100")]
        shares: String,
    },
    /// Busy threads in cgroups with a `cpu.max`: what each gets of one CPU.
    Limits,
    /// What else the kernel documents of cgroups and policies: who gets what, and what is due.
    Promises {
        /// Instead, that of a scheduler which has only those threads that ask for it (SCHED_EXT).
        #[arg(long)]
        partial: bool,
    },
    /// Busy threads of several nice values in one cgroup.
    Nice {
        #[arg(long, value_delimiter = ',', default_value = "0,5,10")]
        values: Vec<i32>,
        /// Of each value.
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// What thousands of threads bound to one CPU cost the next CPU.
    Pinned {
        #[arg(long, default_value_t = 5000)]
        n: usize,
        #[arg(long, default_value_t = 0)]
        cpu: usize,
    },
    /// Cgroups and threads that come, go and change; then shares.
    Churn {
        #[arg(long, default_value_t = 1000)]
        rounds: usize,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Leave the CPUs online.
        #[arg(long)]
        no_hotplug: bool,
        /// Leave out these kinds of change.
        #[arg(long, value_enum, value_delimiter = ',')]
        without: Vec<churn::Change>,
        /// Where the scheduler's maps are pinned, to look for leaks.
        #[arg(long)]
        pins: Option<PathBuf>,
    },
    /// The kernel's own threads beside a crowd: files of a file system on a loop device are carried over to the disk.
    Kthreads {
        /// Where that file system is mounted.
        #[arg(long)]
        dir: PathBuf,
        #[arg(long, default_value_t = 300)]
        hogs: usize,
    },
    /// Threads that may use two CPUs, one of which is idle half of the time.
    Allowed,
    /// A hog on each CPU and a sleeper, beside who has the kernel's locks contended all the time.
    Attacks {
        /// Each a kind and by how many, such as append:20.
        #[arg(value_delimiter = ',', required = true)]
        attacks: Vec<Attack>,
        /// Where files are made, in memory.
        #[arg(long, default_value = "/dev/shm")]
        dir: PathBuf,
    },
    /// Busy threads in cgroups whose sets of CPUs overlap.
    Cpusets {
        /// Each a weight and CPUs, such as 200:0-2 or 100:0+3.
        #[arg(value_delimiter = ',', required = true)]
        groups: Vec<cpusets::Group>,
        /// Of each.
        #[arg(long, default_value_t = 4)]
        threads: usize,
        /// How often the last one's set is another and its own again, before.
        #[arg(long, default_value_t = 0)]
        changes: usize,
    },
    /// Who moves between cgroups and starts programs beside a crowd that forks all the time.
    Forks {
        #[arg(long, default_value_t = 100)]
        crowd: usize,
        /// Two thirds of it move between cgroups, and make some, instead.
        #[arg(long)]
        mixed: bool,
    },
    /// Who waits for grace periods beside a crowd one of which reads by RCU for long.
    Readers {
        #[arg(long, default_value_t = 600)]
        crowd: usize,
    },
    /// Who touches memory that one of a crowd moves about.
    Compaction {
        #[arg(long, default_value_t = 1024)]
        mib: usize,
        #[arg(long, default_value_t = 100)]
        crowd: usize,
    },
    /// Threads that are bound to a CPU which is away, and perhaps to another.
    Away,
    /// Groups with cookies of their own, and without, on the two siblings of a core.
    Cores,
    /// The kernel stops the whole machine again and again; then shares.
    Stops {
        #[arg(long, default_value_t = 400)]
        times: usize,
    },
    /// Threads of next to no share on a CPU with more to do than it can, made to look as if they had just come.
    Overdue,
    /// --seconds of a busy crowd, cgroups that come and go, CPUs that are unplugged; then shares.
    Soak {
        #[arg(long, default_value_t = 200)]
        threads: usize,
        /// Cgroups that come, and go, per minute.
        #[arg(long, default_value_t = 10_000)]
        per_minute: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the scheduler's maps are pinned, to look for leaks.
        #[arg(long)]
        pins: Option<PathBuf>,
    },
    /// Busy threads before and after the machine slept (suspend to RAM).
    Suspend {
        #[arg(long, default_value_t = 2)]
        times: usize,
        /// A program to run whenever it has woken up, with its arguments.
        #[arg(long, value_delimiter = ' ')]
        awake: Vec<String>,
    },
    /// Migrations per second under a mixed load.
    Migrations {
        /// CPUs the machine must have.
        #[arg(long)]
        cpus: Option<usize>,
    },
    /// hackbench over pipes, in one cgroup.
    Hackbench {
        #[arg(long, default_value_t = 5)]
        groups: usize,
        #[arg(long, default_value_t = 60)]
        loops: usize,
        /// How often; the median counts.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// A server with more requests than it can serve, after schbench.
    Requests {
        #[arg(long, default_value_t = 4)]
        workers: usize,
        /// How often; the medians count.
        #[arg(long, default_value_t = 1)]
        runs: usize,
    },
    /// A thread with work each period, beside hogs or one that works and sleeps in turns.
    Rounds {
        #[arg(long, default_value_t = 5300)]
        period_us: u64,
        /// CPU time of each round.
        #[arg(long, default_value_t = 1000)]
        work_us: u64,
        /// Busy threads of one cgroup.
        #[arg(long, default_value_t = 0)]
        hogs: usize,
        /// A thread that works so many µs and sleeps as many.
        #[arg(long, value_delimiter = ',')]
        worker: Option<Vec<u64>>,
        /// Bind all to this CPU.
        #[arg(long)]
        cpu: Option<usize>,
    },
    /// Wake-up latency of a sleeper among hogs.
    Latency {
        #[arg(long, default_value_t = 8)]
        n: usize,
        /// Pairs that wake each other instead of the hogs, working for up to so many ns each time.
        #[arg(long)]
        pairs: Option<u64>,
        /// Hogs that yield after working for up to so many ns.
        #[arg(long, conflicts_with = "pairs")]
        yields: Option<u64>,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let common = &cli.common;
    let patience = Duration::from_secs(120);
    let loader = match &common.load {
        Some(command) => Some(Loader::start(command, patience)?),
        None => None,
    };
    run(common, &cli.experiment)?;
    match loader {
        Some(loader) => loader.stop(patience),
        None => Ok(()),
    }
}

fn run(c: &Common, experiment: &Experiment) -> Result<()> {
    // Above every thread of the load, below the kernel's own.
    sys::become_fifo(50)?;
    let root: &Path = &c.cgroup;
    match experiment {
        Experiment::Shares {
            shares,
            tree,
            threads,
            sample_ms,
            scale,
            mechanism,
            quarrels,
            readers,
            pairs,
            yields,
        } => {
            let tree = match tree {
                Some(text) => Tree::parse(text)?,
                None => Tree::flat(shares),
            };
            let plan = Plan {
                tree,
                threads: *threads,
                crowds: Default::default(),
                warmup: c.warmup,
                seconds: c.seconds,
                sample_ms: *sample_ms,
                scale: *scale,
                mechanism: *mechanism,
                quarrels: *quarrels,
                readers: *readers,
                pairs: *pairs,
                yields: *yields,
            };
            report(c, "shares", || plan.run(root))
        }
        Experiment::Figures56 { mechanism } => report(c, "figures56", || {
            figures::run(root, c.warmup, c.seconds / 2.0, 100, *mechanism)
        }),
        Experiment::Yield(g) => report(c, "yield", || {
            g.plan(c).run(root, switches::Kind::Yield, c.shift)
        }),
        Experiment::Pipe(g) => {
            sys::raise_file_limit(8 * g.n as u64 + 1024)?;
            report(c, "pipe", || {
                g.plan(c).run(root, switches::Kind::Pipe, c.shift)
            })
        }
        Experiment::Ring { n, hog } => report(c, "ring", || {
            ring::run(root, *n, *hog, (c.warmup, c.seconds), c.shift)
        }),
        Experiment::Starve { weights } => report(c, "starve", || {
            starve::weights(weights, c.warmup, c.seconds).run(root)
        }),
        Experiment::Hogs { n, shares } => report(c, "hogs", || {
            starve::hogs(*n, shares, c.warmup, c.seconds)?.run(root)
        }),
        Experiment::Limits => report(c, "limits", || limits::run(root, c.warmup, c.seconds)),
        Experiment::Promises { partial } => report(c, "promises", || {
            promises::run(root, *partial, c.warmup, c.seconds)
        }),
        Experiment::Nice { values, threads } => report(c, "nice", || {
            nice::run(root, values, *threads, c.warmup, c.seconds)
        }),
        Experiment::Pinned { n, cpu } => report(c, "pinned", || {
            starve::pinned(root, *n, *cpu, c.warmup, c.seconds)
        }),
        Experiment::Churn {
            rounds,
            seed,
            no_hotplug,
            without,
            pins,
        } => report(c, "churn", || {
            let churn = churn::Churn {
                rounds: *rounds,
                seed: *seed,
                hotplug: !no_hotplug,
                without: without.clone(),
                pins: pins.clone(),
                scheduler: c.scheduler(),
                seconds: c.seconds,
            };
            churn.run(root)
        }),
        Experiment::Kthreads { dir, hogs } => {
            report(c, "kthreads", || kthreads::run(root, dir, *hogs))
        }
        Experiment::Allowed => report(c, "allowed", || allowed::run(root, c.seconds)),
        Experiment::Attacks { attacks, dir } => report(c, "attacks", || {
            attacks::run(root, dir, attacks, c.warmup, c.seconds)
        }),
        Experiment::Cpusets {
            groups,
            threads,
            changes,
        } => report(c, "cpusets", || {
            cpusets::run(root, groups, *threads, *changes, c.warmup, c.seconds)
        }),
        Experiment::Forks { crowd, mixed } => {
            report(c, "forks", || forks::run(root, *crowd, *mixed, c.seconds))
        }
        Experiment::Readers { crowd } => report(c, "readers", || {
            readers::run(root, *crowd, c.warmup, c.seconds)
        }),
        Experiment::Compaction { mib, crowd } => report(c, "compaction", || {
            compaction::run(root, *mib, *crowd, c.seconds)
        }),
        Experiment::Away => report(c, "away", || away::run(root, c.seconds)),
        Experiment::Cores => report(c, "cores", || cores::run(root, c.warmup, c.seconds)),
        Experiment::Stops { times } => report(c, "stops", || {
            stops::run(root, *times, c.warmup, c.seconds, &c.scheduler())
        }),
        Experiment::Overdue => report(c, "overdue", || overdue::run(root, c.seconds)),
        Experiment::Soak {
            threads,
            per_minute,
            seed,
            pins,
        } => report(c, "soak", || {
            let soak = soak::Soak {
                seconds: c.seconds,
                threads: *threads,
                per_minute: *per_minute,
                seed: *seed,
                pins: pins.clone(),
                scheduler: c.scheduler(),
                aftermath: 10.0,
            };
            soak.run(root)
        }),
        Experiment::Suspend { times, awake } => report(c, "suspend", || {
            let suspend = suspend::Suspend {
                times: *times,
                warmup: c.warmup,
                seconds: c.seconds,
                scheduler: c.scheduler(),
                awake: awake.clone(),
            };
            suspend.run(root)
        }),
        Experiment::Migrations { cpus } => report(c, "migrations", || {
            if let Some(want) = cpus {
                let have = sys::cpus();
                ensure!(have == *want, "this machine has {have} CPUs, not {want}");
            }
            migrations::run(root, c.warmup, c.seconds)
        }),
        Experiment::Hackbench {
            groups,
            loops,
            runs,
        } => report(c, "hackbench", || {
            hackbench::run(root, *groups, *loops, *runs)
        }),
        Experiment::Requests { workers, runs } => report(c, "requests", || {
            requests::run(root, *workers, *runs, c.warmup, c.seconds)
        }),
        Experiment::Rounds {
            period_us,
            work_us,
            hogs,
            worker,
            cpu,
        } => report(c, "rounds", || {
            let worker = match worker.as_deref() {
                Some(&[work, sleep]) => Some([work, sleep].map(|us| us * 1000)),
                Some(_) => bail!("--worker takes two numbers"),
                None => None,
            };
            let plan = rounds::Plan {
                period_ns: period_us * 1000,
                work_ns: work_us * 1000,
                others: rounds::Others {
                    hogs: *hogs,
                    worker,
                },
                cpu: *cpu,
                warmup: c.warmup,
                seconds: c.seconds,
            };
            rounds::run(root, &plan)
        }),
        Experiment::Latency { n, pairs, yields } => report(c, "latency", || {
            latency::run(root, *n, *pairs, *yields, c.warmup, c.seconds)
        }),
    }
}

impl Common {
    /// The scheduler that must stay in force: the one required, or the one that is.
    fn scheduler(&self) -> String {
        let now = || Force::now().name().into();
        self.require.clone().unwrap_or_else(now)
    }
}

impl Groups {
    fn plan(&self, c: &Common) -> switches::Plan {
        switches::Plan {
            n: self.n,
            depth: self.depth,
            distinct: self.distinct,
            warmup: c.warmup,
            seconds: c.seconds,
        }
    }
}

/// Run with the required scheduler in force before and after, and print.
fn report<T: Serialize + Table>(
    c: &Common,
    experiment: &str,
    run: impl FnOnce() -> Result<T>,
) -> Result<()> {
    let before = Force::now();
    let check = |force: &Force, when: &str| match &c.require {
        Some(name) => force
            .require(name)
            .with_context(|| format!("{when} {experiment}")),
        None => Ok(()),
    };
    check(&before, "before")?;
    let result = run().with_context(|| experiment.to_owned())?;
    let after = Force::now();
    check(&after, "after")?;
    ensure!(
        before.enable_seq == after.enable_seq,
        "{experiment}: the scheduler was replaced while it was measured"
    );
    eprintln!("{experiment} {} on {}", c.label, before.name());
    eprint!("{}", result.table());
    let report = Report {
        experiment: experiment.into(),
        label: c.label.clone(),
        scheduler: before.name().into(),
        kernel: sys::kernel(),
        cpus: sys::cpus(),
        shift: c.shift,
        before,
        after,
        result,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
