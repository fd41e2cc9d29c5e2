// SPDX-License-Identifier: GPL-2.0-only
//! What tixd has said yes to is there after it was killed; with a full disk it says no; and shares hold.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tix_tests::daemon::{enabled_so_often, in_force, sh, tixctl, until};
use tix_tests::daemon_load::Meter;
use tix_tests::daemon_wire::Wire;

use tix_tests::alone::{PATIENCE, ROOT, SOCKET, Tixd};

const DISK: &str = "/run/small";
const LONG: Duration = Duration::from_secs(120);

/// Busy loops in /three and /one, with as many base tickets.
pub struct Hogs(Vec<Child>);

impl Hogs {
    pub fn start() -> Result<Hogs> {
        let mut hogs = Hogs(vec![]);
        for (name, amount) in [("three", 300), ("one", 100)] {
            fs::create_dir(format!("{ROOT}/{name}"))?;
            fs::write(format!("{ROOT}/{name}/cpu.weight"), amount.to_string())?;
            let line = format!("echo 0 >{ROOT}/{name}/cgroup.procs && while :; do :; done");
            hogs.0.push(
                Command::new("sh")
                    .args(["-c", &line])
                    .stdin(Stdio::null())
                    .spawn()?,
            );
        }
        let started = Meter::start(["/three", "/one"])?;
        until("both run", PATIENCE, || {
            Ok(started.got()?.iter().all(|n| *n > 50_000))
        })?;
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // It may have ended already.
            let _ = hog.kill();
            let _ = hog.wait();
        }
        for name in ["three", "one"] {
            let _ = fs::remove_dir(format!("{ROOT}/{name}"));
        }
    }
}

fn held(what: &str, meter: &Meter) -> Result<()> {
    meter.had()?.due(what, 0, 0.75)
}

/// What was acknowledged: of so many currencies, the last with this many tickets.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
struct Yes {
    currencies: u64,
    tickets: u64,
}

/// Currencies are created and funded until tixd is gone.
fn work(round: usize, gone: &AtomicBool) -> Result<Yes> {
    let mut wire = Wire::connect(SOCKET)?;
    let mut yes = Yes::default();
    let mut busy = || -> Result<()> {
        loop {
            let name = format!("d{round}-{}", yes.currencies);
            wire.call("Create", json!({"name": name}))?;
            yes.currencies += 1;
            yes.tickets = 0;
            for _ in 0..5 {
                let fund =
                    json!({"holder": name, "issuer": "base", "resource": "cpu", "amount": 1});
                wire.call("Fund", fund)?;
                yes.tickets += 1;
            }
        }
    };
    let why = busy().err();
    ensure!(
        gone.load(Ordering::SeqCst),
        "refused before the kill: {why:?}"
    );
    Ok(yes)
}

/// What is there of a round.
fn there(round: usize) -> Result<Vec<(String, u64)>> {
    let tree = tixctl("tree --json")?.ok()?.json()?;
    let list = tree["currencies"].as_array().context("no list")?;
    let of = |c: &Value| {
        let name = c["name"].as_str()?.strip_prefix(&format!("d{round}-"))?;
        Some((
            name.to_owned(),
            c["funding"][0]["amount"].as_u64().unwrap_or(0),
        ))
    };
    Ok(list.iter().filter_map(of).collect())
}

