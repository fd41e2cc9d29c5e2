// SPDX-License-Identifier: GPL-2.0-only
//! Made-up shares, and how they are explained.

use super::*;
use tix_api::{Currency, ExchangeTicket, Problem, Share};

fn ticket(issuer: &str, holder: &str, amount: u64, issued: u64, issued_active: u64) -> Step {
    Step {
        issuer: issuer.into(),
        holder: holder.into(),
        kind: Kind::Soft,
        amount,
        issued_active,
        issued,
        active: issued_active > 0,
        bytes: None,
        part: amount as f64 / issued as f64,
        part_now: amount as f64 / issued_active.max(1) as f64,
    }
}

fn sample() -> ExplainReply {
    ExplainReply {
        currency: Currency {
            cid: 5,
            name: "build".into(),
            cgroup: Some("/jobs/build".into()),
            owner: 1000,
            group: 1000,
            mode: 0o700,
            mode_text: "fci------".into(),
            active: true,
            transient: false,
            funding: Vec::new(),
            exchanges: Vec::new(),
            limits: Vec::new(),
            cpu: Share {
                entitlement: 0.375,
                share: 0.75,
                used_usec: 12,
                entitlement_bytes: None,
                ..Share::default()
            },
            disk: Share::default(),
            memory: Share::default(),
            net: Share::default(),
            not_held: None,
        },
        resource: Resource::Cpu,
        base_tickets: 400,
        paths: vec![
            FundingPath {
                steps: vec![
                    ticket("base", "alice", 300, 400, 400),
                    ticket("alice", "build", 1, 2, 1),
                ],
                entitlement: 0.375,
                share: 0.75,
            },
            FundingPath {
                steps: vec![
                    ticket("base", "bob", 100, 400, 0),
                    ticket("bob", "build", 0, 1, 0),
                ],
                entitlement: 0.0,
                share: 0.0,
            },
        ],
        limits: Vec::new(),
        truncated: false,
        not_held: None,
    }
}

/// In a cgroup with cpu.max, and below a limit that does not hold.
fn limited() -> ExplainReply {
    let mut reply = sample();
    let own = Limit {
        currency: "/x.slice".into(),
        kind: LimitKind::CpuMax,
        quota_usec: 30_000,
        period_usec: 100_000,
        burst_usec: 0,
        in_force: true,
        periods: 40,
        throttled_periods: 12,
        throttled_usec: 1_200_000,
        why: None,
        refill_usec: None,
    };
    let above = Limit {
        currency: "alice".into(),
        kind: LimitKind::Currency,
        quota_usec: 150_000,
        in_force: false,
        ..own.clone()
    };
    reply.currency.cpu.limit_milli = Some(300);
    reply.currency.limits = vec![own.clone()];
    reply.limits = vec![own, above];
    reply
}

#[test]
fn limits_and_how_often_they_were_reached() {
    let text = render(&limited());
    let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
    assert_eq!(
        lines,
        [
            "Limited to 30 % of one CPU by cpu.max of /x.slice; throttled 12 of 40 periods, 1.2 s \
             in all.",
            "Limited to 150 % of one CPU by the limit of alice; that does not hold now: tix's \
             scheduler is not in force.",
        ]
    );
}

#[test]
fn what_nothing_funds_is_told_with_what_whoever_asks_may_do() {
    let mut reply = sample();
    assert!(unfunded(&reply, true).contains("`tixctl fund build --from base cpu 100`"));
    assert!(unfunded(&reply, false).contains("`tixctl fund build --from YOURS cpu 100`"));
    reply.paths.clear();
    reply.currency.exchanges.clear();
    assert!(render(&reply).contains("\nNo currency funds it: "));
    reply.resource = Resource::Net;
    assert_eq!(unfunded(&reply, true), "No currency funds it.");
}

#[test]
fn the_throttled_wait_and_are_not_idle() {
    let mut reply = limited();
    (reply.currency.active, reply.currency.cpu.share) = (false, 0.0);
    reply.currency.cpu.throttled = Some(true);
    reply.limits[0].refill_usec = Some(43_000);
    let first = render(&reply).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first,
        "build is entitled to 37.50 % of the machine's cpu, whatever others do; now it is \
         throttled: cpu.max of /x.slice (30 % of one CPU) is used up until its next period \
         begins, in 43.0 ms."
    );
    reply.limits.clear();
    let text = render(&reply);
    assert!(text.contains("a limit of what it funds"), "{text}");
    reply.currency.cpu.throttled = None;
    reply.currency.cpu.frozen = Some(true);
    let text = render(&reply);
    assert!(text.contains("now it is frozen (cgroup.freeze)"), "{text}");
}

#[test]
fn now_is_no_more_than_a_limit_leaves() {
    let mut reply = limited();
    (reply.currency.cpu.share, reply.currency.cpu.limited) = (0.075, Some(true));
    insta::assert_snapshot!("explain_limited", render(&reply));
}

