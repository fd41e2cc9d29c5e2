// SPDX-License-Identifier: GPL-2.0-only
//! Offers and exchanges on the command line: what is given and wanted, and how they are shown.

use crate::failure::Failure;
use crate::step::Step;
use crate::{out, when};
use tix_api::units::{duration, rights};
use tix_api::{Exchange, ExchangeState, Offer, OfferReply, Rights};
use tix_client::Client;

/// Offers, or exchanges, in one answer of tixd's.
pub const PAGE: i64 = 1000;

/// All of them: `page` asks for those after a number, and says after which there are more.
pub async fn all<T>(
    mut page: impl AsyncFnMut(Option<u64>) -> Result<(Vec<T>, Option<u64>), Failure>,
) -> Result<Vec<T>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (more, next) = page(after).await?;
        all.extend(more);
        after = next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Parses `RESOURCE:AMOUNT`. tixd knows what per cent of the machine are.
pub fn side(text: &str) -> Result<String, String> {
    match rights::resource_and_amount(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Parses a duration into seconds.
pub fn lasts(text: &str) -> Result<i64, String> {
    let length = duration::lasting(text).map_err(|e| e.to_string())?;
    i64::try_from(length.as_secs()).map_err(|e| e.to_string())
}

/// An amount with its unit.
pub fn rights(r: &Rights) -> String {
    rights::show(r.resource, rights::milli(r.amount))
}

/// One line for each that takes part.
pub fn exchange(x: &Exchange) -> String {
    let state = match (x.state, &x.why) {
        (ExchangeState::Active, _) => "active".to_owned(),
        (ExchangeState::Revoked, Some(why)) => format!("revoked: {why}"),
        (ExchangeState::Revoked, None) => "revoked".to_owned(),
    };
    let mut lines = vec![format!("exchange {}, {state}", x.id)];
    for p in &x.parties {
        let gives = p.gives.as_ref().map(|r| format!("gives {}", rights(r)));
        let gets = p.gets.as_ref().map(|r| format!("gets {}", rights(r)));
        let both: Vec<String> = gives.into_iter().chain(gets).collect();
        lines.push(format!("  {} {}", p.principal, both.join(", ")));
    }
    lines.join("\n")
}

/// Offers as a table.
pub fn offers(all: &[Offer]) -> String {
    let rows = all.iter().map(|o| {
        let takes = match (o.all_or_none, o.minimum) {
            (true, _) => "all or none".to_owned(),
            (false, None) => "any part".to_owned(),
            (false, Some(least)) => {
                format!(
                    "≥ {}",
                    rights(&Rights {
                        amount: least,
                        ..o.wants
                    })
                )
            }
        };
        let expires = match o.expires_usec {
            None => "never".to_owned(),
            Some(at) => when::shown(at, &jiff::tz::TimeZone::system()),
        };
        vec![
            o.principal.clone(),
            o.id.to_string(),
            rights(&o.gives),
            rights(&o.wants),
            takes,
            expires,
        ]
    });
    let columns = ["CURRENCY", ">ID", ">GIVES", ">WANTS", "TAKES", "EXPIRES"];
    out::table(&columns, rows.collect(), out::width())
}

/// What became of an offer.
pub async fn placed(
    client: &mut Client,
    reply: &OfferReply,
    as_json: bool,
    step: Step,
) -> Result<(), Failure> {
    if as_json && !step.is_dry() {
        return out::json(reply);
    }
    step.done(client, &told(reply)).await
}

fn told(reply: &OfferReply) -> String {
    let id = reply.id;
    let mut lines = Vec::new();
    match (&reply.offer, reply.matched) {
        (None, true) if reply.note.is_none() => lines.push(format!("offer {id}: matched")),
        (_, true) => lines.push(format!("offer {id}: matched in part")),
        (_, false) => lines.push(format!("offer {id}: not matched")),
    }
    lines.extend(reply.exchanges.iter().map(exchange));
    if let Some(o) = &reply.offer {
        let (gives, wants) = (rights(&o.gives), rights(&o.wants));
        lines.push(format!("on the book: {gives} for {wants}"));
    }
    if let Some(note) = &reply.note {
        lines.push(format!("the rest is not on the book: {note}"));
    }
    if let Some(first) = reply.conflicting.first() {
        let hint = format!(
            "\nThese give what you want, on other terms (`tixctl accept {} CURRENCY` takes the \
             first, `tixctl offer amend {id}` meets one):",
            first.id
        );
        lines.push(hint);
        lines.push(offers(&reply.conflicting));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Party, Resource};

    fn of(resource: Resource, amount: f64) -> Rights {
        Rights { resource, amount }
    }

    fn offer(id: u64) -> Offer {
        Offer {
            id,
            principal: "/user.slice/user-1001.slice".into(),
            uid: 1001,
            gives: of(Resource::Memory, 268_435_456.0),
            wants: of(Resource::Cpu, 12.5),
            minimum: Some(5.0),
            all_or_none: false,
            expires_usec: None,
        }
    }

    fn made() -> Exchange {
        let party = |name: &str, gives, gets| Party {
            principal: name.into(),
            gives: Some(gives),
            gets: Some(gets),
        };
        let (cpu, disk) = (of(Resource::Cpu, 100.0), of(Resource::Disk, 50.25));
        Exchange {
            id: 7,
            parties: vec![party("alice", cpu, disk), party("bob", disk, cpu)],
            state: ExchangeState::Active,
            why: None,
        }
    }

    #[test]
    fn what_became_of_an_offer() {
        let open = OfferReply {
            id: 5,
            matched: false,
            exchanges: vec![],
            offer: Some(Offer {
                id: 5,
                principal: "alice".into(),
                ..offer(5)
            }),
            note: None,
            conflicting: vec![
                offer(3),
                Offer {
                    minimum: None,
                    all_or_none: true,
                    ..offer(4)
                },
            ],
        };
        let matched = OfferReply {
            id: 6,
            matched: true,
            exchanges: vec![made()],
            offer: None,
            note: None,
            conflicting: vec![],
        };
        let strip = |r: &OfferReply| anstream::adapter::strip_str(&told(r)).to_string();
        insta::assert_snapshot!("offer_open", strip(&open));
        insta::assert_snapshot!("offer_matched", strip(&matched));
        insta::assert_snapshot!(
            "offer_json",
            serde_json::to_string_pretty(&matched).unwrap()
        );
    }

    #[test]
    fn an_exchange_that_is_over_says_why() {
        let over = Exchange {
            state: ExchangeState::Revoked,
            why: Some("cancelled for bob".into()),
            ..made()
        };
        insta::assert_snapshot!("exchange_revoked", exchange(&over));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(lasts("1h30min"), Ok(5_400));
        for wrong in ["", "0s", "5", "-5s", "tomorrow"] {
            assert!(lasts(wrong).is_err(), "{wrong}");
        }
    }
}
