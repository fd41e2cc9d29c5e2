// SPDX-License-Identifier: GPL-2.0-only
//! The disk or memory: what each is entitled to, what is in force, and what it used between two
//! looks.

use crate::failure::Failure;
use crate::{holds, out};
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tix_api::{Currency, NotHeld, Resource, Tix, TreeReply};
use tix_client::Client;

/// `tixctl top -r disk --json`, and of memory.
#[derive(Debug, Serialize)]
pub struct Report {
    pub resource: Resource,
    /// Between the two looks.
    pub interval_usec: u64,
    pub currencies: Vec<Row>,
    /// Nothing holds shares of it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_held: Option<NotHeld>,
}

/// A currency. What is not known is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    pub cgroup: Option<String>,
    /// Fractions of the machine.
    pub entitlement: f64,
    pub share: f64,
    /// Of the disk.
    pub weight: Option<u64>,
    /// Of memory.
    pub min_bytes: Option<u64>,
    pub low_bytes: Option<u64>,
    /// Of the disk: bytes moved in a second; of memory: bytes in use.
    pub used_bytes: Option<u64>,
    /// Which fraction of the time some of its threads waited for it.
    pub stalled: Option<f64>,
}

/// One table, of one interval.
pub async fn main(
    resource: Resource,
    interval: Duration,
    all: bool,
    json: bool,
) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let before = client.call(|tixd| tixd.tree()).await?;
    let start = Instant::now();
    tokio::time::sleep(interval).await;
    let now = client.call(|tixd| tixd.tree()).await?;
    let interval_usec = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    let report = report(resource, &before, &now, interval_usec, all);
    match json {
        true => out::json_line(&report),
        false => out::print(&text(&report, out::width())),
    }
}

fn report(
    resource: Resource,
    before: &TreeReply,
    now: &TreeReply,
    interval_usec: u64,
    all: bool,
) -> Report {
    let earlier: HashMap<u64, &Currency> = before.currencies.iter().map(|c| (c.cid, c)).collect();
    let seconds = interval_usec.max(1) as f64 / 1e6;
    let mut currencies: Vec<Row> = Vec::new();
    for c in &now.currencies {
        let share = c.share(resource);
        let was = earlier.get(&c.cid).map(|c| c.share(resource));
        let more = |of: fn(&tix_api::Share) -> Option<u64>| {
            Some(of(share)?.saturating_sub(was.and_then(of)?))
        };
        let used_bytes = match resource {
            Resource::Disk => more(|s| s.used_bytes).map(|n| (n as f64 / seconds) as u64),
            _ => share.used_bytes,
        };
        let stalled = more(|s| s.stalled_usec).map(|n| n as f64 / interval_usec.max(1) as f64);
        let held = share.min_bytes.unwrap_or(0) > 0 || share.low_bytes.unwrap_or(0) > 0;
        if !all && !held && used_bytes.unwrap_or(0) == 0 {
            continue;
        }
        currencies.push(Row {
            name: c.name.clone(),
            cgroup: c.cgroup.clone(),
            entitlement: share.entitlement,
            share: share.share,
            weight: share.weight,
            min_bytes: share.min_bytes,
            low_bytes: share.low_bytes,
            used_bytes,
            stalled: stalled.map(|s| s.clamp(0.0, 1.0)),
        });
    }
    currencies.sort_by(|a, b| {
        let used = b.used_bytes.cmp(&a.used_bytes);
        used.then_with(|| a.name.cmp(&b.name))
    });
    let mut not_held = now.not_held.iter().flatten();
    Report {
        resource,
        interval_usec,
        currencies,
        not_held: not_held.find(|not| not.resource == resource).cloned(),
    }
}

fn text(report: &Report, width: Option<u16>) -> String {
    let bytes = |n: Option<u64>| n.map(out::bytes).unwrap_or_default();
    let disk = report.resource == Resource::Disk;
    let mut columns = vec!["CURRENCY", ">ENTITLED"];
    // Of memory what is protected is the same whoever wants it.
    let has_now = disk && report.not_held.is_none();
    columns.extend(has_now.then_some(">SHARE NOW"));
    columns.extend(match disk {
        true => [">WEIGHT", ">MOVES/S"].iter(),
        false => [">MIN", ">LOW", ">USES"].iter(),
    });
    columns.push(">WAITS");
    let rows = report.currencies.iter().map(|row| {
        let mut all = vec![row.name.clone(), out::percent(row.entitlement)];
        all.extend(has_now.then(|| out::percent(row.share)));
        match disk {
            true => all.push(row.weight.map(|w| w.to_string()).unwrap_or_default()),
            false => all.extend([row.min_bytes, row.low_bytes].map(bytes)),
        }
        all.push(bytes(row.used_bytes));
        all.push(row.stalled.map(out::percent).unwrap_or_default());
        all
    });
    let table = out::table(&columns, rows.collect(), width);
    match &report.not_held {
        Some(not) => format!("{table}\n{}", holds::together(&[not]).concat()),
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::Share;

    fn tree(moved: u64, stalled_usec: u64) -> TreeReply {
        let share = Share {
            entitlement: 0.5,
            share: 0.75,
            weight: Some(300),
            used_bytes: Some(moved),
            stalled_usec: Some(stalled_usec),
            ..Share::default()
        };
        let memory = Share {
            weight: None,
            min_bytes: Some(200 << 20),
            low_bytes: Some(0),
            used_bytes: Some(205 << 20),
            ..share
        };
        let currency = |cid, name: &str, disk, memory| Currency {
            cid,
            name: name.into(),
            cgroup: Some(name.into()),
            owner: 0,
            group: 0,
            mode: 0,
            mode_text: String::new(),
            active: true,
            transient: false,
            funding: vec![],
            exchanges: vec![],
            limits: vec![],
            cpu: Share::default(),
            disk,
            memory,
            net: Share::default(),
            not_held: None,
        };
        let idle = currency(2, "/idle", Share::default(), Share::default());
        TreeReply {
            currencies: vec![currency(1, "/a", share, memory), idle],
            not_held: None,
        }
    }

    #[test]
    fn what_moved_in_between() {
        let (before, now) = (tree(10 << 20, 1_000_000), tree(30 << 20, 2_000_000));
        let of = |resource, all| report(resource, &before, &now, 2_000_000, all);
        let disk = of(Resource::Disk, false);
        assert_eq!(disk.currencies.len(), 1);
        assert_eq!(disk.currencies[0].used_bytes, Some(10 << 20));
        assert_eq!(disk.currencies[0].stalled, Some(0.5));
        assert_eq!(of(Resource::Memory, true).currencies.len(), 2);
        let shown = [disk, of(Resource::Memory, false)].map(|r| text(&r, None));
        let plain = anstream::adapter::strip_str(&shown.join("\n")).to_string();
        insta::assert_snapshot!("top_held", plain);
    }
}
