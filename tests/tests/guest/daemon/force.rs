// SPDX-License-Identifier: GPL-2.0-only
//! tixd goes and the shares stay: killed, stopped, ejected, and where there is no scheduler to be had.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::bound;
use tix_tests::daemon::{enabled_so_often, in_force, read, sh, soak, tickets, tixctl, until};
use tix_tests::daemon_load::{Had, Hog, Meter, Trace, near};
use tix_tests::daemon_wire::Wire;
use tix_tests::random::Random;
use tix_tests::results::leave;

use super::service::{self, Asked, PATIENCE, SOCKET, another, pid};
use super::users::{ALICE, BOB};

/// alice's part of what both get: 300 to 100.
pub(super) const DUE: f64 = 0.75;
const LONG: Duration = Duration::from_secs(120);
/// A share is looked at from so long before a kill until so long after it, when the next tixd is there.
const AROUND: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

pub(super) fn hogs() -> Result<[Hog; 2]> {
    Ok([Hog::start("alice", "hog")?, Hog::start("bob", "hog")?])
}

/// What both get in the next 3 s of CPU time.
fn had() -> Result<Had> {
    Meter::start([ALICE, BOB])?.over(Duration::from_secs(3), LONG)
}

/// alice has her part of that.
pub(super) fn part(what: &str) -> Result<()> {
    had()?.due(what, 0, DUE)
}

/// The same, without a scheduler of tix's.
pub(super) fn part_by_weight(what: &str) -> Result<()> {
    had()?.due_by_weight(what, 0, DUE)
}

/// tixd has what it needs (the lifeline) while others take all they can get. Emulation makes it some thirty times slower than it is.
fn answers_soon() -> Result<()> {
    let mut wire = Wire::connect(SOCKET)?;
    let mut took = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        wire.call("Tree", json!({}))?;
        took.push(start.elapsed());
    }
    took.sort();
    eprintln!(
        "       the tree under full load: {:?} at the middle, {:?} at most",
        took[5], took[9]
    );
    ensure!(
        took[9] < Duration::from_secs(3),
        "the tree took {:?}",
        took[9]
    );
    Ok(())
}

/// How often tixd is killed; `make soak` wants more.
fn kills() -> u32 {
    if soak() { 100 } else { 10 }
}

/// Kills tixd at a random moment, at times while it is starting. Returns which process that was.
fn kill(random: &mut Random, last: i32) -> Result<i32> {
    until("systemd has started it again", PATIENCE, || {
        Ok(pid()? > 0 && pid()? != last)
    })?;
    let most = [50, 500, 4_000][random.below(3) as usize];
    std::thread::sleep(Duration::from_millis(random.below(most)));
    let now = pid()?;
    sh(&format!("kill -KILL {now}"))?.ok()?;
    Ok(now)
}

