// SPDX-License-Identifier: GPL-2.0-only
//! Bad input: whoever sent it is told, and nobody else notices.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tix_tests::daemon::tixctl;
use tix_tests::daemon_wire::Wire;

pub fn all(socket: &str) -> Result<()> {
    words(socket)?;
    standard(socket)?;
    noise(socket)?;
    deaf(socket)
}

fn words(socket: &str) -> Result<()> {
    for (line, reason) in [
        ("fund nobody --from base cpu 1", "nobody"),
        ("fund base --from nobody cpu 1", "nobody"),
        ("fund /no/such --from base cpu 1", "/no/such"),
        ("fund no-such.service --from base cpu 1", "no-such.service"),
        ("bind lifeline /no/such", "/no/such"),
        ("bind nobody /", "nobody"),
        ("destroy nobody", "nobody"),
        ("destroy base", "base"),
        ("create base", "base"),
        ("create Not-A-Name", "Not-A-Name"),
        ("explain nobody", "nobody"),
    ] {
        let said = tixctl(line)?;
        if socket == "/run/tix/tixd.sock" || !line.contains("lifeline") {
            said.refused(&[reason])?;
        }
    }
    for amount in ["-1", "0", "2147483649", "99999999999999999999", "1.5", "x"] {
        tixctl(&format!("fund base --from base cpu {amount}"))?.exits(2)?;
    }
    let mut wire = Wire::connect(socket)?;
    wire.call("Create", json!({"name": "victim"}))?;
    for amount in [
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(1u64 << 40),
        json!(1e300),
        json!(1.5),
    ] {
        let fund =
            json!({"holder": "victim", "issuer": "base", "resource": "cpu", "amount": amount});
        let name = wire.error("Fund", fund)?;
        ensure!(name == "BadAmount", "{amount}: {name}");
    }
    wire.call("Destroy", json!({"name": "victim"}))?;
    Ok(())
}

/// What every Varlink service answers to a call that it cannot make sense of.
fn standard(socket: &str) -> Result<()> {
    let mut wire = Wire::connect(socket)?;
    let mut expect = |method: &str, parameters: Value, error: &str, about: Option<(&str, &str)>| {
        let answer = wire.raw(method, parameters)?;
        ensure!(answer["error"] == error, "{method}: {answer}");
        if let Some((key, value)) = about {
            ensure!(answer["parameters"][key] == value, "{method}: {answer}");
        }
        Ok(())
    };
    expect(
        "org.tix.Tix.Frobnicate",
        json!({}),
        "org.varlink.service.MethodNotFound",
        Some(("method", "org.tix.Tix.Frobnicate")),
    )?;
    expect(
        "org.tix.Other.Status",
        json!({}),
        "org.varlink.service.InterfaceNotFound",
        Some(("interface", "org.tix.Other")),
    )?;
    expect(
        "nonsense",
        json!({}),
        "org.varlink.service.InterfaceNotFound",
        None,
    )?;
    expect(
        "org.tix.Tix.Create",
        json!({}),
        "org.varlink.service.InvalidParameter",
        Some(("parameter", "name")),
    )?;
    expect(
        "org.tix.Tix.Create",
        json!({"name": 7}),
        "org.varlink.service.InvalidParameter",
        None,
    )?;
    expect(
        "org.tix.Tix.Fund",
        json!({"holder": "a", "issuer": "b", "resource": "gold", "amount": 1}),
        "org.varlink.service.InvalidParameter",
        None,
    )?;
    // And the connection is as good as before.
    ensure!(wire.call("Status", json!({}))?["version"].is_string());
    Ok(())
}

fn noise(socket: &str) -> Result<()> {
    let mut good = Wire::connect(socket)?;
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
        let mut wire = Wire::connect(socket)?;
        // tixd may hang up before it has taken all of it.
        let _ = wire.0.write_all(bad);
        while wire.message()?.is_some() {}
        good.call("Status", json!({}))?;
    }
    Ok(())
}

fn deaf(socket: &str) -> Result<()> {
    let mut deaf = Wire::connect(socket)?;
    deaf.0.set_nonblocking(true)?;
    let call = [
        json!({"method": "org.tix.Tix.Tree"}).to_string().as_bytes(),
        &[0],
    ]
    .concat();
    let mut sent = 0;
    while sent < 100_000 && deaf.0.write_all(&call).is_ok() {
        sent += 1;
    }
    let start = Instant::now();
    let mut good = Wire::connect(socket)?;
    for _ in 0..20 {
        good.call("Status", json!({}))?;
    }
    let took = start.elapsed();
    ensure!(
        took < Duration::from_secs(5),
        "20 answers took {took:?} beside a client that never reads"
    );
    Ok(())
}
