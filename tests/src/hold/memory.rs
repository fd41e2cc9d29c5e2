// SPDX-License-Identifier: GPL-2.0-only
//! Figure 7: four processes, each of which wants all the memory there is, and guarantees for two of them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Figure;
use crate::alone::{Hog, cgroups, number, tixd, write};
use crate::daemon::{tixctl, until};

const M: u64 = 1 << 20;
/// What the four share, and the guarantees of two: as in Sullivan §5.3, where it is 4.2, 2 and 1.4 MB.
const ALL: u64 = 84 * M;
pub const GUARANTEED: [u64; 2] = [40 * M, 28 * M];
pub const FOUR: [&str; 4] = ["/mem/a", "/mem/b", "/mem/c", "/mem/d"];
const EVERY: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(60);

/// The whole experiment.
pub fn measure() -> Result<Figure> {
    let _tixd = tixd()?;
    setup()?;
    reserve()?;
    let samples = figure_7(Duration::from_secs(60))?;
    let due = ["40 MiB", "28 MiB", "nothing", "nothing"];
    Ok(Figure {
        names: due.map(|d| format!("{d} guaranteed")).into(),
        every_s: EVERY.as_secs_f64(),
        samples,
        guaranteed: GUARANTEED.into(),
        without: None,
        mechanism: "memory.min".into(),
    })
}

/// The four cgroups, below one that has about as much as one of them wants.
pub fn setup() -> Result<()> {
    cgroups(&["/mem"])?;
    write("/mem", "cgroup.subtree_control", "+cpu +memory")?;
    cgroups(&FOUR)?;
    write("/mem", "memory.max", &ALL.to_string())
}

/// Guarantees for the first two.
pub fn reserve() -> Result<()> {
    for ((name, path), bytes) in [("a", FOUR[0]), ("b", FOUR[1])].into_iter().zip(GUARANTEED) {
        tixctl(&format!("create {name}"))?.ok()?;
        tixctl(&format!("reserve {name} --from base memory {}M", bytes / M))?.ok()?;
        tixctl(&format!("bind {name} {path}"))?.ok()?;
        // The four are equal but for memory: below /mem the other two have 50 each.
        tixctl(&format!("fund {name} --from base cpu 50"))?.ok()?;
        until("it is guaranteed", SOON, || {
            Ok(number(path, "memory.min")? == bytes)
        })?;
    }
    Ok(())
}

/// What each has, every tenth of a second for so long from when the guaranteed ones have what is theirs.
pub fn figure_7(long: Duration) -> Result<Vec<Vec<u64>>> {
    // Most of what each wants are pages of the file: without swap nothing else could be taken from anybody.
    let buffer = M.to_string();
    let hog = |path: &&str| Hog::start(path, &["memory", "/dev/vda", "--buffer", &buffer]);
    let mut hogs: Vec<Hog> = FOUR.iter().map(hog).collect::<Result<_>>()?;
    let all = || FOUR.iter().map(|path| number(path, "memory.current"));
    until(
        "the guaranteed ones have what is theirs",
        Duration::from_secs(180),
        || {
            let has: Vec<u64> = all().collect::<Result<_>>()?;
            Ok(has[0] >= GUARANTEED[0] && has[1] >= GUARANTEED[1])
        },
    )?;
    let (end, mut samples) = (Instant::now() + long, Vec::new());
    while Instant::now() < end {
        std::thread::sleep(EVERY);
        samples.push(all().collect::<Result<_>>()?);
    }
    for hog in &mut hogs {
        ensure!(hog.is_there()?, "the kernel killed one");
    }
    Ok(samples)
}
