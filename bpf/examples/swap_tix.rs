// SPDX-License-Identifier: GPL-2.0-only
//! Several exchanges of the scheduler under load: who was ahead of its due before, and who behind, has had that much less, or more, a
//! while after? Run it with `chrt -f 1` and `sched_rt_runtime_us` -1: on one CPU nobody else runs then while a scheduler is verified.
//! Prints a line of JSON an exchange; what they have to be is the guest test `swap`'s business.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tix_bpf::{Exchange, Lack, Lead, Options, Scheduler, go_back};

const DIR: &str = "/sys/fs/bpf/swap_tix";
const ROOT: &str = "/sys/fs/cgroup/swap";
/// Below ROOT, their weights, and what those that want all are due.
const TREE: [(&str, u32, f64); 5] = [
    ("a", 100, 0.25),
    ("b", 200, 0.5),
    ("d", 100, 0.0),
    ("d/d1", 100, 0.0625),
    ("d/d2", 300, 0.1875),
];
/// What these are put ahead, ms: several quanta, nothing all in all.
const LAGS: [(&str, i64); 4] = [("a", 25), ("b", -40), ("d/d1", 8), ("d/d2", 7)];
const FIRST: &str = "one";
const AFTER: Duration = Duration::from_secs(2);

struct World {
    /// Those with a hog, by their cgroups' inodes.
    of: Vec<(u64, &'static str, f64)>,
    hogs: Vec<Child>,
}

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn write(at: &Path, text: &str) {
    fs::write(at, text).unwrap_or_else(|err| panic!("{}: {err}", at.display()));
}

impl World {
    fn new(threads: usize) -> World {
        write(Path::new("/sys/fs/cgroup/cgroup.subtree_control"), "+cpu");
        let mut world = World {
            of: Vec::new(),
            hogs: Vec::new(),
        };
        fs::create_dir(ROOT).expect(ROOT);
        write(&path("cgroup.subtree_control"), "+cpu");
        for (name, weight, due) in TREE {
            fs::create_dir(path(name)).expect(name);
            write(&path(name).join("cpu.weight"), &weight.to_string());
            if due == 0.0 {
                write(&path(name).join("cgroup.subtree_control"), "+cpu");
                continue;
            }
            let inode = fs::metadata(path(name)).expect(name).ino();
            world.of.push((inode, name, due));
            for _ in 0..threads {
                let mut hog = Command::new("chrt");
                let hog = hog.args(["-o", "0", "/bin/sh", "-c", "while :; do :; done"]);
                let hog = hog.spawn().expect("a hog");
                write(&path(name).join("cgroup.procs"), &hog.id().to_string());
                world.hogs.push(hog);
            }
        }
        world
    }

    fn cgid(&self, name: &str) -> u64 {
        self.of.iter().find(|of| of.1 == name).expect(name).0
    }

    /// CPU time of each, ns, as that scheduler charged it.
    fn used(&self, by: &Scheduler) -> Vec<f64> {
        let nodes = by.nodes().expect("nodes");
        let used: HashMap<u64, u64> = nodes.iter().map(|n| (n.cgid, n.used_ns)).collect();
        let of = |of: &(u64, _, _)| used.get(&of.0).copied().unwrap_or_default() as f64;
        self.of.iter().map(of).collect()
    }

    /// By how much each is ahead, ns.
    fn leads(&self, leads: &[Lead]) -> Vec<f64> {
        self.each(leads, |lead| lead.lead_ns)
    }

    fn each(&self, leads: &[Lead], what: impl Fn(&Lead) -> i64) -> Vec<f64> {
        let of = |of: &(u64, _, _)| leads.iter().find(|l| l.cgid == of.0).map_or(0, &what) as f64;
        self.of.iter().map(of).collect()
    }

    /// What of `had` was more than its due.
    fn beyond(&self, had: &[f64]) -> Vec<f64> {
        let all: f64 = had.iter().sum();
        let beyond = |(had, of): (&f64, &(_, _, f64))| had - all * of.2;
        had.iter().zip(&self.of).map(beyond).collect()
    }

