// SPDX-License-Identifier: GPL-2.0-only
//! What `tixctl run` and `nice` change in the cgroup tree for a job, on a machine without systemd,
//! and that nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tix_tests::alone::{PATIENCE, ROOT, file, write};
use tix_tests::daemon::{currency, run, sh, tixctl, until, wait};

use super::plain::{UID, user};

/// What a job could leave in a cgroup that others are in, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    kind: String,
    gives: String,
    children: BTreeSet<String>,
}

impl Place {
    pub fn of(path: &str) -> Result<Place> {
        let mut children = BTreeSet::new();
        for entry in fs::read_dir(format!("{ROOT}{path}")).with_context(|| path.to_owned())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                children.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(Place {
            // The root has none.
            kind: file(path, "cgroup.type").unwrap_or_default(),
            gives: file(path, "cgroup.subtree_control")?,
            children,
        })
    }

    /// Waits until `path` is as it was.
    pub fn is_back(&self, path: &str) -> Result<()> {
        let back = until("the place is as before", PATIENCE, || {
            Ok(Place::of(path)? == *self)
        });
        back.with_context(|| format!("{path}: {self:?} before, {:?} now", Place::of(path)))
    }
}

/// A command line that goes on, of this user in this cgroup.
fn start(place: &str, uid: u32, line: &str) -> Result<Child> {
    let enter = format!("echo 0 >{ROOT}{place}/cgroup.procs && exec \"$@\"");
    let id = uid.to_string();
    let mut command = Command::new("sh");
    command
        .args(["-c", &enter, "sh", "setpriv", "--reuid", &id])
        .args(["--regid", &id, "--clear-groups", "sh", "-c", line])
        .stdin(Stdio::null());
    command.spawn().with_context(|| line.to_owned())
}

/// What is in the cgroups of jobs in `path`, once there are so many and each has a command in it.
fn jobs(path: &str, count: usize) -> Result<Vec<String>> {
    let of = || -> Result<Vec<String>> {
        let names = Place::of(path)?.children.into_iter();
        let names = names.filter(|name| name.starts_with("tix-run-"));
        let paths = names.map(|name| format!("{}/{name}", path.trim_end_matches('/')));
        // It may have ended meanwhile.
        let populated = |path: &String| {
            file(path, "cgroup.events").is_ok_and(|text| text.contains("populated 1"))
        };
        Ok(paths.filter(populated).collect())
    };
    wait(&format!("{count} jobs in {path}"), PATIENCE, || {
        let found = of()?;
        Ok((found.len() == count).then_some(found))
    })
}

/// Kills all that is in a cgroup of ours.
fn kill(path: &str) -> Result<()> {
    write(path, "cgroup.kill", "1")
}

/// Can a process be put into a new cgroup in `path`?
fn has_room(path: &str) -> Result<bool> {
    let beside = format!("{}/beside", path.trim_end_matches('/'));
    fs::create_dir(format!("{ROOT}{beside}"))?;
    let mut sleeper = Command::new("sleep").arg("1000").spawn()?;
    let put = fs::write(
        format!("{ROOT}{beside}/cgroup.procs"),
        sleeper.id().to_string(),
    );
    sleeper.kill()?;
    sleeper.wait()?;
    until("who was in it is gone", PATIENCE, || {
        Ok(fs::remove_dir(format!("{ROOT}{beside}")).is_ok())
    })?;
    match put {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(e) => bail!("{beside}: {e}"),
    }
}

/// Where the user's shell has a child of the place for itself, and where it has not; and where root
/// is.
const PLACES: [(&str, &str, u32, &str); 3] = [
    ("/home", "/home/shell", UID, ""),
    ("/office", "/office", UID, "--threaded"),
    ("/", "/", 0, ""),
];

/// A place of the user's with a process in it, whoever comes and goes.
pub fn office() -> Result<()> {
    fs::create_dir(format!("{ROOT}/office"))?;
    sh(&format!("chown -R {UID} {ROOT}/office"))?.ok()?;
    let mut clerk = start("/office", UID, "exec sleep 100000")?;
    until("the clerk is there", PATIENCE, || {
        Ok(!file("/office", "cgroup.procs")?.is_empty())
    })?;
    // It stays until `closed`.
    std::thread::spawn(move || clerk.wait());
    Ok(())
}

pub fn closed() -> Result<()> {
    kill("/office")?;
    until("nobody is in it", PATIENCE, || {
        Ok(fs::remove_dir(format!("{ROOT}/office")).is_ok())
    })
}

