// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a share says whether anything holds it, and what is to be typed can be typed.

use super::server::{Client, Tixd};
use serde_json::{Value, json};

fn done(c: &mut Client, method: &str, parameters: Value) -> Value {
    let reply = c.call(method, parameters);
    assert!(reply.get("error").is_none(), "{method}: {reply}");
    reply["parameters"].clone()
}

fn says(problem: &Value, word: &str) {
    let message = problem["message"].as_str().unwrap_or_default();
    assert!(message.contains(word), "{problem} does not say {word}");
    assert!(problem["hint"].is_string(), "{problem}");
}

/// Nothing is enforced here: each reply that tells of a share tells that.
#[test]
fn what_nothing_holds_is_not_promised() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    for name in ["a", "b"] {
        done(&mut c, "Create", json!({ "name": name }));
    }
    for resource in ["cpu", "disk", "memory"] {
        let part = json!({"holder": "b", "issuer": "a", "resource": resource, "milli": 100});
        says(&done(&mut c, "Reserve", part)["not_held"], "--observe");
        let b = json!({"name": "b", "resource": resource});
        says(&done(&mut c, "Explain", b)["not_held"], "--observe");
    }
    let tree = done(&mut c, "Tree", json!({}));
    let not_held = tree["not_held"].as_array().unwrap();
    let of: Vec<&Value> = not_held.iter().map(|not| &not["resource"]).collect();
    assert_eq!(of, ["cpu", "disk", "memory"]);
    not_held.iter().for_each(|not| says(not, "--observe"));
    let sample = done(&mut c, "Watch", json!({"interval_ms": 200}));
    says(&sample["sample"]["not_held"], "--observe");
}

/// Of memory what is protected is the same whoever wants it, and so is what is shown as the share
/// of now.
#[test]
fn of_memory_the_share_is_the_guarantee() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    let tree = done(&mut c, "Tree", json!({}));
    for currency in tree["currencies"].as_array().unwrap() {
        let memory = &currency["memory"];
        assert_eq!(memory["share"], memory["entitlement"], "{currency}");
    }
}

#[test]
fn what_a_cgroups_own_currency_cannot_do_is_said_with_what_can_be_done() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "a"}));
    for (method, parameters, what, hint) in [
        (
            "Destroy",
            json!({"name": "base"}),
            "be destroyed",
            "tixctl unfund",
        ),
        (
            "Bind",
            json!({"name": "a", "target": "/"}),
            "bound to it",
            "tixctl bind NAME",
        ),
        (
            "Unbind",
            json!({"name": "base"}),
            "be unbound",
            "tixctl unbind NAME",
        ),
        (
            "Chmod",
            json!({"name": "base", "mode": "700"}),
            "given to others",
            "tixctl create",
        ),
        (
            "Offer",
            json!({"principal": "base", "give": "cpu:1", "want": "disk:1"}),
            "exchange tickets",
            "tixctl offer NAME",
        ),
    ] {
        let reply = c.call(method, parameters);
        if !rustix::process::getuid().is_root() && reply["error"] != "org.tix.Tix.NotNamed" {
            continue;
        }
        assert_eq!(reply["error"], "org.tix.Tix.NotNamed", "{method}: {reply}");
        let said = &reply["parameters"];
        says(said, what);
        says(said, "whole machine");
        assert!(said["hint"].as_str().unwrap().contains(hint), "{said}");
    }
}
