// SPDX-License-Identifier: GPL-2.0-only
//! What appears by itself, and what people who are not root may do.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Said, currency, read, run, sh, tickets, tixctl, until, wait};

pub const ALICE: &str = "/user.slice/user-1000.slice";
pub const BOB: &str = "/user.slice/user-1001.slice";
const SOON: Duration = Duration::from_secs(20);

/// A command line as alice, in a session of her own.
fn alice_logged_in(line: &str) -> Result<Said> {
    run(Command::new("su").args(["alice", "-c", line]))
}

/// A command line as alice, wherever she is.
fn alice(line: &str) -> Result<Said> {
    run(Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups"])
        .args(["sh", "-c", line]))
}

pub fn slices() -> Result<()> {
    for (slice, uid) in [(ALICE, 1000), (BOB, 1001)] {
        let c = currency(slice)?.with_context(|| format!("there is no {slice}"))?;
        ensure!(c["owner"] == uid && c["cgroup"] == slice, "{c}");
        ensure!(tickets(slice, "/user.slice")? == 100, "{c}");
    }
    sh("useradd -m -u 1002 carol")?.ok()?;
    sh("loginctl enable-linger carol")?.ok()?;
    let carol = "/user.slice/user-1002.slice";
    let c = wait("carol's slice is a currency", SOON, || currency(carol))?;
    ensure!(c["owner"] == 1002, "{c}");
    sh("loginctl disable-linger carol")?.ok()?;
    sh("loginctl terminate-user carol")?.ok()?;
    until("carol's currency goes with her slice", SOON, || {
        Ok(currency(carol)?.is_none())
    })
}

pub fn lifeline() -> Result<()> {
    // A login service that starts after tixd, as a stand-in for the real one, which the image does not have.
    sh("systemd-run -q --unit ssh.service sleep infinity")?.ok()?;
    let bound = |path: &str| -> Result<bool> {
        Ok(currency(path)?.is_some_and(|c| c["funding"][0]["from"] == "lifeline"))
    };
    for path in [
        "/init.scope",
        "/system.slice/tixd.service",
        "/system.slice/systemd-logind.service",
        "/system.slice/dbus.service",
        "/system.slice/ssh.service",
    ] {
        until(&format!("{path} is on the lifeline"), SOON, || bound(path))?;
    }
    let c = currency("lifeline")?.context("there is no lifeline")?;
    let part = c["cpu"]["entitlement"].as_f64().context("no entitlement")?;
    ensure!((0.08..0.13).contains(&part), "{c}");
    ensure!(c["owner"] == 0, "{c}");
    for line in [
        "tixctl destroy lifeline",
        "tixctl unbind lifeline",
        "tixctl unfund lifeline --from base cpu",
        "tixctl fund /user.slice/user-1000.slice --from lifeline cpu 10",
        "tixctl bind lifeline /user.slice/user-1000.slice",
    ] {
        alice(line)?.refused(&["uid 1000"])?;
    }
    Ok(())
}

pub fn fund() -> Result<()> {
    for (name, slice, amount) in [("alice", ALICE, 300), ("bob", BOB, 100)] {
        tixctl(&format!("create {name}"))?.ok()?;
        tixctl(&format!("fund {name} --from base cpu {amount}"))?.ok()?;
        tixctl(&format!("bind {name} {slice}"))?.ok()?;
    }
    // For what this test does itself, so that it need not wait for its turn when both take all they can get.
    let own = read("/proc/self/cgroup")?;
    let own = own.strip_prefix("0::").context("no cgroup v2")?;
    tixctl(&format!("fund {own} --from base cpu 500"))?.ok()?;
    Ok(())
}

pub fn entitlements() -> Result<()> {
    let tree = tixctl("tree --json")?.ok()?.json()?;
    let list = tree["currencies"].as_array().context("no list")?;
    // All the cpu tickets that base has issued, as the tree shows it, with the hidden leaf of the root's own threads (100).
    let issued: u64 = 100
        + list
            .iter()
            .flat_map(|c| c["funding"].as_array().into_iter().flatten())
            .filter(|f| f["from"] == "base" && f["resource"] == "cpu")
            .filter_map(|f| f["amount"].as_u64())
            .sum::<u64>();
    for (name, amount) in [
        ("alice", 300.0),
        ("bob", 100.0),
        (ALICE, 300.0),
        (BOB, 100.0),
    ] {
        let c = currency(name)?.context("gone")?;
        let has = c["cpu"]["entitlement"].as_f64().context("none")?;
        let due = amount / issued as f64;
        ensure!((has - due).abs() < 1e-6, "{name}: {has}, due {due}");
    }
    Ok(())
}

