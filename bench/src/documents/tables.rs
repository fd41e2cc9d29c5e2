// SPDX-License-Identifier: GPL-2.0-only
//! Each table in Markdown, with a line that says what it was measured on.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tix_tests::load::report::Report;
use tix_tests::load::shares::Shares;
use tix_tests::load::switches::Cost;

use crate::costs::{self, Setting};
use crate::lab::Point;
use crate::lab::rules::Kind as Rule;
use crate::lab::shares::Spread;
use crate::machine::{self, Machine, Results};
use crate::native::queues::{Kind, Weights};
use crate::text::grouped;
use crate::{ledger, native};

/// The table of this name, and what of it was not measured yet.
pub fn table(name: &str) -> Result<String> {
    match name {
        "summary" => summary(),
        "shares" => shares(),
        "cpus" => cpus(),
        "error" => error(),
        "switches" => switches(),
        "wakeups" => wakeups(),
        "native" => decisions(),
        "ledger" => ledger(),
        _ => bail!(
            "there is none of that name; there are summary, shares, cpus, error, switches, wakeups, \
             native, ledger"
        ),
    }
}

fn results<T: serde::de::DeserializeOwned>(name: &str, command: &str) -> Result<Results<T>> {
    machine::read(name).with_context(|| format!("run bench/run {command}"))
}

/// Cells by row, the first row the head, the first column to the left.
fn markdown(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
        if i == 0 {
            text.push_str(&format!("|---|{}\n", "--:|".repeat(row.len() - 1)));
        }
    }
    text.replace("|  |", "| |")
}

fn cells<const N: usize>(of: [&str; N]) -> Vec<String> {
    of.map(str::to_owned).to_vec()
}

/// A kernel's version without what its builder calls it.
fn short(kernel: &str) -> &str {
    kernel.split(['-', '+']).next().unwrap_or(kernel)
}

fn host(machine: &Machine) -> String {
    let Machine { cpu, cores, .. } = machine;
    format!("{cpu}, {cores} cores, Linux {}", short(&machine.kernel))
}

fn guest(kernels: BTreeSet<&str>) -> String {
    let kernels: Vec<&str> = kernels.into_iter().map(short).collect();
    format!(
        "a guest on a clock that counts instructions, Linux {}",
        kernels.join(" and ")
    )
}

fn scheduler(name: &str) -> &str {
    match name {
        "kernel" => "the kernel's own, `cpu.weight`",
        "flatcg" => "scx_flatcg",
        "simple" => "scx_simple",
        other => other,
    }
}

/// tix first, the more alike before the less.
fn ordered<T>(mut reports: Vec<Report<T>>) -> Vec<Report<T>> {
    let order = ["tix", "kernel", "flatcg", "simple"];
    reports.sort_by_key(|r| order.iter().position(|o| r.label == *o));
    reports
}

/// What it is about, and what a scheduler has come to.
type Row<'a> = (&'a str, &'a dyn Fn(&str) -> Option<String>);

