// SPDX-License-Identifier: GPL-2.0-only
//! Threads of next to no share that may use two CPUs: one of these is busy with who is bound to it and due nearly all, the other with
//! some who sleep half of the time. What those leave is theirs, wherever they wait.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

/// They sleep so long, and are busy as long, in turns, all at once, ns.
const TURN: u64 = 100_000_000;
/// How many, each in a cgroup of its own.
const FEW: usize = 2;
const SLEEPERS: usize = 3;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allowed {
    /// What they had of the CPU whose other users sleep: a part of what those left.
    pub part: f64,
    /// CPU time of who is bound to the other CPU: a part of all time.
    pub bound: f64,
    /// That of the sleepers: a part of all time.
    pub sleepers: f64,
}

/// For `seconds`, on three CPUs or more; the last one has nothing to do, and is for none of these.
pub fn run(root: &Path, seconds: f64) -> Result<Allowed> {
    ensure!(sys::cpus() > 2, "there are to be other CPUs");
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(FEW + 1 + SLEEPERS)?;
    let mut few = Vec::new();
    for i in 0..FEW {
        let dir = cgroups::open(&arena.add(format!("small{i}").as_ref(), 1)?)?;
        let member = crew.spawn(Some(&dir), 0, |me| me.spin())?;
        sys::set_cpus(crew.pid(member)?, &[0, 1])?;
        few.push(member);
    }
    let dir = cgroups::open(&arena.add("bound".as_ref(), 10_000)?)?;
    let bound = crew.spawn(Some(&dir), 0, |me| me.spin())?;
    sys::set_cpus(crew.pid(bound)?, &[0])?;
    // Several, so that fewer wait on the other CPU, and that is where the few are put when these wake up.
    let mut sleepers = Vec::new();
    for i in 0..SLEEPERS {
        let dir = cgroups::open(&arena.add(format!("sleeper{i}").as_ref(), 10_000)?)?;
        let member = crew.spawn(Some(&dir), 0, |me| {
            loop {
                let now = me.look();
                let began = now - now % (2 * TURN);
                me.spin_for((began + TURN).saturating_sub(now));
                sys::sleep_until(began + 2 * TURN);
            }
        })?;
        sys::set_cpus(crew.pid(member)?, &[1])?;
        sleepers.push(member);
    }
    crew.muster()?;
    crew.open(0);
    // Until all have their places.
    sys::sleep(1_000_000_000);
    let used = |crew: &Crew| -> Result<[u64; 3]> {
        let all = |who: &[usize]| who.iter().map(|m| crew.cpu_ns(*m)).sum::<Result<u64>>();
        Ok([all(&few)?, all(&[bound])?, all(&sleepers)?])
    };
    let (began, before) = (sys::now(), used(&crew)?);
    sys::sleep((seconds * 1e9) as u64);
    let (took, after) = ((sys::now() - began) as f64, used(&crew)?);
    let [few, bound, busy] = [0, 1, 2].map(|i| (after[i] - before[i]) as f64 / took);
    Ok(Allowed {
        part: few / (1.0 - busy),
        bound,
        sleepers: busy,
    })
}

impl Table for Allowed {
    fn table(&self) -> String {
        let row = |what: &str, part: f64| vec![what.to_owned(), format!("{:.1}", part * 100.0)];
        let rows = [
            row(
                "of what is left of a CPU, by those who may use it and another",
                self.part,
            ),
            row("of that other, by who is bound to it", self.bound),
        ];
        columns(&["had", "%"], &rows)
    }
}
