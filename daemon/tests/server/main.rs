// SPDX-License-Identifier: GPL-2.0-only
//! The real daemon over a real socket, with --observe so that nothing in this machine's kernel is
//! changed. What needs the scheduler is tested in a guest.

#![allow(clippy::unwrap_used)]

mod held;
mod market;
mod operations;
mod parts;
mod server;

use server::{Client, Tixd};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

#[test]
fn operations_are_done_shown_and_there_after_a_restart() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    assert!(
        c.call("Create", json!({"name": "alice"}))["parameters"]["cid"]
            .as_u64()
            .is_some()
    );
    let root = rustix::process::getuid().is_root();
    if root {
        let fund = json!({"holder": "alice", "issuer": "base", "resource": "cpu", "amount": 300});
        assert_eq!(c.call("Fund", fund.clone())["parameters"]["amount"], 300);
        assert_eq!(c.call("Fund", fund)["parameters"]["amount"], 600);
    } else {
        let fund = json!({"holder": "alice", "issuer": "base", "resource": "cpu", "amount": 300});
        assert_eq!(c.error("Fund", fund), "NotPermitted");
    }
    let tree = |c: &mut Client| c.call("Tree", json!({}))["parameters"]["currencies"].clone();
    let find = |t: &serde_json::Value| {
        t.as_array()
            .unwrap()
            .iter()
            .find(|x| x["name"] == "alice")
            .unwrap()
            .clone()
    };
    let before = find(&tree(&mut c));
    if root {
        assert_eq!(
            before["funding"],
            json!([{"from": "base", "resource": "cpu", "kind": "soft", "amount": 600}])
        );
        let e = before["cpu"]["entitlement"].as_f64().unwrap();
        assert!(e > 0.0 && e < 1.0, "{e}");
        let explain = c.call("Explain", json!({"name": "alice"}));
        let path = &explain["parameters"]["paths"][0];
        assert_eq!(path["steps"][0]["issuer"], "base");
        assert!((path["entitlement"].as_f64().unwrap() - e).abs() < 1e-9);
    }
    let tixd = Tixd::start_in(tixd.end());
    assert_eq!(find(&tree(&mut tixd.connect())), before);
}

#[test]
fn refuses_what_makes_no_sense_and_says_why() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    let fund = |h: &str, i: &str, r: &str, a: serde_json::Value| json!({"holder": h, "issuer": i, "resource": r, "amount": a});
    assert_eq!(
        c.error("Fund", fund("nobody", "base", "cpu", json!(1))),
        "NoSuchCurrency"
    );
    assert_eq!(
        c.error("Fund", fund("/no/such", "base", "cpu", json!(1))),
        "NoSuchCgroup"
    );
    assert_eq!(
        c.error("Fund", fund("no-such.service", "base", "cpu", json!(1))),
        "NoSuchCgroup"
    );
    c.call("Create", json!({"name": "x"}));
    c.call("Create", json!({"name": "y"}));
    for amount in [0i64, -1, i64::MIN, i64::MAX, (1 << 31) + 1] {
        assert_eq!(
            c.error("Fund", fund("y", "x", "cpu", json!(amount))),
            "BadAmount",
            "{amount}"
        );
    }
    assert_eq!(
        c.error("Fund", fund("x", "x", "cpu", json!(1))),
        "WouldCycle"
    );
    assert_eq!(c.error("Create", json!({"name": "x"})), "AlreadyExists");
    assert_eq!(c.error("Create", json!({"name": "Not A Name"})), "BadName");
    assert_eq!(c.error("Destroy", json!({"name": "base"})), "NotNamed");
    assert_eq!(
        c.error(
            "Unfund",
            json!({"holder": "y", "issuer": "x", "resource": "cpu"})
        ),
        "NotFunded"
    );
    assert_eq!(
        c.error("Bind", json!({"name": "x", "target": "/no/such/cgroup"})),
        "NoSuchCgroup"
    );
    assert_eq!(
        c.error("Bind", json!({"name": "x", "target": "/../../etc"})),
        "NoSuchCgroup"
    );
    assert_eq!(c.error("Unbind", json!({"name": "x"})), "NotBound");
    for amount in ["1e300", "-1e300", "99999999999999999999999", "1.5"] {
        let amount: serde_json::Value = serde_json::from_str(amount).unwrap();
        assert_eq!(
            c.error("Fund", fund("y", "x", "cpu", amount.clone())),
            "BadAmount",
            "{amount}"
        );
    }
    assert!(c.call("Status", json!({}))["parameters"]["version"].is_string());
}

