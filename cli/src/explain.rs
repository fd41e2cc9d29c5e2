// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl explain`: how a share comes about.

#[cfg(test)]
mod tests;

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