pub fn runs() -> Result<()> {
    // The command says where it is and what its currency has, then ends as it likes.
    let inner = "tixctl run --name mine --cpu 50 -- sh -c 'cut -d: -f3 /proc/self/cgroup; tixctl tree --json; exit 7'";
    let manager = [
        "--user", "-M", "alice@", "-q", "--pipe", "--wait", "sh", "-c", inner,
    ];
    for (how, said) in [
        ("her session", alice_logged_in(inner)?),
        (
            "her manager",
            run(Command::new("systemd-run").args(manager))?,
        ),
    ] {
        let said = said.exits(7).context(how)?;
        let (cgroup, tree) = said.out.split_once('\n').context("it said nothing")?;
        ensure!(
            cgroup.starts_with(&format!("{ALICE}/user@1000.service/")),
            "{how}: it ran in {cgroup}"
        );
        let tree: serde_json::Value = serde_json::from_str(tree)?;
        let list = tree["currencies"].as_array().context("no list")?;
        let find = |name: &str| list.iter().find(|c| c["name"] == name);
        let mine = find("alice/mine").context("no currency")?;
        ensure!(mine["owner"] == 1000 && mine["transient"] == true, "{mine}");
        ensure!(mine["cgroup"] == cgroup, "{mine}");
        let paid =
            serde_json::json!([{"from": ALICE, "resource": "cpu", "kind": "soft", "amount": 50}]);
        ensure!(mine["funding"] == paid, "{mine}");
        let place = find(cgroup).context("its cgroup is no currency")?;
        ensure!(place["funding"][0]["from"] == "alice/mine", "{place}");
        until("it goes when the command has ended", SOON, || {
            Ok(currency("alice/mine")?.is_none())
        })?;
    }
    alice("tixctl run --from base -- true")?.refused(&["base", "uid 1000"])?;
    alice("tixctl run --from bob -- true")?.refused(&["bob", "uid 1000"])?;
    alice("tixctl run -- no-such-command")?.refused(&["no-such-command"])?;
    alice("tixctl run --cpu -5 -- true")?.exits(2)?;
    let root = "tixctl run --cpu 20 -- cut -d: -f3 /proc/self/cgroup";
    sh(root)?.ok()?.has("/system.slice/tix-run-")?;
    Ok(())
}

pub fn own() -> Result<()> {
    alice("tixctl create a1")?.ok()?.has("alice/a1")?;
    // That name is hers: bob's and root's are others, and what is bob's she cannot take.
    alice("tixctl create bob/a1")?.refused(&["bob/a1", "alice/NAME"])?;
    alice(&format!("tixctl fund a1 --from {ALICE} cpu 40"))?.ok()?;
    alice("tixctl fund a1 --from user-1000.slice cpu 2")?.ok()?;
    ensure!(tickets("alice/a1", ALICE)? == 42, "not the sum");
    alice("tixctl unfund a1 --from user-1000.slice cpu 12")?.ok()?;
    ensure!(tickets("alice/a1", ALICE)? == 30, "not the rest");
    // A place of hers: below her manager, which she has to herself.
    let place = "systemd-run --user -q --unit place -p Delegate=yes sleep infinity";
    let place = format!("XDG_RUNTIME_DIR=/run/user/1000 {place}");
    alice(&place)?.ok()?;
    let path = format!("{ALICE}/user@1000.service/app.slice/place.service");
    alice(&format!("tixctl bind a1 {path}"))?.ok()?;
    let c = currency(&path)?.context("its place is no currency")?;
    ensure!(c["funding"][0]["from"] == "alice/a1", "{c}");
    alice("tixctl explain a1")?.ok()?.has("30")?;
    alice(&format!("tixctl fund {path} --from a1 cpu 5"))?.ok()?;
    alice(&format!("tixctl fund {ALICE} --from a1 cpu 5"))?.refused(&["itself"])?;
    alice("tixctl unbind a1")?.ok()?;
    ensure!(
        tickets(&path, "alice/a1")? == 5,
        "unbound, what was given on top stays"
    );
    alice("tixctl destroy a1")?.ok()?;
    ensure!(currency("alice/a1")?.is_none() && tickets(&path, "alice/a1")? == 0);
    alice("XDG_RUNTIME_DIR=/run/user/1000 systemctl --user stop place")?.ok()?;
    Ok(())
}

