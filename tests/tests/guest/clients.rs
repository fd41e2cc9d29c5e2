// SPDX-License-Identifier: GPL-2.0-only
//! Programs that know nothing of tix and set what they always set: libcgroup's tools, systemd-run and podman. What they make is a
//! currency, what they set is its funding or its limit, and it holds.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::alone::{ROOT, cgroups, file, write};
use tix_tests::bound;
use tix_tests::daemon::{
    Kind, currency, in_guest_with, in_restored_guest, install, read, run, sh, tickets, tixctl,
    until,
};
use tix_tests::daemon_load::{Meter, near, used};
use tix_tests::shell::Shell;

use crate::daemon::limits::Busy;
use crate::daemon::service;
use crate::resources::units::{has_disk_tickets, root_of_container};

const SPIN: &str = "while :; do :; done";
/// CPU time in which shares and limits are measured.
const TIME: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

#[test]
#[ignore = "boots a guest"]
fn unmodified() {
    in_restored_guest("clients::unmodified", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check("setup: this test need not wait for its turn", || {
            let own = read("/proc/self/cgroup")?;
            let own = own.strip_prefix("0::").context("no cgroup v2")?;
            tixctl(&format!("fund {own} --from base cpu 100"))?.ok()?;
            Ok(())
        });
        c.check("cgcreate, cgset, cgexec, cgclassify", libcgroup);
        c.check("systemd-run, as root", systemd_run);
        c.check("systemd-run, as a user", systemd_run_user);
        c.check("podman run", podman);
        c.check("no warning", service::journal);
    });
}

/// tixd in a container that has no privilege: it says what it lacks, keeps the ledger, and is not restarted again and again.
#[test]
#[ignore = "boots a guest"]
fn tixd_in_a_container() {
    in_guest_with("clients::tixd_in_a_container", Kind::Systemd, &[], |c| {
        c.check("setup: a container", || {
            install()?;
            root_of_container("/run/image")
        });
        c.check("it says what it lacks, and goes on", contained);
    });
}

fn contained() -> Result<()> {
    const PODMAN: &str = "podman --storage-driver vfs";
    let flags = "--name tixd --network none --log-driver none --volume /usr:/usr:ro --env TIX_SOCKET=/tixd.sock";
    let tixd = "/usr/sbin/tixd --state /ledger --socket /tixd.sock";
    sh(&format!(
        "{PODMAN} --cgroup-manager systemd run --detach {flags} --rootfs /run/image {tixd}"
    ))?
    .ok()?;
    let inside = |line: &str| sh(&format!("{PODMAN} exec tixd tixctl {line}"));
    until("it answers", LONG, || Ok(inside("status")?.status == 1))?;
    inside("status")?
        .exits(1)?
        .has("lacks CAP_BPF and CAP_PERFMON (is it in a container?)")?
        .has("enforcement none")?
        .has("cgroups are mounted read-only: start tixd outside this container")?;
    inside("doctor")?
        .exits(1)?
        .has("without CAP_BPF, CAP_PERFMON")?
        .has("give the container these capabilities")?;
    for line in [
        "create alice",
        "create bob",
        "fund alice --from base cpu 300",
        "fund bob --from base disk 100",
        "offer alice --give cpu:100 --want disk:50",
        "offer bob --give disk:50 --want cpu:100",
    ] {
        inside(line)?.ok()?;
    }
    inside("exchanges")?.ok()?.has("alice")?.has("bob")?;
    let running = sh(&format!(
        "{PODMAN} inspect --format {{{{.State.Running}}}}-{{{{.RestartCount}}}} tixd"
    ))?;
    running.ok()?.has("true-0")?;
    sh(&format!("{PODMAN} rm --force --time 0 tixd"))?.ok()?;
    Ok(())
}

