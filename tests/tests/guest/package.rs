// SPDX-License-Identifier: GPL-2.0-only
//! The Debian package as people meet it: installed, exchanged for a newer one while tixd is asked, removed and purged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::daemon::{
    Kind, Said, enabled_so_often, in_force, in_guest, is_guest, read, run, sh, tickets, tixctl,
    until,
};
use tix_tests::guest::tree;

use crate::daemon::service::{Asked, PATIENCE, pid};

/// What `systemd-analyze security` may say of tixd.service at most; 10 is no protection at all.
const EXPOSED: f64 = 3.0;
/// What comes after this tree's version, and before the next one's.
const NEWER: &str = "+newer";

#[test]
#[ignore = "boots a guest"]
fn package() {
    if !is_guest() {
        make().unwrap_or_else(|e| panic!("{e:#}"));
    }
    in_guest("package::package", Kind::Systemd, |c| {
        c.check(
            "setup: installed by apt-get, and in force at once",
            installed,
        );
        c.check("manual pages, completions and policies", files);
        c.check("tixd.service is confined", confined);
        c.check("a group may read, and only read", readers);
        c.check("who asks a tixd that is stopped has it started", asked);
        c.check("exchanged for a newer one while it is asked", upgraded);
        c.check(
            "removed: the kernel's own scheduler, weights and guarantees as they were, and the ledger stays",
            removed,
        );
        c.check("purged: nothing is left", purged);
    });
}

fn packages() -> PathBuf {
    tree().join("target/deb")
}

/// The package of this tree; and the same under a higher version, not compressed, so that it costs nothing.
fn make() -> Result<()> {
    // Without a second package of symbols for debuggers, which takes longest and is not looked at here.
    let mut deb = Command::new("make");
    deb.arg("deb").env("DEB_BUILD_OPTIONS", "noautodbgsym");
    run(deb.current_dir(tree()))?.ok()?;
    let newer = packages().join("newer");
    let dpkg_deb = |arguments: &[&str], paths: &[&Path]| -> Result<()> {
        run(Command::new("dpkg-deb").args(arguments).args(paths))?.ok()?;
        Ok(())
    };
    dpkg_deb(&["--raw-extract"], &[&this()?, &newer])?;
    let control = newer.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control)?;
    let version = text.lines().find(|l| l.starts_with("Version: "));
    let version = version.context("a package without a version")?;
    std::fs::write(
        &control,
        text.replace(version, &format!("{version}{NEWER}")),
    )?;
    dpkg_deb(
        &["-Znone", "--root-owner-group", "--build"],
        &[&newer, &packages().join("newer.deb")],
    )
}

/// The package that `make deb` made.
fn this() -> Result<PathBuf> {
    for entry in std::fs::read_dir(packages())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("tix_") && name.ends_with(".deb") {
            return Ok(path);
        }
    }
    anyhow::bail!("make deb left no package in {}", packages().display())
}

fn dpkg(what: &str, package: &Path) -> Result<Said> {
    run(Command::new("dpkg").arg(what).arg(package))?.ok()
}

fn version() -> Result<String> {
    Ok(sh("dpkg-query -W -f ${Version} tix")?.ok()?.out)
}

/// apt-get sees to it that Debian 13 has what it depends on.
fn installed() -> Result<()> {
    let mut apt = Command::new("apt-get");
    run(apt.args(["-qy", "install"]).arg(this()?))?.ok()?;
    ensure!(in_force(), "installed, and not in force");
    for unit in ["tixd.service", "tixd.socket", "tixd-root.socket"] {
        sh(&format!("systemctl is-active {unit}"))?.ok()?;
        sh(&format!("systemctl is-enabled {unit}"))?.ok()?;
    }
    tixctl("status")?.ok()?.has("scheduler is in force")?;
    let status = tixctl("status --json")?.ok()?.json()?;
    ensure!(status["tixd"]["problems"] == json!([]), "{status}");
    Ok(())
}

