// SPDX-License-Identifier: GPL-2.0-only
//! A machine without systemd: cgroups are directories that somebody made.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{
    Checks, Said, currency, enabled_so_often, in_force, install, read, run, sh, tickets, tixctl,
    until,
};

use tix_tests::alone::{PATIENCE, ROOT, SOCKET, Tixd, cgroups, number};

use super::{abuse, durable, jobs, limits};

pub const UID: u32 = 54_321;

/// A command line as a user who is nobody here, in the cgroup `place`.
pub fn user(place: &str, line: &str) -> Result<Said> {
    let enter = format!("echo 0 >{ROOT}{place}/cgroup.procs && exec \"$@\"");
    let id = UID.to_string();
    let mut command = Command::new("sh");
    command.args([
        "-c", &enter, "sh", "setpriv", "--reuid", &id, "--regid", &id,
    ]);
    run(command.args(["--clear-groups", "sh", "-c", line]))
}

pub fn all(c: &mut Checks) {
    tix_tests::load::sys::set_variable("TIX_SOCKET", SOCKET);
    let mut tixd = None;
    c.check("setup: install and start", || {
        install()?;
        tixctl("status")?.exits(3)?;
        fs::write(format!("{ROOT}/cgroup.subtree_control"), "-cpu")?;
        tixd = Some(Tixd::start()?);
        tixctl("status")?.ok()?.has("scheduler is in force")?;
        Ok(())
    });
    c.check("the cpu controller is enabled at the root", || {
        ensure!(read(&format!("{ROOT}/cgroup.subtree_control"))?.contains("cpu"));
        Ok(())
    });
    c.check("a user without a cgroup is told what to do", || {
        user("/", "tixctl run -- true")?.refused(&["cgroup", "chown"])?;
        Ok(())
    });
    c.check("setup: a cgroup of the user's own", || {
        fs::create_dir_all(format!("{ROOT}/home/shell"))?;
        sh(&format!("chown -R {UID} {ROOT}/home"))?.ok()?;
        until("the currency is there", PATIENCE, || {
            Ok(currency("/home")?.is_some_and(|c| c["owner"] == UID))
        })?;
        tixctl("fund /home --from base cpu 250")?.ok()?;
        Ok(())
    });
    c.check("a user runs a command below the own cgroup", runs);
    c.check("setup: a place with somebody in it", jobs::office);
    c.check("a job leaves nothing behind", jobs::leaves_nothing);
    c.check("a job whose place becomes threaded asks", jobs::asks);
    c.check("jobs beside and below each other", jobs::beside_each_other);
    c.check(
        "what a job's place is used for, and was left as",
        jobs::used_and_left,
    );
    c.check("a binding makes no job's place threaded", jobs::binding);
    c.check("setup: nobody is in the place", jobs::closed);
    c.check("what a user may do and what not", rights);
    c.check(
        "what a cgroup namespace hides cannot be named in it",
        namespaced,
    );
    c.check("a cgroup that vanished", vanished);
    c.check("bad input", || abuse::all(SOCKET));
    c.check("limits hold, and are told", || limits::all(&mut tixd));
    c.check("what it said yes to survives SIGKILL", || {
        durable::killed(&mut tixd)
    });
    c.check("a full disk", || durable::full(&mut tixd));
    c.check("SIGKILL and SIGTERM leave the scheduler in force", || {
        let seq = enabled_so_often()?;
        let held = tickets("/home", "base")?;
        tixd.take().context("no tixd")?.signal("KILL")?;
        ensure!(in_force());
        tixd = Some(Tixd::start()?);
        ensure!(tickets("/home", "base")? == held);
        let ended = tixd.take().context("no tixd")?.signal("TERM")?;
        ensure!(ended.success(), "SIGTERM ends it with {ended}");
        ensure!(in_force() && enabled_so_often()? == seq);
        ensure!(fs::metadata(SOCKET).is_err(), "its socket stays behind");
        Ok(())
    });
    c.check("--stop-scheduler gives the machine back", || {
        sh("tixd --stop-scheduler")?.ok()?.has("kernel's own")?;
        ensure!(!in_force());
        sh("tixd --stop-scheduler")?.ok()?.has("was not in force")?;
        Ok(())
    });
    c.check("--observe changes nothing", || {
        let state = "/var/lib/observer";
        let tixd = Tixd::with(&["--observe", "--state", state], "tree")?;
        tixctl("status")?.exits(1)?.has("--observe")?;
        ensure!(!in_force());
        tixd.signal("TERM")?;
        Ok(())
    });
}