fn libcgroup() -> Result<()> {
    sh("cgcreate -g cpu,memory:lab/a -g cpu,memory:lab/b")?.ok()?;
    sh("cgset -r cpu.weight=300 -r memory.min=8388608 lab/a")?.ok()?;
    let (a, b) = ("/lab/a", "/lab/b");
    funded(a, "/lab", 300)?;
    funded(b, "/lab", 100)?;
    guaranteed(a, "min", 8 * MIB)?;

    let mut command = Command::new("cgexec");
    command.args(["-g", "cpu:lab/a", "/bin/sh", "-c", SPIN]);
    let _first = Spinner::start(&mut command)?;
    let second = Spinner::start(Command::new("/bin/sh").args(["-c", SPIN]))?;
    sh(&format!("cgclassify -g cpu:lab/b {}", second.0.id()))?.ok()?;
    shares([a, b], 0.75)?;

    sh("cgset -r cpu.weight=100 lab/a")?.ok()?;
    funded(a, "/lab", 100)?;
    shares([a, b], 0.5)?;

    drop(second);
    run(Command::new("cgset").args(["-r", "cpu.max=50000 100000", "lab/a"]))?.ok()?;
    limited(a, 0.5)
}

fn systemd_run() -> Result<()> {
    let unit = |name: &str| format!("/system.slice/{name}.service");
    let start = |name: &str, properties: &str| -> Result<()> {
        let line = format!("-q --unit {name} {properties} /bin/sh -c");
        let mut command = Command::new("systemd-run");
        run(command.args(line.split_whitespace()).arg(SPIN))?.ok()?;
        Ok(())
    };
    start("heavy", "-p CPUWeight=300 -p IOWeight=200 -p MemoryMin=64M")?;
    start("light", "-p CPUWeight=100")?;
    let (heavy, light) = (unit("heavy"), unit("light"));
    funded(&heavy, "/system.slice", 300)?;
    funded(&light, "/system.slice", 100)?;
    guaranteed(&heavy, "min", 64 * MIB)?;
    until("its IOWeight is its funding", SOON, || {
        has_disk_tickets(&heavy, 200)
    })?;
    shares([&heavy, &light], 0.75)?;
    sh("systemctl stop heavy light")?.ok()?;

    start("capped", "-p CPUQuota=50%")?;
    limited(&unit("capped"), 0.5)?;
    sh("systemctl stop capped")?.ok()?;
    gone(&unit("capped"))
}

/// In units of her own systemd, which is delegated the controllers.
fn systemd_run_user() -> Result<()> {
    let mut alice = Shell::login("alice")?;
    let slice = "/user.slice/user-1000.slice/user@1000.service/app.slice";
    let unit = |name: &str| format!("{slice}/{name}.service");
    let start = |alice: &mut Shell, name: &str, properties: &str| -> Result<()> {
        let line = format!("systemd-run --user -q --unit {name} {properties}");
        alice.types(&format!("{line} /bin/sh -c '{SPIN}'"))?.ok()?;
        Ok(())
    };
    let properties = "-p CPUWeight=300 -p IOWeight=200 -p MemoryMin=16M";
    start(&mut alice, "heavy", properties)?;
    start(&mut alice, "light", "-p CPUWeight=100")?;
    let (heavy, light) = (unit("heavy"), unit("light"));
    funded(&heavy, slice, 300)?;
    funded(&light, slice, 100)?;
    guaranteed(&heavy, "min", 16 * MIB)?;
    until("its IOWeight is its funding", SOON, || {
        has_disk_tickets(&heavy, 200)
    })?;
    shares([&heavy, &light], 0.75)?;
    alice.types("systemctl --user stop heavy light")?.ok()?;
    start(&mut alice, "capped", "-p CPUQuota=50%")?;
    limited(&unit("capped"), 0.5)?;
    alice.types("systemctl --user stop capped")?.ok()?;
    gone(&unit("capped"))
}

