// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler that fails: once, again and again, and after it has taken another's place.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::daemon::{Said, enabled_so_often, in_force, read, sh, tixctl, until};
use tix_tests::daemon_load::Meter;

use super::force::{DUE, hogs, part, part_by_weight};
use super::service::{PATIENCE, pid};
use super::users::{ALICE, BOB};

const ON_PURPOSE: &str = "made to fail on purpose";
/// Virtual times are kept; by how much is for the guest test `builds`.
const KEPT: &str = "ahead or behind as before: ";
const PINS: &str = "/sys/fs/bpf/tix";
const PEAK: &str = "/sys/fs/cgroup/system.slice/tixd.service/memory.peak";
/// 90 were measured; the arena's addresses are 768.
const PEAK_MIB: u64 = 256;
/// By the clock of instructions, with 8 ns each. 65 were measured.
const GAP_MS: f64 = 300.0;
const DROP_IN: &str = "/run/systemd/system/tixd.service.d/build.conf";

/// To verify the scheduler takes a minute of an emulated CPU: tixd has most of it, also beside hogs.
pub fn hurry() -> Result<()> {
    tixctl("fund /system.slice/tixd.service --from base cpu 4000")?.ok()?;
    Ok(())
}

fn journal() -> Result<String> {
    Ok(sh("journalctl _COMM=tixd -o cat --no-pager")?.ok()?.out)
}

