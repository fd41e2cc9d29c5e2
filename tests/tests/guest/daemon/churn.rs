// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups come, change and go faster than tixd can see: in the end it knows those that there are, and is no larger for it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tix_tests::alone::{PATIENCE, ROOT, SOCKET, Tixd, problems, program};
use tix_tests::bound;
use tix_tests::daemon::{
    Checks, enabled_so_often, in_force, install, read, soak, tickets, tixctl, until,
};
use tix_tests::load::report::Report;
use tix_tests::load::soak::Outcome;
use tix_tests::results::leave;

/// Of the guest's clock: one instruction is 1 ns, on CPUs that are emulated in turns, as in the guest test `soak::`. With 2 ns what makes the
/// cgroups is too slow for 10,000 a minute beside what looks at them: 6,800.
pub const SHIFT: &str = "0";
const LOG: &str = "/run/tixd.log";
const SAID: &str = "/run/soak.json";
const PINS: &str = "/sys/fs/bpf/tix";
const SYSCTL: &str = "/proc/sys/fs/inotify";

pub fn all(c: &mut Checks) {
    tix_tests::load::sys::set_variable("TIX_SOCKET", SOCKET);
    let mut tixd = None;
    c.check("setup: install and start", || {
        install()?;
        tixd = Some(Tixd::logging(LOG)?);
        fs::create_dir(format!("{ROOT}/keep"))?;
        truth()
    });
    c.check("10,000 cgroups a minute come and go", come_and_go);
    c.check("more notifications than the kernel keeps", || {
        lost(&mut tixd)
    });
    c.check("fewer watches than cgroups", blind);
}

/// Every cgroup that has the cpu controller, but the root.
fn there() -> Result<BTreeSet<String>> {
    fn below(dir: &Path, all: &mut BTreeSet<String>) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
            let path = entry?.path();
            if path.join("cpu.weight").exists() {
                all.insert(path.display().to_string().replacen(ROOT, "", 1));
                below(&path, all)?;
            }
        }
        Ok(())
    }
    let mut all = BTreeSet::new();
    below(Path::new(ROOT), &mut all)?;
    Ok(all)
}

/// The currencies of cgroups are those of the cgroups that there are.
fn truth() -> Result<()> {
    let mut off = Vec::new();
    let known = until("tixd knows all cgroups and no other", PATIENCE, || {
        let tree = tixctl("tree --json")?.ok()?.json()?;
        let list = tree["currencies"].as_array().context("no list")?;
        let names = list.iter().filter_map(|c| c["name"].as_str());
        let told = names.filter(|name| name.starts_with('/') && *name != "/");
        let told: BTreeSet<_> = told.map(str::to_owned).collect();
        off = told.symmetric_difference(&there()?).cloned().collect();
        Ok(off.is_empty())
    });
    known.with_context(|| format!("{} are wrong, such as {:?}", off.len(), off.first()))
}

/// tixd's own memory, bytes.
fn memory() -> Result<u64> {
    let status = tixctl("status --json")?.ok()?.json()?;
    let cost = &status["tixd"]["cost"]["memory_bytes"];
    cost.as_u64().context("no memory_bytes")
}

/// What `tix-load soak` says when it is over; while it runs, `meanwhile` is done again and again.
fn soaked(seconds: u32, threads: u32, mut meanwhile: impl FnMut() -> Result<()>) -> Result<Value> {
    // More than have to come and go: at the end the last ones are still there, and others late, because a CPU was just unplugged.
    let load = format!("--seconds {seconds} --threads {threads} --per-minute 10500");
    let said = File::create(SAID).with_context(|| format!("create {SAID}"))?;
    let mut load = Command::new(program("tix-load")?)
        .args(["--require", "tix", "--shift", SHIFT, "soak", "--pins", PINS])
        .args(load.split(' '))
        .stdin(Stdio::null())
        .stdout(said)
        .spawn()
        .context("start tix-load")?;
    let ended = loop {
        meanwhile()?;
        if let Some(ended) = load.try_wait()? {
            break ended;
        }
    };
    ensure!(ended.success(), "tix-load ended with {ended}");
    serde_json::from_str(&read(SAID)?).context("what tix-load said")
}

/// What holds without tixd (the guest test `soak::`) holds with it, too.
fn judge(soak: &Outcome) -> Result<()> {
    ensure!(
        soak.longest_wait_ms <= bound::STARVED_MS,
        "a thread waited {} ms",
        soak.longest_wait_ms
    );
    ensure!(
        soak.cgroups_per_minute >= 10_000.0,
        "{} cgroups a minute",
        soak.cgroups_per_minute
    );
    // One a second, each of which takes its time.
    ensure!(
        soak.unplugged as f64 > 0.9 * soak.seconds,
        "a CPU was unplugged {} times in {} s",
        soak.unplugged,
        soak.seconds
    );
    let (before, after) = (&soak.after.maps_before, &soak.after.maps_after);
    ensure!(
        before == after,
        "map entries leaked: {before:?}, then {after:?}"
    );
    bound::shares("afterwards", &soak.after.shares, 2)
}