/// Killed at three moments while it says yes.
pub fn killed(tixd: &mut Option<Tixd>) -> Result<()> {
    let hogs = Hogs::start()?;
    let seq = enabled_so_often()?;
    let meter = Meter::start(["/three", "/one"])?;
    for round in 0..3 {
        let gone = AtomicBool::new(false);
        let yes = std::thread::scope(|s| -> Result<Yes> {
            let works = s.spawn(|| work(round, &gone));
            std::thread::sleep(Duration::from_millis(300 + 170 * round as u64));
            gone.store(true, Ordering::SeqCst);
            tixd.take().context("no tixd")?.signal("KILL")?;
            works.join().map_err(|_| anyhow::anyhow!("panicked"))?
        })?;
        ensure!(in_force(), "not in force while tixd is dead");
        *tixd = Some(Tixd::start()?);
        let mut there = there(round)?;
        there.sort_by_key(|(n, _)| n.parse::<u64>().unwrap_or(u64::MAX));
        eprintln!("       {yes:?}, {} are there", there.len());
        let n = there.len() as u64;
        ensure!(yes.currencies > 0 && (yes.currencies..=yes.currencies + 1).contains(&n));
        for (i, (name, tickets)) in there.iter().enumerate() {
            let i = i as u64 + 1;
            ensure!(*name == (i - 1).to_string(), "{name} at {i}");
            // The last operation may have been done and not acknowledged.
            let most = match i.cmp(&yes.currencies) {
                std::cmp::Ordering::Less => 5..=5,
                std::cmp::Ordering::Equal => yes.tickets..=yes.tickets + 1,
                std::cmp::Ordering::Greater => 0..=0,
            };
            ensure!(most.contains(tickets), "{name} has {tickets}, not {most:?}");
        }
    }
    held("through three kills", &meter)?;
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    drop(hogs);
    Ok(())
}

/// No room: nothing is changed, it is said why, and what is in force stays. Then there is room.
pub fn full(tixd: &mut Option<Tixd>) -> Result<()> {
    tixd.take().context("no tixd")?.signal("TERM")?;
    fs::create_dir_all(DISK)?;
    sh(&format!("mount -t tmpfs -o size=4m,mode=0700 tmpfs {DISK}"))?.ok()?;
    *tixd = Some(Tixd::at(&format!("{DISK}/state"))?);
    tixctl("create before")?.ok()?;
    let hogs = Hogs::start()?;
    let meter = Meter::start(["/three", "/one"])?;
    // All the room there is.
    let filled = sh(&format!("dd if=/dev/zero of={DISK}/filler bs=4k"))?;
    ensure!(
        filled.status == 1 && filled.err.contains("No space"),
        "{filled:?}"
    );

    // What SQLite has room for in its files already goes well; then it does not.
    let mut wire = Wire::connect(SOCKET)?;
    let mut yes = 0;
    let refusal = loop {
        let name = format!("full-{yes}");
        let answer = wire.raw("org.tix.Tix.Create", json!({"name": name}))?;
        if answer.get("error").is_some() {
            break answer;
        }
        yes += 1;
        ensure!(yes < 20_000, "the disk is never full");
    };
    eprintln!("       {yes} went well with a full disk");
    ensure!(refusal["error"] == "org.tix.Tix.NotDurable", "{refusal}");
    let message = refusal["parameters"]["message"]
        .as_str()
        .unwrap_or_default();
    for word in ["nothing was changed", "disk is full", DISK] {
        ensure!(message.contains(word), "no {word} in {message}");
    }
    ensure!(
        tixctl(&format!("explain full-{yes}"))?.status == 1,
        "it is there"
    );
    tixctl("create more")?.refused(&["disk is full"])?;
    let status = tixctl("status")?.ok()?;
    for word in [
        "problem",
        "the ledger cannot be written",
        "disk is full",
        "make room",
    ] {
        ensure!(status.out.contains(word), "no {word} in {}", status.out);
    }
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["store"]["writable"] == false, "{status}");
    meter.over(Duration::from_secs(4), LONG)?;
    held("with a full disk", &meter)?;
    ensure!(in_force());

    fs::remove_file(format!("{DISK}/filler"))?;
    until("the ledger can be written again", PATIENCE, || {
        let status = tixctl("status --json")?.ok()?.json()?;
        Ok(status["tixd"]["store"]["writable"] == true)
    })?;
    tixctl("create more")?.ok()?;
    tixctl("log")?.ok()?.has("can be written again")?;
    // Nothing that was acknowledged is lost.
    tixd.take().context("no tixd")?.signal("KILL")?;
    *tixd = Some(Tixd::at(&format!("{DISK}/state"))?);
    for name in ["before", "more"] {
        tixctl(&format!("explain {name}"))?.ok()?;
    }
    if yes > 0 {
        tixctl(&format!("explain full-{}", yes - 1))?.ok()?;
    }
    held("with room again", &meter)?;
    drop(hogs);
    tixd.take().context("no tixd")?.signal("TERM")?;
    sh(&format!("umount {DISK}"))?.ok()?;
    *tixd = Some(Tixd::start()?);
    Ok(())
}
