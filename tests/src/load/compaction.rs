// SPDX-License-Identifier: GPL-2.0-only
//! One of a crowd moves pages about, thirty at a time, as kcompactd does for whoever wants large blocks of memory. Another has its memory
//! moved that way and touches it all the time: it waits wherever a page is under way.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::report::{Table, columns};
use super::sys;

const PAGE: usize = 4096;
/// Asks for it, of all memory; whoever writes to it does it.
const DOOR: &str = "/proc/sys/vm/compact_memory";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compaction {
    /// The longest that it took to touch 16 pages.
    pub touch_ms: f64,
    pub touches: u64,
    /// Pages that were moved meanwhile.
    pub moved: u64,
}

/// For `seconds`, with so much memory, beside so many who just use the CPU.
pub fn run(root: &Path, mib: usize, crowd: usize, seconds: f64) -> Result<Compaction> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(crowd + 2)?;
    let [owner, others] = ["owner", "crowd"].map(|name| arena.add(name.as_ref(), 100));
    let owner = cgroups::open(&owner?)?;
    let others = cgroups::open(&others?)?;
    let toucher = crew.spawn(Some(&owner), 0, move |me| drop(touch(me, mib << 20)))?;
    crew.muster()?;
    crew.open(0);
    // It has its memory, and has made holes in it.
    while crew.slot(toucher).count.load(Ordering::Relaxed) == 0 {
        ensure!(crew.cpu_ns(toucher).is_ok(), "no memory");
        sys::sleep(10_000_000);
    }
    for _ in 0..crowd {
        crew.spawn(Some(&others), 0, |me| me.spin())?;
    }
    crew.spawn(Some(&others), 0, |_| while fs::write(DOOR, "1").is_ok() {})?;
    crew.muster()?;
    crew.slot(toucher).wait.store(0, Ordering::Relaxed);
    let before = moved()?;
    sys::sleep((seconds * 1e9) as u64);
    let slot = crew.slot(toucher);
    // One that is not over yet has taken so long at least.
    let yet = sys::now().saturating_sub(slot.seen.load(Ordering::Relaxed));
    Ok(Compaction {
        touch_ms: slot.wait.load(Ordering::Relaxed).max(yet) as f64 / 1e6,
        touches: slot.count.load(Ordering::Relaxed),
        moved: moved()? - before,
    })
}

/// Touches every second page of so much memory for ever; the rest of it is free.
fn touch(me: &Me, bytes: usize) -> Result<()> {
    let mut memory = vec![0u8; bytes + PAGE];
    let first = memory.as_ptr().align_offset(PAGE);
    let mut pages: Vec<&mut [u8]> = memory[first..].chunks_exact_mut(PAGE).collect();
    for page in &mut pages {
        page[0] = 1;
    }
    for pair in pages.chunks_exact_mut(2) {
        sys::give_back(pair[1])?;
    }
    loop {
        for some in pages.chunks_mut(32) {
            me.look();
            for page in some.iter_mut().step_by(2) {
                page[0] = page[0].wrapping_add(1);
            }
            me.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn moved() -> Result<u64> {
    let all = fs::read_to_string("/proc/vmstat").context("/proc/vmstat")?;
    let pages = all
        .lines()
        .find_map(|l| l.strip_prefix("pgmigrate_success "));
    Ok(pages.context("no page can be moved")?.parse()?)
}

impl Table for Compaction {
    fn table(&self) -> String {
        let row = vec![
            format!("{:.1}", self.touch_ms),
            self.touches.to_string(),
            self.moved.to_string(),
        ];
        columns(&["longest ms", "touches", "pages moved"], &[row])
    }
}