pub fn killed() -> Result<()> {
    let hogs = hogs()?;
    answers_soon()?;
    tixctl("create diary")?.ok()?;
    // As often as it takes.
    let drop_in = "/run/systemd/system/tixd.service.d/often.conf";
    std::fs::create_dir_all("/run/systemd/system/tixd.service.d")?;
    std::fs::write(drop_in, "[Unit]\nStartLimitIntervalSec=0\n")?;
    sh("systemctl daemon-reload")?.ok()?;
    part("before the kills")?;
    let mut random = Random::new();
    let (seq, mut last) = (enabled_so_often()?, 0);
    let around = Meter::start([ALICE, BOB])?;
    let (over, asked) = (AtomicBool::new(false), Asked::default());
    let mut killed = Vec::new();
    let trace = std::thread::scope(|s| -> Result<Trace> {
        let asks = s.spawn(|| asked.until(&over));
        let looks = s.spawn(|| Trace::until([ALICE, BOB], &over));
        let mut kill_all = || -> Result<()> {
            for _ in 0..kills() {
                last = kill(&mut random, last)?;
                killed.push(Instant::now());
                ensure!(in_force(), "not in force while tixd is dead");
            }
            another(last)?;
            std::thread::sleep(AROUND.1);
            Ok(())
        };
        let done = kill_all();
        over.store(true, Ordering::SeqCst);
        asks.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        let trace = looks.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        done.map(|()| trace)
    })?;
    let (yes, open) = (asked.yes(), asked.open());
    eprintln!(
        "       {} kills in {:.0} s; {yes} funds acknowledged, {open} without an answer",
        kills(),
        around.seconds()
    );
    let all = around.had()?;
    all.due("over the kills", 0, DUE)?;
    let all = all.parts[0];
    let mut worst = DUE;
    for moment in killed {
        let had = trace.around(moment, AROUND.0, AROUND.1)?;
        had.due("alice around a kill", 0, DUE)?;
        had.due("bob around it", 1, 1.0 - DUE)?;
        if (had.parts[0] - DUE).abs() > (worst - DUE).abs() {
            worst = had.parts[0];
        }
    }
    part("after the kills")?;
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    ensure!(in_force());
    tixctl("status")?.ok()?;
    let has = tickets("diary", "base")?;
    ensure!(
        yes > 0 && (yes..=yes + open).contains(&has),
        "{yes} were acknowledged, {has} are there"
    );
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["scheduler"]["reloads"] == 0, "{status}");
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    let off = |part: &f64| (part / DUE - 1.0).abs();
    let came_to = json!({
        "kernel": read("/proc/sys/kernel/osrelease")?,
        "kills": kills(),
        "seconds": around.seconds(),
        "acknowledged": yes,
        "without_an_answer": open,
        "share_off": off(&all),
        "largest_share_off_around_a_kill": off(&worst),
    });
    leave("kills", &came_to)?;
    drop(hogs);
    tixctl("destroy diary")?.ok()?;
    std::fs::remove_file(drop_in)?;
    sh("systemctl daemon-reload")?.ok()?;
    Ok(())
}

pub fn stopped() -> Result<()> {
    let hogs = hogs()?;
    let seq = enabled_so_often()?;
    service::stop()?;
    sh("systemctl show -P Result tixd")?.ok()?.has("success")?;
    ensure!(in_force(), "SIGTERM took the scheduler along");
    tixctl("status")?.exits(3)?.has("scheduler is in force")?;
    tixctl("tree")?.exits(3)?;
    part("while tixd is stopped")?;
    directly()?;
    // The kernel side alone mirrors what comes.
    sh("systemd-run -q --unit meanwhile.service sleep infinity")?.ok()?;
    sh("systemctl start tixd")?.ok()?;
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    tixctl("status")?.ok()?;
    ensure!(tickets("/system.slice/meanwhile.service", "/system.slice")? == 100);
    sh("systemctl stop meanwhile.service")?.ok()?;
    part("with tixd again")?;
    drop(hogs);
    Ok(())
}

/// What the scheduler itself tells, without tixd.
fn directly() -> Result<()> {
    let report = tixctl("top --direct --json --interval 3")?.ok()?.json()?;
    let used = |path: &str| {
        let all = report["currencies"].as_array();
        let found = all.and_then(|all| all.iter().find(|c| c["cgroup"] == path));
        let found = found.with_context(|| format!("no {path} in {report}"))?;
        ensure!(found["active"] == true, "{found}");
        found["used"].as_f64().context("no used")
    };
    let (alice, bob) = (used(ALICE)?, used(BOB)?);
    ensure!(alice + bob > 0.8, "{report}");
    // What it shows is of an interval of its own, 3 s.
    let most = bound::stray_ms(DUE, bound::OTHERS) / (3e3 * (alice + bob));
    near("as top --direct says", alice / (alice + bob), DUE, most)?;
    tixctl("top --direct")?.ok()?.has(ALICE)?;
    sh("runuser -u nobody -- tixctl top --direct")?.refused(&["root"])?;
    Ok(())
}

