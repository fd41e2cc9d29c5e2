// SPDX-License-Identifier: GPL-2.0-only
//! What a decision of tix costs, in instructions, does not depend on how many principals there are.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::alone::{self, problems};
use tix_tests::bound;
use tix_tests::daemon::{Kind, in_guest_with, sh, tixctl};
use tix_tests::guest::{Guest, Reports, under_tix};
use tix_tests::load::hackbench::Hackbench;
use tix_tests::load::ring::Ring;
use tix_tests::load::shares::Shares;
use tix_tests::load::switches::Cost;
use tix_tests::results::leave;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

#[test]
#[ignore = "boots a guest"]
fn a_switch_costs_the_same_for_ten_and_ten_thousand_cgroups() {
    let tix = under_tix(
        Path::new(LOAD),
        "$LOAD shares --label yields --yields 0 --warmup 0.5 --seconds 3
         $LOAD shares --label one --shares 40,1,1,1,1 --yields 0 --warmup 0.5 --seconds 1
         for n in 2 10 100; do
             $LOAD ring --n $n --label tix-$n --warmup 0.3 --seconds 0.5
         done
         for n in 2 10 100 1000; do
             $LOAD yield --n $n --label $n --warmup 1 --seconds 0.4
         done
         $LOAD yield --n 10000 --label 10000 --warmup 1 --seconds 0.6",
    )
    .unwrap();
    let script = format!(
        "LOAD='{LOAD} --require kernel'
         $LOAD yield --n 10 --label kernel --warmup 1 --seconds 0.4
         for n in 2 10 100; do
             $LOAD ring --n $n --label kernel-$n --warmup 0.3 --seconds 0.5
         done
         {tix}"
    );
    let guest = Guest::new().icount(0).memory("6G").timeout(3600);
    let reports = guest.run(&script).unwrap();
    let cost_of = |label: &str| -> f64 {
        let cost = reports.get::<Cost>("yield", label).unwrap().result;
        assert!(cost.rounds > 5.0, "every thread switches a few times");
        cost.instructions_per_switch.unwrap()
    };
    let cost = |n: usize| cost_of(&n.to_string());
    yielders(&reports).unwrap();
    let (few, kernel) = (cost(10), cost_of("kernel"));
    // A yield is a decision like any other, and dearer than the kernel's own; a hop of a ring, which
    // is what services do, is cheaper (below).
    assert!(
        few < 1.15 * kernel,
        "a switch costs {few} instructions, {kernel} under the kernel's own scheduler"
    );
    // Ten thousand have slices of 0.15 ms, so the timer ends more of them.
    for (n, most) in [(100, 1.03), (1_000, 1.03), (10_000, 1.07)] {
        assert!(
            cost(n) < most * few,
            "a switch costs {} instructions with {n} cgroups, {few} with 10",
            cost(n)
        );
    }
    for n in [2, 10, 100] {
        let hop = |scheduler: &str| -> f64 {
            let ring = reports.get::<Ring>("ring", &format!("{scheduler}-{n}"));
            ring.unwrap().result.instructions_per_hop.unwrap()
        };
        let (tix, kernel) = (hop("tix"), hop("kernel"));
        eprintln!(
            "       a hop in a ring of {n}: {tix:.0} instructions, the kernel's own {kernel:.0}"
        );
        // A process in a ring of two may be interrupted before it sleeps, and then always is: it
        // stays as it began.
        assert!(tix < 0.9 * kernel, "{tix} of {kernel}, a ring of {n}");
    }
}

/// Threads that yield have the shares of their tickets.
fn yielders(reports: &Reports) -> Result<()> {
    let yields = reports.get::<Shares>("shares", "yields")?.result;
    bound::shares("threads that yield", &yields, 1)?;
    // Beside one that is always due nobody else waits long.
    for leaf in reports.get::<Shares>("shares", "one")?.result.leaves {
        assert!(leaf.longest_wait_ms < 5.0, "{leaf:?}");
    }
    Ok(())
}

