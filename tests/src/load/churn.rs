// SPDX-License-Identifier: GPL-2.0-only
//! Everything that changes on a busy machine, at once and at random: cgroups come and go with
//! threads in them, weights change, threads move, fork storms, policies, affinity, freezing, CPUs
//! going offline. The same seed gives the same history.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::aftermath::{Aftermath, Before};
use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::report::{Table, columns};
use super::standstill::Standstill;
use super::sys;
use crate::force::Force;

/// What happens to groups and threads beyond coming and going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Change {
    Weight,
    Move,
    Nice,
    Affinity,
    Policy,
    Hold,
    Storm,
    Nest,
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Churn {
    pub rounds: usize,
    pub seed: u64,
    /// Take CPUs other than 0 offline and back now and then.
    pub hotplug: bool,
    /// Kinds of change to leave out, to find the one that matters.
    pub without: Vec<Change>,
    /// Where the scheduler's maps are pinned; counted before and after.
    pub pins: Option<PathBuf>,
    /// The scheduler that must stay in force.
    pub scheduler: String,
    /// Length of the share experiment at the end.
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub rounds: usize,
    /// What was done, by name.
    pub done: BTreeMap<String, u64>,
    /// The longest that any thread went without CPU time, as far as the rounds show it.
    pub longest_wait_ms: f64,
    pub after: Aftermath,
}

/// Deterministic random numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % sides
    }
}

struct Group {
    dir: PathBuf,
    parent: Option<usize>,
    children: usize,
}

/// The state of the history so far.
struct World<'a> {
    arena: &'a Arena,
    dice: Dice,
    crew: Crew,
    /// By number; a removed one leaves a hole.
    groups: Vec<Option<Group>>,
    /// Members of the crew that live, and the group each is in.
    members: Vec<(usize, usize)>,
    done: BTreeMap<String, u64>,
    standstill: Standstill,
}

/// Groups and members kept alive at a time.
const GROUPS: usize = 12;
const MEMBERS: usize = 24;

impl Churn {
    pub fn run(&self, root: &Path) -> Result<Outcome> {
        let before = Before::look(self.pins.as_deref(), &self.scheduler)?;
        let (done, longest_wait) = self.history(root)?;
        Ok(Outcome {
            rounds: self.rounds,
            done,
            longest_wait_ms: longest_wait as f64 / 1e6,
            after: before.over(root, self.seconds)?,
        })
    }

    fn history(&self, root: &Path) -> Result<(BTreeMap<String, u64>, u64)> {
        let arena = Arena::new(root)?;
        let capacity = self.rounds * 4 + 16;
        let mut world = World {
            arena: &arena,
            dice: Dice(self.seed | 1),
            crew: Crew::new(capacity)?,
            groups: Vec::new(),
            members: Vec::new(),
            done: BTreeMap::new(),
            standstill: Standstill::default(),
        };
        world.crew.open(0);
        for round in 0..self.rounds {
            world
                .round(round, self)
                .with_context(|| format!("round {round} of seed {}", self.seed))?;
            if round % 50 == 0 {
                Force::now()
                    .require(&self.scheduler)
                    .with_context(|| format!("after round {round} of seed {}", self.seed))?;
            }
        }
        while let Some(i) = world.groups.iter().position(Option::is_some) {
            world.remove(i)?;
        }
        Ok((world.done, world.standstill.longest))
    }
}

