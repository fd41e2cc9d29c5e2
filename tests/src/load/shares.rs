// SPDX-License-Identifier: GPL-2.0-only
//! Who gets how much: busy threads in weighted cgroups, and how far each group's service strays
//! from what it is due at any moment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::pairs::pair;
use super::report::{Table, columns, percent};
use super::sys;
use super::tickets::{Mechanism, Tickets};
use super::tree::{Leaf, Tree};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub tree: Tree,
    /// Busy threads in a leaf, one process each.
    pub threads: usize,
    /// Leaves with another number of threads.
    pub crowds: BTreeMap<PathBuf, usize>,
    pub warmup: f64,
    pub seconds: f64,
    /// How often to look at everybody's service; 0: only at the ends.
    pub sample_ms: u64,
    /// `cpu.weight` of one share.
    pub scale: u32,
    pub mechanism: Mechanism,
    /// In a cgroup beside all of them, so many processes that wait for each other's locks of the kernel's.
    pub quarrels: usize,
    /// In each leaf beside the busy ones, so many that mostly sleep.
    pub readers: usize,
    /// And so many pairs that wake each other, of which one or both run at any time.
    pub pairs: usize,
    /// The busy ones work for up to so many ns and yield, again and again.
    pub yields: Option<u64>,
}

/// Weight of the cgroup of those who quarrel, beside the experiment's own of 100.
const QUARREL: u32 = 1000;
/// Between two of their quarrels, ns.
const TRUCE: u64 = 3_000_000;

/// Makes and removes a cgroup again and again: each time it holds the mutex of all cgroups, and others wait.
fn quarrel(me: &Me, dir: &Path) -> ! {
    loop {
        if std::fs::create_dir(dir).is_ok() && std::fs::remove_dir(dir).is_ok() {
            me.count.fetch_add(1, Ordering::Relaxed);
        }
        sys::sleep(TRUCE);
    }
}

/// Works 50 … 300 µs and sleeps 1 … 10 ms, as who reads what a disk or the network brings.
fn read(me: &Me, seed: u64) -> ! {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        me.spin_for(random.u64(50_000..=300_000));
        sys::sleep(random.u64(1_000_000..=10_000_000));
        // What it slept is no wait for a CPU.
        me.seen.store(sys::now(), Ordering::Relaxed);
    }
}

/// One of a pair works for so long at most, ns, before it wakes the other, and once more before it waits for that one.
const WORK: u64 = 200_000;

/// One leaf's service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    pub path: String,
    pub weight: u32,
    /// Due, as a fraction of all that was given to the experiment.
    pub ideal: f64,
    /// Got, likewise.
    pub share: f64,
    /// share / ideal − 1.
    pub relative_error: f64,
    /// Most that it was behind (negative) and ahead of its due at a sample, in ms of CPU.
    pub behind_ms: f64,
    pub ahead_ms: f64,
    pub threads: usize,
    /// Threads that got any CPU.
    pub ran: usize,
    /// The least and the most that one of its threads got, in ms.
    pub least_ms: f64,
    pub most_ms: f64,
    /// The longest that one of its threads waited for a CPU.
    pub longest_wait_ms: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shares {
    pub mechanism: Mechanism,
    pub seconds: f64,
    pub sample_ms: u64,
    pub leaves: Vec<Service>,
    pub largest_relative_error: f64,
    /// 0 when nothing was sampled.
    pub largest_service_error_ms: f64,
    /// CPU time the threads got, as a fraction of what the machine has.
    pub used: f64,
    pub switches_per_s: f64,
    pub migrations_per_s: f64,
}

/// Threads of a leaf, as indices into the crew.
struct Group {
    leaf: Leaf,
    members: Vec<usize>,
}