/// However a job ends.
pub fn leaves_nothing() -> Result<()> {
    for (place, home, uid, how) in PLACES {
        // Root's own is base, which gives nothing up.
        for (command, from) in [("run", ""), ("nice", "--from /home")] {
            one(place, home, uid, &format!("{command} {from} {how}"))
                .with_context(|| format!("{command} as uid {uid} in {home}"))?;
        }
    }
    Ok(())
}

fn one(place: &str, home: &str, uid: u32, command: &str) -> Result<()> {
    let before = Place::of(place)?;
    ensure!(uid == 0 || before.gives.is_empty(), "{before:?}");
    ensure!(before.kind != "domain threaded", "{before:?}");
    let line = |inner: &str| format!("exec tixctl {command} -- {inner}");
    // By itself.
    ensure!(start(home, uid, &line("true"))?.wait()?.success());
    before.is_back(place)?;
    // Refused by tixd, when there is a cgroup for it already.
    let refused = format!("tixctl {command} --name NoName -- true");
    ensure!(start(home, uid, &refused)?.wait()?.code() == Some(1));
    before.is_back(place)?;
    // Killed while it runs; and meanwhile it is as it was said.
    let mut job = start(home, uid, &line("sleep 100000"))?;
    let of = jobs(place, 1)?;
    ensure!(file(&of[0], "cpu.weight").is_ok(), "no cpu controller");
    let threaded = command.contains("--threaded");
    ensure!(has_room(place)? != threaded, "{:?}", Place::of(place));
    sh(&format!("kill -KILL {}", job.id()))?.ok()?;
    job.wait()?;
    before.is_back(place)?;
    ensure!(has_room(place)?, "not afterwards");
    // Killed at some moment before it is the command.
    let mut job = start(home, uid, &line("sleep 100000"))?;
    wait("a cgroup is made for it", PATIENCE, || {
        let now = Place::of(place)?;
        Ok((now != before).then_some(()))
    })?;
    sh(&format!("kill -KILL {}", job.id()))?.ok()?;
    job.wait()?;
    before.is_back(place)
}

/// Without a terminal and without the option: what it would be for others is said, and nothing is
/// done.
pub fn asks() -> Result<()> {
    let before = Place::of("/office")?;
    let line = |command: &str| format!("tixctl {command} -- true");
    for command in ["run", "nice"] {
        user("/office", &line(command))?.refused(&[
            "threaded domain",
            "no process can be put into another cgroup",
            "container runtime",
            "--threaded",
        ])?;
        ensure!(
            Place::of("/office")? == before,
            "{:?}",
            Place::of("/office")
        );
    }
    // On a terminal it is a question.
    for (answer, status) in [("n", 1), ("y", 0)] {
        let typed = format!(
            "echo {answer} | script -qec '{}' /dev/null",
            line("run").replace("true", "grep -q tix-run /proc/self/cgroup")
        );
        let said = user("/office", &typed)?;
        ensure!(
            said.out.contains("threaded domain") && said.out.contains("[y/N]"),
            "{said:?}"
        );
        said.exits(status)?;
        before.is_back("/office")?;
    }
    Ok(())
}

/// The controller stays for as long as somebody needs it.
pub fn beside_each_other() -> Result<()> {
    let (place, home) = ("/home", "/home/shell");
    let before = Place::of(place)?;
    let sleeps = |name: &str| {
        let line = format!("exec tixctl run --name {name} -- sleep 100000");
        start(home, UID, &line)
    };
    let mut first = sleeps("first")?;
    let one = jobs(place, 1)?;
    let mut second = sleeps("second")?;
    let two = jobs(place, 2)?;
    kill(&one[0])?;
    first.wait()?;
    until("the first's cgroup goes", PATIENCE, || {
        Ok(file(&one[0], "cgroup.type").is_err())
    })?;
    let other = two.iter().find(|path| **path != one[0]).context("one")?;
    ensure!(file(other, "cpu.weight").is_ok(), "the second has lost it");
    kill(other)?;
    second.wait()?;
    before.is_back(place)?;
    // One that another job starts, and that lives longer.
    let inner = "(tixctl run -- sleep 100000 &) ; sleep 100000";
    let line = format!("exec tixctl run -- sh -c '{inner}'");
    let mut outer = start(home, UID, &line)?;
    let both = jobs(place, 2)?;
    sh(&format!("kill -KILL {}", outer.id()))?.ok()?;
    outer.wait()?;
    // The one that has no child of its own in its cgroup is the inner one's: that of the outer has
    // a sleep of its own left.
    for path in &both {
        kill(path)?;
    }
    before.is_back(place)?;
    // A crowd that comes and goes: each has its share to the end.
    let own = "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)";
    let each = format!("exec tixctl run -- sh -c 'sleep 0.$0; test -e {own}/cpu.weight'");
    let crowd = (1..=12).map(|i| start(home, UID, &format!("{each} {}", i % 4)));
    let crowd: Vec<Child> = crowd.collect::<Result<_>>()?;
    for mut job in crowd {
        ensure!(job.wait()?.success(), "a job has lost its controller");
    }
    before.is_back(place)
}

