// SPDX-License-Identifier: GPL-2.0-only
//! Figures 9 and 10: a task that computes gives one that reads disk tickets for CPU tickets, one for one, beside another that computes and
//! four that read.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::disk::DEVICE;
use crate::alone::{Hog, cgroups, file, tixd};
use crate::daemon::tixctl;

/// The first of each trades.
const COMPUTE: [&str; 2] = ["compute", "compute2"];
const READ: [&str; 5] = ["read", "read2", "read3", "read4", "read5"];
/// Tickets of base for each of the two resources.
const EACH: u64 = 1000;
/// CPU time of a page: a reader has to be scheduled to get on, as with the paper's disks it had.
const WORK_US: &str = "1000";
/// As in the experiment with the disk alone.
const READERS: &str = "16";
const SETTLE: Duration = Duration::from_secs(5);

/// What everybody got in some time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Got {
    /// Tickets exchanged.
    pub amount: u64,
    pub seconds: f64,
    /// CPU time of those who compute, seconds.
    pub cpu: Vec<f64>,
    /// CPU time of all.
    pub all_cpu: f64,
    /// Pages of those who read.
    pub pages: Vec<u64>,
}

/// The figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exchanges {
    /// The first without an exchange.
    pub got: Vec<Got>,
    /// What shares the disk.
    pub mechanism: String,
}

/// Nothing exchanged, and `n` tickets for each `n` of `amounts`, each for so long.
pub fn measure(amounts: &[u64], long: Duration) -> Result<Exchanges> {
    let tixd = tixd()?;
    super::aside(&tixd)?;
    for name in all() {
        let path = format!("/{name}");
        cgroups(&[&path])?;
        tixctl(&format!("create {name}"))?.ok()?;
        tixctl(&format!("fund {name} --from base cpu {EACH}"))?.ok()?;
        tixctl(&format!("fund {name} --from base disk {EACH}"))?.ok()?;
        tixctl(&format!("bind {name} {path}"))?.ok()?;
    }
    let said = tixctl("disk enable vda --json")?.ok()?.json()?;
    let mechanism = said["mechanism"].as_str().context("no mechanism")?;
    let computing = COMPUTE
        .iter()
        .map(|n| Hog::start(&format!("/{n}"), &["cpu"]));
    let args = ["disk", DEVICE, "--readers", READERS, "--work", WORK_US];
    let reading = READ.iter().map(|n| Hog::start(&format!("/{n}"), &args));
    let mut hogs: Vec<Hog> = computing.chain(reading).collect::<Result<_>>()?;
    let mut got = vec![over(0, long)?];
    for amount in amounts {
        let id = exchange(*amount)?;
        got.push(over(*amount, long)?);
        tixctl(&format!("cancel {id} --yes"))?.ok()?;
    }
    for hog in &mut hogs {
        ensure!(hog.is_there()?, "one has ended");
    }
    Ok(Exchanges {
        got,
        mechanism: mechanism.to_owned(),
    })
}

fn all() -> impl Iterator<Item = &'static str> {
    COMPUTE.into_iter().chain(READ)
}

/// Both offer it, and the dealer brings them together: the exchange's number.
fn exchange(amount: u64) -> Result<u64> {
    let offer = |who: &str, gives: &str, wants: &str| {
        let line = format!("offer {who} --give {gives}:{amount} --want {wants}:{amount} --json");
        tixctl(&line)?.ok()?.json()
    };
    offer(COMPUTE[0], "disk", "cpu")?;
    let reply = offer(READ[0], "cpu", "disk")?;
    ensure!(reply["matched"] == true, "{reply}");
    reply["exchanges"][0]["id"]
        .as_u64()
        .context("no exchange's number")
}

fn over(amount: u64, long: Duration) -> Result<Got> {
    std::thread::sleep(SETTLE);
    let began = Instant::now();
    let (cpu, pages) = (used()?, pages()?);
    std::thread::sleep(long);
    let more: Vec<f64> = used()?.iter().zip(&cpu).map(|(a, b)| a - b).collect();
    let read = self::pages()?;
    let got = Got {
        amount,
        seconds: began.elapsed().as_secs_f64(),
        cpu: more[..COMPUTE.len()].to_vec(),
        all_cpu: more.iter().sum(),
        pages: read.iter().zip(&pages).map(|(a, b)| a - b).collect(),
    };
    eprintln!("{got:?}");
    Ok(got)
}

/// CPU time of each so far, seconds.
fn used() -> Result<Vec<f64>> {
    let one = |name: &str| -> Result<f64> {
        let stat = file(&format!("/{name}"), "cpu.stat")?;
        let usec = stat.lines().find_map(|l| l.strip_prefix("usage_usec "));
        Ok(usec.context("no usage_usec")?.parse::<f64>()? / 1e6)
    };
    all().map(one).collect()
}

fn pages() -> Result<Vec<u64>> {
    let paths: Vec<String> = READ.iter().map(|n| format!("/{n}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    super::disk::so_far(&paths, "rios=")
}
