// SPDX-License-Identifier: GPL-2.0-only
//! From two samples to rows, and rows as a plain table.

use crate::{holds, out};
use std::collections::HashMap;
use tix_api::Sample;

/// What is shown, and in which order.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Idle currencies, too.
    pub all: bool,
    /// Processes, too.
    pub processes: bool,
    pub sort: Sort,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Use,
    Share,
    Entitlement,
    Name,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Use => Sort::Share,
            Sort::Share => Sort::Entitlement,
            Sort::Entitlement => Sort::Name,
            Sort::Name => Sort::Use,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Sort::Use => "use",
            Sort::Share => "share",
            Sort::Entitlement => "entitlement",
            Sort::Name => "name",
        }
    }
}

/// A currency, or a process of its cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Of processes: number and name, below their currency.
    pub name: String,
    pub process: bool,
    pub active: bool,
    /// Why not, if it is not.
    pub inactive: Option<&'static str>,
    /// Its own limit, thousandths of one CPU.
    pub limit_milli: Option<u64>,
    /// Fractions of the machine; a process has none of its own.
    pub entitlement: Option<f64>,
    pub share: Option<f64>,
    /// What it used between the samples, as a fraction of all processors.
    pub used: f64,
    /// All it ever used, µs.
    pub total_usec: u64,
}

/// The rows for what happened between two samples.
pub fn rows(before: &Sample, now: &Sample, options: &Options) -> Vec<Row> {
    let elapsed = now
        .monotonic_usec
        .saturating_sub(before.monotonic_usec)
        .saturating_mul(u64::from(now.cpus.max(1)));
    let rate = |used: u64| match elapsed {
        0 => 0.0,
        elapsed => used as f64 / elapsed as f64,
    };
    let earlier: HashMap<u64, u64> = before
        .currencies
        .iter()
        .map(|currency| (currency.cid, currency.cpu.used_usec))
        .collect();
    let mut currencies: Vec<(&str, Row)> = Vec::new();
    for currency in &now.currencies {
        let total = currency.cpu.used_usec;
        let used = rate(total.saturating_sub(earlier.get(&currency.cid).copied().unwrap_or(total)));
        if !options.all && !currency.active && used < 0.0005 {
            continue;
        }
        currencies.push((
            currency.cgroup.as_deref().unwrap_or_default(),
            Row {
                name: currency.name.clone(),
                process: false,
                active: currency.active,
                inactive: holds::inactive(&currency.cpu, now.not_held.is_none()),
                limit_milli: currency.cpu.limit_milli,
                entitlement: Some(currency.cpu.entitlement),
                // Where nothing holds it nobody knows.
                share: (now.not_held.is_none()).then_some(currency.cpu.share),
                used,
                total_usec: total,
            },
        ));
    }
    currencies.sort_by(|(_, a), (_, b)| order(a, b, options.sort));
    let processes = match options.processes {
        true => processes(before, now, rate),
        false => HashMap::new(),
    };
    let mut rows = Vec::new();
    let mut shown = Vec::new();
    for (cgroup, row) in currencies {
        rows.push(row);
        // Of several currencies of one cgroup (its own, and one bound to it) the first has the
        // processes.
        if !shown.contains(&cgroup) {
            rows.extend(processes.get(cgroup).into_iter().flatten().cloned());
            shown.push(cgroup);
        }
    }
    rows
}

/// The busy processes of each cgroup, busiest first.
fn processes<'a>(
    before: &'a Sample,
    now: &'a Sample,
    rate: impl Fn(u64) -> f64,
) -> HashMap<&'a str, Vec<Row>> {
    let list = |sample: &'a Sample| sample.processes.iter().flatten();
    let earlier: HashMap<u32, u64> = list(before)
        .map(|process| (process.pid, process.used_usec))
        .collect();
    let mut found: HashMap<&str, Vec<Row>> = HashMap::new();
    for process in list(now) {
        let total = process.used_usec;
        // A number that was given out again starts anew.
        let used =
            rate(total.saturating_sub(earlier.get(&process.pid).copied().unwrap_or(0).min(total)));
        if used >= 0.0005 {
            found.entry(process.cgroup.as_str()).or_default().push(Row {
                name: format!("  {} {}", process.pid, process.comm),
                process: true,
                active: true,
                inactive: None,
                limit_milli: None,
                entitlement: None,
                share: None,
                used,
                total_usec: total,
            });
        }
    }
    for rows in found.values_mut() {
        rows.sort_by(|a, b| order(a, b, Sort::Use));
    }
    found
}

fn order(a: &Row, b: &Row, sort: Sort) -> std::cmp::Ordering {
    let down = |a: Option<f64>, b: Option<f64>| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0));
    let order = match sort {
        Sort::Use => b.used.total_cmp(&a.used),
        Sort::Share => down(a.share, b.share),
        Sort::Entitlement => down(a.entitlement, b.entitlement),
        Sort::Name => std::cmp::Ordering::Equal,
    };
    order.then_with(|| a.name.cmp(&b.name))
}

