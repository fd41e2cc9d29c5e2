// SPDX-License-Identifier: GPL-2.0-only
//! A large ledger, written through tixd's own store.

use std::path::Path;

use anyhow::{Result, ensure};
use tixd::ledger::{End, Key, Kind, Resource, Row};
use tixd::store::{Change, Config, Store};

/// Currencies funded by base itself, by those, and by those; all others are one layer below.
const LAYERS: [u64; 3] = [1_000, 100, 10];
/// What the tickets of one currency are of: four in ten of the CPU.
const OF: [Resource; 10] = [
    Resource::Cpu,
    Resource::Disk,
    Resource::Memory,
    Resource::Net,
    Resource::Cpu,
    Resource::Cpu,
    Resource::Disk,
    Resource::Memory,
    Resource::Net,
    Resource::Cpu,
];
/// Rows written with one commit.
const BATCH: usize = 10_000;

/// Numbers that look random and are the same every time (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % end.max(1)
    }
}

/// Holder and issuer of a ticket of the CPU.
pub type Ends = (u64, u64);

/// What is in it.
pub struct Filled {
    pub tickets: u64,
    pub of_the_cpu: Vec<Ends>,
    /// All amounts together.
    pub sum: u64,
}

pub fn name(cid: u64) -> String {
    match cid {
        0 => "base".into(),
        _ => format!("currency-{cid}"),
    }
}

/// Each currency has its tickets of others in the layer above, so many on average.
pub fn fill(dir: &Path, currencies: u64, tickets: u64) -> Result<Filled> {
    let (mut store, _) = Store::open(dir)?;
    let mut filled = Filled {
        tickets: 0,
        of_the_cpu: Vec::new(),
        sum: 0,
    };
    let mut batch: Vec<Change> = Vec::new();
    let mut random = Random(1);
    for cid in 1..=currencies {
        let row = Row::Currency {
            name: name(cid),
            owner: 1000 + u32::try_from(cid % 1_000)?,
            group: 1000,
            mode: 0o700,
            transient: None,
            by: 0,
        };
        batch.push((Key::Currency(cid), Some(row)));
        keep(&mut store, &mut batch, BATCH)?;
    }
    for cid in 1..=currencies {
        let (above, from) = layer_above(cid, currencies);
        // As many as make the sum what it should be, when all are through.
        let due = tickets * cid / currencies;
        let wanted = due.saturating_sub(filled.tickets).min(12);
        let mut given: Vec<(u64, usize)> = Vec::new();
        for n in 0..usize::try_from(wanted)? {
            let resource = OF[n % OF.len()];
            let mut issuer = from + random.below(above);
            // Another one, if this one has given it some already; base's may be all there is.
            for _ in 0..above {
                if !given.contains(&(issuer, resource.index())) {
                    break;
                }
                issuer = from + (issuer - from + 1) % above;
            }
            if given.contains(&(issuer, resource.index())) {
                continue;
            }
            given.push((issuer, resource.index()));
            let amount = 100 + random.below(900);
            let key = Key::Ticket {
                issuer: End::Cid(issuer),
                holder: End::Cid(cid),
                resource,
                kind: Kind::Soft,
            };
            let row = Row::Ticket {
                amount,
                bytes: false,
                by: 0,
            };
            batch.push((key, Some(row)));
            filled.tickets += 1;
            filled.sum += amount;
            if resource == Resource::Cpu {
                filled.of_the_cpu.push((cid, issuer));
            }
        }
        keep(&mut store, &mut batch, BATCH)?;
    }
    keep(&mut store, &mut batch, 1)?;
    ensure!(
        !filled.of_the_cpu.is_empty(),
        "a ledger without a ticket of the CPU"
    );
    Ok(filled)
}

/// How many there are in the layer above `cid`, and the first of them.
fn layer_above(cid: u64, currencies: u64) -> (u64, u64) {
    let (mut above, mut from, mut first) = (1, 0, 1);
    for part in LAYERS {
        let here = (currencies / part).max(1);
        if cid < first + here {
            break;
        }
        (above, from, first) = (here, first, first + here);
    }
    (above, from)
}

fn keep(store: &mut Store, batch: &mut Vec<Change>, at: usize) -> Result<()> {
    if batch.len() >= at {
        store.commit(&[], batch)?;
        batch.clear();
    }
    Ok(())
}

/// All amounts of the ledger in `dir` together.
pub fn sum(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    Store::open_with(dir, Config::default(), &mut |_, row| {
        if let Row::Ticket { amount, .. } = row {
            sum += amount;
        }
    })?;
    Ok(sum)
}
