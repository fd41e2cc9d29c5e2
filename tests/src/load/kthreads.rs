// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own threads beside a crowd: a file system on a loop device is written to, and each write has to pass a journal's thread
//! and unbound workers of several queues, which all live in the root cgroup.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::Crew;
use super::report::{Table, columns};
use super::sys;

/// Files that are written, each and then all of them carried over to the disk.
const FILES: usize = 20;
const BYTES: usize = 256 << 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kthreads {
    pub hogs: usize,
    /// The longest that one file took until it was on the disk, and `sync` after all, while nobody else ran.
    pub peace: Took,
    /// The same beside the hogs, in a cgroup of as much weight as the kernel's own threads have,
    /// and of ten times as much.
    pub alike: Took,
    pub small: Took,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Took {
    pub longest_ms: f64,
    pub sync_ms: f64,
    /// For all of it.
    pub all_ms: f64,
    /// CPU time that the kernel's own threads used for it, and who writes.
    pub kernel_ms: f64,
    pub own_ms: f64,
    /// How often one of the kernel's own threads came to run.
    pub runs: u64,
}

/// Writes to `dir`, which is a file system on a loop device.
pub fn run(root: &Path, dir: &Path, hogs: usize) -> Result<Kthreads> {
    let peace = write_all(dir, "peace")?;
    let beside = |weight: u32| -> Result<Took> {
        let arena = Arena::new(root)?;
        // It is the arena that is beside the root cgroup's own threads.
        cgroups::set(arena.root(), "cpu.weight", weight)?;
        let mut crew = Crew::new(hogs)?;
        let crowd = cgroups::open(&arena.add(Path::new("crowd"), 100)?)?;
        for _ in 0..hogs {
            crew.spawn(Some(&crowd), 0, |me| me.spin())?;
        }
        crew.muster()?;
        crew.open(0);
        sys::sleep(500_000_000);
        write_all(dir, &format!("w{weight}"))
    };
    Ok(Kthreads {
        hogs,
        peace,
        alike: beside(100)?,
        small: beside(1_000)?,
    })
}

/// CPU time that each of the kernel's own threads has used, ns, and how often it came to run.
fn kernel_use() -> Result<HashMap<OsString, [u64; 2]>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let dir = entry.path();
        // Those are kthreadd's children. (To have no program does not tell: who has ended and is not reaped has none either.)
        let stat = fs::read_to_string(dir.join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|s| s.1.split(' ').nth(1));
        if let (Some("2"), Ok(used)) = (parent, fs::read_to_string(dir.join("schedstat"))) {
            // What it had, what it waited for, and how often it had it.
            let mut numbers = used.split_whitespace().map(str::parse);
            let (ns, runs) = (numbers.next(), numbers.nth(1));
            all.insert(
                entry.file_name(),
                [ns.unwrap_or(Ok(0))?, runs.unwrap_or(Ok(0))?],
            );
        }
    }
    Ok(all)
}

/// What those that are there have used since `before`. Some have come, and others gone.
fn kernel_since(before: &HashMap<OsString, [u64; 2]>) -> Result<[u64; 2]> {
    let mut since = [0; 2];
    for (name, used) in kernel_use()? {
        // More than it uses now had another thread that has gone, whose number it has.
        let had = before.get(&name).copied().unwrap_or_default();
        for i in 0..2 {
            since[i] += used[i].saturating_sub(had[i]);
        }
    }
    Ok(since)
}

fn write_all(dir: &Path, name: &str) -> Result<Took> {
    let used = || sys::cpu_ns(sys::own_pid());
    let (kernel, own, began) = (kernel_use()?, used()?, sys::now());
    let mut longest = 0;
    let timed = |what: &mut dyn FnMut() -> Result<()>| -> Result<u64> {
        let start = sys::now();
        what()?;
        Ok(sys::now() - start)
    };
    for i in 0..FILES {
        let path = dir.join(format!("{name}{i}"));
        let took = timed(&mut || {
            let mut file = fs::File::create(&path)?;
            file.write_all(&vec![7; BYTES])?;
            file.sync_all().with_context(|| path.display().to_string())
        })?;
        longest = longest.max(took);
    }
    for i in 0..FILES {
        fs::write(dir.join(format!("{name}-late{i}")), vec![9; BYTES])?;
    }
    // Of this file system alone: others are on this machine's disk, and the guest's clock leaps
    // while it waits for that.
    let of = fs::File::open(dir).with_context(|| dir.display().to_string())?;
    let sync = timed(&mut || rustix::fs::syncfs(&of).context("syncfs"))?;
    let all = sys::now() - began;
    let [kernel_ns, runs] = kernel_since(&kernel)?;
    let took = Took {
        longest_ms: longest as f64 / 1e6,
        sync_ms: sync as f64 / 1e6,
        all_ms: all as f64 / 1e6,
        own_ms: (used()? - own) as f64 / 1e6,
        kernel_ms: kernel_ns as f64 / 1e6,
        runs,
    };
    ensure!(took.kernel_ms > 0.0, "no thread of the kernel's took part");
    Ok(took)
}

impl Table for Kthreads {
    fn table(&self) -> String {
        let row = |what: &str, t: &Took| {
            let ms = |ms: f64| format!("{ms:.1}");
            vec![
                what.to_owned(),
                ms(t.longest_ms),
                ms(t.sync_ms),
                ms(t.all_ms),
                ms(t.kernel_ms),
                ms(t.own_ms),
                t.runs.to_string(),
            ]
        };
        let hogs = format!("{} hogs", self.hogs);
        columns(
            &[
                &hogs,
                "longest ms",
                "sync ms",
                "all ms",
                "kernel's CPU ms",
                "own CPU ms",
                "runs",
            ],
            &[
                row("not there", &self.peace),
                row("of weight 100", &self.alike),
                row("of weight 1,000", &self.small),
            ],
        )
    }
}