/// The titles of the columns; those with `>` are of numbers.
pub const COLUMNS: [&str; 5] = ["CURRENCY", ">ENTITLED", ">SHARE NOW", ">USES", ">CPU USED"];

/// A row's cells.
pub fn cells(row: &Row) -> [String; 5] {
    let fraction = |value: Option<f64>| value.map(out::percent).unwrap_or_default();
    let mut name = row.name.clone();
    if let Some(milli) = row.limit_milli {
        name += &format!(" (at most {})", out::limit(milli));
    }
    let why = row.inactive.filter(|_| !row.active);
    name.extend(why.map(|why| format!(" ({why})")));
    [
        name,
        fraction(row.entitlement),
        fraction(row.share),
        out::percent(row.used),
        out::duration(row.total_usec),
    ]
}

/// What is to be said below them.
pub fn note(now: &Sample) -> Option<String> {
    let problem = now.not_held.as_ref()?;
    Some(holds::lines("Nothing holds shares of cpu now", problem))
}

/// The rows as a plain table.
pub fn text(rows: &[Row], width: Option<u16>) -> String {
    let rows = rows.iter().map(|row| cells(row).to_vec()).collect();
    out::table(&COLUMNS, rows, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{CurrencySample, ProcessSample, Share};

    fn sample(seconds: u64, used: [u64; 3]) -> Sample {
        let currency =
            |cid: u64, name: &str, cgroup: &str, share: (f64, f64), used_usec| CurrencySample {
                cid,
                name: name.into(),
                cgroup: Some(cgroup.into()),
                owner: 0,
                active: share.1 > 0.0,
                cpu: Share {
                    entitlement: share.0,
                    share: share.1,
                    used_usec,
                    entitlement_bytes: None,
                    ..Share::default()
                },
            };
        Sample {
            time_usec: 0,
            monotonic_usec: seconds * 1_000_000,
            cpus: 2,
            currencies: vec![
                currency(1, "alice", "/alice", (0.75, 0.75), used[0]),
                currency(2, "bob", "/bob", (0.25, 0.25), used[1]),
                currency(3, "carol", "/carol", (0.0, 0.0), used[2]),
            ],
            processes: Some(vec![
                ProcessSample {
                    pid: 7,
                    uid: 1,
                    comm: "xz".into(),
                    cgroup: "/alice".into(),
                    used_usec: used[0],
                },
                ProcessSample {
                    pid: 8,
                    uid: 1,
                    comm: "sleep".into(),
                    cgroup: "/alice".into(),
                    used_usec: 10,
                },
            ]),
            not_held: None,
        }
    }

    #[test]
    fn use_is_a_fraction_of_all_processors() {
        let options = Options {
            processes: true,
            ..Default::default()
        };
        let rows = rows(
            &sample(10, [100, 5, 9]),
            &sample(12, [3_000_100, 1_000_005, 9]),
            &options,
        );
        let text = anstream::adapter::strip_str(&text(&rows, None)).to_string();
        insta::assert_snapshot!("top_text", text);
    }

    #[test]
    fn idle_ones_are_shown_on_demand_and_new_ones_have_no_rate_yet() {
        let (mut before, now) = (sample(10, [0, 0, 0]), sample(11, [5, 5, 0]));
        before.currencies.remove(0);
        let options = Options {
            all: true,
            sort: Sort::Name,
            ..Default::default()
        };
        let rows = rows(&before, &now, &options);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].used, 0.0);
        assert_eq!(rows[0].name, "alice");
    }

    #[test]
    fn a_limit_is_shown_with_the_name() {
        let mut now = sample(10, [5, 5, 5]);
        now.currencies[1].cpu.limit_milli = Some(1_500);
        let rows = rows(&now, &now, &Options::default());
        let names: Vec<String> = rows.iter().map(|row| cells(row)[0].clone()).collect();
        assert_eq!(names, ["alice", "bob (at most 150 % of one CPU)"]);
    }

    #[test]
    fn the_throttled_are_not_idle_and_what_nothing_holds_is_no_share() {
        let options = Options {
            all: true,
            ..Default::default()
        };
        let mut now = sample(10, [5, 5, 5]);
        now.currencies[2].cpu.throttled = Some(true);
        let text = |now: &Sample| {
            anstream::adapter::strip_str(&text(&rows(now, now, &options), None)).to_string()
        };
        assert!(text(&now).contains("carol (throttled)"));
        assert_eq!(
            (text(&now).matches("75.00 %").count(), note(&now)),
            (2, None)
        );
        now.not_held = Some(tix_api::Problem {
            message: "other decides who runs".into(),
            hint: "end other".into(),
        });
        assert_eq!(text(&now).matches("75.00 %").count(), 1);
        assert!(text(&now).contains("carol (throttled)") && !text(&now).contains("(idle)"));
        let said = "Nothing holds shares of cpu now: other decides who runs.\n  → end other";
        assert_eq!(note(&now).as_deref(), Some(said));
    }

    #[test]
    fn samples_of_the_same_moment_divide_by_nothing() {
        let now = sample(10, [5, 5, 5]);
        assert!(
            rows(&now, &now, &Options::default())
                .iter()
                .all(|row| row.used == 0.0)
        );
    }
}
