// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl offer list`

use crate::candidates;
use crate::failure::Failure;
use crate::{out, pager, trade};
use clap_complete::ArgValueCandidates;
use tix_api::Tix;
use tix_client::Client;

/// List the book: who offers what for what
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what this currency or cgroup offers
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
            .call(|tixd| tixd.offers(of, after, Some(trade::PAGE)))
            .await?;
        Ok((page.offers, page.next))
    })
    .await?;
    match (args.json, all.is_empty()) {
        (true, _) => out::json(&all),
        (false, true) => {
            out::print("Nobody offers anything: `tixctl offer make` puts an offer on the book.")
        }
        (false, false) => pager::print(&trade::offers(&all)),
    }
}
