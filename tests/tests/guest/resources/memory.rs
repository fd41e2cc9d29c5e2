// SPDX-License-Identifier: GPL-2.0-only
//! Guarantees of memory.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Checks, currency, read, soak, tixctl, until};

use tix_tests::alone::{ROOT, Tixd, cgroups, number, tixd as start, write};
use tix_tests::hold::memory::{self, FOUR, GUARANTEED};

const SOON: Duration = Duration::from_secs(60);
pub fn all(c: &mut Checks) {
    let mut tixd = None;
    c.check("setup: install and start", || {
        tixd = Some(start()?);
        memory::setup()
    });
    c.check("setup: hard tickets are memory.min, covered above", reserve);
    c.check("Figure 7, guaranteed memory is never taken", figure_7);
    c.check("what others write instead is corrected", corrected);
    c.check("what others write while tixd is away, too", || {
        tixd.take().context("no tixd")?.signal("KILL")?;
        write("/mem", "memory.min", "0")?;
        tixd = Some(Tixd::start()?);
        until("it is again what tix guarantees", SOON, || {
            Ok(number("/mem", "memory.min")? == GUARANTEED.iter().sum::<u64>())
        })
    });
    c.check("who writes again and again does not fill the log", || {
        let said = || -> Result<usize> {
            let log = tixctl("log --json")?.ok()?;
            Ok(log.out.matches("memory.min of /mem/b was set to").count())
        };
        ensure!(said()? == 0);
        for _ in 0..1_000 {
            write("/mem/b", "memory.min", "0")?;
        }
        until("it is again what tix guarantees", SOON, || {
            Ok(number("/mem/b", "memory.min")? == GUARANTEED[1])
        })?;
        // Once a minute: emulated, the writing may have taken as long.
        let said = said()?;
        ensure!((1..=5).contains(&said), "said {said} times");
        Ok(())
    });
    c.check("a part of a guarantee, and soft tickets of it", parts);
    c.check("what is more than there is, is refused", || {
        tixctl("reserve a --from base memory 100G")?.refused(&["memory"])?;
        Ok(())
    });
    c.check("tree shows what is in force and used", || {
        let a = currency("/mem/a")?.context("no a")?;
        ensure!(a["memory"]["min_bytes"] == GUARANTEED[0], "{a}");
        ensure!(a["memory"]["used_bytes"].as_u64().is_some(), "{a}");
        tixctl("tree -r memory")?.ok()?.has("40 MiB")?;
        Ok(())
    });
    c.check("taken back, nothing is left of it", || {
        for name in ["a", "b"] {
            tixctl(&format!("destroy {name}"))?.ok()?;
        }
        for path in ["/mem", "/mem/a", "/mem/b"] {
            until("nothing", SOON, || Ok(number(path, "memory.min")? == 0))?;
        }
        Ok(())
    });
    let crowd = "ten thousand cgroups cost nothing at rest";
    if soak() {
        c.check(crowd, || at_rest(tixd.as_ref().context("no tixd")?));
    } else {
        c.skip(crowd, "to make them takes minutes: make soak-cgroups");
    }
}

fn reserve() -> Result<()> {
    memory::reserve()?;
    ensure!(number("/mem", "memory.min")? == GUARANTEED.iter().sum::<u64>());
    for path in &FOUR[2..] {
        ensure!(number(path, "memory.min")? == 0 && number(path, "memory.low")? == 0);
    }
    ensure!(number("/mem/a", "memory.low")? == 0);
    Ok(())
}

fn figure_7() -> Result<()> {
    let samples = memory::figure_7(Duration::from_secs(30))?;
    let least = |n: usize| samples.iter().map(|s| s[n]).min().unwrap_or(0);
    let least = [0, 1, 2, 3].map(least);
    eprintln!("at least {:?} MiB", least.map(|n| n >> 20));
    for (least, due) in least.iter().zip(GUARANTEED) {
        // The kernel counts in batches of 64 pages a CPU.
        ensure!(least + (1 << 20) >= due, "{least} of {due}");
    }
    ensure!(
        least[2] < GUARANTEED[1] && least[3] < GUARANTEED[1],
        "{least:?}"
    );
    Ok(())
}

