// SPDX-License-Identifier: GPL-2.0-only
//! A kernel without sched_ext, as Debian 13 has it: what tixd holds there, and what it says of the rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tix_tests::bound;
use tix_tests::daemon::{currency, install, read, sh, tickets, tixctl, until};
use tix_tests::daemon_load::{Meter, near, used};

use super::force::hogs;
use super::service::{another, pid};
use super::users::{ALICE, BOB};

/// Of Debian's stable release; tests/vm/kernel finds the last one that begins so.
pub const KERNEL: &str = "6.12";
const LONG: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);

pub fn start() -> Result<()> {
    install()?;
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl start tixd")?.ok()?;
    sh("systemctl show -P StatusText tixd")?
        .ok()?
        .has("cpu.weight only")?;
    Ok(())
}

fn shares(what: &str, ideal: f64) -> Result<()> {
    let meter = Meter::start([ALICE, BOB])?;
    let had = meter.over(Duration::from_secs(4), LONG)?;
    had.due_by_weight(what, 0, ideal)
}

pub fn by_weight() -> Result<()> {
    let hogs = hogs()?;
    shares("300 to 100", 0.75)?;
    tixctl("fund bob --from base cpu 500")?.ok()?;
    shares("300 to 600", 1.0 / 3.0)?;
    tixctl("unfund bob --from base cpu 500")?.ok()?;
    // Who is idle leaves it all to the others.
    drop(hogs);
    Ok(())
}

/// `status` says what holds and what does not, `doctor` what the machine lacks.
pub fn said() -> Result<()> {
    let status = tixctl("status")?
        .exits(1)?
        .has("no sched_ext")?
        .has("by cpu.weight")?
        .has("tixctl doctor")?;
    ensure!(status.err.is_empty(), "{}", status.err);
    let status = tixctl("status --json")?.exits(1)?.json()?;
    let scheduler = &status["tixd"]["scheduler"];
    ensure!(
        scheduler["enforcer"] == "cpu_weight"
            && scheduler["state"] == "unsupported"
            && scheduler["in_force"] == false,
        "{status}"
    );
    tixctl("doctor")?
        .exits(1)?
        .has("CONFIG_SCHED_CLASS_EXT")?
        .has("cpu.weight")?;
    Ok(())
}

fn number(path: &str) -> Result<u64> {
    let text = read(&format!("/sys/fs/cgroup{path}"))?;
    Ok(text.trim_start_matches("default ").parse()?)
}

pub fn memory_and_disk() -> Result<()> {
    tixctl("reserve alice --from base memory 64M")?.ok()?;
    until("alice is guaranteed that", SOON, || {
        Ok(number(&format!("{ALICE}/memory.min"))? == 64 << 20)
    })?;
    tixctl("fund alice --from base disk 300")?.ok()?;
    tixctl("fund bob --from base disk 200")?.ok()?;
    // Each is rounded to a whole number; and with alice's tickets alone it was 300 to 100.
    let weight = |slice: &str| number(&format!("{slice}/io.weight"));
    until("disk weights are as funded", SOON, || {
        Ok((2 * weight(ALICE)?).abs_diff(3 * weight(BOB)?) <= 3)
    })?;
    tixctl("top --once -r disk")?.ok()?.has("WEIGHT")?;
    tixctl("top --once -r memory")?.ok()?.has("CURRENCY")?;
    Ok(())
}

/// What was said yes to is there after SIGKILL, and tixd's own weights are nobody's tickets.
pub fn ledger() -> Result<()> {
    tixctl("create diary")?.ok()?;
    tixctl("fund diary --from base cpu 7")?.ok()?;
    let old = pid()?;
    sh(&format!("kill -KILL {old}"))?.ok()?;
    another(old)?;
    ensure!(tickets("diary", "base")? == 7);
    ensure!(tickets("alice", "base")? == 300);
    tixctl(&format!("explain {ALICE}"))?.ok()?.has("alice")?;
    tixctl("log -n 50")?.ok()?.has("diary")?;
    let document = tixctl("export")?.ok()?.out;
    std::fs::write("/run/ledger.toml", document)?;
    tixctl("import --dry-run /run/ledger.toml")?.ok()?;
    Ok(())
}