fn come_and_go() -> Result<()> {
    let (seconds, threads) = if soak() { (600, 200) } else { (20, 20) };
    let (seq, before) = (enabled_so_often()?, memory()?);
    let (mut asked, mut slowest) = (0, (Duration::ZERO, ""));
    let mut said = soaked(seconds, threads, || {
        for line in ["status", "tree", "tree --json", "explain /keep", "log"] {
            let start = Instant::now();
            tixctl(line)?.ok()?;
            asked += 1;
            slowest = slowest.max((start.elapsed(), line));
        }
        Ok(())
    })?;
    ensure!(in_force() && enabled_so_often()? == seq);
    truth()?;
    let after = memory()?;
    eprintln!(
        "       {asked} commands answered, tixctl {} in {:.1} s at most; tixd has {:.1} MB, before {:.1} MB",
        slowest.1,
        slowest.0.as_secs_f64(),
        after as f64 / 1e6,
        before as f64 / 1e6
    );
    judge(&Report::<Outcome>::deserialize(&said)?.result)?;
    ensure!(
        slowest.0 < Duration::from_secs(10),
        "tixctl {} took {:?}",
        slowest.1,
        slowest.0
    );
    // What it had at the busiest moment, of which little is given back. If each of 100,000 left 100 bytes, that would be more.
    ensure!(
        after < before + 8_000_000,
        "tixd has {after} bytes, and had {before}"
    );
    ensure!(problems()? == "[]", "{}", problems()?);
    if !soak() {
        return Ok(());
    }
    said["tixd"] = json!({
        "commands": asked,
        "slowest": slowest.1,
        "slowest_s": slowest.0.as_secs_f64(),
        "bytes_before": before,
        "bytes_after": after,
    });
    leave("churn", &said)
}

/// A cgroup that is made, and gets another weight.
fn make(path: &str, weight: u64) -> Result<()> {
    let dir = format!("{ROOT}{path}");
    fs::create_dir(&dir).with_context(|| format!("mkdir {dir}"))?;
    fs::write(format!("{dir}/cpu.weight"), weight.to_string()).with_context(|| dir.clone())
}

fn remove(path: &str) -> Result<()> {
    fs::remove_dir(format!("{ROOT}{path}")).with_context(|| format!("rmdir {path}"))
}

fn limit(what: &str, value: impl std::fmt::Display) -> Result<()> {
    fs::write(format!("{SYSCTL}/{what}"), value.to_string()).with_context(|| what.to_owned())
}

/// The kernel keeps four notifications.
fn lost(tixd: &mut Option<Tixd>) -> Result<()> {
    let kept = read(&format!("{SYSCTL}/max_queued_events"))?;
    limit("max_queued_events", 4)?;
    tixd.take().context("no tixd")?.signal("TERM")?;
    *tixd = Some(Tixd::logging(LOG)?);
    make("/storm", 100)?;
    fs::write(format!("{ROOT}/storm/cgroup.subtree_control"), "+cpu")?;
    let name = |i: u64| format!("/storm/c{i}");
    for i in 0..400 {
        make(&name(i), 100 + i)?;
    }
    for i in (0..400).filter(|i| i % 2 == 1) {
        remove(&name(i))?;
    }
    // Some under the name that another had, which has another weight.
    for i in (0..400).filter(|i| i % 4 == 1) {
        make(&name(i), 1_000 + i)?;
    }
    truth()?;
    for (i, weight) in [(398, 498), (397, 1_397), (1, 1_001)] {
        until("its weight is known", PATIENCE, || {
            Ok(tickets(&name(i), "/storm")? == weight)
        })?;
    }
    let said = read(LOG)?;
    ensure!(said.contains("max_queued_events"), "{said}");
    ensure!(problems()? == "[]", "{}", problems()?);
    for i in (0..400).filter(|i| i % 4 != 3) {
        remove(&name(i))?;
    }
    remove("/storm")?;
    limit("max_queued_events", kept)?;
    truth()
}

/// All but a few of the cgroups that come cannot be watched.
fn blind() -> Result<()> {
    let watches = read(&format!("{SYSCTL}/max_user_watches"))?;
    // The root is watched, too.
    limit("max_user_watches", there()?.len() + 1 + 3)?;
    make("/dark", 100)?;
    fs::write(format!("{ROOT}/dark/cgroup.subtree_control"), "+cpu")?;
    let name = |i: u64| format!("/dark/c{i}");
    let over = AtomicBool::new(false);
    std::thread::scope(|s| -> Result<()> {
        // Something is told all the time.
        let busy = s.spawn(|| -> Result<()> {
            while !over.load(Ordering::SeqCst) {
                fs::write(format!("{ROOT}/keep/cpu.weight"), "100")?;
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(())
        });
        let seen = || -> Result<()> {
            for i in 0..20 {
                make(&name(i), 100 + i)?;
            }
            truth()?;
            fs::write(format!("{ROOT}{}/cpu.weight", name(19)), "777")?;
            remove(&name(18))?;
            truth()?;
            until("the weight is known", PATIENCE, || {
                Ok(tickets(&name(19), "/dark")? == 777)
            })
        };
        let seen = seen();
        over.store(true, Ordering::SeqCst);
        busy.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        seen
    })?;
    tixctl("status")?.ok()?.has("max_user_watches")?;
    ensure!(read(LOG)?.contains("max_user_watches"));
    limit("max_user_watches", watches)?;
    until("there is no problem any longer", PATIENCE, || {
        Ok(problems()? == "[]")
    })?;
    make(&name(18), 555)?;
    truth()?;
    for i in 0..20 {
        remove(&name(i))?;
    }
    remove("/dark")?;
    truth()
}