/// The README's: a row of each of four experiments, beside schedulers that heed weights.
fn summary() -> Result<String> {
    let names = ["tix", "kernel", "flatcg"];
    let shares = results::<Report<Shares>>("shares", "shares")?.runs;
    let several = results::<Report<Shares>>("shares-smp", "cpus")?.runs;
    let yields = results::<Report<Cost>>("switches-yield", "switches")?.runs;
    let wakeups = results::<Report<Value>>("wakeups", "wakeups")?.runs;
    let share = |name: &str| {
        let found = shares.iter().find(|r| r.label == name);
        found.map(|r| off(&r.result))
    };
    let error = |name: &str| {
        let found = shares.iter().find(|r| r.label == name);
        found.map(|r| format!("{} ms", significant(r.result.largest_service_error_ms)))
    };
    let four = |name: &str| {
        let of =
            |r: &&Report<Shares>| r.label == name && r.cpus == 4 && !one_thread_each(&r.result);
        several.iter().find(of).map(|r| off(&r.result))
    };
    let late = |name: &str| {
        let of = |r: &&Report<Value>| r.label == name && r.result["hogs"] == 8;
        let p99 = wakeups.iter().find(of)?.result["p99_us"].as_f64()?;
        Some(format!("{} ms", significant(p99 / 1e3)))
    };
    let switch = |name: &str| {
        let of = |r: &&Report<Cost>| r.label == name && r.result.n == 100;
        let cost = yields.iter().find(of)?.result.instructions_per_switch?;
        Some(grouped(cost))
    };
    let rows: [Row; 5] = [
        (
            "1 CPU, shares 1:2:3:4:5 for 30 s: the share furthest from its due",
            &share,
        ),
        (
            "the same: the most that CPU time was ahead or behind meanwhile",
            &error,
        ),
        (
            "4 CPUs, shares 1:2:3:4:5, 4 threads each: the share furthest from its due",
            &four,
        ),
        (
            "8 busy threads and one that mostly sleeps: its wait, in 99 % of cases at most",
            &late,
        ),
        (
            "instructions for a context switch between 100 cgroups",
            &switch,
        ),
    ];
    let head = std::iter::once("").chain(names.iter().map(|n| scheduler(n)));
    let mut cells = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    for (what, of) in rows {
        let row = names.iter().map(|name| of(name).unwrap_or("–".into()));
        cells.push(std::iter::once(what.to_owned()).chain(row).collect());
    }
    let kernels = shares.iter().chain(&several).map(|r| r.kernel.as_str());
    let on = guest(kernels.collect());
    let table = markdown(&cells);
    Ok(format!(
        "{table}\nIn {on}. scx_flatcg is an example of sched_ext's.\n"
    ))
}

/// Then somebody may be due more than the CPU that its thread can use.
fn one_thread_each(of: &Shares) -> bool {
    of.leaves.iter().any(|leaf| leaf.threads == 1)
}

fn shares() -> Result<String> {
    let runs = ordered(results::<Report<Shares>>("shares", "shares")?.runs);
    let mut rows = vec![cells(["", "share", "service", "switches/s"])];
    for run in &runs {
        let r = &run.result;
        let service = match r.largest_relative_error {
            e if e > IGNORED => String::new(),
            _ => format!("{} ms", significant(r.largest_service_error_ms)),
        };
        rows.push(vec![
            scheduler(&run.label).into(),
            off(r),
            service,
            grouped(r.switches_per_s),
        ]);
    }
    let on = guest(runs.iter().map(|r| r.kernel.as_str()).collect());
    Ok(format!("{}\nIn {on}.\n", markdown(&rows)))
}

/// Who is further off than that does not even try.
const IGNORED: f64 = 0.5;

/// How far the furthest share is from its due.
fn off(of: &Shares) -> String {
    match of.largest_relative_error {
        e if e > IGNORED => "ignores weights".into(),
        e => percent(e),
    }
}

fn percent(of_one: f64) -> String {
    format!("{} %", significant(of_one * 100.0))
}

/// Reports by what was measured, one row each, and scheduler, one column each; `of` says what stands in the first column.
fn by_scheduler<T, R: Ord>(
    reports: &[Report<T>],
    corner: &str,
    row: impl Fn(&Report<T>) -> R,
    of: impl Fn(&R) -> String,
    cell: impl Fn(&str, &R) -> String,
) -> String {
    let mut names: Vec<&str> = reports.iter().map(|r| r.label.as_str()).collect();
    names.dedup();
    let head = std::iter::once(corner).chain(names.iter().map(|n| scheduler(n)));
    let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    for at in reports.iter().map(row).collect::<BTreeSet<R>>() {
        let cells = names.iter().map(|name| cell(name, &at));
        rows.push(std::iter::once(of(&at)).chain(cells).collect());
    }
    let on = guest(reports.iter().map(|r| r.kernel.as_str()).collect());
    format!("{}\nIn {on}.\n", markdown(&rows))
}

/// That these commands were not run yet.
fn not_yet(commands: &[&str]) -> String {
    match commands {
        [] => String::new(),
        all => format!("Not measured yet: `bench/run {}`.\n", all.join(" ")),
    }
}

