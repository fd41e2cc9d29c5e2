// SPDX-License-Identifier: GPL-2.0-only
//! The ready-made policy of a login server, and what changing it does.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tix_tests::daemon::{currency, sh, tickets, tixctl, until, wait};
use tix_tests::daemon_load::{Hog, Meter};
use tix_tests::guest::tree;
use tix_tests::shell::Shell;

use super::users::{ALICE, BOB};

const DIR: &str = "/etc/tix/policies.d";
const FILE: &str = "/etc/tix/policies.d/login-server.toml";
const CAROL: &str = "/user.slice/user-1002.slice";
const SOON: Duration = Duration::from_secs(30);
const TIME: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(120);

/// What funds the user `uid` now: from the policy's currency for users.
fn funded(uid: u32, amount: u64) -> Result<bool> {
    let has = |c: Value| c["funding"].to_string().contains("users");
    let name = format!("user-{uid}");
    Ok(currency(&name)?.is_some_and(has) && tickets(&name, "users")? == amount)
}

fn reload() -> Result<()> {
    sh("systemctl reload tixd")?.ok().map(drop)
}

/// alice is of the staff, bob is not, and carol, who is not either, logs in later.
pub fn decided() -> Result<()> {
    sh("usermod -aG staff alice")?.ok()?;
    fs::create_dir_all(DIR)?;
    fs::copy(tree().join("policies/login-server.toml"), FILE)?;
    let said = sh(&format!("tixd --check-policies {DIR}"))?.ok()?;
    said.has("user-1000")?;
    reload()?;
    for (uid, slice, amount) in [(1000, ALICE, 300), (1001, BOB, 100)] {
        until("the user is decided upon", SOON, || funded(uid, amount))?;
        let name = format!("user-{uid}");
        let c = currency(&name)?.context("gone")?;
        ensure!(c["owner"] == uid && c["cgroup"] == slice, "{c}");
        let place = currency(slice)?.context("gone")?;
        let first = &place["funding"][0];
        ensure!(
            first["from"] == name.as_str() && first["amount"] == 100,
            "{place}"
        );
    }
    sh("useradd -m -u 1002 carol")?.ok()?;
    sh("loginctl enable-linger carol")?.ok()?;
    let c = wait("carol is decided upon at login", SOON, || {
        Ok(currency("user-1002")?.filter(|c| c["cgroup"] == CAROL))
    })?;
    ensure!(c["owner"] == 1002 && funded(1002, 100)?, "{c}");
    sh("loginctl disable-linger carol")?.ok()?;
    sh("loginctl terminate-user carol")?.ok()?;
    Ok(())
}

/// What sudo runs in alice's session is paid by alice.
pub fn sudo(alice: &mut Shell) -> Result<()> {
    fs::write("/etc/sudoers.d/alice", "alice ALL=(ALL) NOPASSWD: ALL\n")?;
    let said = alice.types("sudo sh -c 'id -u; cut -d: -f3 /proc/self/cgroup'")?;
    let said = said.ok()?.has(&format!("{ALICE}/"))?;
    ensure!(said.out.starts_with("0\n"), "not root: {}", said.out);
    let tree = alice.types("sudo tixctl explain user-1000.slice")?;
    tree.ok()?.has("user-1000")?;
    Ok(())
}

/// alice's hog is root's by sudo, and has alice's share: three times bob's. Then the policy changes.
pub fn changed(alice: &mut Shell) -> Result<()> {
    let hog = "sudo sh -c 'echo $$ >/run/hog.pid; while :; do :; done' &";
    alice.types(hog)?.ok()?;
    let bobs = Hog::start("bob", "hog")?;
    until("alice's runs", SOON, || {
        Ok(fs::metadata("/run/hog.pid").is_ok())
    })?;
    let meter = Meter::start([ALICE, BOB])?;
    meter.over(TIME, LONG)?.due("alice's, by sudo", 0, 0.75)?;

    let text = fs::read_to_string(FILE)?;
    let staff = "fund = [{ from = \"users\", cpu = 300, disk = 300 }]";
    ensure!(text.contains(staff), "the policy has another line by now");
    // A mistake is refused, and what was in force stays.
    fs::write(
        FILE,
        text.replace(staff, "fund = [{ from = \"users\", gold = 300 }]"),
    )?;
    reload()?;
    until("status says the mistake", SOON, || {
        let status = tixctl("status")?.ok()?;
        Ok(status.out.contains("gold") && status.out.contains("login-server.toml"))
    })?;
    ensure!(funded(1000, 300)?, "a mistake changed something");
    fs::write(
        FILE,
        text.replace(
            staff,
            "fund = [{ from = \"users\", cpu = 100, disk = 100 }]",
        ),
    )?;
    reload()?;
    until("alice has less", SOON, || funded(1000, 100))?;
    let meter = Meter::start([ALICE, BOB])?;
    meter.over(TIME, LONG)?.due("alice's, as bob's", 0, 0.5)?;
    alice.types("sudo kill -KILL $(cat /run/hog.pid)")?.ok()?;
    drop(bobs);

    let status = alice.types("tixctl status")?.ok()?;
    for word in [
        "notice",
        "user-1000 holds 100 cpu tickets of users",
        "policy",
    ] {
        ensure!(status.out.contains(word), "no {word} in {}", status.out);
    }
    let log = tixctl("log --json -n 1000")?.ok()?.json()?;
    let records = log["records"].as_array().context("no records")?;
    let told = |kind: &str, text: &str| {
        let of = |r: &&Value| r["kind"] == kind && r["message"].to_string().contains(text);
        records.iter().any(|r| of(&r))
    };
    ensure!(told("policy", "is in force"), "{log}");
    ensure!(
        told("policy", "mistakes: what was in force stays so"),
        "{log}"
    );
    ensure!(told("unfund", "user-1000 holds 100 cpu tickets"), "{log}");
    let mine = alice.types("tixctl log --mine --json")?.ok()?;
    ensure!(mine.json()?["records"] != json!([]), "nothing is hers");
    Ok(())
}
