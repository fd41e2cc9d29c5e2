// SPDX-License-Identifier: GPL-2.0-only
//! Shares of a disk.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Checks, currency, sh, tixctl, until};

use tix_tests::alone::{Hog, Tixd, cgroups, file, tixd as start, write};
use tix_tests::hold::disk::{self, FIVE, moved, served};

const SOON: Duration = Duration::from_secs(60);

/// What stands in the files.
pub fn files(c: &mut Checks) {
    let mut tixd = None;
    c.check("setup: install and start", || {
        tixd = Some(start()?);
        cgroups(&["/a", "/b"])
    });
    c.check(
        "setup: nothing holds shares until root says what is to",
        enable,
    );
    c.check("a plain tree is not written to", || {
        ensure!(disk::weight("/a")? == "default 100" && disk::weight("/b")? == "default 100");
        Ok(())
    });
    c.check("what others write is funding", || {
        tixctl("fund /a --from base disk 200")?.ok()?;
        until("a has 300", SOON, || {
            Ok(disk::weight("/a")? == "default 300")
        })?;
        foreign()
    });
    c.check("a hard half is as much as all others", || {
        tixctl("create half")?.ok()?;
        tixctl("reserve half --from base disk 50%")?.ok()?;
        tixctl("bind half /a")?.ok()?;
        until("as b", SOON, || Ok(disk::weight("/a")? == "default 100"))?;
        cgroups(&["/c", "/d"])?;
        until("as b, c and d", SOON, || {
            Ok(disk::weight("/a")? == "default 300")
        })?;
        tixctl("destroy half")?.ok()?;
        until("its own", SOON, || Ok(disk::weight("/a")? == "default 100"))
    });
    c.check(
        "a killed tixd does not take what it wrote for funding",
        || {
            tixctl("fund /a --from base disk 200")?.ok()?;
            until("a has 300", SOON, || {
                Ok(disk::weight("/a")? == "default 300")
            })?;
            tixd.take().context("no tixd")?.signal("KILL")?;
            tixd = Some(Tixd::start()?);
            ensure!(tickets("/a")? == [100, 200], "{:?}", tickets("/a")?);
            ensure!(disk::weight("/a")? == "default 300");
            tixctl("unfund /a --from base disk")?.ok()?;
            until("a has 100", SOON, || {
                Ok(disk::weight("/a")? == "default 100")
            })
        },
    );
}

/// What the disk does.
pub fn shares(c: &mut Checks) {
    let mut tixd = None;
    let mut without = 0.0;
    c.check("setup: install and start", || {
        tixd = Some(start()?);
        cgroups(&["/a", "/b", "/half", "/w", "/x", "/y", "/z"])
    });
    c.check("what the disk does without weights", || {
        without = disk::without(20)?;
        Ok(())
    });
    c.check("setup: iocost", enable);
    c.check("three to one", || {
        three_to_one()?;
        tixctl("unfund /a --from base disk")?.ok()?;
        Ok(())
    });
    c.check("Figure 8, a hard share of the disk", || figure_8(without));
    c.check("half is half, however many share the rest", follows);
    c.check("taken back, nothing is left of it", taken_back);
    c.check("what is written through the page cache is shared", buffered);
    c.check("disk, CPU and memory at once", super::together::check);
    c.check("BFQ holds shares, too", by_bfq);
}

/// Disk tickets that it has, least first.
fn tickets(path: &str) -> Result<Vec<u64>> {
    let c = currency(path)?.with_context(|| format!("there is no {path}"))?;
    let funding = c["funding"].as_array().context("no funding")?;
    let disk = funding.iter().filter(|f| f["resource"] == "disk");
    let mut all: Vec<u64> = disk.filter_map(|f| f["amount"].as_u64()).collect();
    all.sort_unstable();
    // Of one issuer they are one number.
    if let [sum] = all[..]
        && sum > 100
    {
        all = vec![100, sum - 100];
    }
    Ok(all)
}

fn enable() -> Result<()> {
    let disk = || -> Result<serde_json::Value> {
        let status = tixctl("status --json")?.json()?;
        let disks = status["tixd"]["disks"].as_array().context("no disks")?;
        let vda = disks.iter().find(|d| d["device"] == "vda");
        vda.cloned().context("no vda")
    };
    ensure!(disk()?["mechanism"] == "none", "{}", disk()?);
    tixctl("status")?.has("tixctl disk enable vda")?;
    tixctl("disk enable nothing")?.refused(&["nothing"])?;
    let said = tixctl("disk enable vda --json")?.ok()?.json()?;
    let iops = said["random_iops"].as_u64().context("no iops")?;
    ensure!((85..=115).contains(&iops), "{said}");
    ensure!(disk()?["mechanism"] == "iocost", "{}", disk()?);
    eprintln!("{said}");
    Ok(())
}

