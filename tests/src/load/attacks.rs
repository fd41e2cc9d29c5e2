// SPDX-License-Identifier: GPL-2.0-only
//! Attacks by locks of the kernel's: alice, of weight 300, has a hog on each CPU; bob, of 100, has
//! threads, each in a cgroup of its own, that all want the same lock; a third, of 100, mostly
//! sleeps. Who waits for whom is bob's own affair: neither of the others has less by it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::Ordering;

use anyhow::{Context, Error, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::latency::{Sleeper, Waits};
use super::report::{Table, columns, percent};
use super::sys;

/// What bob's threads do, and so which lock it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Nothing but use the CPU: what the others are due is had without an attack as well.
    Spin,
    /// Append to one file of memory: its inode's semaphore.
    Append,
    /// Start a program (vfork, exec): locks of files, and the semaphore of whoever forks.
    Exec,
    /// Make, rename and remove files of one directory: the semaphores of that and of renames.
    Directory,
    /// Map, touch and unmap memory, as threads of one process: the semaphore of its memory.
    Maps,
    /// Write to one pipe, which one more reads: the pipe's mutex.
    Pipe,
    /// Send signals to the process that they are threads of: a lock that spins.
    Signals,
    /// Lock one file by turns (flock): no lock of the kernel's own, but they wait for each other.
    Flock,
    /// Fork and reap: the semaphore of whoever forks, and those of memory.
    Forks,
    /// Make and remove cgroups: the mutex of all cgroups.
    Cgroups,
}

/// A kind, and by how many.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    kind: Kind,
    threads: usize,
}

impl FromStr for Attack {
    type Err = Error;
    fn from_str(text: &str) -> Result<Attack> {
        let (kind, threads) = text.split_once(':').context("no KIND:THREADS")?;
        let kind = Kind::from_str(kind, false).map_err(Error::msg)?;
        let threads = threads.parse().context("a number of threads")?;
        Ok(Attack { kind, threads })
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = self.kind.to_possible_value();
        let name = name.as_ref().map_or("", |n| n.get_name());
        write!(f, "{name}:{}", self.threads)
    }
}

/// What came of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attacked {
    pub attack: String,
    /// What alice had of what she and bob had, of which three quarters are due to her.
    pub share: f64,
    /// What both had together, in CPUs.
    pub both: f64,
    pub waits: Waits,
    /// How often bob's did what they do.
    pub rounds: u64,
}

/// One after the other, for so many seconds each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attacks {
    pub attacks: Vec<Attacked>,
}

/// What alice is due of what she and bob have.
pub const DUE: f64 = 0.75;
/// Of one write, bytes; and how long the file that is appended to grows.
const CHUNK: usize = 64 << 10;
const FILE_MOST: u64 = 16 << 20;
/// Of one mapping.
const MAPPING: usize = 64 << 10;

pub fn run(
    root: &Path,
    dir: &Path,
    attacks: &[Attack],
    warmup: f64,
    seconds: f64,
) -> Result<Attacks> {
    let one = |attack: &Attack| {
        let done = attack.run(root, dir, warmup, seconds);
        done.with_context(|| attack.to_string())
    };
    let attacks: Result<_> = attacks.iter().map(one).collect();
    Ok(Attacks { attacks: attacks? })
}

/// CPU time that a cgroup and all below it have used, ns.
fn used(dir: &Path) -> Result<u64> {
    let stat = fs::read_to_string(dir.join("cpu.stat")).context("cpu.stat")?;
    let usec = stat.lines().find_map(|l| l.strip_prefix("usage_usec "));
    Ok(usec.context("no usage_usec")?.parse::<u64>()? * 1000)
}

impl Attack {
    fn run(self, root: &Path, dir: &Path, warmup: f64, seconds: f64) -> Result<Attacked> {
        let place = dir.join("tix-attack");
        fs::create_dir(&place).with_context(|| place.display().to_string())?;
        let done = self.run_in(root, &place, warmup, seconds);
        fs::remove_dir_all(&place).context("remove what was made")?;
        done
    }

    fn run_in(self, root: &Path, place: &Path, warmup: f64, seconds: f64) -> Result<Attacked> {
        let arena = Arena::new(root)?;
        let mut crew = Crew::new(sys::cpus() + self.threads + 2)?;
        let alice = arena.add("alice".as_ref(), 3 * 100)?;
        let dir = cgroups::open(&alice)?;
        for _ in 0..sys::cpus() {
            crew.spawn(Some(&dir), 0, |me| me.spin())?;
        }
        let bob = arena.add("bob".as_ref(), 100)?;
        let first = crew.len();
        self.start(&mut crew, &bob, place)?;
        let members = first..crew.len();
        let dir = cgroups::open(&arena.add("sleeper".as_ref(), 100)?)?;
        let sleeper = Sleeper::spawn(&mut crew, &dir, warmup, seconds)?;
        crew.muster()?;
        crew.open(0);
        sys::sleep((warmup * 1e9) as u64);
        let look = || -> Result<[u64; 3]> { Ok([used(&alice)?, used(&bob)?, sys::now()]) };
        let before = look()?;
        sys::sleep_until(before[2] + (seconds * 1e9) as u64);
        let after = look()?;
        let waits = sleeper.waits()?;
        let rounds = members.map(|m| crew.slot(m).count.load(Ordering::Relaxed));
        let rounds = rounds.sum();
        ensure!(rounds > 0, "bob's did nothing");
        let [alice, bob, took] = [0, 1, 2].map(|i| (after[i] - before[i]) as f64);
        Ok(Attacked {
            attack: self.to_string(),
            share: alice / (alice + bob),
            both: (alice + bob) / took,
            waits,
            rounds,
        })
    }

