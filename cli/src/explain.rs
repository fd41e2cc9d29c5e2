// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl explain`: how a share comes about.

use crate::candidates;
use crate::failure::Failure;
use crate::ticket::ResourceArg;
use crate::{holds, out, pager};
use clap_complete::ArgValueCandidates;
use tix_api::{ExplainReply, FundingPath, Kind, Limit, LimitKind, Resource, Step, Tix};
use tix_client::Client;

/// Explain how a currency's share comes about, path by path
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    /// Its share of which resource: cpu, disk, memory or net
    #[arg(short, long, default_value = "cpu", hide_possible_values = true)]
    resource: ResourceArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let resource = args.resource.into();
    let reply = client
        .call(|tixd| tixd.explain(&args.name, Some(resource)))
        .await?;
    match args.json {
        true => out::json(&reply),
        false => pager::print(&render(&reply)),
    }
}

fn render(reply: &ExplainReply) -> String {
    let mut text = vec![sentence(reply)];
    // Where it has others beside these, its share is held there.
    let elsewhere = reply.currency.not_held.as_ref();
    if let Some(problem) = elsewhere.filter(|_| of_cpu(reply) && reply.not_held.is_none()) {
        text.push(holds::lines("Not everywhere", problem));
    }
    text.extend(limits(reply));
    let exchanged = exchanges(reply);
    if reply.paths.is_empty() && exchanged.is_empty() && reply.currency.cid != 0 {
        let root = rustix::process::geteuid().is_root();
        text.push(unfunded(reply, root));
    }
    // Base itself is reached without a step: nothing to show.
    let paths = || reply.paths.iter().filter(|path| !path.steps.is_empty());
    let count = paths().count();
    for (index, path) in paths().enumerate() {
        text.push(String::new());
        text.push(format!(
            "path {} of {count}: {}",
            index + 1,
            brings(reply, path)
        ));
        let is_held = reply.not_held.is_none();
        text.extend(path.steps.iter().map(|s| step(s, is_held)));
        text.extend(product(path, has_now(reply)));
    }
    if !exchanged.is_empty() {
        text.push(String::new());
        text.extend(exchanged);
    }
    if reply.truncated {
        text.push("\nThere are more paths; these are the first 256 found.".into());
    }
    text.join("\n")
}

/// What to do about that; `root`: it is root who asks, whose base's tickets are to give.
fn unfunded(reply: &ExplainReply, root: bool) -> String {
    let (name, resource) = (&reply.currency.name, reply.resource.name());
    match (reply.resource.is_enforced(), root) {
        (false, _) => "No currency funds it.".into(),
        (true, true) => format!(
            "No currency funds it: `tixctl fund {name} --from base {resource} 100` has base do so."
        ),
        (true, false) => format!(
            "No currency funds it: `tixctl fund {name} --from YOURS {resource} 100` has YOURS do \
             so, a currency that you own; base's tickets are root's to give."
        ),
    }
}

fn of_cpu(reply: &ExplainReply) -> bool {
    reply.resource == Resource::Cpu
}

/// Is there something to be said of this moment? Of memory what is protected is the same whoever
/// wants it.
fn has_now(reply: &ExplainReply) -> bool {
    reply.not_held.is_none() && reply.resource != Resource::Memory
}

/// What comes along a path.
fn brings(reply: &ExplainReply, path: &FundingPath) -> String {
    let (sure, now) = (out::percent(path.entitlement), out::percent(path.share));
    let limited = reply.currency.share(reply.resource).limited == Some(true);
    match (&reply.not_held, limited) {
        (Some(_), _) => format!("{sure} would be guaranteed"),
        _ if !has_now(reply) => format!("{sure} guaranteed"),
        (None, true) => format!("{sure} guaranteed, {now} now but for limits"),
        (None, false) => format!("{sure} guaranteed, {now} now"),
    }
}

/// Why a throttled currency waits, and until when.
fn throttled(reply: &ExplainReply) -> String {
    let used_up = reply
        .limits
        .iter()
        .filter(|limit| limit.refill_usec.is_some());
    match used_up.max_by_key(|limit| limit.refill_usec) {
        Some(limit) => format!(
            "now it is throttled: {} ({}) is used up until its next period begins, in {}",
            whose(limit),
            out::limit(limit.milli()),
            out::duration(limit.refill_usec.unwrap_or_default())
        ),
        None => {
            "now it is throttled: it waits for the next period of a limit of what it funds".into()
        }
    }
}

/// What it may have at most is less than its tickets bring.
fn bounded(reply: &ExplainReply, share: f64) -> String {
    let share = out::percent(share);
    let of_its_own = reply.limits.iter().filter(|limit| limit.in_force);
    match of_its_own.min_by_key(|limit| limit.milli()) {
        Some(limit) => format!(
            "now it gets {share}, for {} leaves it no more",
            whose(limit)
        ),
        None => format!("now it gets {share}, for limits of what it funds leave it no more"),
    }
}

fn whose(limit: &Limit) -> String {
    match limit.kind {
        LimitKind::CpuMax => format!("cpu.max of {}", limit.currency),
        LimitKind::Currency => format!("the limit of {}", limit.currency),
    }
}

