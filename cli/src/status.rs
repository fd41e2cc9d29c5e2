// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl status`: is the scheduler in force? The kernel says, not tixd.

use crate::failure::Failure;
use crate::kernel::{self, SchedExt};
use crate::{out, when};
use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use serde::Serialize;
use std::path::Path;
use tix_api::{CostStatus, DiskMechanism, DiskStatus, Enforcer, SchedulerStatus, StatusReply, Tix};
use tix_client::Client;

/// Say whether tix's scheduler is in force, and whether all is well
///
/// Exits with 0 only when tix's scheduler is in force, and tixd answers. The kernel is asked for
/// the former, so that is said without tixd, too. When it is not in force: 1. When tixd cannot be
/// reached: 3, whatever is in force.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `tixctl status --json`.
#[derive(Debug, Serialize)]
pub struct Status {
    /// tix's scheduler is in force, as the kernel says.
    pub in_force: bool,
    pub kernel: SchedExt,
    /// tixd's own report; null when it cannot be reached, or refused.
    pub tixd: Option<StatusReply>,
    /// Why `tixd` is null.
    pub tixd_error: Option<String>,
    /// This tixctl's version.
    pub version: &'static str,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let answer = ask().await;
    // After tixd: its answer may be the news that the scheduler has just left.
    let kernel = kernel::sched_ext(Path::new("/"));
    let in_force = kernel.in_force;
    let status = Status {
        in_force,
        kernel,
        tixd_error: match &answer {
            Ok(_) => None,
            Err(Failure::Unreachable { message, .. } | Failure::Refused { message, .. }) => {
                Some(message.clone())
            }
            Err(other) => Some(format!("{other:?}")),
        },
        tixd: answer.as_ref().ok().cloned(),
        version: env!("CARGO_PKG_VERSION"),
    };
    match args.json {
        true => out::json(&status)?,
        false => out::print(&render(&status, &when::here()))?,
    }
    match answer {
        Err(unreachable @ Failure::Unreachable { .. }) => Err(unreachable),
        _ if in_force => Ok(()),
        _ => Err(Failure::Said),
    }
}

async fn ask() -> Result<StatusReply, Failure> {
    let mut client = Client::connect().await?;
    Ok(client.call(|tixd| tixd.status()).await?)
}

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

const STORE_HINT: &str = "shares are held, but nothing can be changed until it can be: make \
     room or repair the file system, then `journalctl -u tixd` says when it is well again";

