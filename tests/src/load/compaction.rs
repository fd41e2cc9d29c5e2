// SPDX-License-Identifier: GPL-2.0-only
//! One of a crowd moves pages about, thirty at a time, for whoever wants large blocks of memory; or the kernel's own thread does
//! (kcompactd), pages that all of the crowd have in use. Another touches them all the time: it waits wherever one is under way.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::cgroups::{self, Arena};
use super::crew::{Crew, Me};
use super::report::{Table, columns};
use super::sys;

const PAGE: usize = 4096;
/// Asks for it, of all memory; whoever writes to it does it.
const DOOR: &str = "/proc/sys/vm/compact_memory";
/// Asks the kernel's thread for it: as much as is of use to anybody.
const BELL: [&str; 2] = ["/proc/sys/vm/compaction_proactiveness", "100"];
const KCOMPACTD: &str = "kcompactd0";
/// Tickets of whoever is beside the kernel's thread, which has a hundredth of them and so next to no share.
const HEAVY: u32 = 10_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compaction {
    /// The longest that it took to touch 16 pages.
    pub touch_ms: f64,
    pub touches: u64,
    /// Pages that were moved meanwhile.
    pub moved: u64,
    /// Of the CPU, what the kernel's thread has had that moved them, if one did.
    pub kernel_part: Option<f64>,
}

/// For `seconds`, with so much memory, beside so many who just use the CPU; moved by one of them.
pub fn by_one(root: &Path, mib: usize, crowd: usize, seconds: f64) -> Result<Compaction> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(crowd + 2)?;
    let [owner, others] = ["owner", "crowd"].map(|name| arena.add(name.as_ref(), 100));
    let owner = cgroups::open(&owner?)?;
    let others = cgroups::open(&others?)?;
    let toucher = crew.spawn(Some(&owner), 0, move |me| {
        drop(with_holes(mib << 20, |pages| touch(me, pages)));
    })?;
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
    watch(&crew, toucher, seconds, || Ok(()))
}

/// The same, moved by the kernel's thread, whose share is next to none; all of the crowd have all of the memory in use.
pub fn by_kernel(root: &Path, mib: usize, crowd: usize, seconds: f64) -> Result<Compaction> {
    let arena = Arena::new(root)?;
    let mut crew = Crew::new(crowd + 1)?;
    let [owner, others] = ["owner", "crowd"].map(|name| arena.add(name.as_ref(), HEAVY));
    let owner = cgroups::open(&owner?)?;
    let others = cgroups::open(&others?)?;
    let kernel = pid_of(KCOMPACTD)?;
    with_holes(mib << 20, |pages| {
        for _ in 0..crowd {
            crew.spawn(Some(&others), 0, |me| me.spin())?;
        }
        let toucher = crew.spawn(Some(&owner), 0, |me| look_at(me, pages))?;
        crew.muster()?;
        crew.open(0);
        let (had, began) = (sys::cpu_ns(kernel)?, sys::now());
        let ring = || fs::write(BELL[0], BELL[1]).context(BELL[0]);
        let mut found = watch(&crew, toucher, seconds, ring)?;
        let had = (sys::cpu_ns(kernel)? - had) as f64;
        found.kernel_part = Some(had / (sys::now() - began) as f64);
        Ok(found)
    })
}

/// What the toucher sees for `seconds`; every now and then it is asked for.
fn watch(
    crew: &Crew,
    toucher: usize,
    seconds: f64,
    ask: impl Fn() -> Result<()>,
) -> Result<Compaction> {
    let slot = crew.slot(toucher);
    slot.wait.store(0, Ordering::Relaxed);
    let before = moved()?;
    let end = sys::now() + (seconds * 1e9) as u64;
    while sys::now() < end {
        ask()?;
        sys::sleep(100_000_000);
    }
    // One that is not over yet has taken so long at least.
    let yet = sys::now().saturating_sub(slot.seen.load(Ordering::Relaxed));
    Ok(Compaction {
        touch_ms: slot.wait.load(Ordering::Relaxed).max(yet) as f64 / 1e6,
        touches: slot.count.load(Ordering::Relaxed),
        moved: moved()? - before,
        kernel_part: None,
    })
}

/// So much memory, of which every second page is free; the others are for `with`.
fn with_holes<R>(bytes: usize, with: impl FnOnce(&mut [&mut [u8]]) -> Result<R>) -> Result<R> {
    let mut memory = vec![0u8; bytes + PAGE];
    let first = memory.as_ptr().align_offset(PAGE);
    let mut pages: Vec<&mut [u8]> = memory[first..].chunks_exact_mut(PAGE).collect();
    for page in &mut pages {
        page[0] = 1;
    }
    let mut kept = vec![];
    for (i, page) in pages.into_iter().enumerate() {
        match i % 2 {
            0 => kept.push(page),
            _ => sys::give_back(page)?,
        }
    }
    with(&mut kept)
}

/// Writes to all these pages for ever.
fn touch(me: &Me, pages: &mut [&mut [u8]]) -> Result<()> {
    loop {
        for some in pages.chunks_mut(16) {
            me.look();
            for page in some {
                page[0] = page[0].wrapping_add(1);
            }
            me.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads them for ever: they stay everybody's.
fn look_at(me: &Me, pages: &[&mut [u8]]) {
    loop {
        for some in pages.chunks(16) {
            me.look();
            for page in some {
                black_box(page[0]);
            }
            me.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A thread of the kernel's, by its name.
fn pid_of(name: &str) -> Result<i32> {
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name {
            let pid = entry.file_name().to_string_lossy().parse();
            return pid.with_context(|| name.to_owned());
        }
    }
    bail!("there is no {name}")
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
            self.kernel_part
                .map_or("-".to_owned(), |p| format!("{:.1}%", 100.0 * p)),
        ];
        columns(
            &["longest ms", "touches", "pages moved", "kernel's"],
            &[row],
        )
    }
}