fn runs() -> Result<()> {
    let line = "tixctl run --name job --cpu 50 -- sh -c 'cut -d: -f3 /proc/self/cgroup; tixctl tree --json; exit 7'";
    // The shell's cgroup is none of its own to the scheduler, so the nearest that the user owns and
    // that has a currency is the one above; and as before, once the cpu controller was enabled
    // there for the command alone.
    for issuer in ["/home", "/home"] {
        let said = user("/home/shell", line)?.exits(7)?;
        let (cgroup, tree) = said.out.split_once('\n').context("it said nothing")?;
        ensure!(cgroup.starts_with("/home/tix-run-"), "it ran in {cgroup}");
        let tree: serde_json::Value = serde_json::from_str(tree)?;
        let list = tree["currencies"].as_array().context("no list")?;
        // No database knows the user's name, so the number is in front.
        let job = list.iter().find(|c| c["name"] == "54321/job");
        let job = job.context("no job")?;
        ensure!(job["cgroup"] == cgroup && job["owner"] == UID, "{job}");
        let paid =
            serde_json::json!([{"from": issuer, "resource": "cpu", "kind": "soft", "amount": 50}]);
        ensure!(job["funding"] == paid, "{job}");
        until("currency and cgroup go with the command", PATIENCE, || {
            Ok(
                currency("54321/job")?.is_none()
                    && fs::metadata(format!("{ROOT}{cgroup}")).is_err(),
            )
        })?;
    }
    Ok(())
}

fn rights() -> Result<()> {
    fs::create_dir(format!("{ROOT}/others"))?;
    let me = |line: &str| user("/home/shell", line);
    me("tixctl create mine")?.ok()?;
    me("tixctl fund mine --from /home cpu 20")?.ok()?;
    me("mkdir /sys/fs/cgroup/home/place")?.ok()?;
    me("tixctl bind mine /home/place")?.ok()?;
    ensure!(tickets("/home/place", "54321/mine")? == 100);
    for line in [
        "tixctl fund mine --from base cpu 1",
        "tixctl fund mine --from /others cpu 1",
        "tixctl bind mine /others",
        "tixctl run --from /others -- true",
    ] {
        me(line)?.refused(&[&format!("uid {UID}")])?;
    }
    // Whose it is may give it up, but to nobody's gain: it stays counted until root takes it back.
    let due = || {
        let others = currency("/others")?.context("no /others")?;
        others["cpu"]["entitlement"].as_f64().context("not due")
    };
    let (had, others) = (tickets("/home", "base")?, due()?);
    me("tixctl unfund /home --from base cpu 1")?.ok()?;
    ensure!(tickets("/home", "base")? == had - 1 && due()? == others);
    tixctl("unfund /home --from base cpu 1")?.ok()?;
    ensure!(due()? > others, "{others} before");
    tixctl("fund /home --from base cpu 1")?.ok()?;
    ensure!(tickets("/home", "base")? == had && due()? == others);
    me("tixctl unbind mine")?.ok()?;
    me("rmdir /sys/fs/cgroup/home/place")?.ok()?;
    me("tixctl destroy mine")?.ok()?;
    fs::remove_dir(format!("{ROOT}/others"))?;
    Ok(())
}

/// There `/` is what others call `/home/shell`, and what that is beside has no name.
fn namespaced() -> Result<()> {
    let inside = |line: &str| {
        let enter = format!("echo 0 >{ROOT}/home/shell/cgroup.procs && exec unshare -C {line}");
        run(Command::new("sh").args(["-c", &enter]))
    };
    let held = tickets("/home", "base")?;
    for line in [
        "tixctl explain /",
        "tixctl explain /home",
        "tixctl fund /home --from base cpu 1",
        "tixctl bind mine nginx.service",
        "tixctl run -- true",
        "tixctl nice -- true",
    ] {
        inside(line)?.refused(&["cgroup namespace"])?;
    }
    ensure!(tickets("/home", "base")? == held);
    let left = fs::read_dir(format!("{ROOT}/home/shell"))?.flatten();
    ensure!(left.filter(|e| e.path().is_dir()).count() == 0);
    inside("tixctl explain base")?.ok()?;
    let tree = inside("tixctl tree")?.ok()?.has("/home")?;
    ensure!(tree.err.contains("cgroup namespace"), "{}", tree.err);
    // One that hides nothing has the same names.
    sh("unshare -C tixctl explain /home")?.ok()?;
    Ok(())
}

