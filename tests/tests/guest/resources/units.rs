// SPDX-License-Identifier: GPL-2.0-only
//! Where systemd makes the cgroups: what tixd set is what systemd says, and it stays, whatever systemd does.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Checks, currency, sh, tixctl, until};

use crate::daemon::service;
use tix_tests::alone::{ROOT, file};

const SOON: Duration = Duration::from_secs(30);
const UNIT: &str = "web.service";
const PATH: &str = "/system.slice/web.service";
const BYTES: &str = "67108864";

pub fn all(c: &mut Checks) {
    c.check("setup: install and start", service::start);
    c.check("setup: a service", || {
        let text = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep infinity\n";
        std::fs::write(format!("/etc/systemd/system/{UNIT}"), text)?;
        sh("systemctl daemon-reload")?.ok()?;
        sh(&format!("systemctl start {UNIT}"))?.ok()?;
        tixctl("create web")?.ok()?;
        tixctl(&format!("bind web {UNIT}"))?.ok()?;
        until("it is a currency", SOON, || Ok(currency(PATH)?.is_some()))
    });
    c.check("without disk tickets no weight is set", || {
        ensure!(shown("IOWeight")? == "[not set]", "{}", shown("IOWeight")?);
        ensure!(!std::fs::exists(format!("{}{PATH}/io.weight", ROOT))?);
        Ok(())
    });
    c.check("systemd says what is in force", || {
        tixctl("reserve web --from base memory 64M")?.ok()?;
        tixctl("fund web --from base disk 300")?.ok()?;
        in_force()?;
        until("systemd says so", SOON, || {
            Ok(shown("MemoryMin")? == BYTES && shown("IOWeight")? == weight()?)
        })?;
        ensure!(file("/system.slice", "memory.min")? == BYTES);
        tixctl("status")?.ok()?;
        let status = tixctl("status --json")?.ok()?.json()?;
        let problems = &status["tixd"]["problems"];
        ensure!(*problems == serde_json::json!([]), "{problems}");
        Ok(())
    });
    c.check("after daemon-reload", || {
        sh("systemctl daemon-reload")?.ok()?;
        in_force()
    });
    c.check("after a restart of the unit", || {
        for _ in 0..3 {
            sh(&format!("systemctl restart {UNIT}"))?.ok()?;
            in_force()?;
        }
        Ok(())
    });
    c.check("restarts of the unit are no news", || {
        // systemd sets what it knows of the slice whenever it makes the unit's cgroup.
        for _ in 0..30 {
            sh(&format!("systemctl restart {UNIT}"))?.ok()?;
        }
        in_force()?;
        let said = sh("journalctl -u tixd -o cat --no-pager")?.ok()?.out;
        let news: Vec<&str> = said.lines().filter(|l| l.contains("was set to")).collect();
        ensure!(news.is_empty(), "{news:?}");
        Ok(())
    });
    c.check("after an administrator's set-property", || {
        sh(&format!("systemctl set-property {UNIT} MemoryMin=1M"))?.ok()?;
        in_force()?;
        until("systemd says so", SOON, || Ok(shown("MemoryMin")? == BYTES))?;
        sh("systemctl daemon-reload")?.ok()?;
        in_force()
    });
    c.check("a weight that an administrator sets is funding", || {
        let before = weight()?;
        sh("systemctl set-property --runtime user.slice IOWeight=200")?.ok()?;
        until("user.slice is funded with it", SOON, || {
            has_disk_tickets("/user.slice", 200)
        })?;
        eprintln!("{before} before, {} now", weight()?);
        in_force()
    });
    c.check("taken back, nothing is left of it", || {
        tixctl("destroy web")?.ok()?;
        // But what the administrator set meanwhile.
        until("the administrator's guarantee", SOON, || {
            let own = (1 << 20).to_string();
            Ok(file(PATH, "memory.min")? == own && shown("MemoryMin")? == own)
        })?;
        let covers = until("nothing covers it", SOON, || {
            Ok(file("/system.slice", "memory.min")? == "0")
        });
        covers.with_context(|| format!("it is {:?}", file("/system.slice", "memory.min")))
    });
    c.check("a container's cgroups below a delegated one", delegated);
}