/// What two offer each other is matched, and theirs from then on.
pub fn exchanged() -> Result<()> {
    tixctl("fund alice --from base disk 100")?.ok()?;
    tixctl("fund bob --from base disk 100")?.ok()?;
    let due = |name: &str, resource: &str| -> Result<f64> {
        let found = currency(name)?.context("no such currency")?;
        let part = found[resource]["entitlement"].as_f64();
        part.context("not due")
    };
    let (cpu, disk) = (due("bob", "cpu")?, due("alice", "disk")?);
    tixctl("offer alice --give cpu:30 --want disk:20")?.ok()?;
    tixctl("offer bob --give disk:20 --want cpu:30")?.ok()?;
    tixctl("exchanges")?.ok()?.has("alice")?.has("bob")?;
    let (more, wider) = (due("bob", "cpu")?, due("alice", "disk")?);
    ensure!(more > cpu, "bob is due {more} of the CPU, and was {cpu}");
    ensure!(
        wider > disk,
        "alice is due {wider} of disks, and was {disk}"
    );
    let shares = |slice: &str| number(&format!("{slice}/cpu.weight"));
    let (alice, bob) = (due("alice", "cpu")?, due("bob", "cpu")?);
    until("weights are as was agreed", SOON, || {
        let (a, b) = (shares(ALICE)? as f64, shares(BOB)? as f64);
        Ok((a / (a + b) / (alice / (alice + bob)) - 1.0).abs() < 0.02)
    })
}

/// A tixd that does nothing any more is ended by systemd, and another started.
pub fn hung() -> Result<()> {
    let drop_in = "/run/systemd/system/tixd.service.d/watchdog.conf";
    std::fs::create_dir_all("/run/systemd/system/tixd.service.d")?;
    std::fs::write(drop_in, "[Service]\nWatchdogSec=10s\n")?;
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl restart tixd")?.ok()?;
    let old = pid()?;
    // One that is well is left alone.
    std::thread::sleep(Duration::from_secs(15));
    ensure!(pid()? == old, "it was restarted though it was well");
    sh(&format!("kill -STOP {old}"))?.ok()?;
    until("systemd has started another", LONG, || {
        Ok(pid()? > 0 && pid()? != old)
    })?;
    another(old)?;
    let said = sh("journalctl -u tixd -o cat --no-pager")?.ok()?;
    said.has("Watchdog timeout")?;
    std::fs::remove_file(drop_in)?;
    sh("systemctl daemon-reload")?.ok()?;
    Ok(())
}

