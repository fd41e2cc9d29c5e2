// SPDX-License-Identifier: GPL-2.0-only
//! The three resources at once, each shared by its own tickets.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{tixctl, until};

use tix_tests::alone::{Hog, cgroups, file, number, write};
use tix_tests::hold::disk::{hogs, weight};

use super::disk::as_due;

const SOON: Duration = Duration::from_secs(60);
const M: u64 = 1 << 20;
const BOTH: [&str; 2] = ["/all/a", "/all/b"];
/// It has a quarter of the CPU, and what the machine does beside this guest counts.
const PATIENCE: Duration = Duration::from_secs(900);
/// What both share, and what is guaranteed to one.
const ALL: u64 = 64 * M;
const GUARANTEED: u64 = 40 * M;

/// Microseconds of CPU time so far.
fn cpu(path: &str) -> Result<u64> {
    let stat = file(path, "cpu.stat")?;
    let usage = stat.lines().find_map(|l| l.strip_prefix("usage_usec "));
    Ok(usage.context("no usage")?.parse()?)
}

/// Disk 3:1, CPU 1:3, and memory for the first.
pub fn check() -> Result<()> {
    cgroups(&["/all"])?;
    write("/all", "cgroup.subtree_control", "+cpu +memory +io")?;
    cgroups(&BOTH)?;
    write("/all", "memory.max", &ALL.to_string())?;
    for (name, path) in [("ay", BOTH[0]), ("be", BOTH[1])] {
        tixctl(&format!("create {name}"))?.ok()?;
        tixctl(&format!("bind {name} {path}"))?.ok()?;
    }
    for (name, resource, amount) in [
        ("ay", "disk", 300),
        ("be", "disk", 100),
        ("ay", "cpu", 1000),
        ("be", "cpu", 3000),
    ] {
        tixctl(&format!("fund {name} --from base {resource} {amount}"))?.ok()?;
    }
    tixctl(&format!(
        "reserve ay --from base memory {}M",
        GUARANTEED / M
    ))?
    .ok()?;
    until("all is in force", SOON, || {
        let w = |path: &str| -> Result<f64> {
            Ok(weight(path)?.trim_start_matches("default ").parse()?)
        };
        let memory = number(BOTH[0], "memory.min")? == GUARANTEED;
        // Rounded to whole numbers.
        Ok(memory && (2.97..3.03).contains(&(w(BOTH[0])? / w(BOTH[1])?)))
    })?;
    let _disk = hogs(&BOTH)?;
    let hog = |path: &&str| Hog::start(path, &["cpu"]);
    let _cpu: Vec<Hog> = BOTH.iter().map(hog).collect::<Result<_>>()?;
    let buffer = M.to_string();
    // Each reads a disk of its own, or one's reading would have to wait for the other's.
    let hog =
        |(path, from): (&&str, &str)| Hog::start(path, &["memory", from, "--buffer", &buffer]);
    let _memory: Vec<Hog> = (BOTH.iter().zip(["/dev/vdb", "/dev/vdc"]))
        .map(hog)
        .collect::<Result<_>>()?;
    until("a has what is guaranteed", PATIENCE, || {
        Ok(number(BOTH[0], "memory.current")? >= GUARANTEED)
    })?;
    let done = std::sync::atomic::AtomicBool::new(false);
    let (least, disk, time) = std::thread::scope(|scope| -> Result<_> {
        let watch = scope.spawn(|| -> Result<u64> {
            let mut least = u64::MAX;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                least = least.min(number(BOTH[0], "memory.current")?);
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(least)
        });
        let measured = in_a_minute();
        // Whatever came of it.
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let least = watch.join().ok().context("the watch panicked")??;
        let (disk, time) = measured?;
        Ok((least, disk, time))
    })?;
    eprintln!("at least {} M; requests {disk:?}; CPU {time:?}", least / M);
    as_due(&disk, &[3.0, 1.0], 0.05)?;
    as_due(&time, &[1.0, 3.0], 0.02)?;
    // The kernel counts in batches of a page a CPU.
    ensure!(least + M >= GUARANTEED, "{least} of {GUARANTEED}");
    for name in ["ay", "be"] {
        tixctl(&format!("destroy {name}"))?.ok()?;
    }
    Ok(())
}

/// Requests of both on the slow disk, and their CPU time, microseconds.
fn in_a_minute() -> Result<(Vec<u64>, [u64; 2])> {
    let number = std::fs::read_to_string("/sys/block/vda/dev")?;
    let so_far = || -> Result<Vec<u64>> {
        let of = |path: &&str| -> Result<u64> {
            let stat = file(path, "io.stat")?;
            let line = stat.lines().find_map(|l| l.strip_prefix(number.trim()));
            let n = line.and_then(|l| l.split(' ').find_map(|p| p.strip_prefix("rios=")));
            Ok(n.context("nothing of vda")?.parse()?)
        };
        BOTH.iter().map(of).collect()
    };
    let time = || Ok::<_, anyhow::Error>([cpu(BOTH[0])?, cpu(BOTH[1])?]);
    let (disk, used) = (so_far()?, time()?);
    std::thread::sleep(Duration::from_secs(60));
    let (now, by_now) = (so_far()?, time()?);
    let disk = now.iter().zip(disk).map(|(a, b)| a - b).collect();
    Ok((disk, [by_now[0] - used[0], by_now[1] - used[1]]))
}
