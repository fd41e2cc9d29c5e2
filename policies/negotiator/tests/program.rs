// SPDX-License-Identifier: GPL-2.0-only
//! The program as one meets it, with a peer that answers as tixd would. With a real one it is tested in a guest.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

fn share(entitlement: f64) -> Value {
    json!({ "entitlement": entitlement, "share": 0.0, "used_usec": 0 })
}

/// As tixd would, of a currency that has a quarter of everything.
fn answer(method: &str, asked: &Value, book: &mut Vec<Value>) -> Value {
    let currency = json!({
        "cid": 3, "name": "small", "cgroup": "/kv", "owner": 1000, "group": 1000, "mode": 448, "mode_text": "fci------",
        "active": true, "transient": false, "funding": [], "exchanges": [],
        "cpu": share(0.25), "disk": share(0.25), "memory": share(0.25), "net": share(0.0),
    });
    match method {
        "Explain" => json!({
            "currency": currency, "resource": asked["resource"], "base_tickets": 4000, "paths": [], "truncated": false,
        }),
        "Offers" => json!({ "offers": book, "next": null }),
        "Exchanges" => json!({ "exchanges": [], "next": null }),
        "Offer" => {
            let side =
                |resource: &str, amount: u32| json!({ "resource": resource, "amount": amount });
            book.push(json!({
                "id": 5, "principal": "small", "uid": 1000, "gives": side("cpu", 100), "wants": side("disk", 98),
                "minimum": null, "all_or_none": false, "expires_usec": null,
            }));
            json!({
                "id": 5, "matched": false, "exchanges": [], "offer": book[0], "note": null, "conflicting": [],
            })
        }
        _ => json!({ "exchange": false }),
    }
}

/// Answers one connection; tells of the calls that change something.
fn serve(stream: UnixStream, told: &Sender<(String, Value)>) {
    let mut reader = BufReader::new(&stream);
    let mut book = Vec::new();
    loop {
        let mut call = Vec::new();
        if reader.read_until(0, &mut call).unwrap_or(0) == 0 {
            return;
        }
        call.pop();
        let call: Value = serde_json::from_slice(&call).unwrap();
        let method = call["method"].as_str().unwrap();
        let method = method.strip_prefix("org.tix.Tix.").unwrap();
        let reply = json!({ "parameters": answer(method, &call["parameters"], &mut book) });
        if !["Explain", "Offers", "Exchanges"].contains(&method) {
            told.send((method.to_owned(), call["parameters"].clone()))
                .unwrap();
        }
        (&stream)
            .write_all(&[reply.to_string().as_bytes(), &[0]].concat())
            .unwrap();
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tix-negotiate"))
        .args(["small", "--every", "5s", "--cgroup-root"])
        .arg(folder)
        .args(arguments)
        .env("TIX_SOCKET", folder.join("tixd.sock"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn terminate(child: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait_with_output().unwrap()
}

/// A program that waits for the disk all the time, and serves a hundred requests a second, until there is something to hear.
fn until_told(folder: &Path, calls: &Receiver<(String, Value)>) -> (String, Value) {
    let began = Instant::now();
    loop {
        let time = began.elapsed();
        assert!(time < SOON, "nothing was asked of tixd");
        let total = time.as_micros();
        for (name, total) in [("cpu", 0), ("io", total), ("memory", 0)] {
            let path = folder.join(format!("kv/{name}.pressure"));
            std::fs::write(
                path,
                format!("some avg10=0.00 total={total}\nfull total=0\n"),
            )
            .unwrap();
        }
        std::fs::write(folder.join("progress"), format!("{:020}\n", total / 10_000)).unwrap();
        if let Ok(call) = calls.recv_timeout(Duration::from_millis(50)) {
            return call;
        }
    }
}

#[test]
fn it_offers_and_at_the_end_takes_that_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("kv")).unwrap();
    let listener = UnixListener::bind(folder.join("tixd.sock")).unwrap();
    let (told, calls) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap(), &told);
        }
    });
    let progress = folder.join("progress");
    let child = start(
        folder,
        &["--json", "--progress", progress.to_str().unwrap()],
    );
    let (method, asked) = until_told(folder, &calls);
    assert_eq!(method, "Offer");
    assert_eq!(asked["principal"], "small");
    assert_eq!(asked["give"], "cpu:100.000");
    assert_eq!(asked["want"], "disk:98.000");
    let output = terminate(child);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{wrong}");
    let line: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(line["what"], "offered");
    assert!(line["time_usec"].as_u64().unwrap() > 0);
    let (method, asked) = calls.recv_timeout(SOON).unwrap();
    assert_eq!((method.as_str(), &asked["id"]), ("Cancel", &json!(5)));
}

#[test]
fn without_tixd_it_waits_and_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path(), &[]);
    std::thread::sleep(Duration::from_secs(3));
    let output = terminate(child);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("there is no such socket").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["--step", "10"][..],
        &["--most", "100%"],
        &["--every", "1s"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = start(folder.path(), arguments).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