/// Has the scheduler fail; how long it took until the kernel's own was in force, from before the program was started that did it.
fn fail() -> Result<Duration> {
    let start = Instant::now();
    sh("tixd --debug-fail")?.ok()?;
    while read("/sys/kernel/sched_ext/state")? != "disabled" {
        ensure!(start.elapsed() < PATIENCE, "it stays in force");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(start.elapsed())
}

fn in_force_again(seq: u64) -> Result<()> {
    until("it is in force again", PATIENCE, || {
        Ok(in_force() && enabled_so_often()? > seq && tixctl("status")?.status == 0)
    })
}

pub fn once() -> Result<()> {
    let hogs = hogs()?;
    let (seq, old) = (enabled_so_often()?, pid()?);
    let took = fail()?;
    eprintln!("       the kernel's own scheduler after {took:?}");
    ensure!(took < Duration::from_secs(1), "it took {took:?}");
    tixctl("status")?
        .exits(1)?
        .has(ON_PURPOSE)?
        .has("cpu.weight")?;
    in_force_again(seq)?;
    tixctl("status")?.ok()?.has(ON_PURPOSE)?;
    let said = journal()?;
    for word in [ON_PURPOSE, "the state that the kernel found it in", "CPU 0"] {
        ensure!(said.contains(word), "no {word:?} in the journal: {said}");
    }
    ensure!(pid()? == old, "systemd has restarted tixd meanwhile");
    part("after it was loaded again")?;
    drop(hogs);
    Ok(())
}

/// After [`once`].
pub fn again_and_again() -> Result<()> {
    let given_up = |status: Said| status.exits(1)?.has("systemctl restart tixd");
    let mut fails = 1;
    while given_up(tixctl("status")?).is_err() {
        let seq = enabled_so_often()?;
        fails += 1;
        ensure!(fails <= 4, "it is loaded for ever");
        fail()?;
        // The last pause is half a minute.
        until("it is in force again, or given up", 2 * PATIENCE, || {
            let status = tixctl("status")?;
            let back = in_force() && enabled_so_often()? > seq && status.status == 0;
            Ok(back || given_up(status).is_ok())
        })?;
    }
    eprintln!("       given up after {fails} failures");
    given_up(tixctl("status")?)?
        .has(ON_PURPOSE)?
        .has("cpu.weight")?;
    let said = sh("journalctl _COMM=tixd -p err -o cat --no-pager")?.ok()?;
    said.has("given up; restart tixd to try again")?;
    let hogs = hogs()?;
    part_by_weight("given up, by cpu.weight")?;
    drop(hogs);
    Ok(())
}

/// A tixd that says that its scheduler is another build, which it is not.
fn restart_as(build: Option<&str>) -> Result<()> {
    match build {
        None => std::fs::remove_file(DROP_IN)?,
        Some(build) => {
            let dir = Path::new(DROP_IN).parent().context("no directory")?;
            std::fs::create_dir_all(dir)?;
            let start = format!("ExecStart=\nExecStart=/usr/sbin/tixd --debug-build {build}");
            std::fs::write(DROP_IN, format!("[Service]\n{start}\n"))?;
        }
    }
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl restart tixd")?.ok()?;
    Ok(())
}

fn is_build(build: &str) -> bool {
    let pinned = |name: &str| Path::new(PINS).join(name).exists();
    in_force() && pinned(&format!("build-{build}")) && pinned("link") && !pinned("new")
}

/// alice's part in the moments around what happens when `over` says so.
fn part_around(what: &str, mut over: impl FnMut() -> Result<bool>) -> Result<()> {
    const STEP: Duration = Duration::from_millis(500);
    let mut windows = vec![Meter::start([ALICE, BOB])?];
    let until = Instant::now() + 2 * PATIENCE;
    while !over()? {
        ensure!(
            Instant::now() < until,
            "it does not come to that: {what}; tixd: {}",
            journal()?
        );
        std::thread::sleep(STEP);
        windows.push(Meter::start([ALICE, BOB])?);
        if windows.len() > 4 {
            windows.remove(0);
        }
    }
    let window = windows.first().context("no window")?;
    let had = window.over(Duration::from_secs(3), PATIENCE)?;
    let what = format!("{what}, {:.1} s", window.seconds());
    had.due_but_for(&what, 0, DUE, GAP_MS)
}

fn exchange(build: &str) -> Result<()> {
    let (seq, gaps) = (enabled_so_often()?, "in another's place: ");
    let known = journal()?.matches(gaps).count();
    restart_as(Some(build))?;
    ensure!(
        enabled_so_often()? == seq,
        "out of force before the other is ready"
    );
    tixctl("status")?.ok()?;
    part_around("around the exchange", || Ok(is_build(build)))?;
    until("tixd tells of it", PATIENCE, || {
        Ok(journal()?.matches(gaps).count() > known)
    })?;
    let said = journal()?;
    let gap = said
        .rsplit(gaps)
        .next()
        .and_then(|rest| rest.lines().next());
    eprintln!("       exchanged: {}", gap.unwrap_or_default());
    ensure!(gap.is_some_and(|gap| gap.contains(KEPT)), "{said}");
    let ms = gap.and_then(|gap| gap.split_once(" ms")?.0.parse::<f64>().ok());
    ensure!(ms.is_some_and(|ms| ms < GAP_MS), "{gap:?}");
    let peak = read(PEAK)?.parse::<u64>().context("memory.peak")? >> 20;
    eprintln!("       tixd: {peak} MiB at most");
    ensure!(peak < PEAK_MIB, "not what it uses, but all of the arena?");
    ensure!(enabled_so_often()? == seq + 1, "not loaded just once");
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    ensure!(
        Path::new(PINS).join("old/ops").exists(),
        "nothing to go back to"
    );
    Ok(())
}

pub fn exchanged() -> Result<()> {
    let hogs = hogs()?;
    part("before the exchange")?;
    exchange("another")?;
    part("after the exchange")?;
    drop(hogs);
    Ok(())
}

/// The one that was exchanged fails within a minute.
pub fn went_back() -> Result<()> {
    let hogs = hogs()?;
    let seq = enabled_so_often()?;
    let took = fail()?;
    in_force_again(seq)?;
    eprintln!("       the kernel's own after {took:?}");
    ensure!(!is_build("another"), "not the one before it");
    let back = "went back to the previous scheduler: ";
    tixctl("status")?.ok()?.has(back)?.has(ON_PURPOSE)?;
    let told = format!("went back to the previous scheduler; {KEPT}");
    ensure!(journal()?.contains(&told), "{}", journal()?);
    ensure!(enabled_so_often()? == seq + 1, "loaded anew");
    part("back")?;
    // It is not tried again.
    sh("systemctl restart tixd")?.ok()?;
    tixctl("status")?.ok()?.has("went back to it")?;
    ensure!(!is_build("another") && !Path::new(PINS).join("new").exists());
    // What came back is this one's own.
    restart_as(None)?;
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    ensure!(enabled_so_often()? == seq + 1, "loaded anew");
    drop(hogs);
    Ok(())
}

/// One that does not fail is gone back from no more.
pub fn proved() -> Result<()> {
    let hogs = hogs()?;
    exchange("third")?;
    let old = Path::new(PINS).join("old");
    until("the one before it goes", PATIENCE, || Ok(!old.exists()))?;
    ensure!(is_build("third"), "not the same any more");
    part("a minute later")?;
    drop(hogs);
    Ok(())
}
