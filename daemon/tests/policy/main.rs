// SPDX-License-Identifier: GPL-2.0-only
//! What policy files decide.

mod problems;
mod props;
mod ready;

use std::io;
use tix_ledger::Kind;
use tixd::policy::{Decision, Names, Policy, Subject, User};

/// A machine with few users.
struct Few;

impl Names for Few {
    fn uid(&self, name: &str) -> io::Result<Option<u32>> {
        match name {
            "root" => Ok(Some(0)),
            "alice" => Ok(Some(1000)),
            "away" => Err(io::Error::other("the directory server is away")),
            _ => Ok(None),
        }
    }

    fn gid(&self, name: &str) -> io::Result<Option<u32>> {
        Ok((name == "staff").then_some(50))
    }
}

fn parse(text: &str) -> Result<Policy, Vec<String>> {
    Policy::parse(&[("a.toml".into(), text.into())], &Few)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn good(text: &str) -> Policy {
    parse(text).unwrap_or_else(|e| panic!("{}", e.join("\n")))
}

fn login<'a>(path: &'a str, uid: u32, name: &str, groups: &[(u32, &str)]) -> Subject<'a> {
    Subject {
        path,
        owner: 0,
        group: 0,
        user: Some(User {
            uid,
            gid: uid,
            name: Some(name.into()),
            groups: groups
                .iter()
                .map(|(g, n)| (*g, Some((*n).into())))
                .collect(),
        }),
    }
}

fn unit(path: &str) -> Subject<'_> {
    Subject {
        path,
        owner: 0,
        group: 0,
        user: None,
    }
}

fn root() -> Subject<'static> {
    login("/user.slice/user-0.slice", 0, "root", &[(0, "root")])
}

fn alice() -> Subject<'static> {
    login(
        "/user.slice/user-1000.slice",
        1000,
        "alice",
        &[(1000, "alice"), (50, "staff")],
    )
}

fn bob() -> Subject<'static> {
    login("/user.slice/user-1001.slice", 1001, "bob", &[(1001, "bob")])
}

/// `CURRENCY OWNER: RESOURCE AMOUNT from ISSUER, …`
fn said(d: Option<Decision>) -> String {
    let Some(d) = d else {
        return "weight".into();
    };
    let grants: Vec<String> = d
        .grants
        .iter()
        .map(|g| {
            let unit = match (g.kind, g.bytes) {
                (Kind::Soft, _) => "",
                (Kind::Hard, false) => "‰",
                (Kind::Hard, true) => "B",
            };
            format!("{} {}{unit} {}", g.resource.name(), g.amount, g.issuer)
        })
        .collect();
    format!("{} {}: {}", d.currency, d.owner, grants.join(", "))
}

#[test]
fn every_key_of_a_match() {
    for (matches, who) in [
        ("", "root alice bob"),
        ("uid = 1000", "alice"),
        ("uid = \"1000\"", "alice"),
        ("uid = \"1000-1999\"", "alice bob"),
        ("uid = [0, \"1001-1001\"]", "root bob"),
        ("gid = 50", "alice"),
        ("gid = 1001", "bob"),
        ("user = [\"alice\", \"bob\"]", "alice bob"),
        ("group = \"staff\"", "alice"),
        ("group = \"staff\", user = \"bob\"", ""),
        ("unit = \"user-100*.slice\"", "alice bob"),
        ("unit = \"user-*.slice\", group = \"staff\"", "alice"),
        ("cgroup = \"/user.slice/*\", uid = 0", "root"),
        ("unit = \"user-*.slice\", cgroup = \"/system.slice/*\"", ""),
    ] {
        let policy = good(&format!(
            "[[rule]]\nmatch = {{ {matches} }}\ncurrency = \"x\""
        ));
        let matched: Vec<&str> = [("root", root()), ("alice", alice()), ("bob", bob())]
            .iter()
            .filter(|(_, s)| policy.decide(s).is_some())
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(matched.join(" "), who, "{matches}");
    }
}