fn counted(count: u64, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

/// Before that what tixd does as it starts would count for most of what it takes.
const STARTED_USEC: u64 = 60_000_000;

/// What tixd takes of the machine.
fn cost_line(cost: &CostStatus, uptime_usec: u64) -> String {
    let part = 100.0 * cost.cpu_usec as f64 / uptime_usec.max(1) as f64;
    let part = match uptime_usec {
        ..STARTED_USEC => String::new(),
        _ => format!(" ({part:.2} % of one CPU)"),
    };
    format!(
        "cost        tixd {} of CPU in {}{part} and {} of memory; the scheduler's maps {}",
        out::duration(cost.cpu_usec),
        out::duration(uptime_usec),
        out::bytes(cost.memory_bytes),
        out::bytes(cost.maps_bytes)
    )
}

/// What the scheduler has, and what of it is out of the ordinary.
fn kernel_line(scheduler: &SchedulerStatus) -> String {
    let places = format!(
        "in kernel   {} of {} places for currencies and limits",
        scheduler.nodes, scheduler.nodes_max
    );
    let happened = [
        (
            scheduler.shared_cgroups,
            "cgroup without a place of its own",
        ),
        (scheduler.forced_runs, "run forced by a wait of 5 s"),
        (scheduler.reloads, "reload"),
    ];
    let happened = happened.iter().filter(|(count, _)| *count > 0);
    let happened = happened.map(|(count, what)| match what.split_once(' ') {
        Some((first, rest)) => format!("{} {rest}", counted(*count, first)),
        None => counted(*count, what),
    });
    let all: Vec<String> = [places].into_iter().chain(happened).collect();
    all.join("; ")
}

/// What holds shares of a disk.
fn disk_line(disk: &DiskStatus) -> String {
    let rate = disk.rate.map(|r| format!(", at {r:.0} % of its model"));
    match disk.mechanism {
        DiskMechanism::Iocost => {
            let rate = rate.unwrap_or_default();
            format!("disk        {}: shares by iocost{rate}", disk.device)
        }
        DiskMechanism::Bfq => format!("disk        {}: shares by BFQ", disk.device),
        DiskMechanism::None => {
            let name = &disk.device;
            format!("disk        {name}: {WARN}nothing holds shares of it{WARN:#}")
        }
    }
}

fn render(status: &Status, zone: &TimeZone) -> String {
    let mut text = Vec::new();
    let style = if status.in_force { GOOD } else { BAD };
    text.push(format!(
        "scheduler   {style}{}{style:#}",
        status.kernel.sentence()
    ));
    let Some(tixd) = &status.tixd else {
        let why = status.tixd_error.as_deref().unwrap_or_default();
        text.push(format!("tixd        {WARN}{why}{WARN:#}"));
        if status.in_force {
            text.push(
                "            shares go on being held as they are; changing them needs tixd".into(),
            );
        }
        return text.join("\n");
    };
    let scheduler = &tixd.scheduler;
    text.push(format!(
        "enforcement {}",
        match (scheduler.enforcer, status.kernel.other()) {
            (Enforcer::SchedExt, _) if status.kernel.partial =>
                "shares among threads that ask for it, by tix's scheduler".into(),
            (Enforcer::SchedExt, _) => "shares of CPU, by tix's scheduler".into(),
            (Enforcer::CpuWeight, _) => "by cpu.weight and the kernel's own scheduler".into(),
            (Enforcer::None, Some(ops)) => format!("of CPU shares none: {ops} decides who runs"),
            (Enforcer::None, None) => "none".to_owned(),
        }
    ));
    // Said below, with what to do about it.
    let is_problem = |why: &String| tixd.problems.iter().any(|p| p.message == *why);
    if let Some(reason) = scheduler.reason.as_ref().filter(|why| !is_problem(why)) {
        text.push(format!("reason      {reason}"));
    }
    text.push(format!(
        "tixd        version {}, up for {}",
        tixd.version,
        out::duration(tixd.uptime_usec)
    ));
    if let Some(cost) = &tixd.cost {
        text.push(cost_line(cost, tixd.uptime_usec));
    }
    text.push(format!(
        "currencies  {}, of them {}; base has issued {} for cpu",
        tixd.currencies,
        counted(tixd.cgroups, "cgroup"),
        out::tickets(tixd.base_tickets)
    ));
    if scheduler.enforcer == Enforcer::SchedExt {
        text.push(kernel_line(scheduler));
    }
    if let Some(limits) = tixd.limits.filter(|limits| *limits > 0) {
        text.push(format!(
            "limits      {limits} in force; how often they were reached `tixctl explain NAME` \
             says: the kernel's own count, in cpu.stat, stays at 0 under tix's scheduler"
        ));
    }
    for disk in &tixd.disks {
        text.push(disk_line(disk));
        if !disk.hint.is_empty() {
            text.push(format!("            → {}", disk.hint));
        }
    }
    text.push(match &tixd.user_currency {
        Some(name) => format!("you         fund from {name} by default"),
        None => {
            "you         have no currency of your own to fund from: name one with --from".into()
        }
    });
    let policy = &tixd.policy;
    text.push(format!(
        "policy      {} and {} in {}",
        counted(policy.rules, "rule"),
        counted(policy.files, "file"),
        policy.directory
    ));
    let mut warn = |word: &str, message: &str, hint: &str| {
        text.push(format!("{WARN}{word}{WARN:#}     {message}"));
        if !hint.is_empty() {
            text.push(format!("            → {hint}"));
        }
    };
    if !tixd.store.writable {
        let why = match &tixd.store.reason {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        let message = format!("the ledger cannot be written{why}");
        warn("problem", &message, STORE_HINT);
    }
    for problem in &policy.problems {
        warn("problem", &format!("policy: {problem}"), "");
    }
    for problem in &tixd.problems {
        warn("problem", &problem.message, &problem.hint);
    }
    for notice in &tixd.notices {
        let when = when::shown(notice.time_usec, zone);
        let message = format!("{when}: {}", notice.message);
        warn("notice ", &message, &notice.hint);
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Notice, PolicyStatus, Problem, StoreStatus};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn sample() -> Status {
        Status {
            in_force: true,
            kernel: SchedExt {
                in_force: true,
                state: "enabled".into(),
                ops: Some("tix".into()),
                partial: false,
            },
            tixd: Some(StatusReply {
                version: "0.1.0".into(),
                uptime_usec: 61_000_000,
                cost: Some(CostStatus {
                    cpu_usec: 12_345,
                    memory_bytes: 14_680_064,
                    maps_bytes: 3_145_728,
                }),
                scheduler: SchedulerStatus {
                    enforcer: Enforcer::SchedExt,
                    in_force: true,
                    state: "enabled".into(),
                    ops: Some("tix".into()),
                    reason: None,
                    reloads: 0,
                    shared_cgroups: 0,
                    nodes: 42,
                    nodes_max: 131_072,
                    forced_runs: 7,
                    lent_usec: 1_250_000,
                },
                disks: vec![
                    DiskStatus {
                        device: "vda".into(),
                        number: "254:0".into(),
                        mechanism: DiskMechanism::Iocost,
                        rate: Some(97.5),
                        hint: String::new(),
                    },
                    DiskStatus {
                        device: "vdb".into(),
                        number: "254:16".into(),
                        mechanism: DiskMechanism::None,
                        rate: None,
                        hint: "`tixctl disk enable vdb` measures it and turns iocost on".into(),
                    },
                ],
                currencies: 44,
                cgroups: 42,
                base_tickets: 400,
                limits: Some(2),
                user_currency: None,
                problems: vec![Problem {
                    message: "/system.slice/a has no cpu controller".into(),
                    hint: "set CPUAccounting=yes".into(),
                }],
                notices: vec![Notice {
                    time_usec: 1_795_273_445_000_000,
                    kind: "withdrawn".into(),
                    message: "root took 100 cpu tickets of base from alice".into(),
                    hint: "`tixctl explain alice` shows what is left".into(),
                }],
                store: StoreStatus {
                    writable: true,
                    reason: None,
                },
                policy: PolicyStatus {
                    directory: "/etc/tix/policy.d".into(),
                    files: 1,
                    rules: 12,
                    problems: Vec::new(),
                },
            }),
            tixd_error: None,
            version: "0.1.0",
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!("status_text", plain(&render(&sample(), &TimeZone::UTC)));
    }

    #[test]
    fn what_is_wrong_with_the_ledger_and_the_policy_is_said() {
        let mut status = sample();
        let tixd = status.tixd.as_mut().unwrap();
        tixd.store = StoreStatus {
            writable: false,
            reason: Some("no space left on the device of /var/lib/tix".into()),
        };
        tixd.policy.problems = vec!["10-users.toml, line 3: there is no resource gold".into()];
        tixd.problems.clear();
        tixd.notices.clear();
        insta::assert_snapshot!("status_problems", plain(&render(&status, &TimeZone::UTC)));
    }

    #[test]
    fn what_does_not_happen_is_not_counted() {
        let mut tixd = sample().tixd.unwrap();
        assert_eq!(
            kernel_line(&tixd.scheduler),
            "in kernel   42 of 131072 places for currencies and limits; 7 runs forced by a wait of \
             5 s"
        );
        (tixd.scheduler.forced_runs, tixd.scheduler.shared_cgroups) = (0, 1);
        assert!(kernel_line(&tixd.scheduler).ends_with("; 1 cgroup without a place of its own"));
        tixd.scheduler.shared_cgroups = 0;
        assert!(kernel_line(&tixd.scheduler).ends_with("places for currencies and limits"));
    }

    #[test]
    fn what_tixd_takes_as_it_starts_is_no_rate() {
        let cost = sample().tixd.unwrap().cost.unwrap();
        let at_once = cost_line(&cost, 1_300_000);
        assert!(at_once.contains("12.3 ms of CPU in 1.3 s and"), "{at_once}");
        assert!(cost_line(&cost, 61_000_000).contains("(0.02 % of one CPU)"));
    }

    #[test]
    fn without_tixd() {
        let mut status = sample();
        status.tixd = None;
        status.tixd_error =
            Some("tixd cannot be reached at /run/tix/tixd.sock: there is no such socket".into());
        insta::assert_snapshot!(
            "status_without_tixd",
            plain(&render(&status, &TimeZone::UTC))
        );
    }

    #[test]
    fn json() {
        insta::assert_snapshot!(
            "status_json",
            serde_json::to_string_pretty(&sample()).unwrap()
        );
    }
}
