// SPDX-License-Identifier: GPL-2.0-only
//! The ledger and the machine as the API shows them.

use super::cost;
use super::decides;
use super::limits;
use super::peer::Process;
use super::processes::Whose;
use crate::cgroups;
use crate::core::{Core, now_usec, to_api};
use crate::enforce::disk::{self, Mechanism};
use crate::ledger::{self, BASE, Cid, Currency, POLICY, Refusal, Resource, TIXD, fraction};
use crate::store::Record;
use crate::units;
use tix_api as api;

pub fn refusal(r: &Refusal) -> api::Error {
    use api::Error as E;
    let (message, hint) = (r.to_string(), r.hint().to_owned());
    match r {
        Refusal::NoSuchCurrency(_) => E::NoSuchCurrency { message, hint },
        Refusal::NoSuchCgroup(_) => E::NoSuchCgroup { message, hint },
        Refusal::AlreadyExists(_) => E::AlreadyExists { message, hint },
        Refusal::BadName(_) => E::BadName { message, hint },
        Refusal::BadAmount(_) => E::BadAmount { message, hint },
        Refusal::BadMode(_) => E::BadMode { message, hint },
        Refusal::BadHard(_) => E::BadHard { message, hint },
        Refusal::BadLimit(_) => E::BadLimit { message, hint },
        Refusal::NotLimited(_) => E::NotLimited { message, hint },
        Refusal::NotPermitted { .. } => E::NotPermitted { message, hint },
        Refusal::WouldCycle { .. } => E::WouldCycle { message, hint },
        Refusal::LimitReached(_) => E::LimitReached { message, hint },
        Refusal::NotFunded { .. } | Refusal::TooFew { .. } => E::NotFunded { message, hint },
        Refusal::NotBound { .. } => E::NotBound { message, hint },
        Refusal::AlreadyBound { .. } => E::AlreadyBound { message, hint },
        Refusal::NotNamed(_) => E::NotNamed { message, hint },
        Refusal::TooMuch { left, asked, .. } => E::TooMuch {
            message,
            hint,
            left: *left,
            asked: *asked,
        },
        Refusal::TooLittle { .. } => E::TooLittle { message, hint },
        Refusal::NoSuchOffer(_) => E::NoSuchOffer { message, hint },
        Refusal::BadOffer(_) => E::BadOffer { message, hint },
        Refusal::SelfTrade { .. } => E::SelfTrade { message, hint },
    }
}

pub fn from_api(r: api::Resource) -> Resource {
    match r {
        api::Resource::Cpu => Resource::Cpu,
        api::Resource::Disk => Resource::Disk,
        api::Resource::Memory => Resource::Memory,
        api::Resource::Net => Resource::Net,
    }
}

fn kind(k: ledger::Kind) -> api::Kind {
    match k {
        ledger::Kind::Soft => api::Kind::Soft,
        ledger::Kind::Hard => api::Kind::Hard,
    }
}

fn cgroup_of(c: &Currency) -> Option<String> {
    let own = c.mirror.as_ref().map(|m| m.path.clone());
    own.or_else(|| c.bindings().next().map(str::to_owned))
}

/// The tickets in force, one per issuer, resource and kind.
fn funding(core: &Core, c: &Currency) -> Vec<api::Funding> {
    let mut out: Vec<api::Funding> = Vec::new();
    for r in Resource::ALL {
        let first = out.len();
        for t in core.ledger.tickets(c, r).filter(|t| !t.kept) {
            let from = core.ledger.name(t.issuer);
            let same = |f: &&mut api::Funding| f.from == from && f.kind == kind(t.kind);
            match out[first..].iter_mut().find(same) {
                Some(f) => f.amount += t.amount,
                None => out.push(api::Funding {
                    from,
                    resource: to_api(r),
                    kind: kind(t.kind),
                    amount: t.amount,
                    bytes: t.bytes.then_some(true),
                }),
            }
        }
    }
    out
}

fn exchanges(core: &Core, cid: Cid) -> Vec<api::ExchangeTicket> {
    let ledger = &core.ledger;
    if Resource::ALL
        .iter()
        .all(|r| ledger.get(cid).is_none_or(|c| c.delta(*r) == 0))
    {
        return vec![];
    }
    let of = |x: &ledger::Exchange| {
        let other = x.legs.iter().find(|(p, _, _)| *p != cid);
        let with = other.map(|(p, _, _)| ledger.name(*p)).unwrap_or_default();
        let mine = x.legs.iter().filter(|(p, _, _)| *p == cid);
        mine.map(|(_, r, n)| api::ExchangeTicket {
            resource: to_api(*r),
            amount_milli: *n,
            with: with.clone(),
        })
        .collect::<Vec<_>>()
    };
    ledger.exchanges_of(cid).flat_map(|(_, x)| of(x)).collect()
}

