// SPDX-License-Identifier: GPL-2.0-only
//! Figure 8: one process with a hard half of the disk, and four that share the rest.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Figure;
use crate::alone::{Hog, cgroups, file, tixd};
use crate::daemon::{tixctl, until};

/// The slow disk.
pub const DEVICE: &str = "/dev/vda";
pub const FIVE: [&str; 5] = ["/half", "/w", "/x", "/y", "/z"];
/// Requests of one cgroup at a time: enough that it always has one where it is held back, though the device takes its time for those
/// that it has already. With 6, one that is due half was up to 17 % short where this machine kept the device waiting now and then.
const READERS: usize = 16;
const SOON: Duration = Duration::from_secs(60);

/// The whole experiment.
pub fn measure() -> Result<Figure> {
    let _tixd = tixd()?;
    cgroups(&FIVE)?;
    let without = Some(without(20)?);
    let said = tixctl("disk enable vda --json")?.ok()?.json()?;
    let mechanism = said["mechanism"].as_str().context("no mechanism")?;
    let samples = figure_8(60)?;
    let due = [
        "half, hard",
        "an eighth",
        "an eighth",
        "an eighth",
        "an eighth",
    ];
    Ok(Figure {
        names: due.map(str::to_owned).into(),
        every_s: 1.0,
        samples,
        guaranteed: vec![],
        without,
        mechanism: mechanism.to_owned(),
    })
}

/// Requests a second of the five with nothing that shares.
pub fn without(seconds: u64) -> Result<f64> {
    let _hogs = hogs(&FIVE)?;
    served(&FIVE, 5)?;
    let all: u64 = served(&FIVE, seconds)?.iter().sum();
    Ok(all as f64 / seconds as f64)
}

/// Requests of the five in each of so many seconds.
pub fn figure_8(seconds: u64) -> Result<Vec<Vec<u64>>> {
    tixctl("create half")?.ok()?;
    tixctl("reserve half --from base disk 50%")?.ok()?;
    tixctl("bind half /half")?.ok()?;
    let _hogs = hogs(&FIVE)?;
    // Others are idle, so these four are the rest.
    until("four times what each has", SOON, || {
        Ok(weight("/half")? == "default 400")
    })?;
    served(&FIVE, 5)?;
    (0..seconds).map(|_| served(&FIVE, 1)).collect()
}

pub fn hogs(paths: &[&str]) -> Result<Vec<Hog>> {
    let readers = READERS.to_string();
    let hog = |p: &&str| Hog::start(p, &["disk", DEVICE, "--readers", &readers]);
    paths.iter().map(hog).collect()
}

/// Requests of these cgroups in so many seconds.
pub fn served(paths: &[&str], seconds: u64) -> Result<Vec<u64>> {
    moved(paths, "rios=", seconds)
}

/// What io.stat counts of them meanwhile.
pub fn moved(paths: &[&str], what: &str, seconds: u64) -> Result<Vec<u64>> {
    let before = so_far(paths, what)?;
    std::thread::sleep(Duration::from_secs(seconds));
    let after = so_far(paths, what)?;
    Ok(after.iter().zip(before).map(|(a, b)| a - b).collect())
}

/// What io.stat has counted of them.
pub fn so_far(paths: &[&str], what: &str) -> Result<Vec<u64>> {
    let one = |path: &&str| -> Result<u64> {
        let stat = file(path, "io.stat")?;
        let all = stat.split_whitespace().filter_map(|p| p.strip_prefix(what));
        Ok(all.filter_map(|n| n.parse::<u64>().ok()).sum())
    };
    paths.iter().map(one).collect()
}

/// The first line of io.weight.
pub fn weight(path: &str) -> Result<String> {
    let text = file(path, "io.weight")?;
    Ok(text.lines().next().context("it is empty")?.to_owned())
}
