// SPDX-License-Identifier: GPL-2.0-only
//! How often threads change CPU under a mixed load: hogs, threads that sleep and work, pairs that
//! talk, and processes that come and go.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::perf::{Counter, Event};
use super::report::Table;
use super::sys;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Migrations {
    pub cpus: usize,
    pub seconds: f64,
    pub migrations_per_s: f64,
    pub switches_per_s: f64,
}

/// Run the mixed load in four groups.
pub fn run(root: &Path, warmup: f64, seconds: f64) -> Result<Migrations> {
    let cpus = sys::cpus();
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(8 * cpus + 8)?;
    let group = |name: &str, weight| cgroups::open(&arena.add(name.as_ref(), weight)?);
    let hogs = group("hogs", 100)?;
    for _ in 0..cpus + cpus / 2 {
        crew.spawn(Some(&hogs), 0, |me| me.spin())?;
    }
    let sleepers = group("sleepers", 200)?;
    for i in 0..2 * cpus as u64 {
        crew.spawn(Some(&sleepers), 0, move |me| sleep_and_work(me, i))?;
    }
    let talkers = group("talkers", 100)?;
    for _ in 0..cpus / 2 {
        pair(&mut crew, &talkers)?;
    }
    let storms = group("storms", 50)?;
    crew.spawn(Some(&storms), 0, come_and_go)?;
    crew.muster()?;
    crew.open(0);
    sys::sleep((warmup * 1e9) as u64);
    let mut moves = Counter::new(Event::Migrations, 0..cpus)?;
    let switches = sys::switches()?;
    let began = sys::now();
    let before = moves.read()?;
    sys::sleep((seconds * 1e9) as u64);
    let moved = moves.read()? - before;
    let elapsed = (sys::now() - began) as f64 / 1e9;
    Ok(Migrations {
        cpus,
        seconds: elapsed,
        migrations_per_s: moved as f64 / elapsed,
        switches_per_s: (sys::switches()? - switches) as f64 / elapsed,
    })
}

fn sleep_and_work(me: &Me, i: u64) {
    loop {
        me.spin_for(500_000 + i * 100_000);
        sys::sleep(1_000_000 + i * 300_000);
    }
}

fn pair(crew: &mut Crew, dir: &File) -> Result<()> {
    let (a_in, a_out) = sys::pipe()?;
    let (b_in, b_out) = sys::pipe()?;
    let talk = |mut from: File, mut to: File, first: bool| {
        move |me: &Me| {
            let mut byte = [0];
            if first && to.write_all(&byte).is_err() {
                return;
            }
            while from.read_exact(&mut byte).is_ok() {
                me.spin_for(50_000);
                if to.write_all(&byte).is_err() {
                    return;
                }
            }
        }
    };
    let file = |fd: &std::os::fd::OwnedFd| fd.try_clone().map(File::from);
    crew.spawn(Some(dir), 0, talk(file(&a_in)?, file(&b_out)?, true))?;
    crew.spawn(Some(dir), 0, talk(file(&b_in)?, file(&a_out)?, false))?;
    Ok(())
}

/// Fork a child every few milliseconds that works a little and ends.
fn come_and_go(me: &Me) {
    loop {
        match sys::fork(None) {
            Ok(0) => {
                me.spin_for(2_000_000);
                sys::leave();
            }
            // It was just made.
            Ok(pid) => drop(sys::reap(pid)),
            Err(_) => return,
        }
        sys::sleep(3_000_000);
    }
}

impl Table for Migrations {
    fn table(&self) -> String {
        format!(
            "{} CPUs: {:.1} migrations/s, {:.0} switches/s\n",
            self.cpus, self.migrations_per_s, self.switches_per_s
        )
    }
}
