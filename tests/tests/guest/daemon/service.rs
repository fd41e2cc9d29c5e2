// SPDX-License-Identifier: GPL-2.0-only
//! tixd as the unit file has it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::daemon::{in_force, install, is_restored, read, sh, tixctl, until};
use tix_tests::daemon_load::used;
use tix_tests::daemon_wire::Wire;

pub const SOCKET: &str = "/run/tix/tixd.sock";
const DOOR: &str = "/run/tix/tixd-root.sock";
/// Under emulation, loading takes a while; with all CPU time in demand, a long one.
pub const PATIENCE: Duration = Duration::from_secs(240);

pub fn start() -> Result<()> {
    if !is_restored() {
        install()?;
        sh("systemctl daemon-reload")?.ok()?;
        sh("systemctl start tixd")?.ok()?;
    }
    // Type=notify: when it has started it serves, and the scheduler is in force.
    ensure!(in_force(), "started, and not in force");
    tixctl("status")?.ok()?;
    sh("systemctl show -P StatusText tixd")?
        .ok()?
        .has("scheduler in force")?;
    Ok(())
}

/// With its sockets, so that it stays stopped whoever asks it.
pub fn stop() -> Result<()> {
    sh("systemctl stop tixd.socket tixd-root.socket tixd.service")?.ok()?;
    Ok(())
}

pub fn status_when_in_force() -> Result<()> {
    tixctl("status")?.ok()?.has("scheduler is in force")?;
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["in_force"] == true, "{status}");
    ensure!(
        status["tixd"]["scheduler"]["enforcer"] == "sched_ext",
        "{status}"
    );
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    Ok(())
}

/// What it costs while nobody uses it, on a CPU that is emulated and so a slow one; as the kernel counts it, and as it says itself.
pub fn at_rest() -> Result<()> {
    const REST: Duration = Duration::from_secs(20);
    std::thread::sleep(REST / 2);
    let (from, before) = (Instant::now(), used("/system.slice/tixd.service")?);
    std::thread::sleep(REST);
    let spent = used("/system.slice/tixd.service")? - before;
    let part = spent as f64 / 1e6 / from.elapsed().as_secs_f64();
    let status = tixctl("status --json")?.ok()?.json()?;
    let cost = &status["tixd"]["cost"];
    let bytes = |what: &str| cost[what].as_f64().context(what.to_owned());
    let (own, maps) = (bytes("memory_bytes")? / 1e6, bytes("maps_bytes")? / 1e6);
    eprintln!(
        "       {:.3} % of a CPU, {own:.1} MB of its own, {maps:.1} MB of maps",
        100.0 * part
    );
    ensure!(part < 0.002, "{:.3} % of a CPU at rest", 100.0 * part);
    ensure!(own > 1.0 && own < 30.0, "{own:.1} MB of its own");
    ensure!(maps > 0.1, "{maps:.1} MB of maps: they were not counted");
    ensure!(cost["cpu_usec"].as_u64() > Some(spent), "{cost}");
    let pid = sh("systemctl show -P MainPID tixd")?.ok()?.out;
    let memory = read(&format!("/proc/{}/status", pid.trim()))?;
    let locked = memory.lines().find_map(|l| l.strip_prefix("VmLck:"));
    ensure!(
        locked.is_some_and(|l| l.trim() != "0 kB"),
        "it may have to wait for the disk: {locked:?}"
    );
    Ok(())
}

/// Root does not queue with those who connect as fast as they can.
pub fn door() -> Result<()> {
    sh(&format!("stat -c %a:%u:%F {DOOR}"))?
        .ok()?
        .has("600:0:socket")?;
    let status = format!("env TIX_SOCKET={DOOR} tixctl status");
    sh(&status)?.ok()?;
    sh(&format!("runuser -u nobody -- {status}"))?.exits(3)?;
    Ok(())
}

/// Where the cgroup tree cannot be read tixd does not start, rather than hold no shares silently.
pub fn filtered() -> Result<()> {
    let tixd = "tixd --observe --state /run/filtered --socket /run/filtered/sock";
    let said = sh(&format!(
        "systemd-run -q --pipe --wait -p RestrictSUIDSGID=yes {tixd}"
    ))?
    .exits(1)?;
    for word in ["/sys/fs/cgroup", "openat2", "RestrictSUIDSGID"] {
        ensure!(said.err.contains(word), "no {word} in {}", said.err);
    }
    Ok(())
}

/// The process that systemd has for tixd.
pub fn pid() -> Result<i32> {
    Ok(sh("systemctl show -P MainPID tixd")?
        .ok()?
        .out
        .trim()
        .parse()?)
}

/// Waits until a tixd with another pid than `old` answers.
pub fn another(old: i32) -> Result<()> {
    until("another tixd answers", PATIENCE, || {
        Ok(pid()? > 0 && pid()? != old && tixctl("status")?.status != 3)
    })
}

/// What became of the requests to fund `diary`, each on a connection of its own.
#[derive(Debug, Default)]
pub struct Asked {
    yes: AtomicU64,
    /// tixd ended before it answered.
    open: AtomicU64,
}

impl Asked {
    pub fn yes(&self) -> u64 {
        self.yes.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// Nobody is refused a connection, ever.
    pub fn until(&self, over: &AtomicBool) -> Result<()> {
        let one = json!({"holder": "diary", "issuer": "base", "resource": "cpu", "amount": 1});
        while !over.load(Ordering::SeqCst) {
            let mut wire = Wire::connect(SOCKET)?;
            match wire.raw("org.tix.Tix.Fund", one.clone()) {
                Ok(answer) => {
                    ensure!(answer.get("error").is_none(), "refused: {answer}");
                    self.yes.fetch_add(1, Ordering::SeqCst);
                }
                Err(_) => {
                    self.open.fetch_add(1, Ordering::SeqCst);
                }
            }
            ensure!(in_force(), "not in force while tixd is away");
        }
        Ok(())
    }
}

/// Nothing went by unseen in all this: errors that are part of a check name what it did.
pub fn journal() -> Result<()> {
    let said = sh("journalctl _COMM=tixd -p warning -o cat --no-pager")?.ok()?;
    let expected = [
        "the scheduler left",
        "no scheduler: this kernel has no sched_ext",
    ];
    let odd: Vec<&str> = said
        .out
        .lines()
        .filter(|l| !expected.iter().any(|e| l.contains(e)))
        .filter(|l| !l.starts_with("-- "))
        .collect();
    ensure!(odd.is_empty(), "{}", odd.join("\n"));
    Ok(())
}
