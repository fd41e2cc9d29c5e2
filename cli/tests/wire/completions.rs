// SPDX-License-Identifier: GPL-2.0-only
//! What a shell is offered.

use super::peer::talk_with;
use serde_json::{Value, json};
use std::process::Command;

/// What a shell is offered for the last of these words.
fn offered(words: &[&str], answer: Value) -> Vec<String> {
    let asked: Vec<&str> = ["--", "tixctl"].iter().chain(words).copied().collect();
    let answer = json!({ "parameters": answer });
    let (_, output) = talk_with(&[("TIXCTL_COMPLETE", "fish")], &asked, &[answer]);
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let candidates = text.lines().filter_map(|line| line.split('\t').next());
    candidates.map(str::to_owned).collect()
}

#[test]
fn completions_know_what_there_is_now() {
    let currency =
        |cid: u64, name: &str| json!({ "cid": cid, "name": name, "cgroup": null, "owner": 0 });
    let list = json!({ "currencies": [
        currency(0, "base"), currency(1, "alice"), currency(2, "alice/gold"),
        currency(3, "/a.slice"),
        // What a shell would run.
        currency(4, "/a$(reboot)"), currency(5, "/a b")
    ] });
    let cases: &[(&[&str], &[&str])] = &[
        (&["fund", "al"], &["alice", "alice/gold"]),
        (&["fund", "alice", "--from", "b"], &["base"]),
        (&["explain", "/"], &["/a.slice"]),
        (&["destroy", "al"], &["alice", "alice/gold"]),
        (&["bind", "alice", "/"], &["/a.slice"]),
    ];
    for (words, wanted) in cases {
        assert_eq!(offered(words, list.clone()), *wanted, "{words:?}");
    }
    let rights = |resource: &str| json!({ "resource": resource, "amount": 1.5 });
    let offer = json!({
        "id": 12, "principal": "alice", "uid": 0, "gives": rights("cpu"), "wants": rights("disk"),
        "minimum": null, "all_or_none": false, "expires_usec": null
    });
    let book = json!({ "offers": [offer], "next": null });
    assert_eq!(offered(&["offer", "cancel", "1"], book), ["12"]);
    let disk = json!({
        "device": "vda", "number": "254:0", "mechanism": "none", "rate": null, "hint": ""
    });
    let status = json!({
        "version": "0", "uptime_usec": 1, "cost": null, "scheduler": {
            "enforcer": "none", "in_force": false, "state": "", "ops": null, "reason": null,
            "reloads": 0, "shared_cgroups": 0, "nodes": 0, "nodes_max": 0, "forced_runs": 0,
            "lent_usec": 0
        },
        "disks": [disk], "currencies": 0, "cgroups": 0, "base_tickets": 0, "limits": null,
        "user_currency": null, "problems": [], "notices": [],
        "store": { "writable": true, "reason": null },
        "policy": { "directory": "", "files": 0, "rules": 0, "problems": [] }
    });
    assert_eq!(offered(&["disk", "enable", "v"], status), ["vda"]);
}

#[test]
fn completions_without_tixd_are_those_of_the_grammar() {
    let output = Command::new(env!("CARGO_BIN_EXE_tixctl"))
        .args(["--", "tixctl", "offer", ""])
        .env("TIXCTL_COMPLETE", "fish")
        .env("TIX_SOCKET", "/nonexistent/tixd.sock")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for command in ["list", "make", "amend", "cancel"] {
        assert!(text.lines().any(|line| line.starts_with(command)), "{text}");
    }
}