/// Start the threads of `leaves`, all waiting at gate 0.
fn fill(arena: &Arena, crew: &mut Crew, leaves: Vec<Leaf>, plan: &Plan) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for leaf in leaves {
        let dir = cgroups::open(&arena.root().join(&leaf.path))?;
        let mut members = Vec::new();
        for _ in 0..plan.threads_of(&leaf.path) {
            let seed = members.len() as u64 + 100 * groups.len() as u64;
            members.push(match plan.yields {
                Some(most) => crew.spawn(Some(&dir), 0, move |me| me.spin_and_yield(most, seed))?,
                None => crew.spawn(Some(&dir), 0, |me| me.spin())?,
            });
        }
        for _ in 0..plan.readers {
            let seed = members.len() as u64 + 100 * groups.len() as u64;
            members.push(crew.spawn(Some(&dir), 0, |me| read(me, seed))?);
        }
        for _ in 0..plan.pairs {
            members.extend(pair(crew, &dir, WORK)?);
        }
        groups.push(Group { leaf, members });
    }
    Ok(groups)
}

impl Plan {
    fn threads_of(&self, leaf: &Path) -> usize {
        self.crowds.get(leaf).copied().unwrap_or(self.threads)
    }

    /// Run it below the cgroup `root`.
    pub fn run(&self, root: &Path) -> Result<Shares> {
        let arena = Arena::new(root)?;
        let cpus = sys::cpus();
        let busy = |path: &Path| self.threads_of(path) + self.pairs;
        let leaves = self.tree.leaves(cpus, busy);
        let scale = match self.mechanism {
            Mechanism::Weight => self.scale,
            Mechanism::Tickets => 1,
        };
        arena.grow(&self.tree, scale)?;
        let _tickets = match self.mechanism {
            Mechanism::Weight => None,
            Mechanism::Tickets => Some(Tickets::fund(&self.tree, arena.root(), self.scale)?),
        };
        let threads = |l: &Leaf| self.threads_of(&l.path) + self.readers + 2 * self.pairs;
        let total: usize = leaves.iter().map(threads).sum();
        let beside = match self.quarrels {
            0 => None,
            _ => Some(Arena::new(&root.with_file_name("quarrels"))?),
        };
        let mut crew = Crew::new(total + self.quarrels)?;
        let groups = fill(&arena, &mut crew, leaves, self)?;
        if let Some(beside) = &beside {
            cgroups::set(beside.root(), "cpu.weight", QUARREL)?;
            let dir = cgroups::open(&beside.add("quarrel".as_ref(), 100)?)?;
            for i in 0..self.quarrels {
                let bone = beside.root().join(format!("bone{i}"));
                crew.spawn(Some(&dir), 0, |me| quarrel(me, &bone))?;
            }
        }
        crew.muster()?;
        crew.open(0);
        sys::sleep((self.warmup * 1e9) as u64);
        crew.forget_waits();
        let shares = self.measure(&crew, &groups, cpus)?;
        for member in total..total + self.quarrels {
            let rounds = crew.slot(member).count.load(Ordering::Relaxed);
            ensure!(
                rounds as f64 > 10.0 * self.seconds,
                "who was to quarrel made {rounds} cgroups in {} s",
                self.seconds
            );
        }
        Ok(shares)
    }