    /// Of each it prints by how much it was ahead just before the exchange; how much more it has had, by then and AFTER, than its due and
    /// than what makes good for that: nothing, but for the last quanta; and what of it was while the old one was being taken out. What the kernel's
    /// own scheduler gave in between does not count.
    fn exchange(&self, how: &str, to: impl FnOnce() -> (Vec<Lead>, Scheduler)) -> Scheduler {
        let (before, new) = to();
        sleep(AFTER);
        let Some(Exchange { gap, leads }) = &new.exchange else {
            panic!("{how}: nothing was exchanged");
        };
        let leads = leads.as_ref().unwrap_or_else(|why| panic!("{how}: {why}"));
        let (before, passed) = (self.leads(&before), self.leads(leads));
        let leaving = self.beyond(&self.each(leads, |lead| lead.more_ns));
        let after = self.beyond(&self.used(&new));
        let error: Vec<f64> = (0..after.len())
            .map(|i| before[i] + leaving[i] + after[i])
            .collect();
        let ms = |all: &[f64]| all.iter().map(|ns| ns / 1e6).collect::<Vec<_>>();
        println!(
            "{{\"how\":\"{how}\",\"before_ms\":{:?},\"passed_ms\":{:?},\"error_ms\":{:?},\"leaving_ms\":{:?},\"gap_ms\":{}}}",
            ms(&before),
            ms(&passed),
            ms(&error),
            ms(&leaving),
            gap.unwrap_or_default().as_secs_f64() * 1000.0,
        );
        new
    }
}

/// In the scheduler that is in force some get far ahead, and others fall behind. How far they are then.
fn lag(lags: &[(&str, i64)]) -> Vec<Lead> {
    let lead = |(name, ms): &(&str, i64)| Lead {
        cgid: fs::metadata(path(name)).expect(name).ino(),
        lead_ns: ms * 1_000_000,
        share: 1,
        ..Lead::default()
    };
    let lags = lags.iter().map(lead).collect();
    let by = in_force();
    by.take(lags).expect("lags");
    by.leads().expect("leads")
}

fn in_force() -> Scheduler {
    let adopted = Scheduler::adopt(Path::new(DIR));
    adopted.expect("adopt").expect("in force")
}

impl Drop for World {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            // It may have gone.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Who was how far ahead just before the last exchange.
static BEFORE: Mutex<Vec<Lead>> = Mutex::new(Vec::new());

fn note(lags: &[(&str, i64)]) {
    *BEFORE.lock().expect("nobody panics") = lag(lags);
}

/// Loads it; what is in force just before is asked then, and put ahead and behind first if `lags`.
fn load(build: &str, lags: bool) -> (Vec<Lead>, Scheduler) {
    let verified: fn() = if lags { || note(&LAGS) } else { || note(&[]) };
    let options = Options {
        build: build.to_owned(),
        verified: (build != FIRST).then_some(verified),
        ..Options::default()
    };
    let loaded = Scheduler::load_with(Path::new(DIR), &options);
    let loaded = loaded.unwrap_or_else(|err| panic!("{err}"));
    (BEFORE.lock().expect("nobody panics").clone(), loaded)
}

fn back() -> Scheduler {
    let back = go_back(Path::new(DIR)).unwrap_or_else(|err| panic!("{err}"));
    back.expect("nothing to go back to")
}

fn fail() {
    in_force().fail().expect("fail");
    while tix_bpf::in_force() != tix_bpf::Force::Disabled {
        sleep(Duration::from_millis(1));
    }
}

/// `a` has 50 ms in each second: when it has had them an exchange gives it no other ones.
fn limit(world: &World, old: Scheduler) -> Scheduler {
    let cgid = world.cgid("a");
    let left = |by: &Scheduler| {
        let leads = by.leads().expect("leads");
        leads.iter().find(|l| l.cgid == cgid).expect("a").left_ns
    };
    write(&path("a").join("cpu.max"), "50000 1000000");
    let wait = |until: &dyn Fn(i64) -> bool| {
        let start = Instant::now();
        while !until(left(&old)) {
            assert!(start.elapsed() < Duration::from_secs(10), "no period ends");
            sleep(Duration::from_millis(5));
        }
    };
    wait(&|left| left <= 0);
    wait(&|left| left > 0);
    wait(&|left| left <= 0);
    let new = back();
    let after = left(&new);
    sleep(Duration::from_millis(300));
    let used = world.used(&new)[0] / 1e6;
    println!(
        "{{\"how\":\"limit\",\"left_ms\":{},\"used_ms\":{used}}}",
        after as f64 / 1e6
    );
    sleep(Duration::from_millis(1500));
    let later = world.used(&new)[0] / 1e6;
    println!("{{\"how\":\"later\",\"used_ms\":{later}}}");
    write(&path("a").join("cpu.max"), "max 1000000");
    new
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let world = World::new(threads.unwrap_or(1));
    load(FIRST, false);
    sleep(Duration::from_secs(1));
    world.exchange("loaded", || load("two", false));
    world.exchange("loaded, with lags", || load("three", true));
    world.exchange("gone back, with lags", || (lag(&LAGS), back()));
    world.exchange("loaded again", || load("four", false));
    world.exchange("failed, with lags", || {
        let before = lag(&LAGS);
        fail();
        (before, back())
    });
    let mut last = world.exchange("loaded again", || load("five", false));
    match tix_bpf::lacks().expect("lacks").contains(&Lack::CpuMax) {
        true => eprintln!("SKIPPED: this kernel does not say what cpu.max is"),
        false => last = limit(&world, last),
    }
    last.stop().unwrap_or_else(|err| panic!("{err}"));
}
