// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel documents of the cpu controller (admin-guide/cgroup-v2.rst) and of scheduling policies (sched(7)), beside plain weights
//! and limits, which `shares` and `limits` look at: the same cases for every scheduler, each with what is due and how near is near enough.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::lacks;
use super::report::{Table, columns, percent};
use super::sys;

/// Of most cases; the kernel's scheduler rounds weights, sched_ext those of nice values.
pub const NEAR: f64 = 0.015;
/// Who has cpu.idle or SCHED_IDLE has weight 3 beside 1,024 with the kernel's own scheduler, and 1 beside 100 with a sched_ext one: both are
/// as near to this, and neither is nothing.
const LITTLE: f64 = 0.008;
const LEAST: f64 = 0.001;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The promise.
    pub case: String,
    /// To whom.
    pub who: String,
    /// Parts of a CPU, or what the case says.
    pub due: f64,
    pub got: f64,
    /// How far `got` may be from `due`.
    pub near: f64,
}

impl Verdict {
    pub fn kept(&self) -> bool {
        (self.got - self.due).abs() <= self.near
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Promises {
    pub seconds: f64,
    pub verdicts: Vec<Verdict>,
    /// Cases that this kernel lets no sched_ext scheduler keep, and why.
    pub left_out: Vec<String>,
}

/// One case at work: cgroups, and busy threads in them.
struct Case {
    name: &'static str,
    /// Ended before its cgroups go.
    crew: Crew,
    arena: Arena,
    warmup: u64,
    seconds: f64,
    /// Who is measured.
    members: Vec<(String, usize)>,
    verdicts: Vec<Verdict>,
}

type Scene = fn(&mut Case) -> Result<()>;

const IDLE: &str = "cpu.idle";
const ON_ONE: [(&str, Scene); 12] = [
    ("nice", nice),
    ("cpu.weight.nice", weight_nice),
    (IDLE, idle),
    ("cpu.idle, alone", idle_alone),
    ("cpu.idle, inside", idle_inside),
    ("cpu.stat", stat),
    ("cpu.pressure", pressure),
    ("cgroup.freeze", freeze),
    ("threaded", threaded),
    ("SCHED_IDLE", sched_idle),
    ("SCHED_BATCH", sched_batch),
    ("SCHED_FIFO", sched_fifo),
];

const ON_SEVERAL: [(&str, Scene); 3] = [
    ("fewer threads than CPUs", underprovisioned),
    ("sched_setaffinity", affinity),
    ("cpuset.cpus", cpuset),
];

/// Of a scheduler that has only those threads that ask for it.
const OPT_IN: [(&str, Scene); 1] = [("SCHED_EXT", sched_ext)];

pub fn run(root: &Path, partial: bool, warmup: f64, seconds: f64) -> Result<Promises> {
    let cases: &[(&str, Scene)] = match (partial, sys::cpus()) {
        (true, _) => &OPT_IN,
        (false, 1) => &ON_ONE,
        (false, _) => &ON_SEVERAL,
    };
    let (mut verdicts, mut left_out) = (Vec::new(), Vec::new());
    for &(name, scene) in cases {
        if name == IDLE
            && let Some(why) = lacks::why(name, lacks::IDLE)?
        {
            left_out.push(why);
            continue;
        }
        let mut case = Case {
            name,
            crew: Crew::new(16)?,
            arena: Arena::new(root)?,
            warmup: (warmup * 1e9) as u64,
            seconds,
            members: Vec::new(),
            verdicts: Vec::new(),
        };
        scene(&mut case).context(name)?;
        verdicts.append(&mut case.verdicts);
    }
    Ok(Promises {
        seconds,
        verdicts,
        left_out,
    })
}

impl Case {
    fn group(&self, path: &str) -> Result<PathBuf> {
        self.arena.add(path.as_ref(), 100)
    }

    /// A busy thread in `dir`, known as `who`.
    fn hog(&mut self, who: &str, dir: &Path) -> Result<i32> {
        self.member(who, dir, |me| me.spin())
    }

    fn member(&mut self, who: &str, dir: &Path, work: impl FnOnce(&Me)) -> Result<i32> {
        let member = self.crew.spawn(Some(&cgroups::open(dir)?), 0, work)?;
        self.members.push((who.into(), member));
        self.crew.pid(member)
    }

    /// A group of weight 100 with one busy thread, of the same name.
    fn side(&mut self, name: &str) -> Result<PathBuf> {
        let dir = self.group(name)?;
        self.hog(name, &dir)?;
        Ok(dir)
    }

    fn begin(&self) -> Result<()> {
        self.crew.muster()?;
        self.crew.open(0);
        Ok(())
    }

    /// From here on each of `dues` is to get so much of a CPU.
    fn expect(&mut self, when: &str, near: f64, dues: &[(&str, f64)]) -> Result<()> {
        let who: Vec<&str> = dues.iter().map(|(who, _)| *who).collect();
        let got = self.parts(&who, self.seconds)?;
        for (&(who, due), got) in dues.iter().zip(got) {
            self.say(&format!("{who}{when}"), due, got, near);
        }
        Ok(())
    }

    /// `idle` gets next to nothing, and runs all the same; `other` gets the rest.
    fn next_to_nothing(&mut self, when: &str, idle: &str, other: &str) -> Result<()> {
        // It has a slice of a few ms every second or so: some of those.
        let got = self.parts(&[idle, other], 2.0 * self.seconds)?;
        self.say(&format!("{idle}{when}"), LITTLE, got[0], LITTLE - LEAST);
        self.say(&format!("{other}{when}"), 1.0 - LITTLE, got[1], NEAR);
        Ok(())
    }

    /// What each of `who` gets of a CPU, from the end of the warm-up on.
    fn parts(&self, who: &[&str], seconds: f64) -> Result<Vec<f64>> {
        sys::sleep(self.warmup);
        let used = || -> Result<Vec<u64>> {
            let each = self.members.iter();
            each.map(|m| self.crew.cpu_ns(m.1)).collect()
        };
        let (first, began) = (used()?, sys::now());
        sys::sleep((seconds * 1e9) as u64);
        let (last, took) = (used()?, (sys::now() - began) as f64);
        let of = |who: &&str| -> f64 {
            let all = self.members.iter().zip(first.iter().zip(&last));
            let of = all.filter(|(m, _)| m.0 == *who);
            of.map(|(_, (first, last))| last - first).sum::<u64>() as f64 / took
        };
        Ok(who.iter().map(of).collect())
    }

    fn say(&mut self, who: &str, due: f64, got: f64, near: f64) {
        self.verdicts.push(Verdict {
            case: self.name.into(),
            who: who.into(),
            due,
            got,
            near,
        });
    }
}

/// "each unit of difference … results in a factor of 1.25": between threads of one cgroup, whatever others have.
fn nice(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    let nicer = c.hog("nicer", &a)?;
    let other = c.hog("other", &a)?;
    c.side("b")?;
    c.begin()?;
    // The kernel's weights of these nice values.
    for (of, weight, than, beside) in [
        (1, 820.0, 0, 1024.0),
        (5, 335.0, 0, 1024.0),
        (5, 335.0, -5, 3121.0),
    ] {
        sys::set_nice(nicer, of)?;
        sys::set_nice(other, than)?;
        let when = format!(", nice {of} beside {than}");
        let part = 0.5 * weight / (weight + beside);
        let dues = [("nicer", part), ("other", 0.5 - part), ("b", 0.5)];
        c.expect(&when, NEAR / 2.0, &dues)?;
    }
    Ok(())
}

/// "the range [-20, 19] … as nice(2) values", and cpu.weight then says what that comes to.
fn weight_nice(c: &mut Case) -> Result<()> {
    let a = c.side("a")?;
    c.side("b")?;
    cgroups::set(&a, "cpu.weight.nice", 5)?;
    c.begin()?;
    // The kernel's weights of nice 5 and 0.
    let part = 335.0 / (335.0 + 1024.0);
    c.expect(", nice 5", NEAR, &[("a", part), ("b", 1.0 - part)])?;
    cgroups::set(&a, "cpu.weight.nice", -5)?;
    let part = 3121.0 / (3121.0 + 1024.0);
    c.expect(", nice -5", NEAR, &[("a", part), ("b", 1.0 - part)])
}

/// "the cgroup itself will be treated as very low priority relative to its peers"
fn idle(c: &mut Case) -> Result<()> {
    let a = c.side("a")?;
    c.side("b")?;
    cgroups::set(&a, "cpu.weight", 1000)?;
    c.begin()?;
    cgroups::set(&a, "cpu.idle", 1)?;
    c.next_to_nothing(", idle", "a", "b")?;
    // Its weight is the default then.
    cgroups::set(&a, "cpu.idle", 0)?;
    c.expect(", no longer", NEAR, &[("a", 0.5), ("b", 0.5)])
}

fn idle_alone(c: &mut Case) -> Result<()> {
    let a = c.side("a")?;
    cgroups::set(&a, "cpu.idle", 1)?;
    c.begin()?;
    c.expect("", NEAR, &[("a", 1.0)])
}

/// "The threads inside the cgroup will retain their own relative priorities"
fn idle_inside(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    cgroups::enable_cpu(&a)?;
    let (x, y) = (c.group("a/x")?, c.group("a/y")?);
    cgroups::set(&y, "cpu.weight", 300)?;
    cgroups::set(&a, "cpu.idle", 1)?;
    c.hog("a/x", &x)?;
    c.hog("a/y", &y)?;
    c.begin()?;
    c.expect("", NEAR, &[("a/x", 0.25), ("a/y", 0.75)])
}

/// "usage_usec", of a cgroup and all below it.
fn stat(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    cgroups::enable_cpu(&a)?;
    let x = c.group("a/x")?;
    c.hog("a/x", &x)?;
    c.side("b")?;
    c.begin()?;
    let usage = |of: &Path| field(&of.join("cpu.stat"), "usage_usec ");
    let (first, began) = ((usage(&a)?, usage(&x)?), sys::now());
    c.expect("", NEAR, &[("a/x", 0.5), ("b", 0.5)])?;
    let took = (sys::now() - began) as f64 / 1000.0;
    c.say("usage of a", 0.5, (usage(&a)? - first.0) / took, NEAR);
    c.say("usage of a/x", 0.5, (usage(&x)? - first.1) / took, NEAR);
    Ok(())
}

/// Of two that share a CPU one waits at any moment.
fn pressure(c: &mut Case) -> Result<()> {
    let (a, _) = (c.side("a")?, c.side("b")?);
    c.begin()?;
    sys::sleep(c.warmup);
    let total = |of: &Path| field(&of.join("cpu.pressure"), "some avg10=");
    let (first, began) = (total(&a)?, sys::now());
    sys::sleep((c.seconds * 1e9) as u64);
    let took = (sys::now() - began) as f64 / 1000.0;
    c.say("a waits", 0.5, (total(&a)? - first) / took, 0.05);
    Ok(())
}

/// "a frozen cgroup": nobody in it runs, and goes on when it is thawed.
fn freeze(c: &mut Case) -> Result<()> {
    let (a, _) = (c.side("a")?, c.side("b")?);
    c.begin()?;
    c.expect(", before", NEAR, &[("a", 0.5), ("b", 0.5)])?;
    cgroups::set(&a, "cgroup.freeze", 1)?;
    c.expect(", frozen", NEAR, &[("a", 0.0), ("b", 1.0)])?;
    cgroups::set(&a, "cgroup.freeze", 0)?;
    c.expect(", thawed", NEAR, &[("a", 0.5), ("b", 0.5)])
}

/// Threaded cgroups share by weight, too.
fn threaded(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    cgroups::enable_cpu(&a)?;
    for (name, weight) in [("a/x", 100), ("a/y", 300)] {
        let dir = c.arena.root().join(name);
        fs::create_dir(&dir).with_context(|| format!("mkdir {}", dir.display()))?;
        cgroups::set(&dir, "cgroup.type", "threaded")?;
        cgroups::set(&dir, "cpu.weight", weight)?;
        let pid = c.hog(name, &a)?;
        cgroups::set(&dir, "cgroup.threads", pid)?;
    }
    c.begin()?;
    c.expect("", NEAR, &[("a/x", 0.25), ("a/y", 0.75)])
}

fn sched_idle(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    let pid = c.hog("idle", &a)?;
    c.hog("other", &a)?;
    sys::set_policy(pid, libc::SCHED_IDLE, 0)?;
    c.begin()?;
    c.next_to_nothing("", "idle", "other")
}

fn sched_batch(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    let pid = c.hog("batch", &a)?;
    c.hog("other", &a)?;
    sys::set_policy(pid, libc::SCHED_BATCH, 0)?;
    c.begin()?;
    c.expect("", NEAR, &[("batch", 0.5), ("other", 0.5)])
}

/// Who has a real-time policy comes first, and does not come off its cgroup's share.
fn sched_fifo(c: &mut Case) -> Result<()> {
    let (a, b) = (c.side("a")?, c.side("b")?);
    cgroups::set(&b, "cpu.weight", 300)?;
    let pid = c.member("real-time", &a, |me| in_parts(me, 3, 10))?;
    sys::set_policy(pid, libc::SCHED_FIFO, 1)?;
    c.begin()?;
    c.expect("", NEAR, &[("real-time", 0.3), ("a", 0.175), ("b", 0.525)])
}

/// Who asks for it shares what the kernel's own scheduler, which has the others and comes first, leaves.
fn sched_ext(c: &mut Case) -> Result<()> {
    let (a, b, other) = (c.group("a")?, c.group("b")?, c.group("c")?);
    cgroups::set(&b, "cpu.weight", 300)?;
    for (who, dir) in [("a", &a), ("b", &b)] {
        let pid = c.hog(who, dir)?;
        sys::set_policy(pid, sys::SCHED_EXT, 0)?;
    }
    c.member("other", &other, |me| in_parts(me, 4, 10))?;
    c.begin()?;
    c.expect("", NEAR, &[("other", 0.4), ("a", 0.15), ("b", 0.45)])
}

/// Works so many ms, from when it begins to run, of every so many.
fn in_parts(me: &Me, ms: u64, of: u64) -> ! {
    loop {
        let began = sys::now();
        me.spin_for(ms * 1_000_000);
        sys::sleep_until(began + of * 1_000_000);
    }
}

/// A thread uses one CPU, whatever its cgroup's weight.
fn underprovisioned(c: &mut Case) -> Result<()> {
    let (a, _) = (c.side("a")?, c.side("b")?);
    cgroups::set(&a, "cpu.weight", 1000)?;
    c.begin()?;
    c.expect("", WIDE, &[("a", 1.0), ("b", 1.0)])
}

/// Of a CPU that is wholly in use beside others: emulated ones run in turns, and what an interrupt takes is more there.
pub const WIDE: f64 = 0.2;

fn affinity(c: &mut Case) -> Result<()> {
    let a = c.group("a")?;
    let bound = c.hog("bound", &a)?;
    let b = c.group("b")?;
    let other = c.hog("other", &b)?;
    c.begin()?;
    sys::set_cpus(bound, &[0])?;
    sys::set_cpus(other, &[0])?;
    c.expect(" to one CPU", NEAR, &[("bound", 0.5), ("other", 0.5)])?;
    sys::set_cpus(other, &[1])?;
    c.expect(" elsewhere", WIDE, &[("bound", 1.0), ("other", 1.0)])
}

fn cpuset(c: &mut Case) -> Result<()> {
    let root = c.arena.root().to_owned();
    for dir in [root.parent().unwrap_or(&root), &root] {
        cgroups::set(dir, "cgroup.subtree_control", "+cpuset")?;
    }
    let (a, b) = (c.side("a")?, c.side("b")?);
    cgroups::set(&b, "cpu.weight", 300)?;
    c.begin()?;
    for cpu in [1, 0] {
        cgroups::set(&a, "cpuset.cpus", cpu)?;
        cgroups::set(&b, "cpuset.cpus", cpu)?;
        let when = format!(", both on CPU {cpu}");
        c.expect(&when, NEAR, &[("a", 0.25), ("b", 0.75)])?;
    }
    cgroups::set(&a, "cpuset.cpus", 1)?;
    c.expect(", one CPU each", WIDE, &[("a", 1.0), ("b", 1.0)])
}

/// The number after `key`'s line's last `=` or blank, in microseconds.
fn field(path: &Path, key: &str) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let line = text.lines().find(|l| l.starts_with(key));
    let number = line.and_then(|l| l.rsplit([' ', '=']).next());
    let number = number.and_then(|n| n.parse().ok());
    number.with_context(|| format!("no {key} in {}", path.display()))
}

impl Table for Promises {
    fn table(&self) -> String {
        let row = |v: &Verdict| {
            vec![
                v.case.clone(),
                v.who.clone(),
                percent(v.due),
                percent(v.got),
                if v.kept() { "" } else { "NOT KEPT" }.into(),
            ]
        };
        let rows: Vec<_> = self.verdicts.iter().map(row).collect();
        let left_out = self.left_out.iter().map(|why| format!("left out: {why}\n"));
        columns(&["", "who", "due", "got", ""], &rows) + &left_out.collect::<String>()
    }
}