fn sentence(reply: &ExplainReply) -> String {
    let currency = &reply.currency;
    let name = &currency.name;
    let resource = reply.resource.name();
    let have = currency.share(reply.resource);
    let entitled = match have.entitlement_bytes {
        Some(bytes) => format!("{} ({})", out::percent(have.entitlement), out::bytes(bytes)),
        None => out::percent(have.entitlement),
    };
    let wants = match reply.resource {
        Resource::Cpu => currency.active,
        _ => have.share > 0.0,
    };
    let now = match (wants, have.share) {
        _ if currency.cid == 0 => {
            return match reply.resource {
                Resource::Memory => format!(
                    "base is the whole machine: {} of memory can be guaranteed.",
                    out::bytes(reply.base_tickets)
                ),
                _ => format!(
                    "base is the whole machine: it has issued {} for {resource}.",
                    out::tickets(reply.base_tickets)
                ),
            };
        }
        _ if reply.not_held.is_some() => String::new(),
        _ if reply.resource == Resource::Memory => "what of it is not in use others use".into(),
        (false, _) if of_cpu(reply) && have.throttled == Some(true) => throttled(reply),
        (false, _) if of_cpu(reply) && have.frozen == Some(true) => {
            "now it is frozen (cgroup.freeze), so others use it".into()
        }
        (false, _) => "now it does not want any, so others use it".into(),
        (true, share) if have.limited == Some(true) => bounded(reply, share),
        (true, share) if share > have.entitlement + 1e-9 => {
            format!(
                "now it gets {}, because others are idle",
                out::percent(share)
            )
        }
        (true, share) => format!("now it gets {}", out::percent(share)),
    };
    match &reply.not_held {
        None => format!(
            "{name} is entitled to {entitled} of the machine's {resource}, whatever others do; \
             {now}."
        ),
        Some(problem) => holds::lines(
            &format!(
                "{name} would be entitled to {entitled} of the machine's {resource}, but nothing \
                 holds that now"
            ),
            problem,
        ),
    }
}

/// What it may have at most, and how often that was too little. Why some do not hold is said once.
fn limits(reply: &ExplainReply) -> Vec<String> {
    let mut text = Vec::new();
    // Causes that have been said.
    let mut said: Vec<&str> = reply.not_held.iter().map(|p| p.message.as_str()).collect();
    for limit in &reply.limits {
        let most = format!(
            "Limited to {} by {}",
            out::limit(limit.milli()),
            whose(limit)
        );
        if limit.in_force {
            text.push(format!(
                "{most}; throttled {} of {} periods, {} in all.",
                limit.throttled_periods,
                limit.periods,
                out::duration(limit.throttled_usec)
            ));
            continue;
        }
        let why = limit.why.as_deref();
        let why = why.unwrap_or("tix's scheduler is not in force");
        text.push(match said.iter().any(|cause| why.contains(cause)) {
            true => format!("{most}; that does not hold now, either."),
            false => format!("{most}; that does not hold now: {why}."),
        });
        said.push(why);
    }
    text
}

/// One ticket in words and numbers. Where nothing holds shares nobody knows who wants any.
fn step(step: &Step, is_held: bool) -> String {
    let Step {
        issuer,
        holder,
        amount,
        ..
    } = step;
    match step.kind {
        Kind::Soft => {
            let active = is_held.then(|| format!("{} of them active", step.issued_active));
            let rest = (!shared(step)).then(|| "what is not reserved is divided by them".into());
            let idle = (is_held && !step.active).then(|| "inactive now".into());
            let more: Vec<String> = [active, rest, idle].into_iter().flatten().collect();
            let more = match more.as_slice() {
                [] => String::new(),
                more => format!(" ({})", more.join("; ")),
            };
            format!(
                "  {issuer} → {holder}: {amount} of {}{more}",
                out::tickets(step.issued)
            )
        }
        Kind::Hard => {
            let idle = match is_held && !step.active {
                true => " (inactive now)",
                false => "",
            };
            let size = out::hard(*amount, step.bytes);
            format!("  {issuer} → {holder}: {size} of {issuer}, reserved{idle}")
        }
    }
}

/// Is the whole of the issuer divided by its soft tickets? Not if some of it is reserved.
fn shared(step: &Step) -> bool {
    step.issued == 0 || (step.part - step.amount as f64 / step.issued as f64).abs() < 1e-9
}

/// The multiplication along a path, for the guarantee and for now.
fn product(path: &FundingPath, has_now: bool) -> Vec<String> {
    let factors = |now: bool| -> String {
        let factors: Vec<String> = path
            .steps
            .iter()
            .map(|step| match (step.kind, now) {
                (Kind::Soft, true) if shared(step) => {
                    format!("{}/{}", step.amount, step.issued_active)
                }
                (Kind::Soft, false) if shared(step) => format!("{}/{}", step.amount, step.issued),
                (_, true) => out::percent(step.part_now),
                (_, false) => out::percent(step.part),
            })
            .collect();
        factors.join(" × ")
    };
    let line = |word: &str, now: bool, total: f64| {
        format!("  {word:<11} {} = {}", factors(now), out::percent(total))
    };
    let mut text = Vec::new();
    // A single part that is in per cent is what it comes to.
    let single = path.steps.len() == 1 && factors(false) == out::percent(path.entitlement);
    if single {
        return text;
    }
    text.push(line("guaranteed:", false, path.entitlement));
    if has_now && path.steps.iter().all(|step| step.active) {
        text.push(line("now:", true, path.share));
    }
    text
}

/// What it got or gave up beside its funding.
fn exchanges(reply: &ExplainReply) -> Vec<String> {
    let tickets = reply.currency.exchanges.iter();
    tickets
        .filter(|ticket| ticket.resource == reply.resource)
        .map(|ticket| {
            let amount = out::signed_tickets(ticket.amount_milli);
            match ticket.amount_milli < 0 {
                true => format!(
                    "exchanged: {amount} base tickets, given up for {}",
                    ticket.with
                ),
                false => format!("exchanged: {amount} base tickets, from {}", ticket.with),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
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
                "Limited to 30 % of one CPU by cpu.max of /x.slice; throttled 12 of 40 periods, 1.2 s in all.",
                "Limited to 150 % of one CPU by the limit of alice; that does not hold now: tix's scheduler is not in force.",
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
}
