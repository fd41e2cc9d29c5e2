// SPDX-License-Identifier: GPL-2.0-only
//! Somebody else's sched_ext scheduler is in force: tixd says so, holds what it can, and waits for it to leave.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::alone::{PATIENCE, SOCKET, Tixd, cgroups, number};
use tix_tests::daemon::{Checks, in_force, install, read, sh, tickets, tixctl, until};
use tix_tests::guest::tree;
use tix_tests::load::sys;

/// To verify tix's takes a while of an emulated CPU.
const LONG: Duration = Duration::from_secs(240);
/// tixd tries three times in 36 s, and gives up, where something fails.
const GIVEN_UP: Duration = Duration::from_secs(45);

fn object() -> PathBuf {
    tree().join("target/other.bpf.o")
}

/// What loads it, and what is loaded. On the host.
pub fn build() -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang-19".into());
    let loader = "build -q --locked -p tix-bpf --example scx_load";
    let program = "-O2 -g -target bpf -c bpf/examples/other.bpf.c -o";
    let mut compile = Command::new(clang);
    compile.args(program.split(' ')).arg(object());
    let mut build = Command::new(cargo);
    build.args(loader.split(' '));
    for mut command in [compile, build] {
        let status = command.current_dir(tree()).status()?;
        ensure!(status.success(), "{command:?} ended with {status}");
    }
    Ok(())
}

/// A scheduler called `other`, in force until this is dropped.
struct Other(Child);

impl Other {
    fn start() -> Result<Other> {
        let loader = tree().join("target/debug/examples/scx_load");
        let child = Command::new(loader)
            .arg(object())
            .stdin(Stdio::null())
            .spawn()
            .context("start scx_load")?;
        let other = Other(child);
        until("the other is in force", PATIENCE, || {
            Ok(read("/sys/kernel/sched_ext/root/ops").is_ok_and(|ops| ops == "other"))
        })?;
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn all(c: &mut Checks) {
    let (mut tixd, mut other) = (None, None);
    c.check("setup: another scheduler, and tixd", || {
        sys::set_variable("TIX_SOCKET", SOCKET);
        install()?;
        other = Some(Other::start()?);
        tixd = Some(Tixd::start()?);
        Ok(())
    });
    c.check("it is said who decides, and what to do", said);
    c.check("ledger, exchanges and memory go on", holds);
    c.check("waiting is not given up", || {
        std::thread::sleep(GIVEN_UP);
        said()
    });
    c.check("when the other leaves tix's is loaded", || {
        other = None;
        until("tix's is in force", LONG, || Ok(in_force()))?;
        in_order()
    });
    c.check("it comes when tix's is thrown out", || {
        std::fs::write("/proc/sysrq-trigger", "S")?;
        other = Some(Other::start()?);
        until("tixd waits", LONG, || {
            Ok(problem()?.contains("loads its own within seconds"))
        })?;
        said()?;
        other = None;
        until("tix's is in force", LONG, || Ok(in_force()))?;
        in_order()
    });
}

/// The first thing that is wrong, as `status` says it.
fn problem() -> Result<String> {
    let status = tixctl("status --json")?.json()?;
    Ok(status["tixd"]["problems"][0].to_string())
}

fn said() -> Result<()> {
    tixctl("status")?
        .exits(1)?
        .has("another sched_ext scheduler is in force: other")?
        .has("enforcement of CPU shares none: other decides who runs")?
        .has("by cpu.weight and cpu.max only if other heeds them")?
        .has("end other")?
        .has("tixd loads its own within seconds")?;
    let status = tixctl("status --json")?.exits(1)?.json()?;
    let scheduler = &status["tixd"]["scheduler"];
    ensure!(
        status["in_force"] == false
            && scheduler["enforcer"] == "none"
            && scheduler["state"] == "enabled"
            && scheduler["ops"] == "other"
            && scheduler["in_force"] == false,
        "{status}"
    );
    let problems = status["tixd"]["problems"].as_array().map(Vec::len);
    ensure!(problems == Some(1), "{status}");
    tixctl("doctor")?
        .exits(1)?
        .has("another sched_ext scheduler is in force: other")?
        .has("end the program that loaded other")?
        .has("those of CPU are the other scheduler's business")?;
    Ok(())
}

fn holds() -> Result<()> {
    cgroups(&["/a", "/b"])?;
    tixctl("fund /a --from base cpu 300")?.ok()?;
    tixctl("fund /a --from base disk 300")?.ok()?;
    tixctl("fund /b --from base disk 300")?.ok()?;
    tixctl("reserve /a --from base memory 64M")?.ok()?;
    until("a is guaranteed that", PATIENCE, || {
        Ok(number("/a", "memory.min")? == 64 << 20)
    })?;
    tixctl("offer /a --give cpu:100 --want disk:50")?.ok()?;
    tixctl("offer /b --give disk:50 --want cpu:100")?.ok()?;
    tixctl("exchanges")?.ok()?.has("/a")?.has("/b")?;
    Ok(())
}

/// tix's is in force, all is well, and what was agreed meanwhile is kept.
fn in_order() -> Result<()> {
    until("tixd has it in order", PATIENCE, || {
        Ok(tixctl("status")?.status == 0)
    })?;
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    ensure!(
        status["tixd"]["scheduler"]["enforcer"] == "sched_ext",
        "{status}"
    );
    ensure!(!tixctl("status")?.ok()?.out.contains("other"), "{status}");
    ensure!(tickets("/a", "base")? == 400);
    tixctl("exchanges")?.ok()?.has("/a")?.has("/b")?;
    sh("grep -q 67108864 /sys/fs/cgroup/a/memory.min")?.ok()?;
    Ok(())
}
