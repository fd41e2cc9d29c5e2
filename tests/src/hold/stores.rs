// SPDX-License-Identifier: GPL-2.0-only
//! Figure 11: a server of a small store gives one of a large store disk tickets for memory, while four others read from the disk: so many
//! for so much by hand, and then what a negotiator for each of them finds.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::disk::{DEVICE, hogs};
use super::store;
use crate::alone::{Hog, cgroups, number, tixd, write};
use crate::daemon::{read, sh, tixctl, until};

const M: u64 = 1 << 20;
/// Entries: 12.7 MiB and 165 MiB of the disk.
const STORES: [(&str, u64); 2] = [("small", 16_000), ("big", 208_000)];
const OTHERS: [&str; 4] = ["/io1", "/io2", "/io3", "/io4"];
const AT: &str = "/run/stores";
/// Memory of both, and what each is guaranteed of it.
const ALL: u64 = 26 * M;
const EACH: u64 = 12 * M;
/// CPU and disk tickets of each of the six.
const TICKETS: u64 = 1000;
/// Disk tickets, and MiB of memory, that are exchanged.
pub const EXCHANGED: [(u64, u64); 5] = [(200, 2), (200, 4), (300, 4), (300, 6), (400, 6)];
/// So long the negotiators have.
const NEGOTIATED: Duration = Duration::from_secs(180);
const SAMPLE: Duration = Duration::from_secs(10);
/// Whose the stores are: not root.
const USERS: [u32; 2] = [1001, 1002];
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

/// What the negotiators brought about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Negotiated {
    /// Lookups a second of the small and of the big store, in each ten seconds since they began.
    pub samples: Vec<[f64; 2]>,
    /// After those three minutes, as long as with an exchange by hand.
    pub then: Served,
    /// Exchanges that were made, and those of them that one or the other undid.
    pub made: usize,
    pub undone: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stores {
    /// The first without an exchange.
    pub by_hand: Vec<Served>,
    pub negotiated: Negotiated,
}

/// Each exchange is measured for `long` when it has been in force for `settle`.
pub fn measure(settle: Duration, long: Duration) -> Result<Stores> {
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
        tixctl(&format!("cancel {id} --yes"))?.ok()?;
        // What it had again.
        std::thread::sleep(settle / 2);
    }
    std::thread::sleep(settle / 2);
    let negotiated = negotiate(long)?;
    for server in &mut servers {
        ensure!(server.is_there()?, "one has ended");
    }
    Ok(Stores {
        by_hand: all,
        negotiated,
    })
}

/// A program of a user's, until it is dropped.
struct Negotiator(Child);

impl Negotiator {
    fn start(n: usize) -> Result<Negotiator> {
        let (name, uid) = (STORES[n].0, USERS[n]);
        tixctl(&format!("chown {uid} {name}"))?.ok()?;
        let progress = format!("/run/{name}.progress");
        let child = Command::new("tix-negotiate")
            .args([name, "--progress", &progress, "--json"])
            .uid(uid)
            .gid(uid)
            .stdin(Stdio::null())
            .stdout(Stdio::from(std::io::stderr()))
            .spawn()
            .context("start tix-negotiate")?;
        Ok(Negotiator(child))
    }
}

impl Drop for Negotiator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn negotiate(long: Duration) -> Result<Negotiated> {
    let before = exchanges()?;
    let all: Vec<Negotiator> = [0, 1]
        .into_iter()
        .map(Negotiator::start)
        .collect::<Result<_>>()?;
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < NEGOTIATED {
        samples.push(rates(SAMPLE)?);
    }
    let [small, big] = rates(long)?;
    drop(all);
    let now = exchanges()?;
    let held = |r: &str, of: &str| -> Result<u64> {
        let mut sum = 0;
        for x in &now {
            let parties = x["parties"].as_array().context("no parties")?;
            let gets = parties.iter().filter(|p| p["principal"] == of);
            let amounts = gets.filter(|p| p["gets"]["resource"] == r);
            sum += amounts
                .filter(|_| x["state"] == "active")
                .filter_map(|p| p["gets"]["amount"].as_f64())
                .sum::<f64>() as u64;
        }
        Ok(sum)
    };
    let new = || now.iter().filter(|x| !before.contains(x));
    let then = Served {
        disk: held("disk", "big")?,
        memory: held("memory", "small")? / M,
        small,
        big,
    };
    eprintln!("{then:?} {samples:?}");
    Ok(Negotiated {
        samples,
        then,
        made: new().count(),
        undone: new().filter(|x| x["state"] == "revoked").count(),
    })
}

/// Those in force and those that ended.
fn exchanges() -> Result<Vec<serde_json::Value>> {
    let all = tixctl("exchanges --json")?.ok()?.json()?;
    Ok(all.as_array().context("no array")?.clone())
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
    let [small, big] = rates(long)?;
    let served = Served {
        disk,
        memory,
        small,
        big,
    };
    eprintln!("{served:?}");
    Ok(served)
}

/// Lookups a second of both, for so long.
fn rates(long: Duration) -> Result<[f64; 2]> {
    let (began, before) = (Instant::now(), done()?);
    std::thread::sleep(long);
    let (took, now) = (began.elapsed().as_secs_f64(), done()?);
    Ok([0, 1].map(|n| (now[n] - before[n]) as f64 / took))
}

/// Lookups of both so far.
fn done() -> Result<[u64; 2]> {
    let one = |n: usize| -> Result<u64> {
        let text = read(&format!("/run/{}.progress", STORES[n].0))?;
        text.trim().parse().with_context(|| format!("{text:?}"))
    };
    Ok([one(0)?, one(1)?])
}
