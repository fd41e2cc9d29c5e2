// SPDX-License-Identifier: GPL-2.0-only
//! The log, and the ledger as a document.

use super::peer::talk;
use serde_json::{Value, json};
use std::process::Output;

fn record(seq: u64) -> Value {
    json!({
        "seq": seq, "time_usec": 1_795_273_445_000_000_u64, "uid": null, "who": "tixd",
        "kind": "policy", "subject": "",
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
