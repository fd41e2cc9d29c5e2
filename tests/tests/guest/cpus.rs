// SPDX-License-Identifier: GPL-2.0-only
//! Several CPUs, and a history of everything that can change: shares, pinned crowds, migrations,
//! leaks.

use std::path::Path;

use anyhow::Result;
use tix_tests::bound;
use tix_tests::daemon::Checks;
use tix_tests::guest::{Guest, Reports, under_tix};
use tix_tests::load::aftermath::Aftermath;
use tix_tests::load::allowed::Allowed;
use tix_tests::load::away::Away;
use tix_tests::load::churn::Outcome;
use tix_tests::load::migrations::Migrations;
use tix_tests::load::nice::Nice;
use tix_tests::load::overdue::Overdue;
use tix_tests::load::rounds::Rounds;
use tix_tests::load::shares::Shares;
use tix_tests::load::starve::Pinned;
use tix_tests::load::stops::Stops;
use tix_tests::load::switches::Cost;

use crate::kthreads;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// Where the loader pins the scheduler's maps.
const PINS: &str = "/sys/fs/bpf/scx_tix";

/// On two CPUs.
#[test]
#[ignore = "boots a guest"]
fn two_cpus() {
    // Booted: a restored guest has no program that makes a file system.
    let tix = under_tix(
        Path::new(LOAD),
        &format!(
            "$LOAD pipe --label tix --n 10 --warmup 1 --seconds 0.5
             $LOAD shares --threads 2 --seconds 10
             $LOAD shares --label pairs --threads 0 --pairs 2 --seconds 10
             $LOAD shares --label yields --threads 2 --yields 20000 --seconds 10
             $LOAD shares --label readers --threads 2 --readers 2 --shares 1,2,3,4 --seconds 20
             $LOAD nice --seconds 10
             $LOAD shares --label capped --shares 9,1 --sample-ms 0 --seconds 5
             $LOAD overdue --seconds 15
             {}
             $LOAD churn --rounds 1000 --pins {PINS} --seconds 10",
            kthreads::RUN
        ),
    )
    .unwrap();
    let script = format!(
        "{LOAD} --require kernel pipe --label kernel --n 10 --warmup 1 --seconds 0.5\n{tix}"
    );
    let guest = Guest::new().cpus(2).icount(3).timeout(3600);
    let reports = guest.run(&script).unwrap();
    let mut c = Checks::default();
    c.check("pairs", || pairs(&reports));
    c.check("shares", || weights(&reports));
    c.check("who waited long has waited long", || overdue(&reports));
    c.check("the kernel's own threads", || kthreads::all(&reports, 2.0));
    c.check("churn breaks nothing and leaks nothing", || churn(&reports));
    c.end();
}

/// Two that wake each other come together on one CPU, and hand it to and fro without a decision. Apart, each wake-up is a decision and
/// an interrupt: half the speed of the kernel's own. They have their shares all the same.
fn pairs(reports: &Reports) -> Result<()> {
    let cost = |label| -> Result<f64> {
        let cost = reports.get::<Cost>("pipe", label)?.result;
        Ok(cost.ns_per_switch)
    };
    let (tix, kernel) = (cost("tix")?, cost("kernel")?);
    assert!(
        tix < 1.75 * kernel,
        "a switch of ten pairs takes {tix} ns, {kernel} under the kernel's own scheduler"
    );
    let shares = reports.get::<Shares>("shares", "pairs")?.result;
    bound::shares("pairs", &shares, 2)
}

fn weights(reports: &Reports) -> Result<()> {
    // Also of threads that yield, and beside threads that mostly sleep, which change who is where all
    // the time.
    for label in ["", "yields", "readers"] {
        let shares = reports.get::<Shares>("shares", label)?.result;
        bound::shares(&format!("shares {label}"), &shares, 2)?;
    }

    bound::nice(&reports.get::<Nice>("nice", "")?.result, 2)?;

    // One thread cannot use two CPUs: 9:1 is 1:1. Nothing is sampled: there is no slack to make up
    // for what the sampler takes.
    let capped = reports.get::<Shares>("shares", "capped")?.result;
    bound::shares("capped", &capped, 2)?;
    assert!(capped.used > 0.95, "a CPU was idle: {}", capped.used);
    Ok(())
}