pub fn ejected() -> Result<()> {
    let hogs = hogs()?;
    let (seq, old) = (enabled_so_often()?, pid()?);
    std::fs::write("/proc/sysrq-trigger", "S")?;
    let mut wire = Wire::connect(SOCKET)?;
    // While it is out, and loaded again, tixd answers, and says what happened and what it does.
    let mut slowest = Duration::ZERO;
    let mut reason = String::new();
    until("it is in force again", PATIENCE, || {
        let start = Instant::now();
        let status = wire.call("Status", json!({}))?;
        slowest = slowest.max(start.elapsed());
        let scheduler = &status["scheduler"];
        let known = scheduler["reason"].as_str().unwrap_or_default();
        if scheduler["in_force"] == false && known.contains("sysrq") {
            reason = scheduler["reason"].to_string();
            let problem = status["problems"][0].to_string();
            ensure!(
                problem.contains("sysrq") && problem.contains("again"),
                "{status}"
            );
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(scheduler["in_force"] == true && enabled_so_often()? > seq)
    })?;
    ensure!(reason.contains("sysrq"), "the reason is {reason:?}");
    eprintln!("       slowest answer meanwhile: {slowest:?}");
    ensure!(
        slowest < Duration::from_secs(5),
        "an answer took {slowest:?}"
    );
    ensure!(pid()? == old, "systemd has restarted tixd meanwhile");
    tixctl("status")?.ok()?.has("sysrq")?;
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["scheduler"]["reloads"] == 1, "{status}");
    part("after it was loaded again")?;
    drop(hogs);
    Ok(())
}

pub fn given_up() -> Result<()> {
    sh("tixd --stop-scheduler")?.ok()?.has("kernel's own")?;
    let seq = enabled_so_often()?;
    tixctl("status")?
        .exits(1)?
        .has("unregistered from user space")?
        .has("cpu.weight")?;
    service::stop()?;
    ensure!(enabled_so_often()? == seq && !in_force());
    tixctl("status")?.exits(3)?;
    sh("tixd --stop-scheduler")?.ok()?.has("was not in force")?;
    sh("systemctl start tixd")?.ok()?;
    tixctl("status")?.ok()?;
    // In the other order: tixd first.
    service::stop()?;
    ensure!(in_force());
    sh("tixd --stop-scheduler")?.ok()?.has("kernel's own")?;
    ensure!(!in_force());
    ensure!(read("/sys/kernel/sched_ext/state")? == "disabled");
    sh("systemctl start tixd")?.ok()?;
    tixctl("status")?.ok()?;
    Ok(())
}

pub fn fallback() -> Result<()> {
    service::stop()?;
    sh("tixd --stop-scheduler")?.ok()?;
    // For this tixd the kernel has no sched_ext.
    let drop_in = "/run/systemd/system/tixd.service.d/none.conf";
    std::fs::create_dir_all("/run/systemd/system/tixd.service.d")?;
    std::fs::write(
        drop_in,
        "[Service]\nTemporaryFileSystem=/sys/kernel/sched_ext\n",
    )?;
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl start tixd")?.ok()?;
    tixctl("status")?.exits(1)?.has("cpu.weight")?;
    let status = tixctl("status --json")?.exits(1)?.json()?;
    ensure!(
        status["tixd"]["scheduler"]["enforcer"] == "cpu_weight",
        "{status}"
    );
    let weight = |slice: &str| -> Result<u64> {
        Ok(read(&format!("/sys/fs/cgroup{slice}/cpu.weight"))?.parse()?)
    };
    let (a, b) = (weight(ALICE)?, weight(BOB)?);
    // A weight is a whole number: each may be half of one off.
    let (a, b) = (a as f64, b as f64);
    near("alice's weight", a / (a + b), DUE, 0.5 / (a + b))?;
    let hogs = hogs()?;
    part_by_weight("by cpu.weight")?;
    // The next tixd knows that these weights are tixd's, and nobody's tickets.
    let old = pid()?;
    sh(&format!("kill -KILL {old}"))?.ok()?;
    another(old)?;
    part_by_weight("by cpu.weight, after a kill")?;
    drop(hogs);
    service::stop()?;
    std::fs::remove_file(drop_in)?;
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl start tixd")?.ok()?;
    tixctl("status")?.ok()?;
    for slice in [ALICE, BOB] {
        ensure!(
            weight(slice)? == 100,
            "{slice} keeps a weight that tixd wrote"
        );
    }
    tixctl(&format!("unbind bob {BOB}"))?.ok()?;
    let has = tickets(BOB, "/user.slice").context("bob")?;
    ensure!(has == 100, "the parent's ticket is {has} after that");
    tixctl(&format!("bind bob {BOB}"))?.ok()?;
    Ok(())
}