/// With tixd serving and nobody using any feature: what talks over pipes is no slower than under the kernel's own scheduler, but for 5 %.
#[test]
#[ignore = "boots a guest"]
fn pipes_and_hackbench_are_as_fast_as_the_kernels() {
    const PAIRS: [usize; 3] = [1, 2, 10];
    fn runs(scheduler: &str) -> Result<Reports> {
        let each = PAIRS
            .map(|n| format!("pipe --n {n} --label {n} --warmup 0.3 --seconds 0.3"))
            .into_iter()
            .chain(["hackbench --groups 5 --loops 60 --runs 3".to_owned()]);
        let said = each.map(|run| {
            let said = sh(&format!("{LOAD} --require {scheduler} {run}"))?.ok()?;
            eprint!("{}", said.err);
            Ok(said.out)
        });
        Reports::parse(&said.collect::<Result<String>>()?)
    }
    fn compare(what: &str, ours: f64, theirs: f64) -> Result<()> {
        let as_fast = theirs / ours;
        eprintln!("       {what}: {as_fast:.3} of the kernel's own speed");
        ensure!(
            as_fast >= 0.95,
            "{what}: {ours}, with the kernel's own {theirs}"
        );
        Ok(())
    }
    let options = ["--icount", "1", "--memory", "3G"];
    let name = "cost::pipes_and_hackbench_are_as_fast_as_the_kernels";
    in_guest_with(name, Kind::Plain, &options, |c| {
        let (mut reports, mut tixd) = (Vec::new(), None);
        c.check(
            "setup: measured with the kernel's own, and with tixd",
            || {
                reports.push(runs("kernel")?);
                tixd = Some(alone::tixd()?);
                reports.push(runs("tix")?);
                Ok(())
            },
        );
        let [theirs, ours] = &reports[..] else {
            return;
        };
        for n in PAIRS {
            c.check(&format!("{n} pairs"), || {
                let of = |r: &Reports| r.get::<Cost>("pipe", &n.to_string());
                let (ours, theirs) = (of(ours)?.result, of(theirs)?.result);
                compare("pairs", ours.ns_per_switch, theirs.ns_per_switch)
            });
        }
        c.check("hackbench", || {
            let of = |r: &Reports| r.get::<Hackbench>("hackbench", "");
            let (ours, theirs) = (of(ours)?.result, of(theirs)?.result);
            compare("hackbench", ours.median_s, theirs.median_s)
        });
        c.check("tixd served all the time", || {
            let ended = tixd.take().context("no tixd")?;
            tixctl("status")?.ok()?.has("scheduler is in force")?;
            ensure!(problems()? == "[]", "{}", problems()?);
            ensure!(ended.signal("TERM")?.success(), "it failed");
            Ok(())
        });
    });
}

/// More cgroups than there is room for: a mkdir never fails because of tix, and those beyond share
/// their parent's principal.
#[test]
#[ignore = "boots a guest"]
fn a_mkdir_never_fails() {
    let script = under_tix(
        Path::new(LOAD),
        "cd /sys/fs/cgroup
         mkdir crowd
         echo +cpu > crowd/cgroup.subtree_control
         for i in $(seq 1 140); do
             mkdir crowd/$i
             echo +cpu > crowd/$i/cgroup.subtree_control
             (cd crowd/$i && mkdir $(seq 1 960))
         done
         cd crowd/140
         $LOAD shares --cgroup /sys/fs/cgroup/crowd/140/late --label late --seconds 3
         cd ..
         for i in $(seq 1 140); do
             (cd $i && rmdir $(seq 1 960))
             rmdir $i
         done
         cd ..
         rmdir crowd
         $LOAD shares --label after --seconds 10",
    )
    .unwrap();
    let guest = Guest::new().icount(3).memory("6G").timeout(3600);
    let reports = guest.run(&script).unwrap();
    let shares = |label: &str| reports.get::<Shares>("shares", label).unwrap().result;
    // No room: one principal, whose threads are equals.
    for leaf in shares("late").leaves {
        assert!((leaf.share - 0.2).abs() < 0.02, "{leaf:?}");
    }
    // Room again.
    bound::shares("after the crowd", &shares("after"), 1).unwrap();
    let after = shares("after").largest_relative_error;
    let came_to = json!({ "cgroups": 140 * 961, "largest_relative_error_after": after });
    leave("crowd", &came_to).unwrap();
}
