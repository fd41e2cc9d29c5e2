// SPDX-License-Identifier: GPL-2.0-only
//! How fast the store is, on the disk it is given: a ledger of many currencies and tickets is
//! written, read back, and changed by clients that wait for each other's `fsync`.
//!
//!     cargo run --release -p tix-store --example store_speed -- [DIR [CURRENCIES TICKETS]]
//!
//! Prints a table, and the same as one line of JSON. DIR (default: the present one) gets a
//! directory that is removed at the end.

use std::path::Path;
use std::time::{Duration, Instant};
use tix_model::{End, Key, Kind, Resource, Row};
use tix_store::{Change, Config, Error, Query, Record, Store};

/// Clients that each have one operation under way: what one commit can take at most.
const CLIENTS: usize = 64;
const GROUPED: usize = 200_000;
const SINGLE: usize = 5_000;

/// Numbers that look random and are the same every time (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % end
    }
}

fn currency(cid: u64) -> Change {
    let row = Row::Currency {
        name: format!("currency-{cid}"),
        owner: 1000,
        group: 1000,
        mode: 0o700,
        transient: None,
        by: 0,
    };
    (Key::Currency(cid), Some(row))
}

/// Ticket `n` of `tickets`: two in three between named currencies, one for a cgroup.
fn ticket(n: u64, currencies: u64, amount: u64) -> Change {
    let issuer = n % currencies + 1;
    let holder = match n % 3 {
        0 => End::Path(format!(
            "/user.slice/user-{}.slice/session-{n}.scope",
            n % 1000
        )),
        _ => End::Cid((n / currencies * 7919 + issuer * 31) % currencies + 1),
    };
    let key = Key::Ticket {
        issuer: End::Cid(issuer),
        holder,
        resource: Resource::ALL[usize::try_from(n / currencies).unwrap_or(0) % 4],
        kind: Kind::Soft,
    };
    let row = Row::Ticket {
        amount,
        bytes: false,
        by: 1000,
    };
    (key, Some(row))
}

fn record(n: u64) -> Record {
    Record {
        time_usec: 1_700_000_000_000_000 + n,
        uid: 1000,
        kind: "fund".into(),
        subject: format!("currency-{}", n % 1000),
        text: format!(
            "funded currency-{} with 100 cpu tickets of currency-{n}",
            n % 1000
        ),
        op: format!(
            r#"{{"fund":{{"holder":"currency-{}","issuer":"currency-{n}","resource":"cpu","amount":100}}}}"#,
            n % 1000
        ),
        owner: Some(1001),
    }
}

/// The median, the 99th of a hundred and the longest, in microseconds.
fn spread(times: &mut [Duration]) -> [u128; 3] {
    times.sort_unstable();
    let at = |part: usize| {
        let last = times.len().saturating_sub(1);
        times.get(last * part / 100).map_or(0, Duration::as_micros)
    };
    [at(50), at(99), at(100)]
}