fn share(core: &mut Core, cid: Cid, r: Resource) -> api::Share {
    let used_usec = match r {
        Resource::Cpu => core.used_usec(cid),
        _ => 0,
    };
    let (ledger, total) = (&core.ledger, core.ledger.total(r));
    let entitlement = ledger.entitlement(cid, r);
    api::Share {
        entitlement: fraction(entitlement, total),
        // Inactive: 0.
        share: match ledger.active(cid, r) {
            true => fraction(ledger.value(cid, r), total),
            false => 0.0,
        },
        used_usec,
        entitlement_bytes: (r == Resource::Memory)
            .then(|| u64::try_from(entitlement >> 64).unwrap_or(u64::MAX)),
        limit_milli: match r {
            Resource::Cpu => limits::smallest(core, cid),
            _ => None,
        },
        ..api::Share::default()
    }
}

fn currency(core: &mut Core, cid: Cid) -> Option<api::Currency> {
    let [cpu, disk, memory, net] = Resource::ALL.map(|r| share(core, cid, r));
    let c = core.ledger.get(cid)?;
    Some(api::Currency {
        cid,
        name: c.name.clone(),
        cgroup: cgroup_of(c),
        owner: c.owner,
        group: c.group,
        mode: c.mode.into(),
        mode_text: units::mode::show(c.mode),
        active: core.ledger.active(cid, Resource::Cpu),
        transient: c.transient.is_some(),
        funding: funding(core, c),
        exchanges: exchanges(core, cid),
        limits: limits::own(core, cid),
        cpu,
        disk,
        memory,
        net,
    })
}

pub fn tree(core: &mut Core) -> api::TreeReply {
    core.count_usage();
    core.refresh();
    let all = core.ledger.cids().into_iter();
    api::TreeReply {
        currencies: all.filter_map(|c| currency(core, c)).collect(),
    }
}

pub fn list(core: &Core) -> api::ListReply {
    let name = |cid: Cid| {
        let c = core.ledger.get(cid)?;
        Some(api::CurrencyName {
            cid,
            name: c.name.clone(),
            cgroup: cgroup_of(c),
            owner: c.owner,
        })
    };
    api::ListReply {
        currencies: core.ledger.cids().into_iter().filter_map(name).collect(),
    }
}

/// Who it was, in words.
fn who(uid: u32) -> String {
    match uid {
        0 => "root".to_owned(),
        POLICY => "policy".to_owned(),
        TIXD => "tixd".to_owned(),
        uid => format!("uid {uid}"),
    }
}

pub fn record(seq: i64, r: Record) -> api::LogRecord {
    api::LogRecord {
        seq: seq.unsigned_abs(),
        time_usec: r.time_usec,
        uid: Some(r.uid).filter(|u| *u != POLICY && *u != TIXD),
        who: who(r.uid),
        kind: r.kind,
        subject: r.subject,
        message: r.text,
        operation: Some(r.op).filter(|op| !op.is_empty()),
    }
}

/// What others did to what is `uid`'s, of the last week, newest last.
fn notices(core: &Core, uid: u32) -> Vec<api::Notice> {
    const WEEK: u64 = 7 * 24 * 3600 * 1_000_000;
    let since = now_usec().saturating_sub(WEEK);
    let recent = core.notices.of(uid).filter(|r| r.time_usec >= since);
    recent
        .map(|r| api::Notice {
            time_usec: r.time_usec,
            hint: format!("`tixctl explain {}` shows what is left", r.subject),
            message: format!("{} ({})", r.text, who(r.uid)),
            kind: r.kind.clone(),
        })
        .collect()
}

/// What holds shares of which disk.
fn disks(core: &mut Core) -> Vec<api::DiskStatus> {
    core.disk.look(&core.root);
    let iocost = core.disk.has_iocost;
    let hint = |d: &disk::Device| match (d.mechanism, iocost, d.has_bfq) {
        (Mechanism::None, true, _) => {
            format!(
                "`tixctl disk enable {}` measures it and turns iocost on",
                d.name
            )
        }
        (Mechanism::None, false, true) => {
            format!("`tixctl disk enable {} --bfq` has BFQ schedule it", d.name)
        }
        (Mechanism::None, false, false) => {
            "the kernel has neither iocost (CONFIG_BLK_CGROUP_IOCOST) nor BFQ for it (modprobe bfq)"
                .to_owned()
        }
        _ => String::new(),
    };
    let devices = core.disk.devices().iter();
    devices
        .map(|d| api::DiskStatus {
            device: d.name.clone(),
            number: d.number.clone(),
            mechanism: match d.mechanism {
                Mechanism::Iocost => api::DiskMechanism::Iocost,
                Mechanism::Bfq => api::DiskMechanism::Bfq,
                Mechanism::None => api::DiskMechanism::None,
            },
            rate: d.rate,
            hint: hint(d),
        })
        .collect()
}