pub fn others() -> Result<()> {
    alice("tixctl create a2")?.ok()?;
    for line in [
        "tixctl fund a2 --from base cpu 10",
        "tixctl fund a2 --from bob cpu 10",
        "tixctl fund a2 --from /user.slice/user-1001.slice cpu 10",
        "tixctl fund a2 --from /system.slice cpu 10",
        // Root has made it, for her, and it is root's.
        "tixctl fund a2 --from alice cpu 10",
        "tixctl unfund alice --from base cpu",
        "tixctl unfund bob --from base cpu 10",
        "tixctl destroy bob",
        "tixctl unbind bob",
        "tixctl unbind alice",
        "tixctl bind a2 /user.slice/user-1001.slice",
        "tixctl bind a2 /system.slice",
        "tixctl bind a2 dbus.service",
    ] {
        alice(line)?.refused(&["uid 1000"])?;
    }
    // What root binds, root alone unbinds: otherwise its owner could take back a share that others count on.
    tixctl(&format!("unbind alice {ALICE}"))?.ok()?;
    tixctl(&format!("bind alice/a2 {ALICE}"))?.ok()?;
    alice("tixctl unbind a2")?.refused(&["root"])?;
    alice("tixctl destroy a2")?.refused(&["root"])?;
    tixctl("unbind alice/a2")?.ok()?;
    tixctl(&format!("bind alice {ALICE}"))?.ok()?;
    alice("tixctl destroy a2")?.ok()?;
    Ok(())
}

/// Whoever else listens, and a uid and a number of alice's and root's that are not what they look like.
pub fn strangers() -> Result<()> {
    let socket = "/tmp/bobs.sock";
    sh(&format!(
        "systemd-run -q --unit bobs --uid=1001 systemd-socket-activate -l {socket} sleep 600"
    ))?
    .ok()?;
    until(
        "bob listens",
        SOON,
        || Ok(std::fs::metadata(socket).is_ok()),
    )?;
    sh(&format!("env TIX_SOCKET={socket} tixctl tree"))?
        .exits(3)
        .and_then(|said| {
            ensure!(said.err.contains("uid 1001"), "{said:?}");
            Ok(())
        })?;
    sh("systemctl stop bobs")?.ok()?;
    std::fs::remove_file(socket)?;
    // In a user namespace of alice's.
    let mut known = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    known.push_str("alice:3000000:1000\n");
    std::fs::write("/etc/subuid", known)?;
    let hers = "setpriv --reuid=3000007 --regid=3000007 --clear-groups tixctl";
    sh(&format!("{hers} status"))?.ok()?;
    sh(&format!("{hers} create a3"))?.refused(&["uid 3000007", "uid 1000"])?;
    ensure!(currency("alice/a3")?.is_none() && currency("a3")?.is_none());
    // In a PID namespace, where tixctl has another number than to systemd.
    let inside = "unshare --pid --fork --mount-proc tixctl run -- cut -d: -f3 /proc/self/cgroup";
    sh(inside)?.ok()?.has("/system.slice/tix-run-")?;
    Ok(())
}

pub fn controller() -> Result<()> {
    // A slice in which nothing asked for a controller yet.
    sh("systemd-run -q --slice deep-down.slice --unit odd.service sleep infinity")?.ok()?;
    let path = "/deep.slice/deep-down.slice/odd.service";
    let file = format!("/sys/fs/cgroup{path}/cpu.weight");
    ensure!(read(&file).is_err(), "it has the controller already");
    tixctl("create odd")?.ok()?;
    tixctl("fund odd --from base cpu 10")?.ok()?;
    tixctl("bind odd odd.service")?.ok()?;
    ensure!(read(&file)? == "100");
    sh("systemctl show -P CPUWeight odd.service")?
        .ok()?
        .has("100")?;
    let c = currency(path)?.context("no currency")?;
    ensure!(c["funding"][0]["from"] == "odd", "{c}");
    // systemd looks at all its cgroups again, and leaves it.
    sh("systemctl daemon-reload")?.ok()?;
    ensure!(read(&file)? == "100");
    sh("systemctl stop odd.service")?.ok()?;
    until("its currency goes with it", SOON, || {
        Ok(currency(path)?.is_none())
    })?;
    tixctl("destroy odd")?.ok()?;
    Ok(())
}
