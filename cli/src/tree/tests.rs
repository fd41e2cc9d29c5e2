// SPDX-License-Identifier: GPL-2.0-only
//! Made-up trees, and how they look.

use super::*;
use tix_api::{ExchangeTicket, Problem, Share};

fn currency(
    cid: u64,
    name: &str,
    cgroup: Option<&str>,
    funding: &[(&str, u64)],
    share: (f64, f64, u64),
) -> Currency {
    Currency {
        cid,
        name: name.into(),
        cgroup: cgroup.map(str::to_owned),
        owner: 0,
        group: 0,
        mode: 0o700,
        mode_text: tix_api::units::mode::show(0o700),
        active: share.1 > 0.0,
        transient: false,
        funding: funding
            .iter()
            .map(|&(from, amount)| ticket(from, Resource::Cpu, Kind::Soft, amount))
            .collect(),
        exchanges: Vec::new(),
        limits: Vec::new(),
        cpu: Share {
            entitlement: share.0,
            share: share.1,
            used_usec: share.2,
            entitlement_bytes: None,
            ..Share::default()
        },
        disk: Share::default(),
        memory: Share::default(),
        net: Share::default(),
        not_held: None,
    }
}

fn ticket(from: &str, resource: Resource, kind: Kind, amount: u64) -> Funding {
    Funding {
        from: from.into(),
        resource,
        kind,
        amount,
        bytes: None,
    }
}

fn sample() -> TreeReply {
    TreeReply {
        currencies: vec![
            currency(0, "base", Some("/"), &[], (1.0, 1.0, 100_000_000)),
            currency(1, "alice", None, &[("base", 300)], (0.75, 0.75, 75_000_000)),
            currency(
                2,
                "bob",
                Some("/jobs/bob"),
                &[("base", 100)],
                (0.25, 0.0, 1_500),
            ),
            currency(
                3,
                "/user.slice",
                Some("/user.slice"),
                &[("base", 100)],
                (0.2, 0.2, 0),
            ),
            currency(
                4,
                "/user.slice/a",
                Some("/user.slice/a"),
                &[("/user.slice", 100)],
                (0.2, 0.2, 0),
            ),
            currency(
                5,
                "pool",
                Some("/pool"),
                &[("alice", 1), ("bob", 1)],
                (1.0, 0.75, 75_000_000),
            ),
            currency(6, "spare", None, &[], (0.0, 0.0, 0)),
        ],
        not_held: None,
    }
}

/// With hard tickets, other resources, an exchange, and owners.
fn rich() -> TreeReply {
    let mut tree = sample();
    let share = |entitlement: f64, share: f64, bytes: Option<u64>| Share {
        entitlement,
        share,
        used_usec: 0,
        entitlement_bytes: bytes,
        ..Share::default()
    };
    let gib = |n: u64| Some(n << 30);
    let base = &mut tree.currencies[0];
    base.disk = share(1.0, 1.0, None);
    base.memory = share(1.0, 1.0, gib(8));
    base.memory.used_bytes = gib(6);
    base.disk.used_bytes = Some(5 << 20);
    let alice = &mut tree.currencies[1];
    (alice.owner, alice.group, alice.mode) = (1000, 50, 0o740);
    alice
        .funding
        .push(ticket("base", Resource::Cpu, Kind::Hard, 125));
    alice
        .funding
        .push(ticket("base", Resource::Disk, Kind::Soft, 100));
    alice.funding.push(Funding {
        bytes: Some(true),
        ..ticket("base", Resource::Memory, Kind::Hard, 256 << 20)
    });
    alice.disk = share(1.0, 0.0, None);
    alice.memory = share(0.03125, 0.03125, Some(256 << 20));
    alice.exchanges.push(ExchangeTicket {
        resource: Resource::Cpu,
        amount_milli: -3_125,
        with: "run-7".into(),
    });
    let pool = &mut tree.currencies[5];
    (pool.owner, pool.group, pool.mode) = (1001, 1001, 0o700);
    pool.funding
        .push(ticket("alice", Resource::Memory, Kind::Hard, 500));
    pool.memory = share(0.015625, 0.015625, Some(128 << 20));
    let mut job = currency(7, "run-7", Some("/run-7"), &[], (0.03125, 0.03125, 12));
    (job.owner, job.group, job.transient) = (1000, 1000, true);
    job.exchanges.push(ExchangeTicket {
        resource: Resource::Cpu,
        amount_milli: 3_125,
        with: "alice".into(),
    });
    tree.currencies.push(job);
    for currency in &mut tree.currencies {
        currency.mode_text = tix_api::units::mode::show(u16::try_from(currency.mode).unwrap());
    }
    tree
}

fn names() -> Names {
    Names::of(
        &[(0, "root"), (1000, "alice"), (1001, "1001")],
        &[(0, "root"), (50, "staff"), (1000, "alice"), (1001, "1001")],
    )
}

fn plain(tree: &TreeReply, shown: Shown, names: Option<Names>, width: Option<u16>) -> String {
    anstream::adapter::strip_str(&render(tree, shown, names, width)).to_string()
}

/// As in a terminal of that width.
fn within(width: u16, tree: &TreeReply, shown: Shown, names: Option<Names>) -> String {
    let text = plain(tree, shown, names, Some(width));
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= usize::from(width)),
        "{text}"
    );
    text
}

#[test]
fn text() {
    insta::assert_snapshot!("tree_text", plain(&sample(), Shown::Cpu, None, None));
}

#[test]
fn narrow() {
    insta::assert_snapshot!("tree_narrow", within(60, &sample(), Shown::Cpu, None));
}

