// SPDX-License-Identifier: GPL-2.0-only
//! What a shell offers while a command line is typed: the names that tixd knows at that moment.
//! Where it does not answer at once there are none.

use crate::failure::Failure;
use crate::runtime;
use clap_complete::engine::CompletionCandidate;
use std::future::Future;
use std::time::Duration;
use tix_api::{CurrencyName, ExchangeState, Tix, shell};
use tix_client::{Client, Error};
use tokio::time::timeout;

/// Whoever has pressed Tab does not wait for longer.
const SOON: Duration = Duration::from_secs(1);
/// Offers or exchanges that are offered, at most.
const MOST: i64 = 1000;

fn ask<T>(conversation: impl Future<Output = Result<T, Error>>) -> Option<T> {
    let answer = runtime::wait(async {
        let answer = timeout(SOON, conversation).await;
        Ok::<_, Failure>(answer.ok().and_then(Result::ok))
    });
    answer.ok().flatten()
}

/// A shell may put it on its command line as it is; anybody may call a cgroup what is run there.
fn is_harmless(name: &str) -> bool {
    shell::word(name) == name
}

fn named(wanted: impl Fn(&CurrencyName) -> bool) -> Vec<CompletionCandidate> {
    let list = ask(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.list_currencies()).await
    });
    let all = list.into_iter().flat_map(|list| list.currencies);
    all.filter(|currency| wanted(currency) && is_harmless(&currency.name))
        .map(|currency| {
            CompletionCandidate::new(currency.name).help(currency.cgroup.map(Into::into))
        })
        .collect()
}

/// Every currency, those of cgroups among them.
pub fn currencies() -> Vec<CompletionCandidate> {
    named(|_| true)
}

/// Currencies that somebody has created.
pub fn created() -> Vec<CompletionCandidate> {
    named(|currency| !currency.name.starts_with('/') && currency.cid != 0)
}

/// Cgroups that have a currency.
pub fn cgroups() -> Vec<CompletionCandidate> {
    named(|currency| currency.name.starts_with('/'))
}

/// Offers on the book.
pub fn offers() -> Vec<CompletionCandidate> {
    let page = ask(async {
        let mut client = Client::connect().await?;
        client
            .call(|tixd| tixd.offers(None, None, Some(MOST)))
            .await
    });
    let all = page.into_iter().flat_map(|page| page.offers);
    all.map(|offer| {
        CompletionCandidate::new(offer.id.to_string()).help(Some(offer.principal.into()))
    })
    .collect()
}

/// Exchanges that are in force.
pub fn exchanges() -> Vec<CompletionCandidate> {
    let page = ask(async {
        let mut client = Client::connect().await?;
        client
            .call(|tixd| tixd.exchanges(None, None, Some(MOST)))
            .await
    });
    let all = page.into_iter().flat_map(|page| page.exchanges);
    all.filter(|exchange| exchange.state == ExchangeState::Active)
        .map(|exchange| {
            let parties = exchange
                .parties
                .iter()
                .map(|party| party.principal.as_str());
            let between = parties.collect::<Vec<_>>().join(" and ");
            CompletionCandidate::new(exchange.id.to_string()).help(Some(between.into()))
        })
        .collect()
}

/// Disks that could be shared.
pub fn disks() -> Vec<CompletionCandidate> {
    let status = ask(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.status()).await
    });
    let all = status.into_iter().flat_map(|status| status.disks);
    all.map(|disk| CompletionCandidate::new(disk.device))
        .collect()
}
