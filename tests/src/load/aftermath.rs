// SPDX-License-Identifier: GPL-2.0-only
//! What has to be as it was when a rough time is over: the scheduler in force, its maps without a leak, shares by weight.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::maps;
use super::report::{Table, columns};
use super::shares::{Plan, Shares};
use super::sys;
use super::tickets::Mechanism;
use super::tree::Tree;
use crate::force::Force;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Aftermath {
    /// Entries of the scheduler's maps before and after.
    pub maps_before: BTreeMap<String, u64>,
    pub maps_after: BTreeMap<String, u64>,
    /// 1:2:3:4:5 when it is over, on all CPUs, two threads each.
    pub shares: Shares,
}

/// How it was.
pub struct Before {
    pins: Option<PathBuf>,
    scheduler: String,
    maps: BTreeMap<String, u64>,
}

impl Before {
    /// `pins`: where the scheduler's maps are pinned, if they are to be counted. `scheduler` must stay in force.
    pub fn look(pins: Option<&Path>, scheduler: &str) -> Result<Before> {
        let mut before = Before {
            pins: pins.map(Path::to_owned),
            scheduler: scheduler.to_owned(),
            maps: BTreeMap::new(),
        };
        before.maps = before.census()?;
        Ok(before)
    }

    fn census(&self) -> Result<BTreeMap<String, u64>> {
        match &self.pins {
            Some(dir) => maps::census(dir, &["nodes", "shared"]),
            None => Ok(BTreeMap::new()),
        }
    }

    /// It is over; shares are looked at for so many seconds.
    pub fn over(self, root: &Path, seconds: f64) -> Result<Aftermath> {
        // A cgroup is forgotten some time after it was removed, when the kernel is done with it.
        let until = sys::now() + 30_000_000_000;
        let mut after = self.census()?;
        while after != self.maps && sys::now() < until {
            sys::sleep(200_000_000);
            after = self.census()?;
        }
        Force::now().require(&self.scheduler)?;
        let plan = Plan {
            tree: Tree::flat(&[1, 2, 3, 4, 5]),
            threads: 2,
            crowds: BTreeMap::new(),
            warmup: 2.0,
            seconds,
            sample_ms: 10,
            scale: 100,
            mechanism: Mechanism::Weight,
            quarrels: 0,
            readers: 0,
            pairs: 0,
            yields: None,
        };
        Ok(Aftermath {
            maps_before: self.maps,
            maps_after: after,
            shares: plan.run(root)?,
        })
    }
}

impl Table for Aftermath {
    fn table(&self) -> String {
        let count = |(map, n): (&String, &u64)| {
            let after = self.maps_after.get(map).copied().unwrap_or(0);
            vec![map.clone(), n.to_string(), after.to_string()]
        };
        let maps: Vec<_> = self.maps_before.iter().map(count).collect();
        let maps = columns(&["map", "before", "after"], &maps);
        format!("{maps}{}", self.shares.table())
    }
}
