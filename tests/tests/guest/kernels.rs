// SPDX-License-Identifier: GPL-2.0-only
//! What every kernel that tix supports must show: it takes the BPF program, shares hold, and what does not is told. `.ci/kernels` runs
//! it, and `matrix`, on each of them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tix_tests::alone::{self, Hog, cgroups, write};
use tix_tests::bound;
use tix_tests::daemon::{Kind, Said, in_restored_guest, tixctl};
use tix_tests::daemon_load::Meter;
use tix_tests::guest::{Guest, tree, under_tix};
use tix_tests::load::shares::Shares;
use tix_tests::results::leave;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// What one of the harness's programs prints.
fn harness(name: &str, argument: Option<&str>) -> Result<String> {
    let mut command = Command::new(tree().join("tests/vm").join(name));
    let said = command.args(argument).output()?;
    let status = said.status;
    ensure!(status.success(), "tests/vm/{name} ended with {status}");
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

#[test]
#[ignore = "boots a guest"]
fn loads_and_holds_shares() {
    let script = under_tix(Path::new(LOAD), "$LOAD shares --threads 2 --seconds 10").unwrap();
    let kernel = harness("kernel", std::env::var("KERNEL").ok().as_deref()).unwrap();
    let mut guest = Guest::new().cpus(2).timeout(3600);
    // By KVM where it runs this kernel. An emulated guest counts instructions: else what else this machine does would show.
    if harness("accel", Some(&kernel)).unwrap() != "KVM" {
        guest = guest.icount(3);
    }
    let reports = guest.run(&script).unwrap();
    let report = reports.get::<Shares>("shares", "").unwrap();
    let shares = report.result;
    bound::shares("shares", &shares, 2).unwrap();
    let came_to = json!({ "largest_relative_error": shares.largest_relative_error });
    let part = format!("kernels/{}/loads_and_holds_shares", report.kernel);
    leave(&part, &came_to).unwrap();
}

#[test]
#[ignore = "boots a guest"]
fn what_does_not_hold_is_told() {
    in_restored_guest("kernels::what_does_not_hold_is_told", Kind::Plain, |c| {
        let (mut tixd, mut hogs) = (None, None);
        c.check("setup: tixd, and two that want all", || {
            tixd = Some(alone::tixd()?);
            tixctl("status")?.ok()?;
            cgroups(&["/a", "/b"])?;
            hogs = Some([Hog::start("/a", &["cpu"])?, Hog::start("/b", &["cpu"])?]);
            Ok(())
        });
        c.check("cpu.max", || {
            write("/a", "cpu.max", "10000 100000")?;
            let held = is_held("cpu.max")?;
            write("/a", "cpu.max", "max")?;
            told("cpu.max", held)
        });
        c.check("cpu.idle", || {
            write("/a", "cpu.idle", "1")?;
            let held = is_held("cpu.idle")?;
            // Beside /b's hundred, and another hundred of base's own threads if they are awake; of
            // all tickets, or of those that are active, as others that sleep may have some.
            let own = if held { 1 } else { 100 };
            let said = tixctl("explain /a")?.ok()?.has(&format!("/a: {own} of "))?;
            let tells = [own + 100, own + 200].iter().any(|all| {
                said.out.contains(&format!(" of {all} tickets"))
                    || said.out.contains(&format!("({all} of them active)"))
            });
            ensure!(tells, "{}", said.out);
            write("/a", "cpu.idle", "0")?;
            told("cpu.idle", held)
        });
        c.check("a currency's limit holds on each", || {
            tixctl("limit /a cpu 10%")?.ok()?;
            ensure!(is_held("the limit")?);
            Ok(())
        });
    });
}

/// Does it keep a from its half?
fn is_held(what: &str) -> Result<bool> {
    let meter = Meter::start(["/a", "/b"])?;
    let had = meter.over(Duration::from_secs(4), Duration::from_secs(60))?;
    let part = had.parts[0];
    eprintln!("       with {what} a has {:.1} %", part * 100.0);
    Ok(part < 0.3)
}

/// By status and by doctor, and only if it does not hold.
fn told(what: &str, held: bool) -> Result<()> {
    let names = |said: Said| {
        said.out
            .lines()
            .any(|l| l.contains(what) && l.contains("tell"))
    };
    ensure!(names(tixctl("status")?.ok()?) != held, "status");
    ensure!(names(tixctl("doctor")?.ok()?) != held, "doctor");
    Ok(())
}