pub fn status(core: &mut Core, uid: u32, process: &Process) -> api::StatusReply {
    // What tixd says of it is to be no older than what the kernel says.
    core.look();
    let disks = disks(core);
    let force = tix_bpf::in_force();
    let in_force = matches!(force, tix_bpf::Force::InForce { .. }) && core.cpu.in_charge();
    let other = decides::other(core, &force);
    let (state, ops) = match force {
        tix_bpf::Force::InForce { ops } | tix_bpf::Force::Other { ops } => {
            ("enabled".to_owned(), Some(ops))
        }
        tix_bpf::Force::Changing { state } => (state, None),
        tix_bpf::Force::Disabled => ("disabled".to_owned(), None),
        tix_bpf::Force::Unsupported(_) => ("unsupported".to_owned(), None),
    };
    let stats = core.cpu.stats().unwrap_or_default();
    let mut problems: Vec<api::Problem> = Vec::new();
    let mut problem = |message: String, hint: &str| {
        problems.push(api::Problem {
            message,
            hint: hint.to_owned(),
        })
    };
    if let Some(found) = decides::problem(core, in_force, other.as_deref()) {
        problem(found.message, &found.hint);
    }
    for lack in in_force.then(decides::lacking).into_iter().flatten() {
        problem(lack.message, &lack.hint);
    }
    if stats.shared > 0 {
        problem(
            format!(
                "{} cgroups share the principal of one above them: there is no room for more, or they are more than 64 levels deep",
                stats.shared
            ),
            "remove cgroups that nobody uses",
        );
    }
    for t in core.cpu.trouble() {
        problem(
            t.to_owned(),
            "tixd tries again with the next change; restart it if this stays",
        );
    }
    if let Some(what) = limits::not_held(core, in_force) {
        problem(
            what,
            match other {
                None => {
                    "while it is not in force, CPUQuota= of systemd's units (cpu.max) limits; cpu.stat in their cgroups tells of it"
                }
                Some(_) => "see above what is in force instead",
            },
        );
    }
    for t in core.not_written() {
        problem(
            t.to_owned(),
            "tixd tries again every second; what is asked of other cgroups is in force",
        );
    }
    for t in core.unsettled.values() {
        problem(
            t.clone(),
            "it is in force, but systemd does not know, and may set what it knows",
        );
    }
    if core.cpu.outlook().enforces() && !core.recursive && core.guarantees_memory() {
        problem(
            "cgroup2 is mounted without memory_recursiveprot: a guarantee of memory is handed down to cgroups below as they are now"
                .to_owned(),
            "mount -o remount,memory_recursiveprot /sys/fs/cgroup, and restart tixd",
        );
    }
    for (path, t) in &core.trouble {
        let hint = match path == cgroups::INOTIFY {
            true => {
                "`sysctl fs.inotify.max_user_watches=N`, more than there are cgroups; until then what changes is seen within a second"
            }
            false => "what cannot be read is not shared by tickets; see tixd's log",
        };
        problem(t.clone(), hint);
    }
    for u in &core.unheld {
        let (holder, issuer) = (core.ledger.name(u.holder), core.ledger.name(u.issuer));
        problem(
            format!(
                "{holder} is guaranteed {} of {}, and {issuer} has only {} for it",
                units::show_bytes(u.bytes),
                u.resource.name(),
                units::show_bytes(u.worth)
            ),
            "fund the issuer with more, or reserve less",
        );
    }
    for (name, r, amount) in core.ledger.all_lapsed() {
        problem(
            format!(
                "{amount} {} tickets of base that {name} gave up still count among base's",
                r.name()
            ),
            "root: `tixctl unfund NAME --from base RESOURCE` withdraws them",
        );
    }
    api::StatusReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_usec: u64::try_from(core.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        cost: Some(api::CostStatus {
            cpu_usec: u64::try_from(cost::cpu().as_micros()).unwrap_or(u64::MAX),
            memory_bytes: cost::memory(),
            maps_bytes: core.cpu.memory(),
        }),
        scheduler: api::SchedulerStatus {
            enforcer: decides::enforcer(core, in_force, other.as_deref()),
            in_force,
            state,
            ops,
            reason: core.cpu.reason().map(str::to_owned),
            reloads: core.cpu.reloads(),
            shared_cgroups: stats.shared,
            nodes: stats.nodes,
            nodes_max: u64::from(NODES_MAX),
            forced_runs: stats.forced,
            lent_usec: stats.lent_ns / 1000,
        },
        disks,
        currencies: core.ledger.len() as u64,
        cgroups: core.ledger.iter().filter(|(_, c)| c.is_mirror()).count() as u64,
        base_tickets: core.ledger.total(Resource::Cpu),
        user_currency: super::names::user_currency(core, uid, process),
        problems,
        notices: notices(core, uid),
        store: api::StoreStatus {
            writable: core.unwritable.is_none(),
            reason: core.unwritable.clone(),
        },
        policy: core.policy.clone(),
    }
}