#[test]
fn hard_tickets_and_exchanges() {
    insta::assert_snapshot!("tree_hard", plain(&rich(), Shown::Cpu, None, None));
}

#[test]
fn whose_they_are_comes_before_what_they_have() {
    insta::assert_snapshot!("tree_long", within(80, &rich(), Shown::Cpu, Some(names())));
}

#[test]
fn of_other_resources_only_what_has_to_do_with_them() {
    insta::assert_snapshot!("tree_memory", within(80, &rich(), Shown::Memory, None));
    insta::assert_snapshot!("tree_disk", within(80, &rich(), Shown::Disk, None));
    insta::assert_snapshot!("tree_all", within(80, &rich(), Shown::All, None));
}

#[test]
fn json() {
    insta::assert_snapshot!("tree_json", serde_json::to_string_pretty(&rich()).unwrap());
}

#[test]
fn a_cycle_in_a_torn_snapshot_ends() {
    let tree = TreeReply {
        currencies: vec![
            currency(1, "a", None, &[("b", 1)], (0.0, 0.0, 0)),
            currency(2, "b", None, &[("a", 1)], (0.0, 0.0, 0)),
        ],
        not_held: None,
    };
    assert!(render(&tree, Shown::Cpu, None, None).contains("see above"));
}

#[test]
fn limits_have_a_column_where_there_are_any() {
    let mut tree = sample();
    tree.currencies[1].cpu.limit_milli = Some(300);
    let text = render(&tree, Shown::Cpu, None, None);
    let text = anstream::adapter::strip_str(&text).to_string();
    assert!(text.lines().next().is_some_and(|l| l.contains("LIMIT")));
    assert!(line(&text, "alice").contains("30 % of one CPU"), "{text}");
    assert_eq!(text.matches("of one CPU").count(), 1, "{text}");
    assert!(!render(&tree, Shown::Disk, None, None).contains("LIMIT"));
    assert!(!render(&sample(), Shown::Cpu, None, None).contains("LIMIT"));
}

/// The line of `name`.
fn line(text: &str, name: &str) -> String {
    let mut lines = text.lines().filter(|line| line.contains(name));
    lines.next().unwrap_or_default().to_owned()
}

#[test]
fn who_waits_for_a_limit_or_is_frozen_is_not_called_idle() {
    let mut tree = sample();
    tree.currencies[2].cpu.throttled = Some(true);
    tree.currencies[6].cpu.frozen = Some(true);
    let text = plain(&tree, Shown::Cpu, None, None);
    assert!(
        text.contains("bob (throttled)") && text.contains("spare (frozen)"),
        "{text}"
    );
    assert!(!text.contains("idle"), "{text}");
    let problem = Problem {
        message: "what bob holds has no effect in /jobs/bob".into(),
        hint: "root: `echo +cpu > /sys/fs/cgroup/jobs/cgroup.subtree_control`".into(),
    };
    tree.currencies[2].not_held = Some(problem);
    let text = plain(&tree, Shown::Cpu, None, None);
    assert!(line(&text, "bob").contains("bob (not in force)"), "{text}");
    assert!(
        text.contains("Of bob something is not in force: what bob holds"),
        "{text}"
    );
    assert!(text.ends_with("  → root: `echo +cpu > /sys/fs/cgroup/jobs/cgroup.subtree_control`"));
    assert!(!plain(&tree, Shown::Memory, None, None).contains("not in force"));
}

#[test]
fn what_nothing_holds_is_not_shown_as_a_share_of_now() {
    let mut tree = sample();
    let not = |resource| NotHeld {
        resource,
        message: "tixd runs with --observe: nothing is enforced".into(),
        hint: "start tixd without --observe".into(),
    };
    // Nor is anybody known to be idle.
    assert!(plain(&tree, Shown::Cpu, None, None).contains("(idle)"));
    tree.not_held = Some(vec![not(Resource::Cpu), not(Resource::Disk)]);
    let text = plain(&tree, Shown::Cpu, None, None);
    assert!(!text.contains("(idle)"), "{text}");
    assert!(!text.contains("SHARE NOW"), "{text}");
    assert!(
        text.contains("Nothing holds shares of cpu now: tixd runs with --observe"),
        "{text}"
    );
    assert!(!text.contains("of disk now"), "{text}");
    let all = plain(&tree, Shown::All, None, None);
    // Of one cause, it is said once.
    assert!(
        all.contains("Nothing holds shares of cpu and disk now: "),
        "{all}"
    );
    assert_eq!(all.matches("--observe").count(), 2, "{all}");
    assert!(!plain(&tree, Shown::Memory, None, None).contains("Nothing holds"));
}

#[test]
fn only_a_cgroup_is_shown_without_what_it_is_below() {
    for (name, issuer, shown) in [
        ("/a/b", Some("/a"), "b"),
        ("/a/b", Some("alice"), "/a/b"),
        ("/a/b", None, "/a/b"),
        ("alice/gold", Some("alice"), "alice/gold"),
        ("alice/gold", Some("/alice"), "alice/gold"),
    ] {
        assert_eq!(super::short(name, issuer), shown);
    }
}

#[test]
fn tickets_that_nothing_enforces_are_told_of() {
    let mut tree = sample();
    let told = |tree: &TreeReply, shown| render(tree, shown, None, None).contains("not enforced");
    let net = ticket("base", Resource::Net, Kind::Soft, 7);
    assert!(!told(&tree, Shown::All));
    tree.currencies[1].funding.push(net);
    assert_eq!(
        [Shown::All, Shown::Net, Shown::Cpu].map(|shown| told(&tree, shown)),
        [true, true, false]
    );
}