fn vanished() -> Result<()> {
    let dir = format!("{ROOT}/short");
    fs::create_dir(&dir)?;
    tixctl("create brief")?.ok()?;
    tixctl("fund brief --from base cpu 10")?.ok()?;
    tixctl("bind brief /short")?.ok()?;
    fs::remove_dir(&dir)?;
    until("its currency goes", PATIENCE, || {
        Ok(currency("/short")?.is_none())
    })?;
    tixctl("fund /short --from base cpu 1")?.refused(&["/short"])?;
    tixctl("bind brief /short")?.refused(&["/short"])?;
    tixctl("explain /short")?.refused(&["/short"])?;
    // Root's binding waits for it, and can be taken back meanwhile.
    fs::create_dir(&dir)?;
    until("bound again", PATIENCE, || {
        Ok(currency("/short")?.is_some_and(|c| c["funding"][0]["from"] == "brief"))
    })?;
    fs::remove_dir(&dir)?;
    until("its currency goes", PATIENCE, || {
        Ok(currency("/short")?.is_none())
    })?;
    tixctl("unbind brief /short")?.ok()?;
    fs::create_dir(&dir)?;
    until("not bound", PATIENCE, || {
        Ok(currency("/short")?.is_some_and(|c| c["funding"][0]["from"] == "base"))
    })?;
    fs::remove_dir(&dir)?;
    tixctl("destroy brief")?.ok()?;
    Ok(())
}

/// A kernel that lets nobody load what tix needs: said by name, and shares are held by `cpu.weight`.
pub fn locked(c: &mut Checks) {
    tix_tests::load::sys::set_variable("TIX_SOCKET", SOCKET);
    let mut tixd = None;
    c.check("setup: install and start", || {
        install()?;
        sh("mount -t securityfs none /sys/kernel/security")?.ok()?;
        ensure!(read("/sys/kernel/security/lockdown")?.contains("[confidentiality]"));
        tixd = Some(Tixd::start()?);
        Ok(())
    });
    c.check("the reason is named", || {
        tixctl("status")?
            .exits(1)?
            .has("locked down for confidentiality")?
            .has("lockdown=integrity")?
            .has("enforcement by cpu.weight")?
            .has("tixctl doctor")?;
        tixctl("doctor")?
            .exits(1)?
            .has("locked down for confidentiality")?
            .has("Without it tixd keeps to cpu.weight")?;
        Ok(())
    });
    c.check("cpu.weight is written", || {
        cgroups(&["/heavy", "/light"])?;
        tixctl("fund /heavy --from base cpu 200")?.ok()?;
        let weight = |cgroup| number(cgroup, "cpu.weight");
        until("weights are as the tickets are", PATIENCE, || {
            Ok(weight("/heavy")? == 3 * weight("/light")?)
        })?;
        ensure!(!in_force());
        Ok(())
    });
}

/// `--partial`: the kernel's own scheduler keeps whoever does not ask for tix's.
pub fn partial(c: &mut Checks) {
    tix_tests::load::sys::set_variable("TIX_SOCKET", SOCKET);
    c.check("status says who is scheduled", || {
        install()?;
        let tixd = Tixd::with(&["--partial"], "status")?;
        tixctl("status")?
            .ok()?
            .has("in force, for threads that ask for it (SCHED_EXT) alone")?
            .has("enforcement shares among threads that ask for it")?;
        let status = tixctl("status --json")?.ok()?.json()?;
        ensure!(status["kernel"]["partial"] == true, "{status}");
        ensure!(read("/sys/kernel/sched_ext/switch_all")? == "0");
        tixd.signal("TERM")?;
        sh("tixd --stop-scheduler")?.ok()?.has("kernel's own")?;
        Ok(())
    });
}