/// Somebody else has come to use it; and what is left by processes that were killed.
pub fn used_and_left() -> Result<()> {
    let (place, home) = ("/home", "/home/shell");
    let before = Place::of(place)?;
    let one = |what: &str| user(home, &format!("tixctl run -- {what}"))?.ok();
    // A share that was given to a cgroup beside it meanwhile.
    one(&format!(
        "sh -c 'sleep 1; echo 300 >{ROOT}/home/shell/cpu.weight; sleep 1'"
    ))?;
    until("the cgroup goes", PATIENCE, || {
        Ok(Place::of(place)?.children == before.children)
    })?;
    ensure!(file(home, "cpu.weight")? == "300", "it is gone");
    // With the default again nobody needs it.
    write(home, "cpu.weight", "100")?;
    until("tixd has seen it", PATIENCE, || {
        let c = currency(home)?.context("no currency")?;
        Ok(c["funding"][0]["amount"] == 100)
    })?;
    one("true")?;
    before.is_back(place)?;
    // A job and what cleans up after it are killed.
    let line = "exec tixctl run -- sleep 100000";
    let mut job = start(home, UID, line)?;
    let left = jobs(place, 1)?;
    let cleaner = wait("what cleans up", PATIENCE, || cleaner_of(&left[0]))?;
    sh(&format!("kill -KILL {cleaner} {}", job.id()))?.ok()?;
    job.wait()?;
    until("nobody is in it", PATIENCE, || {
        Ok(file(&left[0], "cgroup.events")?.contains("populated 0"))
    })?;
    ensure!(Place::of(place)? != before, "somebody else has cleaned up");
    one("true")?;
    before.is_back(place)
}

/// The process that waits for the end of this cgroup.
fn cleaner_of(path: &str) -> Result<Option<u32>> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|&b| b == 0).collect();
        if words.contains(&b"remove-when-empty".as_slice())
            && words.contains(&b"--waiting".as_slice())
            && words.contains(&format!("{ROOT}{path}").as_bytes())
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// A binding makes nothing threaded either.
pub fn binding() -> Result<()> {
    fs::create_dir(format!("{ROOT}/office/desk"))?;
    let before = Place::of("/office")?;
    tixctl("create desk")?.ok()?;
    for line in [
        "bind desk /office/desk",
        "fund /office/desk --from base cpu 1",
    ] {
        tixctl(line)?.refused(&["/office"])?;
        ensure!(
            Place::of("/office")? == before,
            "{:?}",
            Place::of("/office")
        );
    }
    tixctl("destroy desk")?.ok()?;
    fs::remove_dir(format!("{ROOT}/office/desk"))?;
    Ok(())
}

/// Under systemd a job is a scope, and what systemd has for it is systemd's to take back.
pub fn scopes() -> Result<()> {
    let as_alice = |line: &str| run(Command::new("su").args(["alice", "-c", line]));
    let as_root = |line: &str| run(Command::new("sh").args(["-c", line]));
    let hers = "/user.slice/user-1000.slice/user@1000.service/app.slice";
    for (place, who) in [
        ("/system.slice", &as_root as &dyn Fn(&str) -> Result<_>),
        (hers, &as_alice),
    ] {
        // systemd takes away what another job's scope had when that has gone.
        let before = wait("no job of before", PATIENCE, || {
            let now = Place::of(place)?;
            let is_job = |child: &String| child.starts_with("tix-run-");
            Ok((!now.children.iter().any(is_job)).then_some(now))
        })?;
        for command in ["run", "nice"] {
            let end = "kill -KILL $$";
            for inner in ["true", end] {
                let line =
                    format!("tixctl {command} -- sh -c 'cut -d: -f3 /proc/self/cgroup; {inner}'");
                let said = who(&line)?;
                let cgroup = said.out.lines().next().unwrap_or_default();
                ensure!(cgroup.starts_with(place), "{said:?}");
                before.is_back(place).context(line)?;
                ensure!(has_room(place)?, "no room in {place}");
            }
        }
    }
    Ok(())
}