    fn measure(&self, crew: &Crew, groups: &[Group], cpus: usize) -> Result<Shares> {
        let due: f64 = groups.iter().map(|g| g.leaf.ideal).sum();
        ensure!(due > 0.0, "nobody is due anything");
        let ideal: Vec<f64> = groups.iter().map(|g| g.leaf.ideal / due).collect();
        let read = || -> Result<Vec<Vec<u64>>> {
            let of = |g: &Group| g.members.iter().map(|&m| crew.cpu_ns(m)).collect();
            groups.iter().map(of).collect()
        };
        let counters = || -> Result<(u64, u64, u64)> {
            Ok((
                sys::switches()?,
                crew.sched_total("se.nr_migrations")?,
                sys::now(),
            ))
        };
        let (switches, migrations, _) = counters()?;
        let began = sys::now();
        let first = read()?;
        let start: Vec<u64> = first.iter().map(|g| g.iter().sum()).collect();
        let end = began + (self.seconds * 1e9) as u64;
        let mut stray = vec![(0.0f64, 0.0f64); groups.len()];
        if self.sample_ms > 0 {
            let mut at = began;
            loop {
                at += self.sample_ms * 1_000_000;
                if at >= end {
                    break;
                }
                sys::sleep_until(at);
                let now = read()?;
                let got = now
                    .iter()
                    .zip(&start)
                    .map(|(g, s)| (g.iter().sum::<u64>() - s) as f64 / 1e6);
                let got: Vec<f64> = got.collect();
                let all: f64 = got.iter().sum();
                for ((lo, hi), (w, f)) in stray.iter_mut().zip(got.iter().zip(&ideal)) {
                    let error = w - f * all;
                    *lo = lo.min(error);
                    *hi = hi.max(error);
                }
            }
        }
        sys::sleep_until(end);
        let last = read()?;
        let ended = sys::now();
        let (switches2, migrations2, _) = counters()?;
        let seconds = (ended - began) as f64 / 1e9;
        let used: Vec<Vec<u64>> = last
            .iter()
            .zip(&first)
            .map(|(l, f)| l.iter().zip(f).map(|(l, f)| l - f).collect())
            .collect();
        let all: u64 = used.iter().flatten().sum();
        let mut leaves = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            let share = used[i].iter().sum::<u64>() as f64 / all as f64;
            let waits = group.members.iter().map(|&m| crew.longest_wait(m));
            leaves.push(Service {
                path: group.leaf.path.display().to_string(),
                weight: group.leaf.weight,
                ideal: ideal[i],
                share,
                relative_error: share / ideal[i] - 1.0,
                behind_ms: stray[i].0,
                ahead_ms: stray[i].1,
                threads: group.members.len(),
                ran: used[i].iter().filter(|&&ns| ns > 0).count(),
                least_ms: used[i].iter().min().copied().unwrap_or(0) as f64 / 1e6,
                most_ms: used[i].iter().max().copied().unwrap_or(0) as f64 / 1e6,
                longest_wait_ms: waits.max().unwrap_or(0) as f64 / 1e6,
            });
        }
        let worst = |f: &dyn Fn(&Service) -> f64| leaves.iter().map(f).fold(0.0, f64::max);
        Ok(Shares {
            mechanism: self.mechanism,
            seconds,
            sample_ms: self.sample_ms,
            largest_relative_error: worst(&|l| l.relative_error.abs()),
            largest_service_error_ms: worst(&|l| l.ahead_ms.max(-l.behind_ms)),
            used: all as f64 / (ended - began) as f64 / cpus as f64,
            switches_per_s: (switches2 - switches) as f64 / seconds,
            migrations_per_s: (migrations2 - migrations) as f64 / seconds,
            leaves,
        })
    }
}

impl Table for Shares {
    fn table(&self) -> String {
        let row = |l: &Service| {
            vec![
                l.path.clone(),
                l.weight.to_string(),
                percent(l.ideal),
                percent(l.share),
                percent(l.relative_error),
                format!("{:.2} … {:.2}", l.behind_ms, l.ahead_ms),
                format!("{}/{}", l.ran, l.threads),
                format!("{:.1} … {:.1}", l.least_ms, l.most_ms),
                format!("{:.1}", l.longest_wait_ms),
            ]
        };
        let rows: Vec<_> = self.leaves.iter().map(row).collect();
        let head = [
            "group", "weight", "due", "got", "off", "error ms", "ran", "ms each", "wait ms",
        ];
        format!(
            "{}largest: {} relative, {:.2} ms of service (every {} ms); {:.1} % of the machine used; \
             {:.0} switches/s, {:.1} migrations/s\n",
            columns(&head, &rows),
            percent(self.largest_relative_error),
            self.largest_service_error_ms,
            self.sample_ms,
            self.used * 100.0,
            self.switches_per_s,
            self.migrations_per_s,
        )
    }
}