/// Each has what is due to it of what all have, but for that part of it.
pub fn as_due(served: &[u64], due: &[f64], allowed: f64) -> Result<()> {
    let all: u64 = served.iter().sum();
    ensure!(
        all > 0 && served.len() == due.len(),
        "{served:?}, due {due:?}"
    );
    let rounds: f64 = due.iter().sum();
    for (n, due) in served.iter().zip(due) {
        let due = due / rounds * all as f64;
        let off = (*n as f64 - due).abs() / due;
        ensure!(off < allowed, "{served:?} is {:.1} % off", off * 100.0);
    }
    eprintln!("{served:?}");
    Ok(())
}

fn three_to_one() -> Result<()> {
    tixctl("fund /a --from base disk 200")?.ok()?;
    until("a has 300", SOON, || {
        Ok(disk::weight("/a")? == "default 300")
    })?;
    ensure!(disk::weight("/b")? == "default 100");
    let _hogs = disk::hogs(&["/a", "/b"])?;
    served(&["/a", "/b"], 5)?;
    as_due(&served(&["/a", "/b"], 30)?, &[3.0, 1.0], 0.05)
}

fn foreign() -> Result<()> {
    write("/b", "io.weight", "500")?;
    until("it is b's funding", SOON, || {
        Ok(tickets("/b")?.iter().sum::<u64>() == 500)
    })?;
    ensure!(disk::weight("/b")? == "default 500" && disk::weight("/a")? == "default 300");
    // Where tixd has written, too: a's own is 200 now, and with what it has besides 400.
    write("/a", "io.weight", "200")?;
    until("a has 400", SOON, || {
        Ok(disk::weight("/a")? == "default 400")
    })?;
    write("/b", "io.weight", "100")?;
    write("/a", "io.weight", "100")?;
    until("a has 300", SOON, || {
        Ok(disk::weight("/a")? == "default 300")
    })?;
    tixctl("unfund /a --from base disk")?.ok()?;
    Ok(())
}

/// `without`: what the same do in a second without weights.
fn figure_8(without: f64) -> Result<()> {
    let seen = disk::figure_8(60)?;
    let of = |n: usize| seen.iter().map(|s| s[n]).sum();
    let served: Vec<u64> = (0..FIVE.len()).map(of).collect();
    as_due(&served, &[4.0, 1.0, 1.0, 1.0, 1.0], 0.05)?;
    let with = served.iter().sum::<u64>() as f64 / 60.0;
    ensure!(with > 0.9 * without, "{with} of {without} requests/s");
    Ok(())
}

fn follows() -> Result<()> {
    let all = ["/half", "/w"];
    let _hogs = disk::hogs(&all)?;
    until("as much as the only other one", SOON, || {
        Ok(disk::weight("/half")? == "default 100")
    })?;
    served(&all, 5)?;
    let served = served(&all, 20)?;
    as_due(&served, &[1.0, 1.0], 0.05)
        .with_context(|| format!("{:?} to {:?}", disk::weight("/half"), disk::weight("/w")))
}

/// Sequential writes are as many bytes a request as the kernel makes of them, so it is bytes that are shared.
fn buffered() -> Result<()> {
    sh("mke2fs -q -t ext4 -O ^has_journal /dev/vda")?.ok()?;
    std::fs::create_dir_all("/run/disk")?;
    sh("mount /dev/vda /run/disk")?.ok()?;
    let both = ["/a", "/b"];
    // Without the memory controller nobody knows whose page it is.
    write("/", "cgroup.subtree_control", "+memory")?;
    tixctl("fund /a --from base disk 200")?.ok()?;
    until("a has 300", SOON, || {
        Ok(disk::weight("/a")? == "default 300")
    })?;
    let hog = |path: &str| {
        let to = format!("/run/disk{path}");
        Hog::start(path, &["write", &to, "--size", "268435456"])
    };
    let hogs = [hog("/a")?, hog("/b")?];
    moved(&both, "wbytes=", 30)?;
    let written = moved(&both, "wbytes=", 60);
    drop(hogs);
    sh("umount /run/disk")?.ok()?;
    as_due(&written?, &[3.0, 1.0], 0.1)?;
    tixctl("unfund /a --from base disk")?.ok()?;
    Ok(())
}

fn by_bfq() -> Result<()> {
    let said = tixctl("disk enable vda --bfq --json")?.ok()?.json()?;
    ensure!(said["mechanism"] == "bfq", "{said}");
    tixctl("status")?.ok()?.has("vda: shares by BFQ")?;
    three_to_one()?;
    ensure!(file("/a", "io.bfq.weight")?.contains("300"));
    tixctl("unfund /a --from base disk")?.ok()?;
    Ok(())
}

fn taken_back() -> Result<()> {
    tixctl("destroy half")?.ok()?;
    for path in ["/a", "/half", "/w"] {
        until("its own", SOON, || Ok(disk::weight(path)? == "default 100"))?;
    }
    Ok(())
}