#[test]
fn malformed_messages_end_only_their_connection() {
    let tixd = Tixd::start();
    let mut good = tixd.connect();
    let noise: Vec<u8> = (0..1u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 1)
        .collect();
    for bad in [
        &b"not json\0"[..],
        b"{}\0",
        b"[1,2\0",
        b"{\"method\": 7}\0",
        b"\0\0\0",
        &noise,
    ] {
        let mut c = tixd.connect();
        // tixd may hang up before it has taken all of it.
        let _ = c.0.write_all(bad);
        while c.message().is_some() {}
        assert!(good.call("Status", json!({}))["parameters"]["version"].is_string());
    }
}

#[test]
fn a_client_that_never_reads_holds_up_nobody() {
    let tixd = Tixd::start();
    let mut deaf = tixd.connect();
    deaf.0.set_nonblocking(true).unwrap();
    let call = [
        json!({"method": "org.tix.Tix.Tree"}).to_string().as_bytes(),
        &[0],
    ]
    .concat();
    let mut sent = 0;
    while deaf.0.write_all(&call).is_ok() && sent < 1_000_000 {
        sent += 1;
    }
    let mut good = tixd.connect();
    for _ in 0..50 {
        good.call("Status", json!({}));
    }
    // tixd has not given it up: nobody has waited for that.
    let more = deaf.0.write(&call).map(drop).map_err(|e| e.kind());
    let waiting = [Ok(()), Err(std::io::ErrorKind::WouldBlock)];
    assert!(waiting.contains(&more), "{more:?}");
}

#[test]
fn one_user_gets_so_many_connections_and_no_more() {
    let tixd = Tixd::start();
    let most = if rustix::process::getuid().is_root() {
        tixd::server::FOR_ROOT
    } else {
        tixd::server::PER_UID
    };
    let mut open: Vec<Client> = Vec::new();
    for _ in 0..most {
        let mut c = tixd.connect();
        c.call("Status", json!({}));
        open.push(c);
    }
    assert!(tixd.connect().message().is_none(), "one more was let in");
    open.pop();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let mut c = tixd.connect();
        let asked = c.0.write_all(b"{\"method\":\"org.tix.Tix.Status\"}\0");
        if asked.is_ok() && c.message().is_some() {
            break;
        }
        assert!(
            Instant::now() < end,
            "a place that was given back stays taken"
        );
    }
}

#[test]
fn watching_gives_samples_and_events() {
    let tixd = Tixd::start();
    let mut w = tixd.connect();
    let call = json!({"method": "org.tix.Tix.Watch", "more": true, "parameters": {"interval_ms": 200, "processes": true}});
    w.0.write_all(&[call.to_string().as_bytes(), &[0]].concat())
        .unwrap();
    let first = w.message().unwrap();
    assert_eq!(first["continues"], true);
    assert_eq!(
        first["parameters"]["sample"]["currencies"][0]["name"],
        "base"
    );
    assert!(first["parameters"]["sample"]["processes"].is_array());
    tixd.connect().call("Create", json!({"name": "seen"}));
    let mut samples = 0;
    let event = loop {
        let m = w.message().unwrap();
        if m["parameters"]["event"].is_object() {
            break m["parameters"]["event"].clone();
        }
        samples += 1;
        assert!(samples < 50, "no event came");
    };
    assert_eq!(
        (event["kind"].as_str(), event["currency"].as_str()),
        (Some("created"), Some("seen"))
    );
}

#[test]
fn the_interface_is_described_and_the_file_is_what_it_says() {
    let tixd = Tixd::start();
    let reply = tixd.connect().raw(
        "org.varlink.service.GetInterfaceDescription",
        json!({"interface": "org.tix.Tix"}),
    );
    let said = reply["parameters"]["description"]
        .as_str()
        .unwrap_or_else(|| panic!("{reply}"));
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("api/org.tix.Tix.varlink");
    if std::env::var_os("TIX_BLESS").is_some() {
        std::fs::write(&file, format!("{said}\n")).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap().trim(),
        said.trim(),
        "TIX_BLESS=1 writes it anew"
    );
}
