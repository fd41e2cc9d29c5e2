// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel documents of the cpu controller and of scheduling policies, under its own scheduler and under tix: what holds with the
//! one holds with the other. `.ci/kernels` runs it on every kernel.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::daemon::Checks;
use tix_tests::guest::{Guest, Reports, under_tix_with};
use tix_tests::load::limits::{self, Limits};
use tix_tests::load::promises::{NEAR, Promises, WIDE};
use tix_tests::load::report::Report;
use tix_tests::results::{leave, skipped};

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// How many cases there were, what was not kept in each, and what was left out.
struct Seen {
    kernel: String,
    cases: usize,
    broken: Vec<String>,
    left_out: Vec<String>,
}

/// Everything kept, with both; what `name` came to is left for `make soak`. What a kernel lacks is said; without `KERNEL=` it is one that
/// lacks nothing.
fn judge(name: &str, under: &[(&str, Seen)]) -> Result<()> {
    let mut verdicts = json!({});
    for (scheduler, seen) in under {
        for why in &seen.left_out {
            let what = format!("{name} on {} under {scheduler}", seen.kernel);
            skipped(&what, why);
        }
        verdicts[scheduler] = json!({
            "kept": seen.cases,
            "left_out": seen.left_out,
        });
    }
    for (scheduler, seen) in under {
        ensure!(
            seen.cases > 0 || !seen.left_out.is_empty(),
            "{name} on {} under {scheduler}: there was no case",
            seen.kernel
        );
        ensure!(
            seen.broken.is_empty(),
            "{name} on {} under {scheduler}: {:#?}",
            seen.kernel,
            seen.broken
        );
        ensure!(
            seen.left_out.is_empty() || std::env::var_os("KERNEL").is_some(),
            "the newest kernel lacks something: {:?}",
            seen.left_out
        );
    }
    leave(&format!("kernels/{}/{name}", under[0].1.kernel), &verdicts)
}

/// Each group of `limits` got what it is due of a CPU, or, where that is all that others leave of
/// several, most of it: no bound is derived there (tix gives 1.51 … 1.53 of 1.70, the kernel's own
/// 1.695). Under tix nobody waited for longer than quota and period imply; the kernel's own
/// scheduler promises nothing like it (6.16: 13 s of 6).
fn broken_limits(limits: &Limits, by_tix: bool) -> Vec<String> {
    let mut broken = Vec::new();
    for g in &limits.groups {
        let (case, path) = (&g.case, &g.path);
        let least = if g.rest && by_tix {
            0.8 * g.due
        } else {
            g.due - g.near
        };
        if !(least..g.due + g.near).contains(&g.share) {
            broken.push(format!(
                "{case}: {path} got {} of a CPU and is due {}",
                g.share, g.due
            ));
        }
        if by_tix && g.longest_wait_ms > g.may_wait_ms {
            broken.push(format!(
                "{case}: a thread of {path} waited {} ms, which may be {} ms",
                g.longest_wait_ms, g.may_wait_ms
            ));
        }
    }
    // Of 50 ms that it wants at once, after 30 it waits for the rest of the period; or not, if cpu.max.burst lets it keep some.
    let waited = |case: &str| {
        let of = limits.groups.iter().find(|g| g.case == case).expect(case);
        of.longest_wait_ms
    };
    let (kept, not_kept) = (waited(limits::KEPT), waited(limits::NOT_KEPT));
    if kept >= 35.0 || not_kept <= 35.0 {
        broken.push(format!(
            "waited {kept} ms with what was kept, else {not_kept} ms"
        ));
    }
    broken
}

const LIMITS: &str = "limits --warmup 1";
const PROMISES: &str = "promises --warmup 0.5 --seconds 3";

/// What is said of limits and of the rest, under the kernel's own scheduler and under tix, in one guest, where `also` follows.
fn on(cpus: &str, guest: &Guest, seconds: u32, also: &str) -> Result<(Reports, Checks)> {
    let each = |load: &str| format!("{load} {LIMITS} --seconds {seconds}\n{load} {PROMISES}");
    let kernel = each(&format!("{LOAD} --require kernel --label kernel"));
    let tix = guest.run_under_tix(Path::new(LOAD), &each("$LOAD --label tix"))?;
    let reports = guest.run(&format!("{kernel}\n{also}"))?.and(tix);
    let mut c = Checks::default();
    c.check("limits", || limits(&format!("limits_on_{cpus}"), &reports));
    c.check("promises", || {
        promises(&format!("promises_on_{cpus}"), &reports)
    });
    Ok((reports, c))
}

#[test]
#[ignore = "boots a guest"]
fn one_cpu() {
    let guest = Guest::new().icount(3).memory("3G").timeout(3600);
    // A scheduler for those threads alone that ask for it: there is none of the kernel's own to compare with.
    let run = format!("$LOAD --label partial {PROMISES} --partial");
    let partial = under_tix_with("--partial", Path::new(LOAD), &run).unwrap();
    let (reports, mut c) = on("one_cpu", &guest, 4, &partial).unwrap();
    c.check("who asks for it", || {
        let seen = reports.get("promises", "partial").map(seen)?;
        judge("who_asks_for_it", &[("tix --partial", seen)])
    });
    c.end();
}

/// `cpu.max` holds for threads on several CPUs together; affinity and cpuset are changed while threads run.
#[test]
#[ignore = "boots a guest"]
fn two_cpus() {
    let guest = Guest::new().cpus(2).icount(2).timeout(3600);
    let (_, c) = on("two_cpus", &guest, 3, "").unwrap();
    c.end();
}

/// `cpu.max`, under both.
fn limits(name: &str, reports: &Reports) -> Result<()> {
    let seen = |label: &str| -> Result<Seen> {
        let report = reports.get::<Limits>("limits", label)?;
        let limits = report.result;
        Ok(Seen {
            kernel: report.kernel,
            cases: limits.groups.len(),
            broken: match &limits.left_out {
                Some(_) => Vec::new(),
                None => broken_limits(&limits, label == "tix"),
            },
            left_out: limits.left_out.into_iter().collect(),
        })
    };
    judge(name, &[("kernel", seen("kernel")?), ("tix", seen("tix")?)])
}

fn seen(report: Report<Promises>) -> Seen {
    let broken = report.result.verdicts.iter().filter(|v| !v.kept());
    Seen {
        kernel: report.kernel,
        cases: report.result.verdicts.len(),
        broken: broken.map(|v| format!("{v:?}")).collect(),
        left_out: report.result.left_out,
    }
}

/// What the kernel documents beside weights and limits, under both.
fn promises(name: &str, reports: &Reports) -> Result<()> {
    let of = |label: &str| reports.get::<Promises>("promises", label);
    let (kernel, tix) = (of("kernel")?, of("tix")?);
    let mut ours = seen(tix.clone());
    // Of a CPU for itself a thread has what the emulated machine leaves it: as near under tix.
    for v in tix.result.verdicts.iter().filter(|v| v.near == WIDE) {
        let mut theirs = kernel.result.verdicts.iter();
        let theirs = theirs.find(|t| (&t.case, &t.who) == (&v.case, &v.who));
        let theirs = theirs.with_context(|| format!("only under tix: {v:?}"))?;
        if (v.got - v.due).abs() > (theirs.got - theirs.due).abs() + NEAR {
            let broken = format!("{v:?}, the kernel's own {}", theirs.got);
            ours.broken.push(broken);
        }
    }
    judge(name, &[("kernel", seen(kernel)), ("tix", ours)])
}
