// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl exchange list`

use crate::candidates;
use crate::failure::Failure;
use crate::{out, pager, trade};
use clap_complete::ArgValueCandidates;
use tix_api::{Exchange, ExchangeState, Tix};
use tix_client::Client;

/// List what has been exchanged, and what was revoked of late
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those that this currency or cgroup takes part in
    #[arg(value_name = "CURRENCY", add = ArgValueCandidates::new(candidates::currencies))]
    principal: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let all = trade::all(async |after| {
        let of = args.principal.as_deref();
        let page = client
            .call(|tixd| tixd.exchanges(of, after, Some(trade::PAGE)))
            .await?;
        Ok((page.exchanges, page.next))
    })
    .await?;
    match (args.json, all.is_empty()) {
        (true, _) => out::json(&all),
        (false, true) => {
            out::print("Nothing has been exchanged: `tixctl offer list` shows what is offered.")
        }
        (false, false) => pager::print(&table(&all, out::width())),
    }
}

/// A row for each party.
fn table(all: &[Exchange], width: Option<u16>) -> String {
    let mut rows = Vec::new();
    for x in all {
        let state = match x.state {
            ExchangeState::Active => "active".to_owned(),
            ExchangeState::Revoked => {
                format!("revoked: {}", x.why.as_deref().unwrap_or_default())
            }
        };
        for p in &x.parties {
            rows.push(vec![
                p.principal.clone(),
                x.id.to_string(),
                p.gives.as_ref().map(trade::rights).unwrap_or_default(),
                p.gets.as_ref().map(trade::rights).unwrap_or_default(),
                state.clone(),
            ]);
        }
    }
    out::table(
        &["CURRENCY", ">ID", ">GIVES", ">GETS", "STATE"],
        rows,
        width,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Party, Resource, Rights};

    #[test]
    fn a_row_for_each_party() {
        let cpu = Rights {
            resource: Resource::Cpu,
            amount: 100.0,
        };
        let memory = Rights {
            resource: Resource::Memory,
            amount: 268_435_456.0,
        };
        let party = |name: &str, gives, gets| Party {
            principal: name.into(),
            gives: Some(gives),
            gets: Some(gets),
        };
        let active = Exchange {
            id: 3,
            parties: vec![
                party("alice", cpu, memory),
                party("/b.service", memory, cpu),
            ],
            state: ExchangeState::Active,
            why: None,
        };
        let revoked = Exchange {
            id: 4,
            state: ExchangeState::Revoked,
            why: Some("/b.service is gone".into()),
            ..active.clone()
        };
        let all = [active, revoked];
        let text = anstream::adapter::strip_str(&table(&all, None)).to_string();
        insta::assert_snapshot!("text", text);
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&all).unwrap());
    }
}