#[test]
fn nothing_is_promised_where_nothing_holds_it() {
    let mut reply = sample();
    reply.not_held = Some(Problem {
        message: "tixd runs with --observe: nothing is enforced".into(),
        hint: "start tixd without --observe to have shares enforced".into(),
    });
    let text = render(&reply);
    assert!(!text.contains("whatever others do") && !text.contains("now it gets"));
    insta::assert_snapshot!("explain_not_held", text);
}

#[test]
fn a_cgroup_without_the_controller_is_named_with_what_to_type() {
    let problem = Problem {
        message: "what build holds has no effect in /jobs/build: the cpu controller is off in \
                  /sys/fs/cgroup/jobs/cgroup.subtree_control"
            .into(),
        hint: "root: `echo +cpu > /sys/fs/cgroup/jobs/cgroup.subtree_control`".into(),
    };
    let mut reply = limited();
    reply.currency.not_held = Some(problem.clone());
    let line = |text: &str, at| text.lines().nth(at).unwrap_or_default().to_owned();
    let text = render(&reply);
    assert!(
        line(&text, 1).starts_with("Not everywhere: what build holds"),
        "{text}"
    );
    assert!(line(&text, 2).starts_with("  → root: `echo +cpu"), "{text}");
    reply.not_held = Some(problem);
    reply.limits[1].why = Some("what build holds has no effect in /jobs/build".into());
    let text = render(&reply);
    assert!(line(&text, 0).contains("would be entitled"), "{text}");
    assert!(!text.contains("Not everywhere"), "{text}");
    assert!(
        text.contains("does not hold now: what build holds has no effect"),
        "{text}"
    );
    // Of one cause it is said once.
    let cause = reply.not_held.as_ref().map(|p| p.message.clone());
    reply.limits[1].why = cause;
    let text = render(&reply);
    assert_eq!(text.matches("what build holds").count(), 1, "{text}");
    assert!(text.contains("that does not hold now, either."), "{text}");
}

#[test]
fn text() {
    insta::assert_snapshot!("explain_text", render(&sample()));
}

/// Of memory, with hard tickets beside soft ones, and something given up.
fn rich() -> ExplainReply {
    let mut reply = sample();
    reply.resource = Resource::Memory;
    reply.base_tickets = 8 << 30;
    reply.currency.memory = Share {
        entitlement: 0.1,
        share: 0.1,
        used_usec: 0,
        entitlement_bytes: Some(858_993_459),
        ..Share::default()
    };
    let exchange = |resource, amount_milli, with: &str| ExchangeTicket {
        resource,
        amount_milli,
        with: with.into(),
    };
    reply.currency.exchanges = vec![
        exchange(Resource::Memory, -1_500, "run-7"),
        exchange(Resource::Cpu, 7_000, "bob"),
        exchange(Resource::Memory, 20_000, "bob"),
    ];
    let hard = |issuer: &str, holder: &str, amount, bytes, part| Step {
        kind: Kind::Hard,
        bytes,
        part,
        part_now: part,
        active: true,
        ..ticket(issuer, holder, amount, 1, 0)
    };
    reply.paths = vec![
        FundingPath {
            steps: vec![
                hard("base", "alice", 2 << 30, Some(true), 0.25),
                hard("alice", "build", 125, None, 0.125),
            ],
            entitlement: 0.03125,
            share: 0.03125,
        },
        FundingPath {
            steps: vec![
                hard("base", "alice", 2 << 30, Some(true), 0.25),
                Step {
                    part: 0.4375,
                    part_now: 0.875,
                    ..ticket("alice", "build", 1, 2, 1)
                },
            ],
            entitlement: 0.109375,
            share: 0.21875,
        },
    ];
    reply
}

#[test]
fn what_is_reserved_of_base_is_not_multiplied() {
    let mut reply = rich();
    reply.paths.truncate(1);
    reply.paths[0].steps.truncate(1);
    reply.paths[0].entitlement = 0.25;
    let text = render(&reply);
    assert!(text.contains("path 1 of 1: 25.00 % guaranteed"), "{text}");
    assert!(
        !text.contains("guaranteed:") && !text.contains(" = "),
        "{text}"
    );
}

#[test]
fn hard_tickets_and_exchanges() {
    insta::assert_snapshot!("explain_hard", render(&rich()));
}

#[test]
fn json() {
    insta::assert_snapshot!(
        "explain_json",
        serde_json::to_string_pretty(&sample()).unwrap()
    );
}

#[test]
fn unfunded_says_what_to_do() {
    let mut reply = sample();
    reply.paths.clear();
    reply.currency.active = false;
    assert!(render(&reply).contains("tixctl fund build --from base cpu 100"));
}
