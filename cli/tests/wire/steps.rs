// SPDX-License-Identifier: GPL-2.0-only
//! What changes something, and what is said then.

use super::peer::{granted, talk, talk_with};
use serde_json::{Value, json};

#[test]
fn what_a_user_creates_is_told_by_its_full_name() {
    for (reply, told) in [
        (
            json!({ "cid": 1, "name": "alice/gold" }),
            "alice/gold is created; nothing funds it yet.\n",
        ),
        (
            json!({ "cid": 1, "name": "gold" }),
            "gold is created; nothing funds it yet.\n",
        ),
        // As a tixd says that knows no spaces.
        (
            json!({ "cid": 1 }),
            "gold is created; nothing funds it yet.\n",
        ),
    ] {
        assert_eq!(granted(&["create", "gold"], reply).2, told);
    }
}

#[test]
fn operations_are_asked_for_in_numbers() {
    let ticket = |resource: &str, more: Value| {
        let mut all = json!({ "holder": "alice", "issuer": "base", "resource": resource });
        let more = more.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        all
    };
    let ends = |mut more: Value| {
        more["holder"] = json!("alice/alice");
        more["issuer"] = json!("base");
        more
    };
    let part = ends(json!({ "amount": 125, "bytes": false }));
    let size = ends(json!({ "amount": 268_435_456, "bytes": true }));
    let given = |owner, group| json!({ "name": "alice/alice", "owner": owner, "group": group });
    let cases: &[(&str, Value, &str, Value)] = &[
        (
            "fund alice --from base disk 300",
            ends(json!({ "amount": 300 })),
            "Fund",
            ticket("disk", json!({ "amount": 300 })),
        ),
        (
            "fund alice --from base cpu 300 --set",
            ends(json!({ "amount": 300 })),
            "SetFunding",
            ticket("cpu", json!({ "amount": 300 })),
        ),
        (
            "unfund alice --from base cpu",
            ends(json!({ "amount": 0 })),
            "Unfund",
            ticket("cpu", json!({})),
        ),
        (
            "unfund alice --from base cpu 5",
            // As a tixd says that does not name them.
            json!({ "amount": 1 }),
            "Unfund",
            ticket("cpu", json!({ "amount": 5 })),
        ),
        (
            "bind alice x.service",
            json!({ "name": "alice/alice", "cgroup": "/system.slice/x.service" }),
            "Bind",
            json!({ "name": "alice", "target": "x.service" }),
        ),
        (
            "unbind alice",
            json!({ "name": "alice/alice", "cgroups": ["/a", "/b"] }),
            "Unbind",
            json!({ "name": "alice" }),
        ),
        (
            "destroy alice",
            json!({ "name": "alice/alice", "tickets": 2, "cgroups": ["/a"] }),
            "Destroy",
            json!({ "name": "alice" }),
        ),
        (
            "reserve alice --from base cpu 12.5%",
            part.clone(),
            "Reserve",
            ticket("cpu", json!({ "milli": 125 })),
        ),
        (
            "reserve alice --from base net 250",
            part,
            "Reserve",
            ticket("net", json!({ "milli": 250 })),
        ),
        (
            "reserve alice --from base memory 256M",
            size,
            "Reserve",
            ticket("memory", json!({ "bytes": 268_435_456 })),
        ),
        (
            "unreserve alice --from base memory",
            ends(json!({})),
            "Unreserve",
            ticket("memory", json!({})),
        ),
        (
            "limit alice cpu 150.5%",
            json!({ "name": "alice/alice", "in_force": true }),
            "Limit",
            json!({ "name": "alice", "resource": "cpu", "milli": 1505 }),
        ),
        (
            "unlimit alice cpu",
            json!({ "name": "alice/alice" }),
            "Unlimit",
            json!({ "name": "alice", "resource": "cpu" }),
        ),
        (
            "create alice",
            json!({ "cid": 1 }),
            "Create",
            json!({ "name": "alice" }),
        ),
        (
            "create alice --owner root --group 50 --mode g+f",
            json!({ "cid": 1 }),
            "Create",
            json!({ "name": "alice", "owner": 0, "group": 50, "mode": 0o740 }),
        ),
        (
            "chmod -f alice",
            json!({ "name": "alice/alice", "mode": 0o340 }),
            "Chmod",
            json!({ "name": "alice", "mode": "-f" }),
        ),
        (
            "chown 3999999999:root alice",
            given(3_999_999_999_u32, 0),
            "Chown",
            json!({ "name": "alice", "owner": 3_999_999_999_u32, "group": 0 }),
        ),
        (
            "chown :3999999999 alice",
            given(0, 3_999_999_999_u32),
            "Chown",
            json!({ "name": "alice", "group": 3_999_999_999_u32 }),
        ),
        (
            "cancel 5 --yes",
            json!({ "exchange": true }),
            "Cancel",
            json!({ "id": 5 }),
        ),
        (
            "chgrp root alice",
            given(0, 0),
            "Chown",
            json!({ "name": "alice", "group": 0 }),
        ),
    ];
    let mut told = String::new();
    for (line, reply, method, parameters) in cases {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (asked, with, said) = granted(&arguments, reply.clone());
        assert_eq!((asked.as_str(), &with), (*method, parameters), "{line}");
        told += &format!("$ tixctl {line}\n{said}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn what_was_measured_of_a_disk_is_said() {
    let reply = json!({
        "mechanism": "iocost", "random_iops": 400, "sequential_iops": 410,
        "bytes_per_sec": 52_428_800,
        "model": "254:0 ctrl=user", "qos": "254:0 enable=1"
    });
    let (method, asked, said) = granted(&["disk", "enable", "vda"], reply.clone());
    let wanted = json!({ "device": "vda", "bfq": false });
    assert_eq!((method.as_str(), asked), ("DiskEnable", wanted));
    let measured = "measured: 400 reads/s anywhere, 410 reads/s in a row, 50 MiB/s";
    let first = "iocost holds shares of vda now";
    assert_eq!(
        said,
        format!("{first}\n{measured}\n254:0 ctrl=user\n254:0 enable=1\n")
    );
    let (_, asked, said) = granted(&["disk", "enable", "vda", "--bfq", "--json"], reply.clone());
    assert_eq!(asked["bfq"], true);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), reply);
}