/// Room in the scheduler's tables (`bpf/intf.h`).
const NODES_MAX: u32 = 131_072 + 1_024;
/// Paths that `explain` shows.
const PATHS: usize = 256;

/// `a` as a fraction of `b`.
fn ratio(a: u128, b: u128) -> f64 {
    match b {
        0 => 0.0,
        b => a as f64 / b as f64,
    }
}

fn step(core: &Core, t: &ledger::Ticket, holder: Cid, r: Resource) -> api::Step {
    let ledger = &core.ledger;
    let active = ledger.active(holder, r);
    api::Step {
        issuer: ledger.name(t.issuer),
        holder: ledger.name(holder),
        kind: kind(t.kind),
        amount: t.amount,
        bytes: t.bytes.then_some(true),
        issued_active: ledger.soft_active(t.issuer, r),
        issued: ledger.soft_issued(t.issuer, r),
        active,
        part: ratio(
            ledger.ticket_value(t, r, true),
            ledger.entitlement(t.issuer, r),
        ),
        part_now: match active {
            true => ratio(ledger.ticket_value(t, r, false), ledger.value(t.issuer, r)),
            false => 0.0,
        },
    }
}

pub fn explain(core: &mut Core, cid: Cid, r: Resource) -> Option<api::ExplainReply> {
    core.count_usage();
    core.refresh();
    let currency = currency(core, cid)?;
    let mut paths = Vec::new();
    let mut truncated = false;
    let mut todo: Vec<(Cid, Vec<api::Step>, f64, f64)> = vec![(cid, vec![], 1.0, 1.0)];
    while let Some((c, mut steps, sure, now)) = todo.pop() {
        if c == BASE {
            steps.reverse();
            paths.push(api::FundingPath {
                steps,
                entitlement: sure,
                share: now,
            });
            if paths.len() == PATHS {
                truncated = !todo.is_empty();
                break;
            }
            continue;
        }
        let Some(x) = core.ledger.get(c) else {
            continue;
        };
        for t in core.ledger.tickets(x, r).filter(|t| !t.kept) {
            let step = step(core, &t, c, r);
            let (sure, now) = (sure * step.part, now * step.part_now);
            let mut steps = steps.clone();
            steps.push(step);
            todo.push((t.issuer, steps, sure, now));
        }
    }
    paths.sort_by(|a, b| b.entitlement.total_cmp(&a.entitlement));
    Some(api::ExplainReply {
        currency,
        resource: to_api(r),
        base_tickets: core.ledger.total(r),
        paths,
        limits: match r {
            Resource::Cpu => limits::over(core, cid),
            _ => vec![],
        },
        truncated,
    })
}

pub fn sample(core: &mut Core, processes: Option<Whose>) -> api::Sample {
    core.count_usage();
    core.refresh();
    let all = core.ledger.cids().into_iter();
    let currencies = all
        .filter_map(|cid| {
            let cpu = share(core, cid, Resource::Cpu);
            let c = core.ledger.get(cid)?;
            Some(api::CurrencySample {
                cid,
                name: c.name.clone(),
                cgroup: cgroup_of(c),
                owner: c.owner,
                active: core.ledger.active(cid, Resource::Cpu),
                cpu,
            })
        })
        .collect();
    let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    api::Sample {
        time_usec: now_usec(),
        monotonic_usec: mono.tv_sec.unsigned_abs() * 1_000_000
            + mono.tv_nsec.unsigned_abs() / 1_000,
        cpus: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
        currencies,
        processes: processes.map(super::processes::all),
    }
}