fn podman() -> Result<()> {
    root_of_container("/run/image")?;
    // Returns the cgroup that podman has made for it.
    let start = |name: &str, flags: &str| -> Result<String> {
        let line = format!(
            "--storage-driver vfs --cgroup-manager systemd run --detach --name {name} {flags} \
             --network none --log-driver none --volume /usr:/usr:ro --rootfs /run/image /bin/sh -c"
        );
        let mut command = Command::new("podman");
        run(command.args(line.split_whitespace()).arg(SPIN))?.ok()?;
        let inspect = format!("inspect --format {{{{.State.CgroupPath}}}} {name}");
        let said = sh(&format!("podman --storage-driver vfs {inspect}"))?.ok()?;
        Ok(said.out.trim().to_owned())
    };
    let few = start("few", "--cpu-shares 512 --memory-reservation 64m")?;
    let many = start("many", "--cpu-shares 2048")?;
    // The runtime makes weights of shares, by a formula of its own.
    let weight = |cgroup: &str| -> Result<u64> { Ok(file(cgroup, "cpu.weight")?.parse()?) };
    let (low, high) = (weight(&few)?, weight(&many)?);
    ensure!(low < 100 && high > low, "weights {low} and {high}");
    funded(&few, "/machine.slice", low)?;
    funded(&many, "/machine.slice", high)?;
    guaranteed(&few, "low", 64 * MIB)?;
    shares([&many, &few], high as f64 / (high + low) as f64)?;
    sh("podman --storage-driver vfs rm --force --time 0 few many")?.ok()?;
    gone(&many)?;

    let capped = start("capped", "--cpus 0.5")?;
    limited(&capped, 0.5)?;
    sh("podman --storage-driver vfs rm --force --time 0 capped")?.ok()?;
    gone(&capped)
}

/// A program that wants all it can get, until dropped.
struct Spinner(Child);

impl Spinner {
    fn start(command: &mut Command) -> Result<Spinner> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Spinner(command.spawn()?))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn funded(cgroup: &str, parent: &str, amount: u64) -> Result<()> {
    let what = format!("{cgroup} has {amount} tickets of {parent}");
    let has = until(&what, SOON, || {
        Ok(currency(cgroup)?.is_some() && tickets(cgroup, parent)? == amount)
    });
    has.with_context(|| format!("its cpu.weight is {:?}", file(cgroup, "cpu.weight")))
}

/// `memory.min` or `memory.low` is that, and shown.
fn guaranteed(cgroup: &str, which: &str, bytes: u64) -> Result<()> {
    ensure!(file(cgroup, &format!("memory.{which}"))? == bytes.to_string());
    until(&format!("{cgroup}'s memory.{which} is shown"), SOON, || {
        let found = currency(cgroup)?.context("no such currency")?;
        Ok(found["memory"][format!("{which}_bytes")] == bytes)
    })
}

/// What the first of two gets of what both get.
fn shares(of: [&str; 2], due: f64) -> Result<()> {
    let running = |cgroup: &&str| used(cgroup).is_ok_and(|n| n > 100_000);
    until("both run", SOON, || Ok(of.iter().all(running)))?;
    Meter::start(of)?.over(TIME, LONG)?.due(of[0], 0, due)
}

/// What it gets of a CPU by the guest's clock. Beside it is somebody who wants all that is left,
/// for one ticket: the clock of a guest with systemd counts instructions only while there are some,
/// and is this machine's while the guest is idle.
fn limited(cgroup: &str, due: f64) -> Result<()> {
    const REST: &str = "/rest";
    cgroups(&[REST])?;
    write(REST, "cpu.weight", "1")?;
    let rest = Busy::start(REST)?;
    for path in [cgroup, REST] {
        until(
            "it runs",
            SOON,
            || Ok(used(path).is_ok_and(|n| n > 500_000)),
        )?;
    }
    let meter = Meter::start([cgroup])?;
    meter.over(2 * TIME, LONG)?;
    let (got, took) = (meter.got()?[0] as f64 / 1e6, meter.seconds());
    let quota_ms = due * 100.0;
    near(
        cgroup,
        got / took,
        due,
        bound::limit_ms(quota_ms) / 1e3 / took,
    )?;
    drop(rest);
    until("it is empty", SOON, || {
        Ok(std::fs::remove_dir(format!("{ROOT}{REST}")).is_ok())
    })
}

fn gone(cgroup: &str) -> Result<()> {
    until(&format!("{cgroup} is gone"), SOON, || {
        Ok(currency(cgroup)?.is_none())
    })
}