/// A limit is kept and does not hold, which is said wherever it is told of; what is named in its place does hold.
pub fn limited() -> Result<()> {
    let cpu_max = || read(&format!("/sys/fs/cgroup{ALICE}/cpu.max"));
    let _hogs = hogs()?;
    let said = tixctl("limit alice cpu 20%")?.ok()?;
    ensure!(
        said.err
            .contains("the limit is kept, and nothing holds it now")
            && said.err.contains("tixctl doctor"),
        "{said:?}"
    );
    tixctl("status")?
        .exits(1)?
        .has("1 limit of a currency")?
        .has("only while tix's scheduler is in force")?
        .has("CPUQuota=")?;
    tixctl("explain alice")?.ok()?.has(
        "Limited to 20 % of one CPU by the limit of alice; that does not hold now: tix's scheduler is not in force",
    )?;
    let told = tixctl("explain alice --json")?.ok()?.json()?;
    let limits = told["limits"].as_array().context("no limits")?;
    ensure!(
        limits.len() == 1 && limits[0]["in_force"] == false,
        "{told}"
    );
    tixctl("tree")?.ok()?.has("20 % of one CPU")?;
    tixctl("log -n 5")?.ok()?.has("limit")?;
    tixctl("export")?.ok()?.has("limit")?;
    // It is as was said, and tixd does not write what is not its own.
    shares("300 to 100, below a limit that does not hold", 0.75)?;
    ensure!(cpu_max()? == "max 100000", "{}", cpu_max()?);

    let quota = |of: &str| -> Result<()> {
        let unit = ALICE.rsplit('/').next().context("no unit")?;
        sh(&format!(
            "systemctl set-property --runtime {unit} CPUQuota={of}"
        ))?
        .ok()?;
        Ok(())
    };
    quota("20%")?;
    until("it is limited", SOON, || Ok(cpu_max()? == "20000 100000"))?;
    let (from, began) = (used(ALICE)?, Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    let part = (used(ALICE)? - from) as f64 / began.elapsed().as_micros() as f64;
    // Under the kernel's own scheduler a run goes on until the next tick.
    let most_ms = bound::limit_ms(20.0) + bound::TICK_MS;
    near("alice, by CPUQuota=", part, 0.2, most_ms / 5e3)?;
    quota("")?;
    until("it is not any longer", SOON, || {
        Ok(cpu_max()? == "max 100000")
    })?;

    let said = tixctl("unlimit alice cpu")?.ok()?;
    ensure!(said.err.is_empty(), "{}", said.err);
    let status = tixctl("status")?.exits(1)?;
    ensure!(!status.out.contains("limit of a currency"), "{status:?}");
    tixctl("unlimit alice cpu")?.refused(&["alice"])?;
    Ok(())
}

/// Exit statuses are those of a kernel that has sched_ext.
pub fn every_command() -> Result<()> {
    for line in [
        "tree",
        "tree --json",
        "top --once",
        "top --once --json",
        "explain alice",
        "offers",
        "exchanges",
        "log",
        "run --cpu 50 -- true",
        "nice -- true",
        "create tmp",
        "chmod g+f tmp",
        "chown alice tmp",
        "chgrp alice tmp",
        "fund tmp --from base cpu 10",
        "unfund tmp --from base cpu 5",
        "reserve tmp --from base cpu 5%",
        "unreserve tmp --from base cpu",
        "limit tmp cpu 30%",
        "unlimit tmp cpu",
        "bind tmp /user.slice",
        "unbind tmp",
        "offer alice --give cpu:10 --want disk:5",
        "destroy tmp",
        "completions bash",
    ] {
        tixctl(line)?.ok()?;
    }
    tixctl("run -- false")?.exits(1)?;
    tixctl("fund nobody --from base cpu 1")?.refused(&["nobody"])?;
    tixctl("limit nobody cpu 30%")?.refused(&["nobody"])?;
    tixctl("disk enable nothing")?.refused(&["nothing"])?;
    tixctl("cancel 999")?.refused(&["999"])?;
    Ok(())
}

/// All that tixd wrote is as it was.
pub fn given_back() -> Result<()> {
    compacts_as_asked()?;
    super::service::stop()?;
    sh("tixd --give-back")?.ok()?.has("was not in force")?;
    for slice in [ALICE, BOB] {
        for (file, was) in [("cpu.weight", 100), ("io.weight", 100), ("memory.min", 0)] {
            let says = number(&format!("{slice}/{file}"))?;
            ensure!(
                says == was,
                "{slice}/{file} says {says}; {}",
                sh("journalctl -u tixd -o cat --no-pager")?.out
            );
        }
    }
    sh("systemctl start tixd")?.ok()?;
    until("what is due is written again", SOON, || {
        Ok(number(&format!("{ALICE}/memory.min"))? == 64 << 20)
    })?;
    let status = tixctl("status --json")?.exits(1)?.json()?;
    let problems = status["tixd"]["problems"].as_array().map(Vec::len);
    ensure!(problems == Some(1), "{status}");
    Ok(())
}

/// The machine's setting is its own, but where tixd is asked; and set back when it is asked no
/// more.
fn compacts_as_asked() -> Result<()> {
    const UNIT: &str = "/run/systemd/system/tixd.service.d/compaction.conf";
    let says = |wanted: &str| {
        let found = read("/proc/sys/vm/compaction_proactiveness")?;
        ensure!(found.trim() == wanted, "{found} for {wanted}");
        Ok(())
    };
    says("20")?;
    let asked = "[Service]\nExecStart=\nExecStart=/usr/sbin/tixd --compact-on-demand\n";
    std::fs::create_dir_all("/run/systemd/system/tixd.service.d")?;
    std::fs::write(UNIT, asked)?;
    restart_anew()?;
    says("0")?;
    std::fs::remove_file(UNIT)?;
    restart_anew()?;
    says("20")
}

fn restart_anew() -> Result<()> {
    sh("systemctl daemon-reload")?.ok()?;
    sh("systemctl restart tixd")?.ok()?;
    Ok(())
}
