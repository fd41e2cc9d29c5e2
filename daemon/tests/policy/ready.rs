// SPDX-License-Identifier: GPL-2.0-only
//! The files under policies/ do what their comments say.

use super::{Few, alice, bob, login, root, said, unit};
use std::path::Path;
use tixd::policy::{Policy, Subject, report};

fn ready(name: &str) -> Policy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../policies")
        .join(name);
    let text = std::fs::read_to_string(path).expect("a ready file");
    Policy::parse(&[(name.into(), text)], &Few).unwrap_or_else(|e| panic!("{e:#?}"))
}

fn table(policy: &Policy, rows: &[(Subject<'_>, &str)]) {
    for (subject, want) in rows {
        assert_eq!(said(policy.decide(subject)), *want, "{}", subject.path);
    }
}

#[test]
fn every_ready_file_is_sound_and_tested_here() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies");
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".toml"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "ci-host.toml",
            "login-server.toml",
            "tiers.toml",
            "web-hosting.toml"
        ]
    );
    for name in names {
        assert_eq!(ready(&name).check(), [], "{name}");
    }
}

#[test]
fn login_server() {
    table(
        &ready("login-server.toml"),
        &[
            (
                root(),
                "root-login 0: cpu 100 users, disk 100 users, cpu 50‰ base, disk 50‰ base, memory 268435456B base",
            ),
            (alice(), "user-1000 1000: cpu 300 users, disk 300 users"),
            (bob(), "user-1001 1001: cpu 100 users, disk 100 users"),
            (unit("/user.slice"), "weight"),
            (unit("/system.slice/nginx.service"), "weight"),
            (
                unit("/user.slice/user-1000.slice/session-1.scope"),
                "weight",
            ),
        ],
    );
}

#[test]
fn ci_host() {
    let own = "cpu 100 ci, disk 100 ci";
    let release = format!("project-release 0: {own}, cpu 250‰ ci, disk 250‰ ci");
    let web = format!("project-web 0: {own}");
    let runner = format!("actions-runner-acme-web-host1 0: {own}");
    let slice = format!("ci-web 0: {own}");
    table(
        &ready("ci-host.toml"),
        &[
            (
                unit("/system.slice/system-ci.slice/ci@release.service"),
                &release,
            ),
            (unit("/system.slice/ci-lint@release.service"), &release),
            (unit("/system.slice/system-ci.slice/ci@web.service"), &web),
            (unit("/system.slice/ci-lint@web.service"), &web),
            (
                unit("/system.slice/actions.runner.acme-web.host1.service"),
                &runner,
            ),
            (unit("/ci.slice/ci-web.slice"), &slice),
            (unit("/ci.slice/ci-web.slice/ci-web-1.slice"), "weight"),
            (unit("/ci.slice/ci-web.slice/docker-1.scope"), "weight"),
            (unit("/system.slice/cron.service"), "weight"),
            (alice(), "weight"),
        ],
    );
}

#[test]
fn tiers() {
    let all = |n: u32| format!("cpu {n} customers, disk {n} customers, memory {n} customers");
    let with = |groups: &[(u32, &str)]| login("/user.slice/user-1000.slice", 1000, "alice", groups);
    let gold = format!(
        "customer-1000 1000: {}, cpu 20‰ customers, disk 20‰ customers",
        all(400)
    );
    let policy = ready("tiers.toml");
    table(
        &policy,
        &[
            (with(&[(7, "silver"), (8, "gold")]), &gold),
            (
                with(&[(7, "silver")]),
                &format!("customer-1000 1000: {}", all(200)),
            ),
            (
                with(&[(7, "bronze")]),
                &format!("customer-1000 1000: {}", all(100)),
            ),
            (bob(), "weight"),
            (root(), "weight"),
        ],
    );
    let notes: Vec<String> = policy.notes().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "tiers.toml:13: the cpu of customers has room for 49 times 2%: whoever comes later gets no guarantee",
            "tiers.toml:13: the disk of customers has room for 49 times 2%: whoever comes later gets no guarantee",
        ]
    );
}

#[test]
fn web_hosting() {
    let alice = "customer-alice 0: cpu 250‰ sites, disk 250‰ sites, memory 536870912B base";
    let bob = "customer-bob 0: cpu 125‰ sites, disk 125‰ sites";
    let carol = "customer-carol 0: cpu 100 sites, disk 100 sites";
    table(
        &ready("web-hosting.toml"),
        &[
            (unit("/system.slice/nginx.service"), "common 0: "),
            (
                unit("/system.slice/system-postgresql.slice/postgresql@15-main.service"),
                "common 0: ",
            ),
            (
                unit(r"/system.slice/system-php\x2dfpm.slice/php-fpm@alice.service"),
                alice,
            ),
            (
                unit("/system.slice/system-node.slice/node@alice.service"),
                alice,
            ),
            (
                unit(r"/system.slice/system-php\x2dfpm.slice/php-fpm@bob.service"),
                bob,
            ),
            (
                unit("/system.slice/system-puma.slice/puma@carol.service"),
                carol,
            ),
            (unit("/system.slice/cron.service"), "weight"),
            // Bob calls a unit of his own as alice's is called.
            (
                unit(
                    "/user.slice/user-1001.slice/user@1001.service/app.slice/php-fpm@alice.service",
                ),
                "weight",
            ),
        ],
    );
}

#[test]
fn a_report_says_what_is_decided_for_whom() {
    let policy = ready("login-server.toml");
    let own = unit("/system.slice/cron\x1b.service");
    assert_eq!(
        report(&policy, &[root(), alice(), bob(), own]),
        "\
declared:
  users  fci------ 0:0, cpu 100 tickets from base, disk 100 tickets from base  [login-server.toml:8]
decided:
  /user.slice/user-0.slice (root): root-login  fci------ 0:0, cpu 100 tickets from users, disk 100 tickets from users, cpu 5% guaranteed from base, disk 5% guaranteed from base, memory 256M guaranteed from base  [login-server.toml:14]
  /user.slice/user-1000.slice (alice): user-1000  fci------ 1000:1000, cpu 300 tickets from users, disk 300 tickets from users  [login-server.toml:21]
  /user.slice/user-1001.slice (bob): user-1001  fci------ 1001:1001, cpu 100 tickets from users, disk 100 tickets from users  [login-server.toml:27]
  /system.slice/cron?.service: its parent's weight
"
    );
    assert_eq!(
        report(&Policy::default(), &[]),
        "nothing is declared or decided: every cgroup is funded by its parent's weight\n"
    );
}

#[test]
fn they_load_from_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Policy::load(&dir.path().join("nowhere"))
            .unwrap()
            .is_empty()
    );
    for name in ["login-server.toml", "web-hosting.toml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies");
        let text = std::fs::read(from.join(name)).unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let policy = Policy::load(dir.path()).unwrap();
    let names: Vec<&str> = policy.declared().iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["users", "sites", "common"]);
    std::fs::write(dir.path().join("bad.toml"), "x = 1").unwrap();
    let problems = Policy::load(dir.path()).unwrap_err();
    let want = format!(
        "{}/bad.toml:1: a policy has no \"x\": there are currency, rule",
        dir.path().display()
    );
    assert_eq!(problems[0].to_string(), want);
}
