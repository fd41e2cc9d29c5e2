// SPDX-License-Identifier: GPL-2.0-only
//! Sullivan, Figures 5 and 6: five CPU-bound processes under two currencies, A1:A2 = 1:2 and
//! B1:B2:B3 = 1:2:3, A and B funded equally, B3 asleep for the first half. When B3 wakes, B's own
//! processes make room for it, and A's do not notice.

use std::path::Path;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns, percent};
use super::sys;
use super::tickets::{Mechanism, Tickets};
use super::tree::{Leaf, Tree};

const TREE: &str = "A:1{A1:1,A2:2},B:1{B1:1,B2:2,B3:3}";
const SLEEPER: &str = "B/B3";

/// One process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub name: String,
    /// Due and got, as fractions of what all got, in the first and the second half.
    pub ideal: [f64; 2],
    pub share: [f64; 2],
    /// share / ideal − 1; 0 while asleep.
    pub relative_error: [f64; 2],
    /// Its share of the second half over that of the first, − 1; 0 for who slept.
    pub moved: f64,
    /// CPU time used at each point of `Figures::at_s`, in s.
    pub used_s: Vec<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub half_s: f64,
    pub processes: Vec<Process>,
    pub at_s: Vec<f64>,
    /// Over both halves and all processes.
    pub largest_relative_error: f64,
    /// The larger of A1's and A2's moves.
    pub a_moved: f64,
}

/// Run both halves, each of `half` seconds, below the cgroup `root`.
pub fn run(
    root: &Path,
    warmup: f64,
    half: f64,
    scale: u32,
    mechanism: Mechanism,
) -> Result<Figures> {
    let tree = Tree::parse(TREE)?;
    let arena = Arena::new(root)?;
    arena.grow(
        &tree,
        if mechanism == Mechanism::Weight {
            scale
        } else {
            1
        },
    )?;
    let _tickets = match mechanism {
        Mechanism::Weight => None,
        Mechanism::Tickets => Some(Tickets::fund(&tree, arena.root(), scale)?),
    };
    let awake =
        |first: bool| move |path: &Path| usize::from(!(first && path == Path::new(SLEEPER)));
    let halves = [tree.leaves(1, awake(true)), tree.leaves(1, awake(false))];
    if sys::cpus() != 1 {
        bail!(
            "Figures 5 and 6 are about one CPU; this machine has {}",
            sys::cpus()
        );
    }
    let mut crew = Crew::new(halves[0].len())?;
    for leaf in &halves[0] {
        let dir = cgroups::open(&arena.root().join(&leaf.path))?;
        let gate = usize::from(leaf.path == Path::new(SLEEPER));
        crew.spawn(Some(&dir), gate, |me| me.spin())?;
    }
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    let mut series = Series::new(&crew)?;
    series.record(&crew, half)?;
    let middle = series.last()?;
    crew.open(1);
    series.record(&crew, half)?;
    let last = series.last()?;
    let used = [series.used[0].clone(), middle, last];
    Ok(figures(&halves, &used, &series, half))
}

/// CPU time of every process over the run.
struct Series {
    began: u64,
    at: Vec<u64>,
    used: Vec<Vec<u64>>,
}

impl Series {
    fn new(crew: &Crew) -> Result<Self> {
        let mut series = Self {
            began: sys::now(),
            at: Vec::new(),
            used: Vec::new(),
        };
        series.look(crew)?;
        Ok(series)
    }

    fn look(&mut self, crew: &Crew) -> Result<()> {
        let used: Result<_> = (0..crew.len()).map(|i| crew.cpu_ns(i)).collect();
        self.at.push(sys::now());
        self.used.push(used?);
        Ok(())
    }

    fn record(&mut self, crew: &Crew, seconds: f64) -> Result<()> {
        const POINTS: u64 = 60;
        let from = sys::now();
        for i in 1..=POINTS {
            sys::sleep_until(from + (seconds * 1e9) as u64 * i / POINTS);
            self.look(crew)?;
        }
        Ok(())
    }

    fn last(&self) -> Result<Vec<u64>> {
        match self.used.last() {
            Some(used) => Ok(used.clone()),
            None => bail!("nothing was recorded"),
        }
    }
}

fn figures(halves: &[Vec<Leaf>; 2], used: &[Vec<u64>; 3], series: &Series, half: f64) -> Figures {
    let got = |h: usize, i: usize| (used[h + 1][i] - used[h][i]) as f64;
    let all = |h: usize| (0..halves[h].len()).map(|i| got(h, i)).sum::<f64>();
    let processes: Vec<Process> = (0..halves[0].len())
        .map(|i| {
            let ideal = [halves[0][i].ideal, halves[1][i].ideal];
            let share = [got(0, i) / all(0), got(1, i) / all(1)];
            let error = |h: usize| {
                if ideal[h] == 0.0 {
                    // A process that should sleep and ran is as wrong as can be.
                    if share[h] > 1e-4 { 1.0 } else { 0.0 }
                } else {
                    share[h] / ideal[h] - 1.0
                }
            };
            Process {
                name: halves[0][i].path.display().to_string(),
                ideal,
                share,
                relative_error: [error(0), error(1)],
                moved: if ideal[0] == 0.0 {
                    0.0
                } else {
                    share[1] / share[0] - 1.0
                },
                used_s: series
                    .used
                    .iter()
                    .map(|u| (u[i] - series.used[0][i]) as f64 / 1e9)
                    .collect(),
            }
        })
        .collect();
    let errors = processes.iter().flat_map(|p| p.relative_error);
    let moves = processes.iter().filter(|p| p.name.starts_with("A/"));
    Figures {
        half_s: half,
        largest_relative_error: errors.map(f64::abs).fold(0.0, f64::max),
        a_moved: moves.map(|p| p.moved.abs()).fold(0.0, f64::max),
        at_s: series
            .at
            .iter()
            .map(|at| (at - series.began) as f64 / 1e9)
            .collect(),
        processes,
    }
}

impl Table for Figures {
    fn table(&self) -> String {
        let row = |p: &Process| {
            let mut cells = vec![p.name.clone()];
            for h in 0..2 {
                cells.push(percent(p.ideal[h]));
                cells.push(percent(p.share[h]));
                cells.push(percent(p.relative_error[h]));
            }
            cells.push(percent(p.moved));
            cells
        };
        let rows: Vec<_> = self.processes.iter().map(row).collect();
        let head = [
            "process", "due", "got", "off", "then due", "got", "off", "moved",
        ];
        format!(
            "{}largest: {} off; A1 and A2 moved by at most {}\n",
            columns(&head, &rows),
            percent(self.largest_relative_error),
            percent(self.a_moved)
        )
    }
}