/// The 10 s rule where a CPU has more to do than it can, whatever makes those who wait look as if they had just come.
fn overdue(reports: &Reports) -> Result<()> {
    let overdue = reports.get::<Overdue>("overdue", "")?.result;
    for longest in [overdue.reniced_ms, overdue.limited_ms] {
        assert!(longest <= bound::STARVED_MS, "{overdue:?}");
    }
    // Who goes first for that has a moment only.
    assert!(overdue.part < 0.01, "{overdue:?}");
    Ok(())
}

fn churn(reports: &Reports) -> Result<()> {
    let churn = reports.get::<Outcome>("churn", "")?.result;
    for what in [
        "made",
        "removed",
        "reweighted",
        "processes moved",
        "threads moved",
        "fork storms",
        "CPUs unplugged",
        "nested",
        "frozen",
        "throttled",
    ] {
        assert!(churn.done.contains_key(what), "nothing was {what}");
    }
    unharmed(&churn.after)?;
    assert!(
        churn.longest_wait_ms <= bound::STARVED_MS,
        "a thread waited {} ms",
        churn.longest_wait_ms
    );
    Ok(())
}

/// Nothing leaked, and shares hold.
pub fn unharmed(after: &Aftermath) -> Result<()> {
    assert_eq!(after.maps_before, after.maps_after, "map entries leaked");
    bound::shares("afterwards", &after.shares, 2)
}

/// Who waits on a busy CPU and may use an idle one does, though it may not use all.
#[test]
#[ignore = "boots a guest"]
fn an_idle_cpu_runs_whoever_may_use_it() {
    let script = under_tix(Path::new(LOAD), "$LOAD allowed --seconds 10").unwrap();
    let guest = Guest::new().cpus(3).icount(3).timeout(3600);
    let reports = guest.run(&script).unwrap();
    let allowed = reports.get::<Allowed>("allowed", "").unwrap().result;
    // The sleepers leave about half of their CPU, of which the kernel's own threads take little.
    assert!(allowed.sleepers < 0.7, "{allowed:?}");
    assert!(allowed.part > 0.85, "{allowed:?}");
    assert!(allowed.bound > 0.9, "{allowed:?}");
}

#[test]
#[ignore = "boots a guest"]
fn a_pinned_crowd_costs_the_other_cpu_nothing() {
    let script = under_tix(
        Path::new(LOAD),
        "$LOAD pinned --n 5000 --cpu 0 --warmup 2 --seconds 9",
    )
    .unwrap();
    let guest = Guest::new().cpus(2).icount(2).memory("4G").timeout(3600);
    let reports = guest.run(&script).unwrap();
    let pinned = reports.get::<Pinned>("pinned", "").unwrap().result;
    assert!(
        pinned.growth < 0.05,
        "a pick on the other CPU costs {} more",
        pinned.growth
    );
}

/// A sleeper is bound to a CPU beside a thread that works for 4 ms and sleeps for 1 ms: that one finds the CPU idle, and no decision
/// puts it there.
#[test]
#[ignore = "boots a guest"]
fn a_sleeper_beside_who_found_its_cpu_idle() {
    let rounds = "--warmup 1 --seconds 4 rounds --work-us 100 --worker 4000,1000 --cpu 0";
    let guest = Guest::new().cpus(2).icount(3).timeout(3600);
    let run = format!("$LOAD --label tix {rounds}");
    let tix = guest.run_under_tix(Path::new(LOAD), &run).unwrap();
    let kernel = format!("{LOAD} --require kernel --label kernel {rounds}");
    let reports = guest.run(&kernel).unwrap().and(tix);
    let late = |label: &str| reports.get::<Rounds>("rounds", label).unwrap().result;
    let (tix, kernel) = (late("tix"), late("kernel"));
    // A quantum is the longest that anybody runs on while others wait.
    assert!(
        tix.p99_us < 1_000.0 && tix.p99_us < kernel.p99_us,
        "{tix:?}, the kernel's own {kernel:?}"
    );
}