impl World<'_> {
    fn count(&mut self, what: &str) {
        *self.done.entry(what.into()).or_default() += 1;
    }

    fn any_group(&mut self) -> Option<usize> {
        let live: Vec<usize> = (0..self.groups.len())
            .filter(|&i| self.groups[i].is_some())
            .collect();
        match live.len() {
            0 => None,
            n => Some(live[self.dice.roll(n)]),
        }
    }

    fn dir(&self, group: usize) -> Result<PathBuf> {
        let group = self.groups[group].as_ref();
        Ok(group.context("the group is gone")?.dir.clone())
    }

    fn round(&mut self, round: usize, churn: &Churn) -> Result<()> {
        let with = |change| !churn.without.contains(&change);
        self.make(with(Change::Nest))?;
        for _ in 0..3 {
            match self.dice.roll(8) {
                0 | 1 if with(Change::Weight) => self.reweight()?,
                2 | 3 if with(Change::Move) => self.move_one()?,
                4 if with(Change::Nice) => self.renice()?,
                5 if with(Change::Affinity) => self.rebind()?,
                6 if with(Change::Policy) => self.change_policy()?,
                7 if with(Change::Hold) => self.hold()?,
                _ => {}
            }
        }
        if with(Change::Storm) && round % 20 == 7 {
            self.storm()?;
        }
        if churn.hotplug && round % 25 == 13 {
            self.hotplug()?;
        }
        sys::sleep(1_000_000 + 500_000 * self.dice.roll(8) as u64);
        self.watch()?;
        while self.groups.iter().flatten().count() > GROUPS || self.members.len() > MEMBERS {
            let oldest = self.groups.iter().position(Option::is_some);
            self.remove(oldest.context("members without a group")?)?;
        }
        self.watch()
    }

    fn watch(&mut self) -> Result<()> {
        let members = self.members.iter().map(|m| m.0);
        self.standstill.look(&self.crew, members)
    }

    /// A new group, in the experiment's or in another one, with busy threads.
    fn make(&mut self, nesting: bool) -> Result<()> {
        let nest = self.dice.roll(3) == 0 && nesting;
        let parent = if nest { self.any_group() } else { None };
        let at = match parent {
            Some(p) => self.dir(p)?,
            None => self.arena.root().to_owned(),
        };
        let number = self.groups.len();
        let dir = at.join(format!("c{number}"));
        fs::create_dir(&dir).with_context(|| format!("mkdir {}", dir.display()))?;
        if let Some(p) = parent {
            // Threads beside child groups are allowed for the cpu controller only as long as the
            // whole subtree is threaded; where the kernel refuses, the group shares its parent's.
            let kind = fs::write(dir.join("cgroup.type"), "threaded");
            if kind.is_ok() && cgroups::enable_cpu(&at).is_ok() {
                self.count("nested");
            }
            if let Some(group) = &mut self.groups[p] {
                group.children += 1;
            }
        }
        self.groups.push(Some(Group {
            dir: dir.clone(),
            parent,
            children: 0,
        }));
        self.count("made");
        if parent.is_some() {
            // A threaded group takes threads of its parent's processes only.
            return Ok(());
        }
        let into = cgroups::open(&dir)?;
        for _ in 0..1 + self.dice.roll(3) {
            let nap = self.dice.roll(4) == 0;
            let member = self.crew.spawn(Some(&into), 0, move |me| live(me, nap))?;
            self.members.push((member, number));
            self.count("processes");
        }
        Ok(())
    }

    /// Remove a group, its children first, its threads dismissed or driven out.
    fn remove(&mut self, number: usize) -> Result<()> {
        while let Some(child) = self
            .groups
            .iter()
            .position(|g| g.as_ref().is_some_and(|g| g.parent == Some(number)))
        {
            self.remove(child)?;
        }
        let dir = self.dir(number)?;
        // Dying takes CPU time as well: not at a weight of 1 beside 10,000.
        if dir.join("cpu.weight").exists() {
            cgroups::set(&dir, "cpu.weight", 10_000)?;
        }
        let exit = self.groups[number].as_ref().and_then(|g| g.parent);
        let here: Vec<usize> = self
            .members
            .iter()
            .filter(|m| m.1 == number)
            .map(|m| m.0)
            .collect();
        for member in here {
            let pid = self.crew.pid(member)?;
            if let (Some(parent), true) = (exit, self.dice.roll(2) == 0) {
                cgroups::set(&self.dir(parent)?, "cgroup.threads", pid)?;
                self.member_moved(member, parent);
                self.count("driven out");
                continue;
            }
            sys::set_nice(pid, 0)?;
            self.crew.dismiss(member)?;
            self.members.retain(|m| m.0 != member);
        }
        cgroups::remove(&dir)?;
        self.count("removed");
        if let Some(parent) = exit.and_then(|p| self.groups[p].as_mut()) {
            parent.children -= 1;
        }
        self.groups[number] = None;
        Ok(())
    }

    fn member_moved(&mut self, member: usize, group: usize) {
        for entry in &mut self.members {
            if entry.0 == member {
                entry.1 = group;
            }
        }
    }

    fn reweight(&mut self) -> Result<()> {
        let Some(group) = self.any_group() else {
            return Ok(());
        };
        let file = self.dir(group)?.join("cpu.weight");
        if !file.exists() {
            return Ok(());
        }
        let weight = [1, 10, 100, 1_000, 10_000][self.dice.roll(5)];
        fs::write(&file, weight.to_string()).with_context(|| file.display().to_string())?;
        self.count("reweighted");
        Ok(())
    }

    /// Move a thread to another group: anywhere by process, or inside its own tree by thread.
    fn move_one(&mut self) -> Result<()> {
        let (Some(to), n @ 1..) = (self.any_group(), self.members.len()) else {
            return Ok(());
        };
        let (member, from) = self.members[self.dice.roll(n)];
        let pid = self.crew.pid(member)?;
        let top = |mut i: usize| {
            while let Some(p) = self.groups[i].as_ref().and_then(|g| g.parent) {
                i = p;
            }
            i
        };
        let (near, far) = (top(from) == top(to), top(to));
        if near {
            cgroups::set(&self.dir(to)?, "cgroup.threads", pid)?;
            self.member_moved(member, to);
            self.count("threads moved");
        } else {
            cgroups::set(&self.dir(far)?, "cgroup.procs", pid)?;
            self.member_moved(member, far);
            self.count("processes moved");
        }
        Ok(())
    }

    fn some_pid(&mut self) -> Result<Option<i32>> {
        match self.members.len() {
            0 => Ok(None),
            n => {
                let (member, _) = self.members[self.dice.roll(n)];
                self.crew.pid(member).map(Some)
            }
        }
    }

    fn renice(&mut self) -> Result<()> {
        if let Some(pid) = self.some_pid()? {
            sys::set_nice(pid, self.dice.roll(40) as i32 - 20)?;
            self.count("reniced");
        }
        Ok(())
    }

    fn rebind(&mut self) -> Result<()> {
        if let Some(pid) = self.some_pid()? {
            let cpus: Vec<usize> = match self.dice.roll(2) {
                0 => vec![self.dice.roll(sys::cpus())],
                _ => (0..sys::cpus()).collect(),
            };
            sys::set_cpus(pid, &cpus)?;
            self.count("rebound");
        }
        Ok(())
    }

    /// Out of the scheduler's hands and back.
    fn change_policy(&mut self) -> Result<()> {
        if let Some(pid) = self.some_pid()? {
            sys::set_policy(pid, libc::SCHED_FIFO, 1)?;
            sys::sleep(200_000);
            sys::set_policy(pid, libc::SCHED_OTHER, 0)?;
            self.count("policies changed");
        }
        Ok(())
    }

    /// Freeze or throttle a group for a moment.
    fn hold(&mut self) -> Result<()> {
        let Some(group) = self.any_group() else {
            return Ok(());
        };
        let dir = self.dir(group)?;
        let limit = dir.join("cpu.max");
        if self.dice.roll(2) == 0 && limit.exists() {
            fs::write(&limit, "2000 10000")?;
            sys::sleep(3_000_000);
            fs::write(&limit, "max")?;
            self.count("throttled");
        } else if dir.join("cgroup.freeze").exists() {
            cgroups::set(&dir, "cgroup.freeze", 1)?;
            sys::sleep(1_000_000);
            cgroups::set(&dir, "cgroup.freeze", 0)?;
            self.count("frozen");
        }
        Ok(())
    }

    /// A process that forks 64 short-lived ones as fast as it can.
    fn storm(&mut self) -> Result<()> {
        let Some(group) = self.any_group() else {
            return Ok(());
        };
        if self.groups[group]
            .as_ref()
            .is_some_and(|g| g.parent.is_some())
        {
            return Ok(());
        }
        let into = cgroups::open(&self.dir(group)?)?;
        let member = self.crew.spawn(Some(&into), 0, |me| {
            for _ in 0..64 {
                if let Ok(0) = sys::fork(None) {
                    super::crew::busy(20_000);
                    sys::leave();
                }
            }
            while sys::reap_any(true) {}
            me.spin()
        })?;
        self.members.push((member, group));
        self.count("fork storms");
        Ok(())
    }

    fn hotplug(&mut self) -> Result<()> {
        let cpus = sys::cpus();
        if cpus < 2 {
            return Ok(());
        }
        let cpu = 1 + self.dice.roll(cpus - 1);
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&file, "0").with_context(|| format!("{file}: 0"))?;
        sys::sleep(3_000_000);
        fs::write(&file, "1").with_context(|| format!("{file}: 1"))?;
        self.count("CPUs unplugged");
        Ok(())
    }
}

fn live(me: &Me, nap: bool) {
    if !nap {
        me.spin();
    }
    loop {
        me.spin_for(300_000);
        sys::sleep(700_000);
    }
}

impl Table for Outcome {
    fn table(&self) -> String {
        let row = |(what, n): (&String, &u64)| vec![what.clone(), n.to_string()];
        let done: Vec<_> = self.done.iter().map(row).collect();
        format!(
            "{}longest wait {:.0} ms\n{}",
            columns(&[&format!("{} rounds", self.rounds), "times"], &done),
            self.longest_wait_ms,
            self.after.table()
        )
    }
}
