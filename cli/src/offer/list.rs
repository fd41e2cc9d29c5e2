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

/// Offers in one answer of tixd's.
const PAGE: i64 = 1000;

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = client
            .call(|tixd| tixd.offers(args.principal.as_deref(), after, Some(PAGE)))
            .await?;
        all.extend(page.offers);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    match (args.json, all.is_empty()) {
        (true, _) => out::json(&all),
        (false, true) => {
            out::print("Nobody offers anything: `tixctl offer make` puts an offer on the book.")
        }
        (false, false) => pager::print(&trade::offers(&all)),
    }
}