fn cpus() -> Result<String> {
    if !machine::exists("shares-smp") {
        return Ok(not_yet(&["cpus"]));
    }
    let reports = ordered(results::<Report<Shares>>("shares-smp", "cpus")?.runs);
    let row = |r: &Report<Shares>| {
        let leaves = &r.result.leaves;
        let weights: Vec<String> = leaves.iter().map(|l| l.weight.to_string()).collect();
        let threads = leaves.first().map_or(0, |l| l.threads);
        (r.cpus, threads, weights.join(":"))
    };
    let text = |(cpus, threads, weights): &(usize, usize, String)| {
        let each = match threads {
            1 => "a thread each".to_owned(),
            n => format!("{n} threads each"),
        };
        format!("{cpus} CPUs, {weights}, {each}")
    };
    let cell = |name: &str, at: &(usize, usize, String)| {
        let mut all = reports.iter().filter(|r| r.label == name);
        let found = all.find(|r| row(r) == *at);
        // Where the shares cannot be had as they are, who heeds weights may be far off, too.
        found.map_or("–".into(), |r| percent(r.result.largest_relative_error))
    };
    Ok(by_scheduler(&reports, "", row, text, cell))
}

/// Two digits, or one below a tenth.
fn significant(x: f64) -> String {
    match x.abs() {
        x if x >= 10.0 => format!("{x:.0}"),
        x if x >= 0.1 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

/// What the table shows of the plane: clients, the sum of their shares.
const POINTS: [(Spread, usize, u64); 3] = [
    (Spread::Uniform, 20, 2_000),
    (Spread::Uniform, 1_000, 20_000),
    (Spread::Log, 10_000, 1_000_000),
];

fn error() -> Result<String> {
    let results = results::<Point>("error", "error")?;
    let point = |rule: Rule, (spread, clients, shares): (Spread, usize, u64)| {
        let at =
            |p: &&Point| (p.rule, p.spread, p.clients, p.shares) == (rule, spread, clients, shares);
        results.runs.iter().find(at)
    };
    let of = |(spread, clients, shares): (Spread, usize, u64)| {
        let (clients, shares) = (grouped(clients as f64), grouped(shares as f64));
        format!("N={clients}, S={shares}, {spread:?}").to_lowercase()
    };
    let mut head = vec![String::new()];
    head.extend(
        POINTS
            .map(of)
            .map(|p| p.replace("n=", "N=").replace("s=", "S=")),
    );
    head.push("worst of all".into());
    let mut rows = vec![head];
    for rule in Rule::ALL {
        let mut row = vec![rule.name().to_owned()];
        for at in POINTS {
            row.push(point(rule, at).map_or("–".into(), |p| range(p.mean_low, p.mean_high)));
        }
        let all = || results.runs.iter().filter(|p| p.rule == rule);
        if all().next().is_none() {
            continue;
        }
        let low = all().map(|p| p.low).fold(0.0, f64::min);
        let high = all().map(|p| p.high).fold(0.0, f64::max);
        row.push(range(low, high));
        rows.push(row);
    }
    let count: usize = results.runs.iter().map(|p| p.combinations).sum();
    let (count, most) = (
        grouped(count as f64),
        results.runs.iter().map(|p| p.clients).max().unwrap_or(0),
    );
    Ok(format!(
        "{}\n{count} cases of up to {} clients; on {}.\n",
        markdown(&rows),
        grouped(most as f64),
        host(&results.machine)
    ))
}

/// Quanta behind … ahead.
fn range(low: f64, high: f64) -> String {
    let one = |x: f64| match x.abs() {
        a if a >= 100.0 => format!("{}{}", if x < 0.0 { '−' } else { '+' }, grouped(a)),
        a if a >= 10.0 => format!("{x:+.0}"),
        _ => format!("{x:+.2}"),
    };
    format!("{} … {}", one(low), one(high)).replace('-', "−")
}

fn switches() -> Result<String> {
    let (there, missing): (Vec<_>, Vec<_>) =
        (costs::FILES.into_iter()).partition(|(file, _)| machine::exists(file));
    let mut reports: Vec<Report<Cost>> = Vec::new();
    for (file, command) in there {
        reports.extend(results::<Report<Cost>>(file, command)?.runs);
    }
    let missing: Vec<&str> = missing.into_iter().map(|(_, command)| command).collect();
    if reports.is_empty() {
        return Ok(not_yet(&missing));
    }
    let reports = ordered(reports);
    let cell = |name: &str, at: &Setting| costs::cell(&reports, &costs::BOTH, name, *at);
    let text = Setting::to_string;
    let table = by_scheduler(&reports, "cgroups", Setting::of, text, cell);
    Ok(table + &not_yet(&missing))
}

fn wakeups() -> Result<String> {
    let runs = results::<Report<Value>>("wakeups", "wakeups")?.runs;
    let reports = ordered(runs);
    let number = |r: &Report<Value>, of: &str| r.result[of].as_f64().unwrap_or(f64::NAN);
    let row = |r: &Report<Value>| match r.experiment.as_str() {
        "hackbench" => (0, 0),
        "requests" => (1, 0),
        _ => (2, r.result["hogs"].as_u64().unwrap_or(0)),
    };
    let text = |at: &(u8, u64)| match at {
        (0, _) => "hackbench".to_owned(),
        (1, _) => "requests/s, wake-up p50 / p99".into(),
        (_, hogs) => format!("a sleeper among {hogs} hogs, p50 / p99"),
    };
    let cell = |name: &str, at: &(u8, u64)| {
        let mut all = reports.iter().filter(|r| r.label == name);
        let Some(r) = all.find(|r| row(r) == *at) else {
            return "–".into();
        };
        let (p50, p99) = (number(r, "p50_us"), number(r, "p99_us"));
        let late = format!("{} / {} µs", grouped(p50), grouped(p99));
        match at.0 {
            0 => format!("{:.2} s", number(r, "median_s")),
            1 => format!("{}, {late}", grouped(number(r, "per_second"))),
            _ => late,
        }
    };
    Ok(by_scheduler(&reports, "", row, text, cell))
}

fn decisions() -> Result<String> {
    let results = results::<native::Run>("native", "native")?;
    let mut numbers = BTreeSet::new();
    for run in &results.runs {
        if let native::Run::Decision { timing, .. } = run {
            numbers.insert(timing.clients);
        }
    }
    let find = |kind: Kind, n: usize| {
        results.runs.iter().find_map(|run| match run {
            native::Run::Decision {
                timing,
                instructions,
                ..
            } if (timing.queue, timing.weights, timing.clients) == (kind, Weights::Log, n) => {
                let count = instructions.map_or("–".into(), |i| format!("{i:.0}"));
                Some(format!("{:.0} ns, {count}", timing.ns.median))
            }
            _ => None,
        })
    };
    let counts = numbers.iter().map(|n| grouped(*n as f64));
    let mut rows = vec![std::iter::once("clients".into()).chain(counts).collect()];
    // Not every machine lets one measure every kind.
    let measured = |kind: &Kind| numbers.iter().any(|n| find(*kind, *n).is_some());
    for kind in Kind::ALL.into_iter().filter(measured) {
        let cells = numbers.iter().map(|n| find(kind, *n).unwrap_or("–".into()));
        rows.push(std::iter::once(kind.name().into()).chain(cells).collect());
    }
    Ok(format!(
        "{}\nOn {}.\n",
        markdown(&rows),
        host(&results.machine)
    ))
}

fn ledger() -> Result<String> {
    let results = results::<ledger::Run>("ledger", "ledger")?;
    let run = results.runs.first().context("no run in it")?;
    let crowd = run.crowds.first().context("no crowd in it")?;
    let rows = [
        cells([
            "tickets",
            "start",
            "memory a ticket",
            "one change, on disk",
            "changes/s",
        ]),
        vec![
            grouped(run.tickets as f64),
            format!("{:.1} s", run.start_s),
            format!("{:.0} bytes", run.bytes_per_ticket),
            format!("{:.1} ms", run.fund_us.median / 1e3),
            format!(
                "{} from {} clients",
                grouped(crowd.per_second),
                crowd.clients
            ),
        ],
    ];
    Ok(format!(
        "{}\nOn {}.\n",
        markdown(&rows),
        host(&results.machine)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_and_ahead() {
        assert_eq!(range(-0.961, 1.5), "−0.96 … +1.50");
        assert_eq!(range(-1_234.5, 12.3), "−1,234 … +12");
    }

    #[test]
    fn what_was_not_measured_is_said() {
        assert_eq!(not_yet(&[]), "");
        let said = not_yet(&["pipes", "wide"]);
        assert_eq!(said, "Not measured yet: `bench/run pipes wide`.\n");
    }

    #[test]
    fn a_table_in_markdown() {
        let rows = [cells(["", "a"]), cells(["b", "1"])];
        assert_eq!(markdown(&rows), "| | a |\n|---|--:|\n| b | 1 |\n");
    }
}