    /// bob's threads, each in a cgroup of its own below `bob`.
    fn start(self, crew: &mut Crew, bob: &Path, place: &Path) -> Result<()> {
        // For a pipe there is one more, which reads.
        let number = self.threads + usize::from(self.kind == Kind::Pipe);
        let leaves: Vec<_> = (0..number).map(|i| bob.join(format!("t{i}"))).collect();
        leaves.iter().try_for_each(fs::create_dir)?;
        if matches!(self.kind, Kind::Maps | Kind::Signals) {
            return self.start_threads(crew, bob, &leaves);
        }
        cgroups::enable_cpu(bob)?;
        let (from, to) = sys::pipe()?;
        let (mut from, to) = (File::from(from), File::from(to));
        let file = place.join("file");
        File::create(&file)?;
        // Small and static; it does what its name says.
        let program = place.join("true");
        fs::copy("/bin/busybox", &program).context("copy /bin/busybox")?;
        for (i, leaf) in leaves.iter().enumerate() {
            let dir = cgroups::open(leaf)?;
            match self.kind {
                Kind::Pipe if i == self.threads => {
                    crew.spawn(Some(&dir), 0, |_| read_on(&mut from))?
                }
                kind => crew.spawn(Some(&dir), 0, |me| {
                    let end = match kind {
                        Kind::Spin => me.spin(),
                        Kind::Append => append(me, &file),
                        Kind::Exec => exec(me, &program),
                        Kind::Directory => rename(me, place, i),
                        Kind::Pipe => write_on(me, &to),
                        Kind::Flock => flock(me, &file),
                        Kind::Forks => forks(me),
                        Kind::Cgroups => make_cgroups(me, leaf),
                        Kind::Maps | Kind::Signals => Ok(()),
                    };
                    eprintln!("one of bob's has ended: {end:?}");
                })?,
            };
        }
        Ok(())
    }

    /// The same, where they are threads of one process.
    fn start_threads(self, crew: &mut Crew, bob: &Path, leaves: &[PathBuf]) -> Result<()> {
        let dir = cgroups::open(bob)?;
        crew.spawn(Some(&dir), 0, |me| {
            sys::catch_signals();
            std::thread::scope(|scope| {
                for leaf in leaves {
                    scope.spawn(|| {
                        let end = self.one_thread(me, leaf);
                        eprintln!("one of bob's has ended: {end:?}");
                    });
                }
            });
        })?;
        for leaf in leaves {
            cgroups::set(leaf, "cgroup.type", "threaded")?;
        }
        cgroups::enable_cpu(bob)
    }

    fn one_thread(self, me: &Me, leaf: &Path) -> Result<()> {
        cgroups::set(leaf, "cgroup.threads", 0)?;
        loop {
            match self.kind {
                Kind::Maps => sys::touch_new(MAPPING)?,
                _ => sys::signal_own(),
            }
            done(me);
        }
    }
}

fn done(me: &Me) {
    me.count.fetch_add(1, Ordering::Relaxed);
}

fn append(me: &Me, file: &Path) -> Result<()> {
    let mut file = OpenOptions::new().append(true).open(file)?;
    let chunk = vec![1; CHUNK];
    loop {
        file.write_all(&chunk)?;
        if file.metadata()?.len() > FILE_MOST {
            file.set_len(0)?;
        }
        done(me);
    }
}

fn exec(me: &Me, program: &Path) -> Result<()> {
    loop {
        let status = Command::new(program).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{status}");
        done(me);
    }
}

fn rename(me: &Me, place: &Path, i: usize) -> Result<()> {
    let [from, to] = ["a", "b"].map(|name| place.join(format!("{name}{i}")));
    loop {
        File::create(&from)?;
        fs::rename(&from, &to)?;
        fs::remove_file(&to)?;
        done(me);
    }
}

fn write_on(me: &Me, mut to: &File) -> Result<()> {
    let chunk = [1; 4096];
    loop {
        to.write_all(&chunk)?;
        done(me);
    }
}

fn read_on(from: &mut File) {
    let mut chunk = [0; 4096];
    while from.read(&mut chunk).is_ok_and(|n| n > 0) {}
}

fn flock(me: &Me, file: &Path) -> Result<()> {
    let mut file = OpenOptions::new().append(true).open(file)?;
    loop {
        file.lock()?;
        file.write_all(&[1; 64])?;
        file.set_len(0)?;
        file.unlock()?;
        done(me);
    }
}

fn forks(me: &Me) -> Result<()> {
    loop {
        let pid = sys::fork(None)?;
        if pid == 0 {
            sys::leave();
        }
        sys::reap(pid)?;
        done(me);
    }
}

fn make_cgroups(me: &Me, leaf: &Path) -> Result<()> {
    let dir = leaf.join("one");
    loop {
        fs::create_dir(&dir)?;
        fs::remove_dir(&dir)?;
        done(me);
    }
}

impl Table for Attacks {
    fn table(&self) -> String {
        let us = |us: f64| format!("{us:.0}");
        let row = |a: &Attacked| {
            vec![
                a.attack.clone(),
                percent(a.share),
                format!("{:.3}", a.both),
                us(a.waits.p50_us),
                us(a.waits.p99_us),
                us(a.waits.max_us),
                a.rounds.to_string(),
            ]
        };
        let rows: Vec<_> = self.attacks.iter().map(row).collect();
        let head = [
            "attack",
            "alice of 75 %",
            "CPUs",
            "p50 µs",
            "p99 µs",
            "max µs",
            "rounds",
        ];
        columns(&head, &rows)
    }
}