fn files() -> Result<()> {
    for page in [
        "man1/tixctl.1.gz",
        "man1/tixctl-fund.1.gz",
        "man1/tixctl-exchange-show.1.gz",
        "man1/tix-negotiate.1.gz",
        "man8/tixd.8.gz",
    ] {
        sh(&format!("gzip -dc /usr/share/man/{page}"))?
            .ok()?
            .has(".SH NAME")?;
    }
    for program in ["tixctl", "tixd", "tix-negotiate"] {
        let bash = format!("/usr/share/bash-completion/completions/{program}");
        let line = format!(". {bash} && complete -p {program}");
        run(Command::new("bash").args(["-c", &line]))?.ok()?;
        for file in [
            format!("zsh/vendor-completions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
        ] {
            ensure!(
                read(&format!("/usr/share/{file}"))?.contains(program),
                "{file}"
            );
        }
    }
    sh("stat -c %a:%U:%F /etc/tix/policies.d")?
        .ok()?
        .has("755:root:directory")?;
    Ok(())
}

fn confined() -> Result<()> {
    let said = sh("systemd-analyze security --no-pager tixd.service")?.ok()?;
    let overall = said.out.lines().find(|l| l.contains("Overall exposure"));
    let overall = overall.with_context(|| format!("no result in {}", said.out))?;
    let mut words = overall.split_whitespace().filter_map(|w| w.parse().ok());
    let exposed: f64 = words.next().with_context(|| overall.to_owned())?;
    eprintln!("       exposure: {exposed}");
    ensure!(exposed < EXPOSED, "{overall}");
    Ok(())
}

fn readers() -> Result<()> {
    let alice = |line: &str| sh(&format!("runuser -u alice -- tixctl {line}"));
    tixctl("create roots")?.ok()?;
    let log = |word: bool| -> Result<()> {
        let said = alice("log roots")?.ok()?;
        ensure!(
            said.out.contains("roots") == word,
            "alice reads {}",
            said.out
        );
        Ok(())
    };
    log(false)?;
    alice("export")?.refused(&["export", "group"])?;
    sh("usermod -aG tix alice")?.ok()?;
    log(true)?;
    alice("export")?.ok()?.has("roots")?;
    alice("top --once --json --processes")?
        .ok()?
        .has("\"uid\":0")?;
    alice("destroy roots")?.refused(&["roots"])?;
    alice("import --dry-run /dev/null")?.refused(&["import"])?;
    sh("gpasswd -d alice tix")?.ok()?;
    alice("export")?.refused(&["export"])?;
    tixctl("destroy roots")?.ok()?;
    Ok(())
}

fn asked() -> Result<()> {
    let seq = enabled_so_often()?;
    for asks in ["tixctl tree", "runuser -u bob -- tixctl tree"] {
        sh("systemctl stop tixd.service")?.ok()?;
        ensure!(in_force(), "tixd took the scheduler along");
        sh(asks)?.ok()?;
        sh("systemctl is-active tixd.service")?.ok()?;
    }
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    Ok(())
}

fn upgraded() -> Result<()> {
    tixctl("create diary")?.ok()?;
    let (before, seq, old) = (version()?, enabled_so_often()?, pid()?);
    let (over, asked) = (AtomicBool::new(false), Asked::default());
    let yes = || asked.yes();
    std::thread::scope(|s| -> Result<()> {
        let asks = s.spawn(|| asked.until(&over));
        let exchange = || -> Result<()> {
            until("requests are answered", PATIENCE, || Ok(yes() > 0))?;
            dpkg("-i", &packages().join("newer.deb"))?;
            let then = yes();
            until("requests are answered again", PATIENCE, || Ok(yes() > then))
        };
        let done = exchange();
        over.store(true, Ordering::SeqCst);
        asks.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        done
    })?;
    let open = asked.open();
    eprintln!("       {} acknowledged, {open} without an answer", yes());
    ensure!(version()? == format!("{before}{NEWER}"), "{}", version()?);
    ensure!(pid()? != old, "the old tixd still runs");
    ensure!(enabled_so_often()? == seq, "the scheduler was loaded anew");
    // tixd ended once, so at most one request was under way.
    ensure!(open <= 1, "{open} requests had no answer");
    let has = tickets("diary", "base")?;
    ensure!(
        (yes()..=yes() + open).contains(&has),
        "{} were acknowledged, {has} are there",
        yes()
    );
    tixctl("status")?.ok()?;
    Ok(())
}

/// What tix has put into the kernel, and what it runs in.
const OUTSIDE: [&str; 3] = [
    "/run/tix",
    "/sys/fs/bpf/tix",
    "/sys/fs/cgroup/system.slice/tixd.service",
];

fn gone(paths: &[&str]) -> Result<()> {
    for path in paths {
        ensure!(!Path::new(path).exists(), "{path} is left");
    }
    Ok(())
}

/// A cgroup that systemd owns, and what its files say without tix.
const SLICE: &str = "/user.slice/user-1000.slice";
const WITHOUT: [(&str, &str); 2] = [("io.weight", "default 100"), ("memory.min", "0")];

fn says(file: &str) -> Result<String> {
    read(&format!("/sys/fs/cgroup{SLICE}/{file}"))
}

fn removed() -> Result<()> {
    let has = tickets("diary", "base")?;
    let differs = || -> Result<bool> {
        let mut all = WITHOUT.iter();
        all.try_fold(true, |so, (file, was)| Ok(so && says(file)? != *was))
    };
    tixctl(&format!("fund {SLICE} --from base disk 300"))?.ok()?;
    tixctl(&format!("reserve {SLICE} --from base memory 64M"))?.ok()?;
    until("tixd has written that", PATIENCE, differs)?;
    dpkg("-r", Path::new("tix"))?;
    for (file, was) in WITHOUT {
        ensure!(says(file)? == was, "{file} says {}", says(file)?);
    }
    for (property, was) in [("IOWeight", "100"), ("MemoryMin", "0")] {
        let known = sh(&format!("systemctl show -P {property} user-1000.slice"))?.ok()?;
        ensure!(known.out.trim() == was, "{property} is {}", known.out);
    }
    ensure!(read("/sys/kernel/sched_ext/state")? == "disabled");
    gone(&OUTSIDE)?;
    ensure!(Path::new("/var/lib/tix").is_dir(), "the ledger is gone");
    // It is a ledger still.
    dpkg("-i", &packages().join("newer.deb"))?;
    ensure!(in_force(), "installed again, and not in force");
    ensure!(tickets("diary", "base")? == has, "not the ledger it was");
    until("tixd has written that again", PATIENCE, differs)?;
    Ok(())
}

fn purged() -> Result<()> {
    let files = sh("dpkg -L tix")?.ok()?.out;
    let files: Vec<&str> = files.lines().filter(|f| !Path::new(f).is_dir()).collect();
    ensure!(files.len() > 50, "{files:?}");
    std::fs::write("/etc/tix/policies.d/mine.toml", "")?;
    dpkg("-P", Path::new("tix"))?;
    ensure!(read("/sys/kernel/sched_ext/state")? == "disabled");
    gone(&files)?;
    gone(&OUTSIDE)?;
    gone(&[
        "/var/lib/tix",
        "/etc/tix",
        "/usr/share/tix",
        "/usr/share/doc/tix",
    ])?;
    // Links to its units, and what Debian remembers of them; what systemd was told of units until the next boot.
    let find = "find /etc/systemd /var/lib/systemd /run/systemd/system.control -name *tixd*";
    let left = sh(find)?.out;
    ensure!(left.is_empty(), "left: {left}");
    until("systemd forgets tixd", Duration::from_secs(30), || {
        Ok(sh("systemctl list-units --all --no-legend tixd*")?
            .ok()?
            .out
            .is_empty())
    })
}
