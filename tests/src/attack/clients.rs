// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on tixd. None of these ends.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Place;

/// As many connections as a user may have, and one more.
pub const MOST: usize = 17;
/// Calls that are sent before an answer is read.
const AHEAD: usize = 20;

/// What the client of this number does, and where that is counted among the clients' kinds.
pub fn kind(n: usize) -> (&'static str, usize) {
    match n {
        0 => ("connects", 3),
        1 => ("noise", 2),
        2..=4 => ("trees", 1),
        _ => ("changes", 0),
    }
}

pub fn attack(n: usize, socket: &Path, from: &str, place: &Place, done: &AtomicU64) -> Result<()> {
    loop {
        // What tixd hangs up on begins anew.
        let ended = match kind(n).0 {
            "connects" => UnixStream::connect(socket).map_err(Into::into).map(|_| {
                done.fetch_add(1, Ordering::Relaxed);
            }),
            "noise" => noise(socket, done),
            "trees" => calls(socket, &trees(), done),
            _ => calls(socket, &changes(n, from, place), done),
        };
        if ended.is_err() {
            std::thread::yield_now();
        }
    }
}

fn text(calls: &[(&str, Value)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (method, parameters) in calls {
        let method = format!("org.tix.Tix.{method}");
        let call = json!({"method": method, "parameters": parameters});
        text.extend(call.to_string().into_bytes());
        text.push(0);
    }
    text
}

fn trees() -> Vec<(&'static str, Value)> {
    vec![
        ("Tree", json!({})),
        ("ListCurrencies", json!({})),
        ("Explain", json!({"name": "alice"})),
        ("Status", json!({})),
        ("Log", json!({"limit": 1000})),
    ]
}

/// A currency's life, and what is refused.
fn changes(n: usize, from: &str, place: &Place) -> Vec<(&'static str, Value)> {
    let name = format!("attack-{n}");
    let at = format!(
        "{}/{}",
        place.path,
        if n.is_multiple_of(2) { "a" } else { "b" }
    );
    let main = format!("{}/main", place.path);
    let fund = |holder: &str, issuer: &str, amount: u64| json!({"holder": holder, "issuer": issuer, "resource": "cpu", "amount": amount});
    vec![
        // As much for those who attack as for those who only keep the CPU busy.
        ("Fund", fund(&main, from, 1 << 31)),
        ("Create", json!({"name": name})),
        ("Fund", fund(&name, from, 1 << 31)),
        ("Bind", json!({"name": name, "target": at})),
        ("Fund", fund(&at, from, 1000)),
        ("Fund", fund(&name, "base", 1000)),
        ("Fund", fund(&name, "alice", 1000)),
        (
            "Reserve",
            json!({"holder": name, "issuer": from, "resource": "cpu", "milli": 50}),
        ),
        ("Fund", fund(from, &name, 1000)),
        ("Chmod", json!({"name": name, "mode": "777"})),
        (
            "Unfund",
            json!({"holder": name, "issuer": from, "resource": "cpu"}),
        ),
        (
            "Unfund",
            json!({"holder": "alice", "issuer": "base", "resource": "cpu"}),
        ),
        (
            "Bind",
            json!({"name": name, "target": "/user.slice/user-1000.slice"}),
        ),
        ("Unbind", json!({"name": name})),
        ("Destroy", json!({"name": name})),
    ]
}

/// The same calls again and again, many ahead of the answers.
fn calls(socket: &Path, calls: &[(&str, Value)], done: &AtomicU64) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let text = text(calls);
    let rounds = AHEAD.div_ceil(calls.len());
    let mut buffer = vec![0; 1 << 16];
    loop {
        for _ in 0..rounds {
            stream.write_all(&text)?;
        }
        let mut owed = rounds * calls.len();
        while owed > 0 {
            let n = stream.read(&mut buffer)?;
            ensure!(n > 0, "hung up");
            let answers = buffer[..n].iter().filter(|b| **b == 0).count();
            done.fetch_add(answers as u64, Ordering::Relaxed);
            owed = owed.saturating_sub(answers);
        }
    }
}

fn noise(socket: &Path, done: &AtomicU64) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    for part in 0..1u32 << 8 {
        let noise: Vec<u8> = (0..1u32 << 10)
            .map(|i| ((part << 10 | i).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        stream.write_all(&noise)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