#[test]
fn what_is_taken_back_is_said_with_what_is_so_now() {
    let reply =
        json!({ "seq": 7, "undone": "alice was limited", "message": "alice is not limited" });
    for (line, wanted) in [("undo", json!({})), ("undo 7", json!({ "seq": 7 }))] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (method, asked, said) = granted(&arguments, reply.clone());
        assert_eq!((method.as_str(), asked), ("Undo", wanted));
        assert_eq!(
            said,
            "7 (alice was limited) is taken back: alice is not limited.\n"
        );
    }
}

/// What is tried is asked for as it would be, and nobody is told that it is done.
#[test]
fn a_dry_run_is_tixds() {
    let effect = json!({ "currency": "alice", "resource": "cpu", "before": 0.0, "after": 0.75 });
    let tried =
        json!({ "acts": ["alice holds 3 cpu tickets of base"], "effects": [effect], "more": 0 });
    let part =
        json!({ "amount": 125, "bytes": false, "not_held": { "message": "m", "hint": "h" } });
    let exchange = json!({ "exchange": true });
    let gone = json!({ "name": "alice", "tickets": 0, "cgroups": [] });
    let live = json!({ "exchange": { "id": 7, "parties": [], "state": "active", "why": null } });
    let offer = json!({
        "id": 5, "matched": false, "exchanges": [], "offer": null, "note": null, "conflicting": []
    });
    for (line, reply, method) in [
        ("destroy alice", gone, "Destroy"),
        ("accept 5 alice", live, "Accept"),
        (
            "offer make alice --give cpu:1 --want disk:1",
            offer.clone(),
            "Offer",
        ),
        ("offer amend 5 --give cpu:1", offer, "Amend"),
        (
            "fund alice --from base cpu 3",
            json!({ "amount": 3 }),
            "Fund",
        ),
        (
            "fund alice --from base cpu 3 --set",
            json!({ "amount": 3 }),
            "SetFunding",
        ),
        (
            "unfund alice --from base cpu",
            json!({ "amount": 0 }),
            "Unfund",
        ),
        ("reserve alice --from base cpu 12.5%", part, "Reserve"),
        ("limit alice cpu 10%", json!({ "in_force": false }), "Limit"),
        ("create alice", json!({ "cid": 1 }), "Create"),
        ("bind alice /a", json!({ "cgroup": "/a" }), "Bind"),
        ("chmod g+f alice", json!({ "mode": 0o740 }), "Chmod"),
        ("cancel 5 --yes", exchange, "Cancel"),
        (
            "undo",
            json!({ "seq": 7, "undone": "x", "message": "" }),
            "Undo",
        ),
    ] {
        let arguments: Vec<&str> = line.split(' ').chain(["--dry-run"]).collect();
        let answers = [
            json!({}),
            json!({ "parameters": reply }),
            json!({ "parameters": tried }),
        ];
        let (calls, output) = talk(&arguments, &answers);
        let asked: Vec<&str> = calls.iter().filter_map(|c| c["method"].as_str()).collect();
        let wanted = ["Rehearse", method, "Rehearsed"].map(|m| format!("org.tix.Tix.{m}"));
        assert_eq!(asked, wanted, "{line}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.starts_with("Would be done: alice holds 3 cpu tickets"),
            "{line}: {text}"
        );
        assert!(
            text.ends_with("75.00 %\nNothing was changed.\n"),
            "{line}: {text}"
        );
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{line}"
        );
    }
}