/// On four CPUs.
#[test]
#[ignore = "boots a guest"]
fn four_cpus() {
    let migrations = |scheduler: &str, label: &str| -> String {
        let one = |start| {
            format!(
                "$LOAD {scheduler} --label {label}{start} migrations --cpus 4 --warmup 2 --seconds 6\n"
            )
        };
        (0..STARTS).map(one).collect()
    };
    let tix = under_tix(
        Path::new(LOAD),
        &format!(
            "{}
             $LOAD stops --warmup 1 --seconds {STOPS_S}
             $LOAD away --seconds 8
             $LOAD shares --label surplus --sample-ms 0 --shares 20,10,2,2,1 --warmup 2 --seconds 12
             $LOAD shares --label large --sample-ms 0 --shares 100,1,1,1,1,1 --warmup 2 --seconds 5",
            migrations("", "tix")
        ),
    )
    .unwrap();
    let script = format!(
        "LOAD={LOAD}\n{}{tix}",
        migrations("--require kernel", "kernel")
    );
    let guest = Guest::new().cpus(4).icount(3).timeout(3600);
    let reports = guest.run(&script).unwrap();
    let mut c = Checks::default();
    c.check("threads stay where they are", || stay(&reports));
    c.check("a machine that is stopped goes on", || stops(&reports));
    c.check("a CPU that is away has nobody", || away(&reports));
    c.check("a surplus is divided by tickets", || surplus(&reports));
    c.end();
}

/// For so long it is stopped, or nearly (400 times), and for so long shares are looked at then.
const STOPS_S: f64 = 5.0;
/// How often the load of migrations is started: where its threads are then tells how often they move, under the kernel's own as well.
const STARTS: u32 = 3;
/// Migrations a second of all CPUs: each is 5 µs or so of cold caches, so 200 are a thousandth of one CPU.
const MIGRATIONS_MOST: f64 = 200.0;

fn stay(reports: &Reports) -> Result<()> {
    let rate = |label: &str| -> Result<f64> {
        let one = |start| -> Result<f64> {
            let report = reports.get::<Migrations>("migrations", &format!("{label}{start}"))?;
            Ok(report.result.migrations_per_s)
        };
        Ok((0..STARTS).map(one).sum::<Result<f64>>()? / f64::from(STARTS))
    };
    let (tix, kernel) = (rate("tix")?, rate("kernel")?);
    let both = format!("{tix:.0} migrations a second, the kernel's own {kernel:.0}");
    eprintln!("       {both}");
    assert!(tix <= MIGRATIONS_MOST, "{both}");
    Ok(())
}

/// What those who are due more than the CPU that their one thread can use leave is their siblings', as these have tickets; and who is due nearly all of
/// the machine has that CPU, beside siblings that take turns on the others.
fn surplus(reports: &Reports) -> Result<()> {
    for label in ["surplus", "large"] {
        let shares = reports.get::<Shares>("shares", label)?.result;
        bound::shares(label, &shares, 4)?;
    }
    Ok(())
}

/// The kernel stops all CPUs at once, hundreds of times, while all of them are in demand: as if nothing had been.
fn stops(reports: &Reports) -> Result<()> {
    let stops = reports.get::<Stops>("stops", "")?.result;
    assert!(stops.longest_ms < 2_000.0, "{stops:?}");
    let most = bound::of_several(STOPS_S);
    assert!(stops.meanwhile < most, "{stops:?}");
    assert!(stops.afterwards < most, "{stops:?}");
    Ok(())
}

/// A CPU that has gone is nobody's: who may run on another as well does, and whoever waited for a limit's next period on it is put elsewhere.
fn away(reports: &Reports) -> Result<()> {
    let away = reports.get::<Away>("away", "")?.result;
    // A quarter each, and what those below the limit have of it.
    assert!(!away.parts.is_empty(), "{away:?}");
    for part in &away.parts {
        assert!((part - 0.25).abs() < 0.03, "{away:?}");
    }
    assert!(away.least_held_ms > 0.0, "{away:?}");
    assert!(away.took_ms < 1_000.0, "{away:?}");
    Ok(())
}
