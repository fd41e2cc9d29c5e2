// SPDX-License-Identifier: GPL-2.0-only
//! Offers made of a real tixd that changes nothing on this machine: about half of them are matched at once, and each is kept before it
//! is answered.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::guest::tree;
use tixd::ledger::{End, Key, Kind, Resource, Row};
use tixd::store::{Change, Store};

use super::Options;
use crate::ledger::clients::asking;
use crate::ledger::fill::{Random, name};
use crate::ledger::server::Tixd;
use crate::ledger::{CLIENTS, Crowd, DEPTH, Spread};

/// Base tickets of each party: more than it ever gives.
const EACH: u64 = 1_000_000;

pub struct Offered {
    pub crowds: Vec<Crowd>,
    pub acknowledged: u64,
    pub last_number: u64,
}

pub fn measure(options: &Options) -> Result<Offered> {
    let me = std::env::current_exe().context("where am I")?;
    let program = me.with_file_name("tixd");
    ensure!(program.exists(), "there is no {}", program.display());
    let parent = options.offer_dir.clone().unwrap_or(tree().join("target"));
    let dir = parent.join(format!("bench-dealer-{}", std::process::id()));
    let result = within(options, &program, &dir);
    // Nothing is left behind, whatever came of it.
    let removed = fs::remove_dir_all(&dir);
    let offered = result?;
    removed?;
    Ok(offered)
}

/// Parties with tickets of base's of the CPU and of the disk.
fn fill(dir: &std::path::Path, parties: u64) -> Result<()> {
    let (mut store, _) = Store::open(dir)?;
    let mut all: Vec<Change> = Vec::new();
    for cid in 1..=parties {
        let row = Row::Currency {
            name: name(cid),
            owner: 0,
            group: 0,
            mode: 0o700,
            transient: None,
            by: 0,
        };
        all.push((Key::Currency(cid), Some(row)));
        for resource in [Resource::Cpu, Resource::Disk] {
            let key = Key::Ticket {
                issuer: End::Cid(0),
                holder: End::Cid(cid),
                resource,
                kind: Kind::Soft,
            };
            let row = Row::Ticket {
                amount: EACH,
                bytes: false,
                by: 0,
            };
            all.push((key, Some(row)));
        }
    }
    Ok(store.commit(&[], &all)?)
}

/// The one half of the parties gives CPU for disk, the other disk for CPU: nobody meets an offer of its own.
fn offer(random: &mut Random, parties: u64) -> Vec<u8> {
    let side = random.below(2);
    let party = name(1 + side + 2 * random.below(parties / 2));
    let (gives, wants) = [("cpu", "disk"), ("disk", "cpu")][usize::from(side == 1)];
    let (give, want) = (1_000 + random.below(400), 1_000 + random.below(400));
    let milli = |n: u64| format!("{}.{:03}", n / 1_000, n % 1_000);
    let (give, want) = (milli(give), milli(want));
    let text = format!(
        "{{\"method\":\"org.tix.Tix.Offer\",\"parameters\":{{\"principal\":\"{party}\",\"give\":\"{gives}:{give}\",\"want\":\"{wants}:{want}\"}}}}\0"
    );
    text.into_bytes()
}

fn within(options: &Options, program: &std::path::Path, dir: &std::path::Path) -> Result<Offered> {
    let state = dir.join("state");
    fs::create_dir_all(dir)?;
    fill(&state, options.parties)?;
    let tixd = Tixd::start(program, dir)?;
    let (mut crowds, mut acknowledged) = (Vec::new(), 0);
    for depth in [1, DEPTH] {
        eprintln!("dealer: {CLIENTS} clients, {depth} offers each under way");
        let before = tixd.cpu()?;
        let length = Duration::from_secs(options.offer_seconds);
        let ask = |random: &mut Random| offer(random, options.parties);
        let crowd = asking(&tixd, &ask, (CLIENTS, depth), length)?;
        let cpu = tixd.cpu()? - before;
        let operations = crowd.times.len();
        acknowledged += operations as u64;
        crowds.push(Crowd {
            clients: CLIENTS,
            depth,
            operations,
            per_second: operations as f64 / crowd.took.as_secs_f64(),
            us: Spread::of(crowd.times),
            cpu_us: cpu.as_secs_f64() * 1e6 / operations as f64,
        });
    }
    tixd.kill()?;
    let (_, loaded) = Store::open(&state)?;
    let last_number = loaded.next_exchange - 1;
    // Each offer has had a number, or what came of it has.
    ensure!(
        last_number >= acknowledged,
        "{acknowledged} offers were acknowledged, and {last_number} numbers were kept"
    );
    Ok(Offered {
        crowds,
        acknowledged,
        last_number,
    })
}