struct Report(Vec<(String, f64, &'static str)>);

impl Report {
    fn add(&mut self, what: &str, value: f64, unit: &'static str) {
        println!("{what:<44} {value:>14.3} {unit}");
        self.0.push((what.replace(' ', "_"), value, unit));
    }

    fn add_spread(&mut self, what: &str, times: &mut [Duration]) {
        for (name, usec) in ["median", "99 %", "longest"].iter().zip(spread(times)) {
            self.add(
                &format!("{what} {name}"),
                f64::from(u32::try_from(usec).unwrap_or(u32::MAX)),
                "us",
            );
        }
    }
}

fn open(dir: &Path) -> Result<(Store, u64), Error> {
    let mut rows = 0;
    let (store, _) = Store::open_with(dir, Config::default(), &mut |key, row| {
        std::hint::black_box((key, row));
        rows += 1;
    })?;
    Ok((store, rows))
}

fn fill(store: &mut Store, currencies: u64, tickets: u64) -> Result<(), Error> {
    let changes = (1..=currencies)
        .map(currency)
        .chain((0..tickets).map(|n| ticket(n, currencies, 100)));
    let mut batch = Vec::new();
    for change in changes {
        batch.push(change);
        if batch.len() == 10_000 {
            store.commit(&[], &batch)?;
            batch.clear();
        }
    }
    store.commit(&[], &batch)
}

/// Commits of `size` operations each, each setting one ticket among the first `tickets`. `idle`:
/// there is time in between.
fn commits(
    store: &mut Store,
    operations: usize,
    size: usize,
    idle: bool,
    (currencies, tickets): (u64, u64),
) -> Result<Vec<Duration>, Error> {
    let mut random = Random(size as u64 + 1);
    let mut times = Vec::new();
    let mut n = 0;
    while n < operations as u64 {
        let mut records = Vec::new();
        let mut changes = Vec::new();
        for _ in 0..size {
            n += 1;
            let any = random.below(tickets.max(1));
            changes.push(ticket(any, currencies, n));
            records.push(record(n));
        }
        let start = Instant::now();
        store.commit(&records, &changes)?;
        times.push(start.elapsed());
        if idle {
            store.tidy()?;
        }
    }
    Ok(times)
}

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse());
    let (currencies, tickets) = (number(1, 100_000)?, number(2, 1_000_000)?);
    let parent = Path::new(args.first().map_or(".", String::as_str));
    let dir = parent.join(format!("store-speed-{}", std::process::id()));
    let result = measure(&dir, currencies, tickets);
    // Nothing is left behind, whatever came of it.
    let removed = std::fs::remove_dir_all(&dir);
    result?;
    Ok(removed?)
}

fn measure(dir: &Path, currencies: u64, tickets: u64) -> anyhow::Result<()> {
    let mut report = Report(Vec::new());
    let (mut store, _) = open(dir)?;
    let start = Instant::now();
    fill(&mut store, currencies, tickets)?;
    report.add("fill", start.elapsed().as_secs_f64(), "s");
    drop(store);
    let bytes = dir.join("ledger.sqlite").metadata()?.len();
    report.add("size", bytes as f64 / 1e6, "MB");

    let start = Instant::now();
    let (mut store, rows) = open(dir)?;
    report.add("start: rows", rows as f64, "");
    report.add("start", start.elapsed().as_secs_f64(), "s");

    // Anywhere in the ledger is the worst: hardly a page is changed twice before it has to be
    // carried over.
    for (name, among) in [("anywhere", tickets), ("1,000 tickets", tickets.min(1_000))] {
        let start = Instant::now();
        let mut times = commits(&mut store, GROUPED, CLIENTS, false, (currencies, among))?;
        let rate = GROUPED as f64 / start.elapsed().as_secs_f64();
        report.add(&format!("64 clients, {name}: operations"), rate, "/s");
        report.add_spread(&format!("64 clients, {name}: commit"), &mut times);
    }
    let mut times = commits(&mut store, SINGLE, 1, true, (currencies, tickets))?;
    report.add_spread("one client: commit", &mut times);

    let start = Instant::now();
    let page = store.log(&Query {
        subject: Some("nobody"),
        ..Query::default()
    })?;
    report.add("log: one page", start.elapsed().as_secs_f64() * 1e3, "ms");
    anyhow::ensure!(page.next.is_some(), "the log is short");

    let mut times = Vec::new();
    let mut pruned = 1;
    while pruned > 0 && times.len() < 50 {
        let start = Instant::now();
        pruned = store.prune(u64::MAX)?;
        times.push(start.elapsed());
    }
    report.add_spread("prune: one bite", &mut times);
    drop(store);

    let json: serde_json::Map<String, serde_json::Value> = report
        .0
        .into_iter()
        .map(|(what, value, unit)| (what, serde_json::json!({ "value": value, "unit": unit })))
        .collect();
    println!("{}", serde_json::Value::Object(json));
    Ok(())
}
