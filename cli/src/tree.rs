// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl tree`

use crate::client::Client;
use crate::failure::Failure;
use crate::out;
use std::collections::{BTreeMap, BTreeSet};
use tix_api::{Currency, Kind, Resource, Tix, TreeReply};

/// Show every currency: who funds it, what it is entitled to, what it gets now
///
/// A currency stands below each currency that funds it; the second time without what is below it. The currency of a cgroup is shown
/// by the last part of its path below its parent's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let tree = client.call(|tixd| tixd.tree()).await?;
    match args.json {
        true => out::json(&tree),
        false => out::print(&render(&tree, out::width())),
    }
}

/// The funding graph as an indented table. Whatever base does not reach comes last.
fn render(tree: &TreeReply, width: Option<u16>) -> String {
    let mut walk = Walk {
        funded: funded_by(&tree.currencies),
        seen: BTreeSet::new(),
        rows: Vec::new(),
    };
    for currency in &tree.currencies {
        if currency.funding.is_empty() || currency.cid == 0 {
            walk.visit(currency, None, "", "");
        }
    }
    for currency in &tree.currencies {
        // Only in a snapshot torn by a change: its funder is not in it.
        if !walk.seen.contains(currency.name.as_str()) {
            walk.visit(currency, None, "", "");
        }
    }
    let columns = [
        "CURRENCY",
        ">TICKETS",
        ">ENTITLED",
        ">SHARE NOW",
        ">CPU USED",
        "BOUND TO",
    ];
    out::table(&columns, walk.rows, width)
}

/// A ticket from its issuer's side: the holder, and what it says.
type Funded<'a> = BTreeMap<&'a str, Vec<(&'a Currency, String)>>;

fn funded_by(currencies: &[Currency]) -> Funded<'_> {
    let mut funded: Funded<'_> = BTreeMap::new();
    for holder in currencies {
        for ticket in holder
            .funding
            .iter()
            .filter(|ticket| ticket.resource == Resource::Cpu)
        {
            let amount = match ticket.kind {
                Kind::Soft => ticket.amount.to_string(),
                Kind::Hard => format!("{}.{} % hard", ticket.amount / 10, ticket.amount % 10),
            };
            funded
                .entry(ticket.from.as_str())
                .or_default()
                .push((holder, amount));
        }
    }
    funded
}

struct Walk<'a> {
    funded: Funded<'a>,
    seen: BTreeSet<&'a str>,
    rows: Vec<Vec<String>>,
}

impl<'a> Walk<'a> {
    /// `currency` and all it funds, depth first. `lead` is drawn before its name, `below` before the names below it.
    fn visit(
        &mut self,
        currency: &'a Currency,
        ticket: Option<(&str, &str)>,
        lead: &str,
        below: &str,
    ) {
        let again = !self.seen.insert(&currency.name);
        let issuer = ticket.map(|(issuer, _)| issuer);
        let children = match again {
            false => self
                .funded
                .get(currency.name.as_str())
                .cloned()
                .unwrap_or_default(),
            true => Vec::new(),
        };
        let mut name = format!("{lead}{}", short(&currency.name, issuer));
        if again {
            name += " (see above)";
        } else if !currency.active {
            name += " (idle)";
        }
        let bound = currency
            .cgroup
            .as_deref()
            .filter(|cgroup| *cgroup != currency.name && currency.cid != 0);
        self.rows.push(vec![
            name,
            ticket
                .map(|(_, amount)| amount.to_owned())
                .unwrap_or_default(),
            out::percent(currency.cpu.entitlement),
            out::percent(currency.cpu.share),
            out::duration(currency.cpu.used_usec),
            bound.unwrap_or_default().to_owned(),
        ]);
        let last = children.len().saturating_sub(1);
        for (index, (child, amount)) in children.iter().enumerate() {
            let (branch, under) = if index == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let lead = format!("{below}{branch}");
            let under = format!("{below}{under}");
            self.visit(child, Some((&currency.name, amount)), &lead, &under);
        }
    }
}

/// A mirrored currency's path without its parent's, where that is what it stands below.
fn short<'a>(name: &'a str, issuer: Option<&str>) -> &'a str {
    match issuer.and_then(|issuer| name.strip_prefix(issuer)?.strip_prefix('/')) {
        Some(last) if !last.is_empty() => last,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Funding, Share};

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
            active: share.1 > 0.0,
            transient: false,
            funding: funding
                .iter()
                .map(|&(from, amount)| Funding {
                    from: from.into(),
                    resource: Resource::Cpu,
                    kind: Kind::Soft,
                    amount,
                })
                .collect(),
            cpu: Share {
                entitlement: share.0,
                share: share.1,
                used_usec: share.2,
            },
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
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn text() {
        insta::assert_snapshot!("tree_text", plain(&render(&sample(), None)));
    }

    #[test]
    fn narrow() {
        let text = plain(&render(&sample(), Some(60)));
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        insta::assert_snapshot!("tree_narrow", text);
    }

    #[test]
    fn json() {
        insta::assert_snapshot!(
            "tree_json",
            serde_json::to_string_pretty(&sample()).unwrap()
        );
    }

    #[test]
    fn a_cycle_in_a_torn_snapshot_ends() {
        let tree = TreeReply {
            currencies: vec![
                currency(1, "a", None, &[("b", 1)], (0.0, 0.0, 0)),
                currency(2, "b", None, &[("a", 1)], (0.0, 0.0, 0)),
            ],
        };
        assert!(render(&tree, None).contains("see above"));
    }
}
