// SPDX-License-Identifier: GPL-2.0-only
//! Trades over the socket: matched or answered with what conflicts, kept, told, and ended.

use super::server::{Client, Tixd, is_root_for};
use serde_json::{Value, json};
use std::io::Write;

fn done(c: &mut Client, method: &str, parameters: Value) -> Value {
    let reply = c.call(method, parameters);
    assert!(reply.get("error").is_none(), "{method}: {reply}");
    reply["parameters"].clone()
}

/// A and b have 100 of the CPU and of the disk each; only root may give that.
fn market(c: &mut Client) -> bool {
    if !is_root_for("a market") {
        return false;
    }
    for name in ["a", "b"] {
        done(c, "Create", json!({"name": name}));
        for resource in ["cpu", "disk"] {
            let fund =
                json!({"holder": name, "issuer": "base", "resource": resource, "amount": 100});
            done(c, "Fund", fund);
        }
    }
    true
}

fn offer(c: &mut Client, principal: &str, give: &str, want: &str) -> Value {
    let offer = json!({"principal": principal, "give": give, "want": want});
    done(c, "Offer", offer)
}

fn rights(resource: &str, amount: f64) -> Value {
    json!({"resource": resource, "amount": amount})
}

#[test]
fn an_offer_is_matched_or_answered_with_what_conflicts() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    if !market(&mut c) {
        return;
    }
    let open = offer(&mut c, "a", "cpu:40", "disk:20");
    assert_eq!(
        (&open["matched"], &open["conflicting"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(open["offer"]["gives"], rights("cpu", 40.0));
    let id = open["id"].clone();
    // b asks for more than a gives.
    let other = offer(&mut c, "b", "disk:20", "cpu:50");
    assert_eq!(other["matched"], false);
    assert_eq!(other["conflicting"][0]["id"], id);
    let amend = json!({"id": other["id"], "want": "cpu:20"});
    let amended = done(&mut c, "Amend", amend);
    assert_eq!(
        (&amended["matched"], &amended["id"]),
        (&json!(true), &other["id"])
    );
    let exchange = amended["exchanges"][0].clone();
    // The surplus of 20 is split.
    let party = |name: &str, gives: Value, gets: Value| json!({"principal": name, "gives": gives, "gets": gets});
    assert_eq!(
        exchange["parties"],
        json!([
            party("b", rights("disk", 20.0), rights("cpu", 30.0)),
            party("a", rights("cpu", 30.0), rights("disk", 20.0)),
        ])
    );
    assert_eq!(
        (&exchange["state"], &exchange["why"]),
        (&json!("active"), &Value::Null)
    );
    assert_eq!(done(&mut c, "Offers", json!({}))["offers"], json!([]));
    let all = done(&mut c, "Exchanges", json!({}));
    assert_eq!(all["exchanges"], json!([exchange]));
    // It is there after a restart, and so is what became of it.
    let tixd = Tixd::start_in(tixd.end());
    let mut c = tixd.connect();
    assert_eq!(done(&mut c, "Exchanges", json!({"principal": "a"})), all);
    assert_eq!(
        done(&mut c, "Cancel", json!({"id": exchange["id"]}))["exchange"],
        true
    );
    let tixd = Tixd::start_in(tixd.end());
    let mut c = tixd.connect();
    let shown = done(&mut c, "ShowExchange", json!({"id": exchange["id"]}))["exchange"].clone();
    assert_eq!(
        (&shown["state"], &shown["why"]),
        (&json!("revoked"), &json!("cancelled for a"))
    );
    assert_eq!(shown["parties"], exchange["parties"]);
}

#[test]
fn the_book_is_kept_listed_in_parts_accepted_and_cancelled() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    if !market(&mut c) {
        return;
    }
    let ids: Vec<Value> = (1..=5)
        .map(|n| offer(&mut c, "a", &format!("cpu:{n}"), "disk:12.5")["id"].clone())
        .collect();
    let limited = json!({
        "principal": "a", "give": "cpu:10%", "want": "disk:1", "minimum": "0.5",
        "expires_sec": 1000
    });
    let last = done(&mut c, "Offer", limited)["offer"].clone();
    assert_eq!(
        (&last["minimum"], &last["all_or_none"]),
        (&json!(0.5), &json!(false))
    );
    assert!(last["expires_usec"].is_u64());
    let tixd = Tixd::start_in(tixd.end());
    let mut c = tixd.connect();
    let page = |c: &mut Client, after: &Value| {
        let page = done(c, "Offers", json!({"limit": 2, "after": after}));
        (
            page["offers"].as_array().unwrap().clone(),
            page["next"].clone(),
        )
    };
    let (first, next) = page(&mut c, &Value::Null);
    assert_eq!((&first[0]["id"], &first[1]["id"]), (&ids[0], &ids[1]));
    let (second, _) = page(&mut c, &next);
    assert_eq!(second[0]["id"], ids[2]);
    let accepted = done(&mut c, "Accept", json!({"id": ids[2], "principal": "b"}));
    assert_eq!(
        accepted["exchange"]["parties"][0]["gives"],
        rights("disk", 12.5)
    );
    assert_eq!(
        done(&mut c, "Cancel", json!({"id": ids[0]}))["exchange"],
        false
    );
    assert_eq!(c.error("Cancel", json!({"id": ids[0]})), "NoSuchOffer");
    assert_eq!(
        c.error("Accept", json!({"id": ids[1], "principal": "a"})),
        "SelfTrade"
    );
    let left = done(&mut c, "Offers", json!({"principal": "a"}));
    assert_eq!(left["offers"].as_array().unwrap().len(), 4);
}

#[test]
fn what_makes_no_offer_is_refused_and_says_why() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    if !market(&mut c) {
        return;
    }
    let of = |give: &str, want: &str| json!({"principal": "a", "give": give, "want": want});
    for (give, want) in [
        ("cpu:0", "disk:1"),
        ("cpu", "disk:1"),
        ("gold:1", "disk:1"),
        ("cpu:1K", "disk:1"),
        ("cpu:1", "cpu:1"),
        ("cpu:1", "disk:101%"),
    ] {
        assert_eq!(
            c.error("Offer", of(give, want)),
            "BadOffer",
            "{give} {want}"
        );
    }
    for (key, value) in [
        ("minimum", json!("2")),
        ("minimum", json!("x")),
        ("expires_sec", json!(-1)),
        ("expires_sec", json!(0)),
        ("expires_sec", json!(1e300)),
    ] {
        let mut offer = of("cpu:1", "disk:1");
        offer[key] = value;
        assert_eq!(c.error("Offer", offer.clone()), "BadOffer", "{offer}");
    }
    assert_eq!(c.error("Offer", of("cpu:101", "disk:1")), "TooLittle");
    let nobody = json!({"principal": "nobody", "give": "cpu:1", "want": "disk:1"});
    assert_eq!(c.error("Offer", nobody), "NoSuchCurrency");
    let base = json!({"principal": "base", "give": "cpu:1", "want": "disk:1"});
    assert_eq!(c.error("Offer", base), "NotNamed");
    assert_eq!(c.error("ShowExchange", json!({"id": 99})), "NoSuchOffer");
    assert_eq!(c.error("Offers", json!({"limit": 5000})), "BadParameter");
}