fn corrected() -> Result<()> {
    for path in ["/mem/a", "/mem"] {
        let due = number(path, "memory.min")?;
        write(path, "memory.min", "0")?;
        until("it is again what tix guarantees", SOON, || {
            Ok(number(path, "memory.min")? == due)
        })?;
    }
    tixctl("log --json")?
        .ok()?
        .has("memory.min of /mem/a was set to 0")?;
    // What is not tixd's stays what somebody makes it.
    write("/mem/c", "memory.low", "4096")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(number("/mem/c", "memory.low")? == 4096);
    write("/mem/c", "memory.low", "0")
}

fn parts() -> Result<()> {
    for (name, path) in [("c", FOUR[2]), ("d", FOUR[3])] {
        tixctl(&format!("create {name}"))?.ok()?;
        tixctl(&format!("bind {name} {path}"))?.ok()?;
    }
    tixctl("reserve c --from b memory 25%")?.ok()?;
    tixctl("fund d --from b memory 100")?.ok()?;
    // b's cgroup holds 100 soft tickets of b, as d does.
    let quarter = GUARANTEED[1] / 4;
    let page = |a: u64, b: u64| a.abs_diff(b) <= 8192;
    until("they have their parts", SOON, || {
        let rest = (GUARANTEED[1] - quarter) / 2;
        Ok(page(number("/mem/c", "memory.min")?, quarter)
            && page(number("/mem/d", "memory.low")?, rest)
            && number("/mem/d", "memory.min")? == 0
            && page(number("/mem/b", "memory.min")?, rest))
    })?;
    for name in ["c", "d"] {
        tixctl(&format!("destroy {name}"))?.ok()?;
    }
    until("b has it all again", SOON, || {
        Ok(number("/mem/b", "memory.min")? == GUARANTEED[1])
    })
}

/// Some of them with guarantees and with disk tickets of others than their parent, so that there is something to follow.
fn at_rest(tixd: &Tixd) -> Result<()> {
    cgroups(&["/many"])?;
    write("/many", "cgroup.subtree_control", "+cpu +memory")?;
    for n in 0..10_000 {
        std::fs::create_dir(format!("{ROOT}/many/{n}"))?;
    }
    let last = "/many/9999";
    until("all are currencies", Duration::from_secs(300), || {
        Ok(currency(last)?.is_some())
    })?;
    for n in 0..100 {
        tixctl(&format!("reserve /many/{n} --from base memory 1M"))?.ok()?;
    }
    tixctl("fund /many/0 --from base disk 300")?.ok()?;
    until("all is in force", SOON, || {
        Ok(number("/many/99", "memory.min")? == 1 << 20)
    })?;
    let used = || -> Result<u64> {
        let stat = read(&format!("/proc/{}/stat", tixd.id()))?;
        let after = stat.rsplit_once(')').context("no name")?.1;
        // User and system time, hundredths of a second.
        let fields: Vec<&str> = after.split_whitespace().collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    };
    // The first disk ticket gave ten thousand cgroups files of another controller: reading those is no rest.
    until("it is at rest", Duration::from_secs(300), || {
        let before = used()?;
        std::thread::sleep(Duration::from_secs(5));
        Ok(used()? - before < 25)
    })?;
    let (before, began) = (used()?, std::time::Instant::now());
    std::thread::sleep(Duration::from_secs(60));
    let part = (used()? - before) as f64 / 100.0 / began.elapsed().as_secs_f64();
    eprintln!("{:.2} % of a CPU", part * 100.0);
    ensure!(part < 0.01, "{:.2} % of a CPU", part * 100.0);
    Ok(())
}
