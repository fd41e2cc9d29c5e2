// SPDX-License-Identifier: GPL-2.0-only
//! What the commands ask of tixd, word for word, and what they make of its answers. The peer here only listens and says what it was told
//! to; that tixd means the same by it is tested with a real one, in a guest.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output};

/// Runs tixctl against a peer that gives these answers, one to each call (several, if it is an array), and then hangs up; the calls,
/// and what came of it.
fn talk(arguments: &[&str], answers: &[Value]) -> (Vec<Value>, Output) {
    talk_with(&[], arguments, answers)
}

/// The same, with these variables.
fn talk_with(
    variables: &[(&str, &str)],
    arguments: &[&str],
    answers: &[Value],
) -> (Vec<Value>, Output) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("tixd.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answers = answers.to_vec();
    let peer = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut calls: Vec<Value> = Vec::new();
        for answer in &answers {
            let mut call = Vec::new();
            reader.read_until(0, &mut call).unwrap();
            assert_eq!(call.pop(), Some(0), "no call but {calls:?}");
            calls.push(serde_json::from_slice(&call).unwrap());
            let one = std::slice::from_ref(answer);
            for answer in answer.as_array().map_or(one, Vec::as_slice) {
                let message = [answer.to_string().as_bytes(), &[0]].concat();
                (&stream).write_all(&message).unwrap();
            }
        }
        calls
    });
    let output = Command::new(env!("CARGO_BIN_EXE_tixctl"))
        .args(arguments)
        .env("TIX_SOCKET", &socket)
        .env("TZ", "UTC")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    // Should it not have called at all, then the peer waits still.
    drop(UnixStream::connect(&socket));
    (peer.join().unwrap(), output)
}

/// A command that makes one call and is granted it.
fn granted(arguments: &[&str], reply: Value) -> (String, Value, String) {
    let answer = match reply.as_object().is_some_and(|all| all.is_empty()) {
        true => json!({}),
        false => json!({ "parameters": reply }),
    };
    let (calls, output) = talk(arguments, &[answer]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let method = calls[0]["method"].as_str().unwrap();
    let method = method.strip_prefix("org.tix.Tix.").unwrap();
    let mut parameters = calls[0]["parameters"].clone();
    // What is not said may be left out or null.
    if let Some(all) = parameters.as_object_mut() {
        all.retain(|_, value| !value.is_null());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (method.to_owned(), parameters, text)
}

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
        "mechanism": "iocost", "random_iops": 400, "sequential_iops": 410, "bytes_per_sec": 52_428_800,
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
    for (line, reply, method) in [
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
fn offers_are_asked_for_as_they_are_written() {
    let reply = json!({ "id": 5, "matched": false, "exchanges": [], "offer": null, "note": null, "conflicting": [] });
    let line =
        "offer /a.service --give cpu:12.5 --want memory:256M --minimum 64M --expires 1h --json";
    let arguments: Vec<&str> = line.split(' ').collect();
    let (method, asked, said) = granted(&arguments, reply.clone());
    let wanted = json!({
        "principal": "/a.service", "give": "cpu:12.5", "want": "memory:256M", "minimum": "64M", "expires_sec": 3600
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

fn record(seq: u64) -> Value {
    json!({
        "seq": seq, "time_usec": 1_795_273_445_000_000_u64, "uid": null, "who": "tixd", "kind": "policy", "subject": "",
        "message": format!("number {seq}"), "operation": null
    })
}

fn numbers(output: &Output) -> Vec<u64> {
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let records = log["records"].as_array().unwrap();
    records.iter().map(|r| r["seq"].as_u64().unwrap()).collect()
}

#[test]
fn the_newest_of_the_log_are_asked_for_at_once() {
    let reply = json!({ "parameters": { "records": [record(7), record(8)], "next": null } });
    let (calls, output) = talk(&["log", "alice", "--mine", "-n", "2", "--json"], &[reply]);
    let asked = &calls[0]["parameters"];
    assert_eq!(
        (&asked["subject"], &asked["mine"], &asked["limit"]),
        (&json!("alice"), &json!(true), &json!(2))
    );
    assert_eq!(
        (&asked["after"], &asked["since_usec"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(numbers(&output), [7, 8]);
}

#[test]
fn what_happened_since_is_read_to_the_end() {
    let page =
        |records: Value, next: Value| json!({ "parameters": { "records": records, "next": next } });
    let answers = [
        page(json!([record(1), record(2)]), json!(5)),
        page(json!([record(6)]), Value::Null),
    ];
    let (calls, output) = talk(&["log", "--since", "@17", "--json"], &answers);
    assert_eq!(calls[0]["parameters"]["since_usec"], 17_000_000);
    assert_eq!(calls[1]["parameters"]["after"], 5);
    assert_eq!(numbers(&output), [1, 2, 6]);
    let (_, output) = talk(&["log", "--since", "@17", "-n", "2", "--json"], &answers);
    assert_eq!(numbers(&output), [2, 6]);
}

#[test]
fn an_export_is_put_together_and_written_only_when_it_is_whole() {
    let part =
        |text: &str, more: bool| json!({ "parameters": { "chunk": text }, "continues": more });
    let whole = json!([part("{\"a\":", true), part("1}", false)]);
    let (calls, output) = talk(&["export"], std::slice::from_ref(&whole));
    assert_eq!(calls[0]["more"], true);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"a\":1}\n");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.json");
    let path = file.to_str().unwrap();
    let (_, output) = talk(&["export", path], &[json!([part("{\"a\":", true)])]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!file.exists());
    let (_, output) = talk(&["export", path], &[whole]);
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{\"a\":1}\n");
}

#[test]
fn an_import_goes_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.json");
    let text = "{\"names\":\"ä\"}\n".repeat(800);
    std::fs::write(&file, &text).unwrap();
    let answers = [
        json!({ "parameters": { "id": 3 } }),
        json!({}),
        json!({}),
        json!({ "parameters": { "changes": ["create alice"], "applied": false } }),
    ];
    let (calls, output) = talk(&["import", "--dry-run", file.to_str().unwrap()], &answers);
    let chunk = |call: &Value| call["parameters"]["chunk"].as_str().unwrap().to_owned();
    assert_eq!(chunk(&calls[1]) + &chunk(&calls[2]), text);
    assert_eq!(calls[3]["method"], "org.tix.Tix.ImportEnd");
    assert_eq!(calls[3]["parameters"], json!({ "id": 3, "dry_run": true }));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("create alice\n1 change would"));
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
        currency(0, "base"), currency(1, "alice"), currency(2, "alice/gold"), currency(3, "/a.slice"),
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
    let disk = json!({ "device": "vda", "number": "254:0", "mechanism": "none", "rate": null, "hint": "" });
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
