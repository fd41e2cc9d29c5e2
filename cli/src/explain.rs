// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl explain`: how a share comes about.

use crate::client::Client;
use crate::failure::Failure;
use crate::out;
use tix_api::{ExplainReply, FundingPath, Kind, Step, Tix};

/// Explain how a currency's share comes about, path by path
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let reply = client.call(|tixd| tixd.explain(&args.name, None)).await?;
    match args.json {
        true => out::json(&reply),
        false => out::print(&render(&reply)),
    }
}

fn render(reply: &ExplainReply) -> String {
    let mut text = vec![sentence(reply)];
    if reply.paths.is_empty() && reply.currency.cid != 0 {
        text.push(format!(
            "Nobody funds it. Give it tickets: tixctl fund {} --from base cpu 100",
            reply.currency.name
        ));
    }
    // Base itself is reached without a step: nothing to show.
    let paths = || reply.paths.iter().filter(|path| !path.steps.is_empty());
    let count = paths().count();
    for (index, path) in paths().enumerate() {
        text.push(String::new());
        text.push(format!(
            "path {} of {count}: {} guaranteed, {} now",
            index + 1,
            out::percent(path.entitlement),
            out::percent(path.share),
        ));
        text.extend(path.steps.iter().map(step));
        if let Some(product) = product(path) {
            text.push(product);
        }
    }
    if reply.truncated {
        text.push("\nThere are more paths; these are the first 256 found.".into());
    }
    text.join("\n")
}

fn sentence(reply: &ExplainReply) -> String {
    let currency = &reply.currency;
    let name = &currency.name;
    let entitled = out::percent(currency.cpu.entitlement);
    let now = match (currency.active, currency.cpu.share) {
        _ if currency.cid == 0 => {
            return format!(
                "base is the whole machine: it has issued {} for cpu.",
                out::tickets(reply.base_tickets)
            );
        }
        (false, _) => "now it does not want any, so others use it".into(),
        (true, share) if share > currency.cpu.entitlement + 1e-9 => {
            format!(
                "now it gets {}, because others are idle",
                out::percent(share)
            )
        }
        (true, share) => format!("now it gets {}", out::percent(share)),
    };
    format!("{name} is entitled to {entitled} of the machine's cpu, whatever others do; {now}.")
}

/// One ticket in words and numbers.
fn step(step: &Step) -> String {
    let Step {
        issuer,
        holder,
        amount,
        ..
    } = step;
    let idle = if step.active { "" } else { "; idle now" };
    match step.kind {
        Kind::Soft => format!(
            "  {issuer} → {holder}: {amount} of {} ({} of them active{idle})",
            out::tickets(step.issued),
            step.issued_active
        ),
        Kind::Hard => {
            format!("  {issuer} → {holder}: {amount} thousandths of {issuer}, guaranteed{idle}")
        }
    }
}

/// The multiplication along a path, for the guarantee and for now.
fn product(path: &FundingPath) -> Option<String> {
    if path.steps.is_empty() {
        return None;
    }
    let factors = |now: bool| -> String {
        let factors: Vec<String> = path
            .steps
            .iter()
            .map(|step| match step.kind {
                Kind::Hard => format!("{}/1000", step.amount),
                Kind::Soft if now => format!("{}/{}", step.amount, step.issued_active),
                Kind::Soft => format!("{}/{}", step.amount, step.issued),
            })
            .collect();
        factors.join(" × ")
    };
    let mut text = format!(
        "  guaranteed: {} = {}",
        factors(false),
        out::percent(path.entitlement)
    );
    let all_soft = path.steps.iter().all(|step| step.kind == Kind::Soft);
    if all_soft && path.steps.iter().all(|step| step.active) {
        text += &format!(
            "\n  now:        {} = {}",
            factors(true),
            out::percent(path.share)
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Currency, Resource, Share};

    fn ticket(issuer: &str, holder: &str, amount: u64, issued: u64, issued_active: u64) -> Step {
        Step {
            issuer: issuer.into(),
            holder: holder.into(),
            kind: Kind::Soft,
            amount,
            issued_active,
            issued,
            active: issued_active > 0,
        }
    }

    fn sample() -> ExplainReply {
        ExplainReply {
            currency: Currency {
                cid: 5,
                name: "build".into(),
                cgroup: Some("/jobs/build".into()),
                owner: 1000,
                active: true,
                transient: false,
                funding: Vec::new(),
                cpu: Share {
                    entitlement: 0.375,
                    share: 0.75,
                    used_usec: 12,
                },
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
            truncated: false,
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!("explain_text", render(&sample()));
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