/// As podman does it: the runtime's own process in a leaf, and its containers, by crun, beside that.
fn delegated() -> Result<()> {
    // With Type=exec it is there, and systemd puts it nowhere any more.
    sh("systemd-run -q --unit box -p Type=exec -p Delegate=yes /bin/sleep infinity")?.ok()?;
    let top = "/system.slice/box.service";
    let leaf = format!("{ROOT}{top}/runtime");
    std::fs::create_dir(&leaf)?;
    for pid in file(top, "cgroup.procs")?.split_whitespace() {
        std::fs::write(format!("{leaf}/cgroup.procs"), pid)?;
    }
    let container = format!("{top}/container");
    bundle("/run/box", &container)?;
    // It hands on what it has to the container, which stays.
    let said = std::fs::File::create("/run/box/said")?;
    let made = Command::new("crun")
        .args([
            "--cgroup-manager=cgroupfs",
            "run",
            "--detach",
            "--bundle",
            "/run/box",
            "box1",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .status()?;
    let said = std::fs::read_to_string("/run/box/said")?;
    ensure!(made.success(), "crun: {said}");
    ensure!(
        !file(&container, "cgroup.procs")?.is_empty(),
        "nobody is in it"
    );
    until("its weight is its funding", SOON, || {
        has_disk_tickets(&container, 300)
    })?;
    tixctl(&format!("reserve {container} --from base memory 8M"))?.ok()?;
    let min = |wanted: &str| {
        until("its guarantee", SOON, || {
            Ok(file(&container, "memory.min")? == wanted)
        })
    };
    min("8388608")?;
    // What the runtime guaranteed is there again afterwards.
    tixctl(&format!("unreserve {container} --from base memory"))?.ok()?;
    min("4194304")?;
    sh("crun --cgroup-manager=cgroupfs delete --force box1")?.ok()?;
    until("it goes with its container", SOON, || {
        Ok(currency(&container)?.is_none())
    })?;
    sh("systemctl stop box")?.ok()?;
    Ok(())
}

/// A container's root that has this guest's programs once `/usr` is mounted there.
pub fn root_of_container(root: &str) -> Result<()> {
    for inside in ["dev", "proc", "usr"] {
        std::fs::create_dir_all(format!("{root}/{inside}"))?;
    }
    for link in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), format!("{root}/{link}"))?;
    }
    Ok(())
}

/// What crun is to run in that cgroup, which it makes: a sleep in a root of its own, with a weight and a guarantee.
fn bundle(dir: &str, cgroup: &str) -> Result<()> {
    root_of_container(&format!("{dir}/root"))?;
    let config = serde_json::json!({
        "ociVersion": "1.0.0",
        "root": { "path": "root" },
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "cwd": "/",
            "args": ["/bin/sleep", "infinity"],
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"] },
        ],
        "linux": {
            "namespaces": [{ "type": "pid" }, { "type": "mount" }],
            "cgroupsPath": cgroup,
            "resources": { "unified": { "io.weight": "300", "memory.min": "4194304" } },
        },
    });
    std::fs::write(format!("{dir}/config.json"), config.to_string())?;
    Ok(())
}

pub fn has_disk_tickets(path: &str, amount: u64) -> Result<bool> {
    let funding = currency(path)?.and_then(|c| c["funding"].as_array().cloned());
    let is = |t: &serde_json::Value| t["resource"] == "disk" && t["amount"] == amount;
    Ok(funding.is_some_and(|f| f.iter().any(is)))
}

fn shown(property: &str) -> Result<String> {
    let said = sh(&format!("systemctl show -P {property} {UNIT}"))?.ok()?;
    Ok(said.out.trim().to_owned())
}

/// Without the word in front of it.
fn weight() -> Result<String> {
    let text = file(PATH, "io.weight")?;
    Ok(text.trim_start_matches("default ").to_owned())
}

/// Both as tixd has them, soon.
fn in_force() -> Result<()> {
    let began = std::time::Instant::now();
    until("it is in force", SOON, || {
        let min = file(PATH, "memory.min").unwrap_or_default();
        let weight = weight().unwrap_or_default();
        Ok(min == BYTES && weight.parse::<u64>().is_ok_and(|w| w > 100))
    })?;
    eprintln!("in force after {:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
