// SPDX-License-Identifier: GPL-2.0-only
//! Figure 11: a server of a small store gives one of a large store disk tickets for memory, while four others read from the disk.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::disk::{DEVICE, hogs};
use super::store;
use crate::alone::{Hog, cgroups, number, tixd, write};
use crate::daemon::{read, sh, tixctl, until};

const M: u64 = 1 << 20;
/// Entries: of 12 MB and of 96 MB or so.
const STORES: [(&str, u64); 2] = [("small", 26_000), ("big", 208_000)];
const OTHERS: [&str; 4] = ["/io1", "/io2", "/io3", "/io4"];
const AT: &str = "/run/stores";
/// Memory of both, and what each is guaranteed of it.
const ALL: u64 = 22 * M;
const EACH: u64 = 10 * M;
/// CPU and disk tickets of each of the six.
const TICKETS: u64 = 1000;
/// Disk tickets, and MiB of memory, that are exchanged.
pub const EXCHANGED: [(u64, u64); 5] = [(200, 2), (400, 2), (200, 4), (400, 4), (400, 6)];
const SOON: Duration = Duration::from_secs(60);

/// Lookups a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Served {
    /// Disk tickets that the small one gave.
    pub disk: u64,
    /// MiB that it got.
    pub memory: u64,
    pub small: f64,
    pub big: f64,
}

/// The first without an exchange; each measured for `long` when it has been in force for `settle`.
pub fn measure(settle: Duration, long: Duration) -> Result<Vec<Served>> {
    prepare()?;
    let tixd = tixd()?;
    super::aside(&tixd)?;
    cgroups(&["/kv"])?;
    write("/kv", "cgroup.subtree_control", "+cpu +memory +io")?;
    write("/kv", "memory.max", &ALL.to_string())?;
    for (name, _) in STORES {
        let path = format!("/kv/{name}");
        fund(name, &path)?;
        tixctl(&format!("reserve {name} --from base memory {}M", EACH / M))?.ok()?;
        until("it is guaranteed", SOON, || {
            Ok(number(&path, "memory.min")? == EACH)
        })?;
    }
    for path in OTHERS {
        fund(&path[1..], path)?;
    }
    tixctl("disk enable vda")?.ok()?;
    let _others = hogs(&OTHERS)?;
    let serve = |(name, _): &(&str, u64)| {
        let (from, progress) = (format!("{AT}/{name}"), format!("/run/{name}.progress"));
        Hog::start(
            &format!("/kv/{name}"),
            &["store", &from, "--progress", &progress],
        )
    };
    let mut servers: Vec<Hog> = STORES.iter().map(serve).collect::<Result<_>>()?;
    let mut all = vec![over((0, 0), settle, long)?];
    for (disk, memory) in EXCHANGED {
        let id = exchange(disk, memory)?;
        all.push(over((disk, memory), settle, long)?);
        tixctl(&format!("cancel {id}"))?.ok()?;
        // What it had again.
        std::thread::sleep(settle / 2);
    }
    for server in &mut servers {
        ensure!(server.is_there()?, "one has ended");
    }
    Ok(all)
}

/// Both stores, on the disk alone.
fn prepare() -> Result<()> {
    sh(&format!("mkfs.ext4 -q {DEVICE}"))?.ok()?;
    std::fs::create_dir_all(AT)?;
    sh(&format!("mount {DEVICE} {AT}"))?.ok()?;
    for (name, entries) in STORES {
        store::make(&Path::new(AT).join(name), entries)?;
    }
    // What a lookup does not ask for is not read.
    std::fs::write("/sys/block/vda/queue/read_ahead_kb", "0")?;
    sh("sync")?.ok()?;
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    Ok(())
}

fn fund(name: &str, path: &str) -> Result<()> {
    cgroups(&[path])?;
    tixctl(&format!("create {name}"))?.ok()?;
    tixctl(&format!("fund {name} --from base cpu {TICKETS}"))?.ok()?;
    tixctl(&format!("fund {name} --from base disk {TICKETS}"))?.ok()?;
    tixctl(&format!("bind {name} {path}"))?.ok()?;
    Ok(())
}

/// Both offer it, and the dealer brings them together: the exchange's number.
fn exchange(disk: u64, memory: u64) -> Result<u64> {
    tixctl(&format!(
        "offer big --give memory:{memory}M --want disk:{disk}"
    ))?
    .ok()?;
    let line = format!("offer small --give disk:{disk} --want memory:{memory}M --json");
    let reply = tixctl(&line)?.ok()?.json()?;
    ensure!(reply["matched"] == true, "{reply}");
    reply["exchanges"][0]["id"]
        .as_u64()
        .context("no exchange's number")
}

fn over((disk, memory): (u64, u64), settle: Duration, long: Duration) -> Result<Served> {
    std::thread::sleep(settle);
    let (began, before) = (Instant::now(), done()?);
    std::thread::sleep(long);
    let (took, now) = (began.elapsed().as_secs_f64(), done()?);
    let served = Served {
        disk,
        memory,
        small: (now[0] - before[0]) as f64 / took,
        big: (now[1] - before[1]) as f64 / took,
    };
    eprintln!("{served:?}");
    Ok(served)
}

/// Lookups of both so far.
fn done() -> Result<[u64; 2]> {
    let one = |n: usize| -> Result<u64> {
        let text = read(&format!("/run/{}.progress", STORES[n].0))?;
        text.trim().parse().with_context(|| format!("{text:?}"))
    };
    Ok([one(0)?, one(1)?])
}
