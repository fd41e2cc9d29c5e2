// SPDX-License-Identifier: GPL-2.0-only
//! Offers and exchanges.

use super::peer::{granted, talk};
use serde_json::{Value, json};

#[test]
fn offers_are_asked_for_as_they_are_written() {
    let reply = json!({
        "id": 5, "matched": false, "exchanges": [], "offer": null, "note": null, "conflicting": []
    });
    let line =
        "offer /a.service --give cpu:12.5 --want memory:256M --minimum 64M --expires 1h --json";
    let arguments: Vec<&str> = line.split(' ').collect();
    let (method, asked, said) = granted(&arguments, reply.clone());
    let wanted = json!({
        "principal": "/a.service", "give": "cpu:12.5", "want": "memory:256M", "minimum": "64M",
        "expires_sec": 3600
    });
    assert_eq!((method.as_str(), asked), ("Offer", wanted));
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), reply);
    let (method, asked, said) =
        granted(&["amend", "5", "--want", "disk:1%", "--all-or-none"], reply);
    let wanted = json!({ "id": 5, "want": "disk:1%", "all_or_none": true });
    assert_eq!((method.as_str(), asked), ("Amend", wanted));
    assert_eq!(said, "offer 5: not matched\n");
    let rights = |resource: &str| json!({ "resource": resource, "amount": 1.5 });
    let exchange = json!({
        "id": 7, "state": "active", "why": null,
        "parties": [{ "principal": "a", "gives": rights("cpu"), "gets": rights("disk") }]
    });
    let one = json!({ "exchange": exchange });
    let (method, asked, said) = granted(&["accept", "5", "a"], one.clone());
    assert_eq!(
        (method.as_str(), asked),
        ("Accept", json!({ "id": 5, "principal": "a" }))
    );
    assert_eq!(
        said,
        "exchange 7, active\n  a gives 1.5 cpu tickets, gets 1.5 disk tickets\n"
    );
    let (method, _, _) = granted(&["exchange", "show", "7"], one);
    assert_eq!(method, "ShowExchange");
    // Page by page.
    let page = |next: Value| json!({ "parameters": { "exchanges": [exchange], "next": next } });
    let (calls, output) = talk(
        &["exchanges", "--json"],
        &[page(json!(7)), page(Value::Null)],
    );
    assert_eq!(calls[1]["parameters"]["after"], 7);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all, json!([exchange, exchange]));
}

/// What `exchange 7` is, and that there is none.
fn exchange_is(state: &str) -> Value {
    let rights = |resource: &str| json!({ "resource": resource, "amount": 1.5 });
    let party = |name: &str| json!({ "principal": name, "gives": rights("cpu"), "gets": null });
    let parties = [party("alice"), party("bob")];
    let exchange = json!({ "id": 7, "state": state, "why": null, "parties": parties });
    json!({ "parameters": { "exchange": exchange } })
}

fn no_exchange() -> Value {
    let parameters = json!({ "message": "there is no exchange 7", "hint": "" });
    json!({ "error": "org.tix.Tix.NoSuchOffer", "parameters": parameters })
}

/// There is no terminal here: only `--yes` ends an exchange.
#[test]
fn no_exchange_is_ended_by_a_slip() {
    let done = |exchange: bool| json!({ "parameters": { "exchange": exchange } });
    let live = || exchange_is("active");
    // What is typed, what is answered, what was asked, and what is said if it is refused.
    type Case<'a> = (&'a str, &'a [Value], &'a [&'a str], Option<&'a str>);
    let cases: &[Case<'_>] = &[
        (
            "cancel 7",
            &[live()],
            &["ShowExchange"],
            Some("`tixctl exchange end 7 --yes`"),
        ),
        ("cancel 7 --yes", &[done(true)], &["Cancel"], None),
        (
            "cancel 7",
            &[no_exchange(), done(false)],
            &["ShowExchange", "Cancel"],
            None,
        ),
        (
            "exchange end 7",
            &[live()],
            &["ShowExchange"],
            Some("is in force, and goes on"),
        ),
        (
            "exchange end 7 -y",
            &[live(), done(true)],
            &["ShowExchange", "Cancel"],
            None,
        ),
        (
            "exchange end 7 -y",
            &[no_exchange()],
            &["ShowExchange"],
            Some("no exchange 7"),
        ),
        (
            "exchange end 7",
            &[exchange_is("revoked")],
            &["ShowExchange"],
            Some("exchange list`"),
        ),
        (
            "offer cancel 7",
            &[live()],
            &["ShowExchange"],
            Some("`tixctl exchange end 7`"),
        ),
        (
            "offer cancel 7",
            &[no_exchange(), done(false)],
            &["ShowExchange", "Cancel"],
            None,
        ),
    ];
    for (line, answers, methods, refused) in cases {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (calls, output) = talk(&arguments, answers);
        let asked: Vec<&str> = calls.iter().filter_map(|c| c["method"].as_str()).collect();
        let wanted: Vec<String> = methods.iter().map(|m| format!("org.tix.Tix.{m}")).collect();
        assert_eq!(asked, wanted, "{line}");
        let said = String::from_utf8_lossy(&output.stderr);
        match refused {
            Some(what) => assert!(said.contains(what), "{line}: {said}"),
            None => assert!(output.status.success() && said.is_empty(), "{line}: {said}"),
        }
    }
}
