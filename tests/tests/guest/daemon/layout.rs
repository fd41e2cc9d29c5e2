// SPDX-License-Identifier: GPL-2.0-only
//! A tixd that finds another version's scheduler in force, of a layout that it does not speak.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::alone::{self, Hog, PATIENCE, Tixd, cgroups, problems, write};
use tix_tests::daemon::{Checks, enabled_so_often, in_force, read, sh, tickets, tixctl, until};
use tix_tests::daemon_load::Meter;

const PINS: &str = "/sys/fs/bpf/tix";
const LOG: &str = "/run/tixd.log";
/// The longest that an exchange may leave the machine to the kernel's own scheduler.
const GAP_MS: f64 = 300.0;
/// Of what both have: 300 tickets to 100.
const DUE: f64 = 0.75;
const BOTH: [&str; 2] = ["/a", "/b"];

pub fn all(c: &mut Checks) {
    let (mut tixd, mut hogs) = (None, None);
    c.check("setup: 300 tickets for a, 100 for b", || {
        tixd = Some(alone::tixd()?);
        cgroups(&BOTH)?;
        tixctl("fund /a --from base cpu 200")?.ok()?;
        // To verify the scheduler takes a minute of an emulated CPU: whoever is started from here has most of it, also beside hogs.
        cgroups(&["/own"])?;
        tixctl("fund /own --from base cpu 4000")?.ok()?;
        write("/own", "cgroup.procs", &std::process::id().to_string())?;
        hogs = Some([
            Hog::start(BOTH[0], &["cpu"])?,
            Hog::start(BOTH[1], &["cpu"])?,
        ]);
        part("before")
    });
    c.check("one of another layout is replaced", || {
        leave(&mut tixd)?;
        let around = Meter::start(BOTH)?;
        tixd = Some(Tixd::logging(LOG)?);
        let had = around.had()?;
        had.due_but_for("around the exchange", 0, DUE, GAP_MS)?;
        replaced("ahead or behind as before: ")
    });
    c.check("where that cannot be loaded it stays", || {
        let last = leave(&mut tixd)?;
        let seq = enabled_so_often()?;
        // Nor does it tell who is ahead of its due.
        fs::remove_file(telling("leads")?)?;
        let around = Meter::start(BOTH)?;
        sh("mount -o remount,ro /sys/fs/bpf")?.ok()?;
        tixd = Some(Tixd::logging(LOG)?);
        tixctl("status")?.has(&format!("of layout {last}"))?;
        ensure!(problems()?.contains("Read-only file system"));
        // What is changed meanwhile is held later.
        tixctl("fund /b --from base cpu 500")?.ok()?;
        ensure!(in_force() && enabled_so_often()? == seq);
        let weight = read("/sys/fs/cgroup/a/cpu.weight")?;
        ensure!(weight == "100", "cpu.weight is {weight}");
        around.had()?.due("while it stays", 0, DUE)?;
        sh("mount -o remount,rw /sys/fs/bpf")?.ok()?;
        until("tixd has tried again", PATIENCE, || Ok(problems()? == "[]"))?;
        ensure!(enabled_so_often()? == seq + 1, "not loaded just once");
        replaced("begins anew")?;
        let had = Meter::start(BOTH)?.over(Duration::from_secs(3), PATIENCE)?;
        had.due("what was changed meanwhile", 0, 300.0 / 900.0)
    });
    drop(hogs);
}

fn part(what: &str) -> Result<()> {
    let had = Meter::start(BOTH)?.over(Duration::from_secs(3), PATIENCE)?;
    had.due(what, 0, DUE)
}

/// The pin whose name tells that.
fn telling(what: &str) -> Result<PathBuf> {
    let pins: Vec<_> = fs::read_dir(PINS)?.collect::<Result<_, _>>()?;
    let is = |pin: &fs::DirEntry| {
        pin.file_name()
            .to_string_lossy()
            .starts_with(&format!("{what}-"))
    };
    let pin = pins.iter().find(|pin| is(pin));
    Ok(pin.with_context(|| format!("nothing tells {what}"))?.path())
}

/// The layout of what is pinned.
fn layout() -> Result<u32> {
    let pin = telling("layout")?;
    let name = pin
        .file_name()
        .context("no name")?
        .to_string_lossy()
        .into_owned();
    Ok(name.trim_start_matches("layout-").parse()?)
}

/// tixd ends, and what it leaves in force says that it is of an earlier layout. Which.
fn leave(tixd: &mut Option<Tixd>) -> Result<u32> {
    tixd.take().context("no tixd")?.signal("TERM")?;
    let (pin, last) = (telling("layout")?, layout()? - 1);
    fs::rename(pin, Path::new(PINS).join(format!("layout-{last}")))?;
    ensure!(in_force(), "tixd took the scheduler along");
    Ok(last)
}

/// This version's is in force, by the one exchange that tixd tells of, with these words; nothing of the other is left.
fn replaced(leads: &str) -> Result<()> {
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    ensure!(status["tixd"]["scheduler"]["in_force"] == true, "{status}");
    let said = read(LOG)?;
    let gap = said.lines().find(|l| l.contains("in another's place: "));
    let gap = gap.with_context(|| format!("no word of it in {said}"))?;
    eprintln!("       {gap}");
    ensure!(gap.contains(leads), "{said}");
    let (last, now) = (layout()? - 1, layout()?);
    for word in [format!("of layout {last}"), format!("speaks {now}")] {
        ensure!(said.contains(&word), "no {word:?} in {said}");
    }
    for left in ["new", "old", &format!("layout-{last}")] {
        ensure!(!Path::new(PINS).join(left).exists(), "{left} is left");
    }
    ensure!(tickets("/a", "base")? == 300, "the ledger is another");
    Ok(())
}
