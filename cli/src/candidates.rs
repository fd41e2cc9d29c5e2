// SPDX-License-Identifier: GPL-2.0-only
//! What a shell offers while a command line is typed: the names that tixd knows at that moment.
//! Where it does not answer at once there are none.

use crate::failure::Failure;
use crate::harmless::harmless;
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

/// What a shell offers, and shows beside it: anybody may have named that.
fn candidate(value: impl Into<String>, help: Option<&str>) -> CompletionCandidate {
    let help = help.map(|help| harmless(help).replace('\n', "\\u000a"));
    CompletionCandidate::new(value.into()).help(help.map(Into::into))
}

fn named(wanted: impl Fn(&CurrencyName) -> bool) -> Vec<CompletionCandidate> {
    let list = ask(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.list_currencies()).await
    });
    let all = list.into_iter().flat_map(|list| list.currencies);
    all.filter(|currency| wanted(currency) && is_harmless(&currency.name))
        .map(|currency| candidate(currency.name, currency.cgroup.as_deref()))
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
    all.map(|offer| candidate(offer.id.to_string(), Some(&offer.principal)))
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
            candidate(exchange.id.to_string(), Some(&between))
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
    all.filter(|disk| is_harmless(&disk.device))
        .map(|disk| candidate(disk.device, None))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_beside_a_name_does_nothing_to_a_terminal() {
        let help = |text: &str| {
            let candidate = candidate("7", Some(text));
            candidate.get_help().map(ToString::to_string)
        };
        assert_eq!(help("/a/b"), Some("/a/b".to_owned()));
        let shown = help("/a\x1b]0;title\x07\u{202e}\n/b");
        assert_eq!(
            shown.as_deref(),
            Some(r"/a\u001b]0;title\u0007\u202e\u000a/b")
        );
        assert_eq!(candidate("7", None).get_help(), None);
        assert!(is_harmless("/a/b") && !is_harmless("/a\x1b[2J") && !is_harmless("a b"));
    }
}