#[test]
fn disks_are_turned_off_and_listed() {
    let off = ["disk", "disable", "vda"];
    for (was, told) in [
        ("iocost", "Nothing shares vda now: iocost is off.\n"),
        ("none", "Nothing shares vda, as before.\n"),
    ] {
        let (method, asked, said) = granted(&off, json!({ "was": was }));
        assert_eq!(method, "DiskDisable");
        assert_eq!((asked, said.as_str()), (json!({ "device": "vda" }), told));
    }
}

#[test]
fn what_is_done_quietly_is_done_and_not_said() {
    let part = json!({ "amount": 125, "bytes": false });
    let given = json!({ "name": "alice", "owner": 0, "group": 0 });
    for (line, reply) in [
        ("create alice -q", json!({ "cid": 1 })),
        (
            "destroy -q alice",
            json!({ "name": "alice", "tickets": 2, "cgroups": [] }),
        ),
        ("fund alice --from base cpu 3 -q", json!({ "amount": 3 })),
        (
            "unfund alice --from base cpu --quiet",
            json!({ "amount": 0 }),
        ),
        ("reserve -q alice --from base cpu 12.5%", part),
        (
            "unreserve -q alice --from base cpu",
            json!({ "holder": "alice", "issuer": "base" }),
        ),
        ("limit -q alice cpu 10%", json!({ "in_force": true })),
        ("unlimit -q alice cpu", json!({ "name": "alice" })),
        ("bind -q alice /a", json!({ "cgroup": "/a" })),
        (
            "unbind -q alice",
            json!({ "name": "alice", "cgroups": ["/a"] }),
        ),
        ("chmod -q g+f alice", json!({ "mode": 0o740 })),
        ("chown -q root alice", given.clone()),
        ("chgrp -q root alice", given),
        ("cancel -q -y 5", json!({ "exchange": true })),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_eq!(granted(&arguments, reply).2, "", "{line}");
    }
}

#[test]
fn a_refusal_exits_with_1_and_says_what_to_do() {
    for (error, more) in [
        ("TooMuch", json!({ "left": 100, "asked": 250 })),
        ("BadMode", json!({})),
    ] {
        let mut parameters = json!({ "message": "what happened", "hint": "what to do" });
        let more = more.as_object().unwrap().clone();
        parameters.as_object_mut().unwrap().extend(more);
        let answer = json!({ "error": format!("org.tix.Tix.{error}"), "parameters": parameters });
        let (_, output) = talk(&["chmod", "g+f", "alice"], &[answer]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}: {said}");
        assert_eq!(said, "error: what happened\nhint: what to do\n");
    }
}

#[test]
fn what_others_have_named_does_nothing_to_a_terminal() {
    let terminal = [("CLICOLOR_FORCE", "1")];
    let name = "/x\u{1b}]0;title\u{7}\u{9b}2J";
    let list = json!({"parameters": {"offers": [], "exchanges": [{
        "id": 1, "state": "revoked", "why": name,
        "parties": [{"principal": name, "gives": {"resource": "cpu", "amount": 1.0}, "gets": null}],
    }]}});
    let refused =
        json!({"error": "org.tix.Tix.NoSuchCgroup", "parameters": {"message": name, "hint": name}});
    let list = std::slice::from_ref(&list);
    for (arguments, answers) in [
        (&["exchanges"][..], list),
        (&["exchanges", "--json"], list),
        (&["destroy", "x"], &[refused]),
    ] {
        let (_, output) = talk_with(&terminal, arguments, answers);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("title"), "{arguments:?}: {said:?}");
        for order in ["\u{1b}]", "\u{7}", "\u{9b}"] {
            assert!(!said.contains(order), "{arguments:?}: {said:?}");
        }
    }
}

/// On stderr, so that what reads the output is not disturbed; a tixd from before it was told says
/// less.
#[test]
fn what_nothing_holds_is_said_when_it_is_done() {
    let said = |arguments: &[&str], reply: Value| {
        let (_, output) = talk(arguments, &[json!({ "parameters": reply })]);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let why = json!({ "message": "tixd runs with --observe", "hint": "start it without" });
    let reserve = ["reserve", "alice", "--from", "base", "cpu", "10%"];
    let limit = ["limit", "alice", "cpu", "10%"];
    assert_eq!(
        said(
            &reserve,
            json!({ "amount": 100, "bytes": false, "not_held": why })
        ),
        "tixctl: it is reserved, and nothing holds it now: tixd runs with --observe.\n  → start it \
         without\n"
    );
    assert_eq!(
        said(&limit, json!({ "in_force": false, "not_held": why })),
        "tixctl: the limit is kept, and nothing holds it now: tixd runs with --observe.\n  → start \
         it without\n"
    );
    let old = said(&limit, json!({ "in_force": false }));
    assert!(
        old.contains("the limit is kept, and does not hold now"),
        "{old}"
    );
    assert_eq!(said(&reserve, json!({ "amount": 100, "bytes": false })), "");
}