#[test]
fn trades_are_told_as_they_happen_and_logged() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    if !market(&mut c) {
        return;
    }
    let mut w = tixd.connect();
    let call =
        json!({"method": "org.tix.Tix.Watch", "more": true, "parameters": {"interval_ms": 60_000}});
    w.0.write_all(&[call.to_string().as_bytes(), &[0]].concat())
        .unwrap();
    assert!(w.message().unwrap()["parameters"]["sample"].is_object());
    offer(&mut c, "a", "cpu:40", "disk:20");
    offer(&mut c, "b", "disk:20", "cpu:40");
    let withdraw = json!({"holder": "a", "issuer": "base", "resource": "cpu", "amount": 70});
    done(&mut c, "Unfund", withdraw);
    let lasting = json!({"principal": "b", "give": "disk:1", "want": "cpu:1", "expires_sec": 1});
    done(&mut c, "Offer", lasting);
    let mut told = Vec::new();
    while told.last().is_none_or(|(kind, _)| kind != "unoffered") {
        let event = w.message().unwrap()["parameters"]["event"].clone();
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        told.push((text("kind"), text("message")));
    }
    let kinds: Vec<&str> = told.iter().map(|(k, _)| k.as_str()).collect();
    let wanted = [
        "offered",
        "exchanged",
        "withdrawn",
        "revoked",
        "offered",
        "unoffered",
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(
        told[0].1,
        "a offers 40 cpu tickets for 20 disk tickets (offer 1)"
    );
    assert!(
        told[1]
            .1
            .ends_with("b gives 20 disk tickets, a gives 40 cpu tickets"),
        "{told:?}"
    );
    assert!(
        told[3].1.contains("a no longer has the cpu rights"),
        "{told:?}"
    );
    assert!(told[5].1.contains("it has expired"), "{told:?}");
    // Each party's log has it, also what the other one did, and though one user owns both.
    let mut log = |subject: &str| -> Vec<String> {
        let log = done(&mut c, "Log", json!({"subject": subject}));
        let records = log["records"].as_array().unwrap().iter();
        records
            .map(|r| r["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    for (party, kinds) in [
        ("a", ["offer", "exchanged", "unfund"]),
        ("b", ["offer", "revoked", "expire"]),
    ] {
        let log = log(party);
        for kind in kinds {
            assert!(log.iter().any(|k| k == kind), "{kind} of {party}: {log:?}");
        }
    }
}