#[test]
fn rules_that_name_no_paths_are_about_users() {
    let service = Subject {
        owner: 1000,
        group: 50,
        ..unit("/system.slice/alice.service")
    };
    let users = "[[rule]]\nmatch = { uid = 1000 }\ncurrency = \"x\"\n";
    assert_eq!(good(users).decide(&service), None);
    // A candidate because a rule names it: the one that is for all that is left is for it, too.
    let two = "[[rule]]\nmatch = { unit = \"alice.service\", uid = 7 }\nskip = true\n\
               [[rule]]\nmatch = {}\ncurrency = \"x\"";
    assert!(good(two).decide(&service).is_some());
    assert_eq!(good(two).decide(&unit("/system.slice/cron.service")), None);
    let owned = "[[rule]]\nmatch = { cgroup = \"/system.slice/*\", uid = 1000, gid = 50 }\ncurrency = \"{name}-{uid}\"\n\
                 fund = { from = \"base\", cpu = 1 }";
    assert_eq!(
        said(good(owned).decide(&service)),
        "alice-1000 1000: cpu 1 base"
    );
}

#[test]
fn what_is_in_a_users_slice_is_theirs() {
    let policy = good(
        "[[rule]]\nmatch = { cgroup = \"/**\" }\ncurrency = \"{name}\"\nfund = { from = \"base\", cpu = 1 }",
    );
    let inside = "/user.slice/user-1000.slice/user@1000.service/user-1001.slice";
    assert!(!policy.may_concern(inside));
    assert_eq!(policy.decide(&unit(inside)), None);
    assert!(policy.decide(&unit("/machine.slice/a")).is_some());
}

#[test]
fn who_owns_what() {
    let policy = good(
        "[[currency]]\nname = \"staff\"\nowner = \"alice\"\ngroup = \"staff\"\nmode = \"fci-c----\"\n\
         [[rule]]\nmatch = { user = \"alice\" }\ncurrency = \"staff\"\n\
         [[rule]]\nmatch = { uid = 0 }\ncurrency = \"all\"\n\
         [[rule]]\nmatch = { user = \"bob\" }\ncurrency = \"u-{user}\"\nowner = 0\nmode = \"740\"\nfund = { from = \"staff\", cpu = 1 }\n\
         [[rule]]\nmatch = {}\ncurrency = \"u-{user}\"\nfund = { from = \"staff\", cpu = 1 }\n",
    );
    let who = |s: &Subject<'_>| {
        let d = policy.decide(s).unwrap();
        (d.currency, d.owner, d.group, d.mode)
    };
    // Shared: nobody's who happens to be first.
    assert_eq!(who(&alice()), ("staff".into(), 1000, 50, 0o720));
    assert_eq!(who(&root()), ("all".into(), 0, 0, 0o700));
    assert_eq!(who(&bob()), ("u-bob".into(), 0, 1001, 0o740));
    let unknown = Subject {
        user: None,
        ..unit("/user.slice/user-1002.slice")
    };
    assert_eq!(who(&unknown), ("u-uid-1002".into(), 1002, 0, 0o700));
}

#[test]
fn values_as_they_are_written() {
    let policy = good(
        "currency = [\n  { name = \"a\", fund = { from = \"base\", cpu = \"7\", disk = 0x10 }, \
         reserve = [ { from = \"b\", cpu = \"12.5%\", memory = 250 } ] },\n]",
    );
    let said: Vec<String> = policy.declared()[0]
        .grants
        .iter()
        .map(|g| format!("{:?} {:?} {} {}", g.resource, g.kind, g.amount, g.issuer))
        .collect();
    assert_eq!(
        said,
        [
            "Cpu Soft 7 base",
            "Disk Soft 16 base",
            "Cpu Hard 125 b",
            "Memory Hard 250 b"
        ]
    );
}

#[test]
fn files_are_one_policy_in_their_order() {
    let rule = |c: &str| format!("[[rule]]\nmatch = {{}}\ncurrency = \"{c}\"\n");
    let files = [
        ("10.toml".to_owned(), rule("first")),
        ("20.toml".to_owned(), rule("second")),
    ];
    let policy = Policy::parse(&files, &Few).unwrap();
    let d = policy.decide(&bob()).unwrap();
    assert_eq!(
        (d.currency.as_str(), d.origin.as_str()),
        ("first", "10.toml:1")
    );
    assert_eq!(
        policy.notes().last().unwrap().to_string(),
        "20.toml:1: no rule from here on decides anything: the one at 10.toml:1 matches all: put match = {} last"
    );
    assert!(
        Policy::default().is_empty() && !Policy::default().may_concern("/user.slice/user-0.slice")
    );
    assert_eq!(policy.declared().len(), 0);
}
