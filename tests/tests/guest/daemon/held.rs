// SPDX-License-Identifier: GPL-2.0-only
//! What tix says of a share is true: who waits for a limit, or is frozen, is not called idle, and what has no cpu controller is not
//! promised anything.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tix_tests::alone::{self, PATIENCE, ROOT, Tixd, cgroups, file, write};
use tix_tests::daemon::{Checks, Said, currency, tixctl, until};
use tix_tests::daemon_load::used;

use super::limits::Busy;

pub fn all(c: &mut Checks) {
    let mut tixd: Option<Tixd> = None;
    c.check("setup: tixd, alone", || {
        tixd = Some(alone::tixd()?);
        Ok(())
    });
    c.check(
        "who waits for a limit is throttled, by that, until then",
        throttled,
    );
    c.check("what has no cpu controller is told, and comes back", off);
}

/// What `tixctl explain` says, which is never that others' idleness gives more than a limit leaves.
fn explained(name: &str) -> Result<Said> {
    let said = tixctl(&format!("explain {name}"))?.ok()?;
    ensure!(
        !said.out.contains("because others are idle"),
        "{}",
        said.out
    );
    ensure!(!said.out.contains("does not want any"), "{}", said.out);
    Ok(said)
}

/// `explain` comes to say this: it is of one moment, and of a period there are two.
fn comes_to_say(name: &str, words: &str) -> Result<()> {
    until(words, PATIENCE, || Ok(explained(name)?.out.contains(words)))
}

fn throttled() -> Result<()> {
    const AT: &str = "/thr";
    cgroups(&[AT])?;
    let _busy = Busy::start(AT)?;
    until("it runs", PATIENCE, || Ok(used(AT)? > 100_000))?;
    // Nearly always used up.
    write(AT, "cpu.max", "10000 1000000")?;
    comes_to_say(
        AT,
        "now it is throttled: cpu.max of /thr (1 % of one CPU) is used up until its next period begins, in",
    )?;
    until("tree says so", PATIENCE, || {
        Ok(tixctl("tree")?.ok()?.out.contains("/thr (throttled)"))
    })?;
    until("it is told when", PATIENCE, || {
        let reply = tixctl(&format!("explain {AT} --json"))?.ok()?.json()?;
        let refill = reply["limits"][0]["refill_usec"].as_u64();
        ensure!(refill.is_none_or(|usec| usec > 0), "{reply}");
        let throttled = reply["currency"]["cpu"]["throttled"] == true;
        ensure!(
            !throttled || reply["currency"]["cpu"]["share"] == 0.0,
            "{reply}"
        );
        Ok(throttled && refill.is_some())
    })?;

    // A currency's limit, and what a currency is of which a cgroup waits.
    tixctl("create n")?.ok()?;
    tixctl("fund n --from base cpu 300")?.ok()?;
    tixctl("bind n /thr")?.ok()?;
    comes_to_say(
        "n",
        "now it is throttled: it waits for the next period of a limit of what it funds",
    )?;
    write(AT, "cpu.max", "max")?;
    tixctl("limit n cpu 0.9%")?.ok()?;
    comes_to_say(
        AT,
        "now it is throttled: the limit of n (0.9 % of one CPU) is used up",
    )?;
    comes_to_say(
        "n",
        "now it is throttled: the limit of n (0.9 % of one CPU) is used up",
    )?;
    // Not used up, as most of the time, it gets what that leaves.
    tixctl("limit n cpu 60%")?.ok()?;
    comes_to_say(
        "n",
        "now it gets 60.00 %, for the limit of n leaves it no more",
    )?;

    // What the kernel counts is nothing, and that is said.
    tixctl("status")?
        .has("limits      1 in force")?
        .has("cpu.stat")?;
    ensure!(file(AT, "cpu.stat")?.contains("nr_throttled 0"));
    tixctl("unlimit n cpu")?.ok()?;

    write(AT, "cgroup.freeze", "1")?;
    comes_to_say(AT, "now it is frozen (cgroup.freeze)")?;
    tixctl("tree")?.ok()?.has("n (frozen)")?;
    write(AT, "cgroup.freeze", "0")?;
    tixctl("destroy n")?.ok()?;
    Ok(())
}

/// The first of the limits of `m`, and whether its share is held.
fn of_m() -> Result<(Value, bool)> {
    let reply = tixctl("explain m --json")?.ok()?.json()?;
    Ok((reply["limits"][0].clone(), reply["not_held"].is_null()))
}

fn off() -> Result<()> {
    const SWITCH: &str = "/sys/fs/cgroup/off/cgroup.subtree_control";
    cgroups(&["/off"])?;
    write("/off", "cgroup.subtree_control", "+cpu")?;
    cgroups(&["/off/b"])?;
    tixctl("create m")?.ok()?;
    tixctl("fund m --from base cpu 300")?.ok()?;
    tixctl("bind m /off/b")?.ok()?;
    tixctl("limit m cpu 10%")?.ok()?;
    let _busy = Busy::start("/off/b")?;
    let (limit, held) = of_m()?;
    ensure!(held && limit["in_force"] == true, "{limit}");

    write("/off", "cgroup.subtree_control", "-cpu")?;
    until("it is seen", PATIENCE, || Ok(currency("/off/b")?.is_none()))?;
    let said = tixctl("explain m")?
        .ok()?
        .has("m would be entitled to")?
        .has("but nothing holds that now: what m holds has no effect in /off/b")?
        .has(&format!("the cpu controller is off in {SWITCH}"))?
        .has("Limited to 10 % of one CPU by the limit of m; that does not hold now")?
        .has(&format!("`echo +cpu > {SWITCH}`"))?;
    ensure!(!said.out.contains("does not want any"), "{}", said.out);
    let (limit, held) = of_m()?;
    ensure!(!held && limit["in_force"] == false, "{limit}");
    let limited = tixctl("limit m cpu 10%")?.ok()?;
    ensure!(
        limited.err.contains("nothing holds it now: what m holds"),
        "{limited:?}"
    );
    tixctl("tree")?.ok()?.has("m (not in force)")?;
    tixctl("status")?
        .has("what is bound to, funds or limits /off/b has no effect there")?
        .has(&format!("`echo +cpu > {SWITCH}`"))?;
    tixctl("explain /off/b")?.refused(&["with the cpu controller"])?;

    // As the hint says.
    fs::write(SWITCH, "+cpu").context("switch it on")?;
    until("it is in force again", PATIENCE, || {
        let (limit, held) = of_m()?;
        Ok(held && limit["in_force"] == true)
    })?;
    let bound = currency("m")?.context("there is no m")?;
    ensure!(
        bound["cgroup"] == "/off/b" && bound["not_held"].is_null(),
        "{bound}"
    );
    until("its limit is reached", PATIENCE, || {
        Ok(of_m()?.0["throttled_periods"].as_u64() > Some(3))
    })?;
    ensure!(!tixctl("status")?.out.contains("has no effect"));
    ensure!(Path::new(ROOT).join("off/b").exists());
    tixctl("destroy m")?.ok()?;
    Ok(())
}
