// SPDX-License-Identifier: GPL-2.0-only
//! A machine whose cpu controller is cgroup v1's, with cgroup v2 beside it or without any: tixd keeps the ledger, and says that it
//! enforces nothing.

use std::fs;

use anyhow::{Context, Result, ensure};
use tix_tests::alone::{ROOT, SOCKET, Tixd};
use tix_tests::daemon::{Checks, install, read, sh, tickets, tixctl};
use tix_tests::load::sys;

pub fn all(c: &mut Checks) {
    let mut tixd = None;
    c.check("setup: cgroup v1, with v2 beside it", || {
        sys::set_variable("TIX_SOCKET", SOCKET);
        install()?;
        hybrid()?;
        tixd = Some(Tixd::start()?);
        Ok(())
    });
    c.check("hybrid: it is said that nothing is enforced", || {
        said("and cgroup v2 (/sys/fs/cgroup/unified) is only beside it")
    });
    c.check("ledger and exchanges are whole", || {
        trade()?;
        tixd.take().context("no tixd")?.signal("KILL")?;
        tixd = Some(Tixd::start()?);
        kept()
    });
    c.check("cgroup v1 alone", || {
        tixd.take().context("no tixd")?.signal("TERM")?;
        sh(&format!("umount {ROOT}/unified"))?.ok()?;
        tixd = Some(Tixd::start()?);
        said("cgroup v2 is not mounted")?;
        kept()
    });
}

fn hybrid() -> Result<()> {
    let control = format!("{ROOT}/cgroup.subtree_control");
    for controller in read(&control)?.split_whitespace() {
        fs::write(&control, format!("-{controller}"))?;
    }
    sh(&format!("umount {ROOT}"))?.ok()?;
    sh(&format!("mount -t tmpfs cgroups {ROOT}"))?.ok()?;
    for (dir, kind) in [("cpu", "cgroup -o cpu"), ("unified", "cgroup2")] {
        let dir = format!("{ROOT}/{dir}");
        fs::create_dir(&dir)?;
        sh(&format!("mount -t {kind} none {dir}"))?.ok()?;
    }
    // What a machine with v1 has: a share of its own for somebody.
    fs::create_dir(format!("{ROOT}/cpu/somebody"))?;
    Ok(())
}

fn said(by_doctor: &str) -> Result<()> {
    tixctl("status")?
        .exits(1)?
        .has("enforcement none")?
        .has("/sys/fs/cgroup is no cgroup v2 file system: nothing is enforced")?
        .has("the ledger and exchanges are whole")?
        .has("systemd.unified_cgroup_hierarchy=1")?;
    let status = tixctl("status --json")?.exits(1)?.json()?;
    let scheduler = &status["tixd"]["scheduler"];
    ensure!(
        scheduler["enforcer"] == "none" && scheduler["in_force"] == false,
        "{status}"
    );
    let problems = status["tixd"]["problems"].as_array().map(Vec::len);
    ensure!(problems == Some(1), "{status}");
    tixctl("doctor")?
        .exits(1)?
        .has(by_doctor)?
        .has("tixd keeps the ledger and exchanges, and enforces nothing")?;
    ensure!(read("/sys/kernel/sched_ext/state")? == "disabled");
    ensure!(read(&format!("{ROOT}/cpu/somebody/cpu.shares"))? == "1024");
    Ok(())
}

fn trade() -> Result<()> {
    for line in [
        "create alice",
        "create bob",
        "fund alice --from base cpu 300",
        "fund bob --from base disk 100",
        "reserve alice --from base memory 64M",
        "offer alice --give cpu:100 --want disk:50",
        "offer bob --give disk:50 --want cpu:100",
        "tree",
        "top --once",
        "explain alice",
        "log",
    ] {
        tixctl(line)?.ok()?;
    }
    kept()
}

fn kept() -> Result<()> {
    ensure!(tickets("alice", "base")? == 300);
    tixctl("exchanges")?.ok()?.has("alice")?.has("bob")?;
    Ok(())
}
