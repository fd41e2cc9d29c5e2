// SPDX-License-Identifier: GPL-2.0-only
//! The ledger and the machine as the API shows them.

use super::cost;
use super::decides;
use super::held;
use super::limits;
use super::peer::Process;
use crate::reconcile::disk::Mechanism;
use crate::reconcile::presence::Outlook;
use crate::writer::{Core, now_usec};
use tix_api as api;
use tix_cgroupfs as cgroups;
use tix_ledger::{self as ledger, BASE, Cid, Currency, Event, POLICY, Resource, TIXD, fraction};
use tix_model::units;
use tix_store::Record;

/// What went with the currency `cid`, which was called `name`.
pub fn destroyed(name: String, cid: Option<Cid>, told: &[Event]) -> api::DestroyReply {
    let of_it = |e: &&Event| match e {
        Event::Funded {
            holder,
            issuer,
            amount: 0,
            ..
        } => Some(*holder) == cid || Some(*issuer) == cid,
        _ => false,
    };
    api::DestroyReply {
        name,
        tickets: told.iter().filter(of_it).count() as u64,
        cgroups: unbound(told),
    }
}

/// The cgroups that are not bound any more.
pub fn unbound(told: &[Event]) -> Vec<String> {
    let paths = told.iter().filter_map(|e| match e {
        Event::Unbound { path, .. } => Some(path.clone()),
        _ => None,
    });
    paths.collect()
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
            let same = |f: &&mut api::Funding| f.from == from && f.kind == api::Kind::from(t.kind);
            match out[first..].iter_mut().find(same) {
                Some(f) => f.amount += t.amount,
                None => out.push(api::Funding {
                    from,
                    resource: tix_api::Resource::from(r),
                    kind: t.kind.into(),
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
            resource: tix_api::Resource::from(*r),
            amount_milli: *n,
            with: with.clone(),
        })
        .collect::<Vec<_>>()
    };
    ledger.exchanges_of(cid).flat_map(|(_, x)| of(x)).collect()
}

fn share(core: &mut Core, cid: Cid, r: Resource) -> api::Share {
    let used_usec = match r {
        Resource::Cpu => core.usage.used_usec(&core.ledger, cid),
        _ => 0,
    };
    let (ledger, total) = (&core.ledger, core.ledger.total(r));
    let entitlement = ledger.entitlement(cid, r);
    let active = ledger.active(cid, r);
    let by_tickets = match active {
        // What is protected hangs on no one's activity.
        _ if r == Resource::Memory => fraction(entitlement, total),
        true => fraction(ledger.value(cid, r), total),
        false => 0.0,
    };
    let bounds = Some(&core.activity.bounds).filter(|_| r == Resource::Cpu && cid != BASE);
    let most = bounds
        .and_then(|b| b.part(cid))
        .filter(|most| *most < by_tickets);
    api::Share {
        entitlement: fraction(entitlement, total),
        share: most.unwrap_or(by_tickets),
        limited: most.map(|_| true),
        throttled: bounds
            .filter(|b| !active && b.throttled.contains(&cid))
            .map(|_| true),
        used_usec,
        entitlement_bytes: (r == Resource::Memory)
            .then(|| u64::try_from(entitlement >> 64).unwrap_or(u64::MAX)),
        limit_milli: match r {
            Resource::Cpu => limits::smallest(core, cid),
            _ => None,
        },
        own_tickets: (core.ledger.has_self(cid, r)).then_some(ledger::SELF_TICKETS),
        ..api::Share::default()
    }
}

pub fn currency(core: &mut Core, cid: Cid) -> Option<api::Currency> {
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
        not_held: None,
    })
}

pub fn name(core: &Core, cid: Cid) -> Option<api::CurrencyName> {
    let c = core.ledger.get(cid)?;
    Some(api::CurrencyName {
        cid,
        name: c.name.clone(),
        cgroup: cgroup_of(c),
        owner: c.owner,
    })
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
    let recent = core
        .commits
        .notices
        .of(uid)
        .filter(|r| r.time_usec >= since);
    recent
        .map(|r| api::Notice {
            time_usec: r.time_usec,
            hint: match core.ledger.find(&r.subject) {
                Some(_) => format!("`tixctl explain {}` shows what is left", r.subject),
                None if r.subject.is_empty() => {
                    "`tixctl log --mine` shows what was done".to_owned()
                }
                None => format!("it is gone; `tixctl log {}` shows what was done", r.subject),
            },
            message: format!("{} ({})", r.text, who(r.uid)),
            kind: r.kind.clone(),
        })
        .collect()
}

pub fn mechanism(of: Mechanism) -> api::DiskMechanism {
    match of {
        Mechanism::Iocost => api::DiskMechanism::Iocost,
        Mechanism::Bfq => api::DiskMechanism::Bfq,
        Mechanism::None => api::DiskMechanism::None,
    }
}

/// What holds shares of which disk.
fn disks(core: &mut Core) -> Vec<api::DiskStatus> {
    core.disk.look(&core.tree.root);
    let devices = core.disk.devices().iter();
    devices
        .map(|d| api::DiskStatus {
            device: d.name.clone(),
            number: d.number.clone(),
            mechanism: mechanism(d.mechanism),
            rate: d.rate,
            // What nothing is enforced for is said once, as a problem.
            hint: match core.cpu.outlook().enforces() {
                true => held::disk_hint(&core.disk, d),
                false => String::new(),
            },
        })
        .collect()
}

/// That there are rights which nothing enforces, and who has them.
fn unenforced(l: &ledger::Ledger) -> Option<String> {
    const SHOWN: usize = 5;
    let names = l.holders_of_unenforced();
    let mut who: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!("{n} more"),
    };
    who.extend(Some(more.as_str()).filter(|m| !m.is_empty()));
    let (last, others) = who.split_last()?;
    let who = match others {
        [] => (*last).to_owned(),
        _ => format!("{} and {last}", others.join(", ")),
    };
    Some(format!(
        "tix does not enforce net: the rights of {who} to it share nothing"
    ))
}

/// Problems of one kind that `status` lists: users can make any number of some.
const LISTED: usize = 10;

fn push(problems: &mut Vec<api::Problem>, message: String, hint: &str) {
    let hint = hint.to_owned();
    problems.push(api::Problem { message, hint });
}

/// The first of one kind, in the words that `tell` has for them, and how many more there are.
fn list<T>(
    problems: &mut Vec<api::Problem>,
    mut all: impl Iterator<Item = T>,
    tell: impl Fn(T) -> (String, String),
) {
    for one in all.by_ref().take(LISTED) {
        let (message, hint) = tell(one);
        push(problems, message, &hint);
    }
    let more = all.count();
    if more > 0 {
        push(
            problems,
            format!("and {more} more like the last one"),
            "see above",
        );
    }
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
    if let Some(found) = decides::problem(core, in_force, other.as_deref()) {
        push(&mut problems, found.message, &found.hint);
    }
    for lack in in_force.then(decides::lacking).into_iter().flatten() {
        push(&mut problems, lack.message, &lack.hint);
    }
    if stats.shared > 0 {
        push(
            &mut problems,
            format!(
                "{} cgroups share the principal of one above them: there is no room for more, or \
                 they are more than 64 levels deep",
                stats.shared
            ),
            "remove cgroups that nobody uses",
        );
    }
    list(&mut problems, core.cpu.trouble(), |t| {
        let hint = "tixd tries again with the next change; restart it if this stays";
        (t.to_owned(), hint.to_owned())
    });
    if let Some(what) = limits::not_held(core, in_force) {
        push(
            &mut problems,
            what,
            match other {
                _ if core.cpu.outlook() == Outlook::NoCgroups => "see above why it is not",
                None => {
                    "while it is not in force, CPUQuota= of systemd's units (cpu.max) limits; \
                     cpu.stat in their cgroups tells of it"
                }
                Some(_) => "see above what is in force instead",
            },
        );
    }
    let off = held::all_without_cpu(core).into_iter();
    list(&mut problems, off, |off| (off.message, off.hint));
    list(&mut problems, core.marks.not_written(), |t| {
        let hint = "tixd tries again every second; what is asked of other cgroups is in force";
        (t.to_owned(), hint.to_owned())
    });
    list(&mut problems, core.marks.unsettled.values(), |t| {
        let hint = "it is in force, but systemd does not know, and may set what it knows";
        (t.clone(), hint.to_owned())
    });
    if core.cpu.outlook().enforces() && !core.tree.recursive && core.marks.guarantees_memory() {
        push(&mut problems,
            "cgroup2 is mounted without memory_recursiveprot: a guarantee of memory is handed down \
             to cgroups below as they are now"
                .to_owned(),
            "mount -o remount,memory_recursiveprot /sys/fs/cgroup, and restart tixd",
        );
    }
    list(&mut problems, core.tree.trouble.iter(), |(path, t)| {
        let hint = match path == cgroups::INOTIFY {
            true => {
                "`sysctl fs.inotify.max_user_watches=N`, more than there are cgroups; until then \
                 what changes is seen within a second"
            }
            false => "what cannot be read is not shared by tickets; see tixd's log",
        };
        (t.clone(), hint.to_owned())
    });
    list(&mut problems, core.deferred.guarantees.unheld.iter(), |u| {
        let (holder, issuer) = (core.ledger.name(u.holder), core.ledger.name(u.issuer));
        let what = format!(
            "{holder} is guaranteed {} of {}, and {issuer} has only {} for it",
            units::show_bytes(u.bytes),
            u.resource.name(),
            units::show_bytes(u.worth)
        );
        (
            what,
            "fund the issuer with more, or reserve less".to_owned(),
        )
    });
    list(
        &mut problems,
        core.ledger.all_lapsed(),
        |(name, r, amount)| {
            let resource = r.name();
            let what = format!(
                "{amount} {resource} tickets of base that {name} gave up still count among base's"
            );
            let hint =
                format!("root: `tixctl unfund {name} --from base {resource}` withdraws them");
            (what, hint)
        },
    );
    if let Some(message) = unenforced(&core.ledger) {
        push(
            &mut problems,
            message,
            "`tixctl unfund NAME --from ISSUER net`, `unreserve` and `cancel` take them back",
        );
    }
    api::StatusReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_usec: u64::try_from(core.turns.started.elapsed().as_micros()).unwrap_or(u64::MAX),
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
            nodes_max: u64::from(tix_bpf::NODES_MAX),
            forced_runs: stats.overdue,
            lent_usec: stats.lent_ns / 1000,
        },
        disks,
        currencies: core.ledger.len() as u64,
        cgroups: core.ledger.iter().filter(|(_, c)| c.is_mirror()).count() as u64,
        base_tickets: core.ledger.total(Resource::Cpu),
        limits: in_force.then(|| limits::in_force(core)),
        user_currency: super::names::user_currency(core, uid, process),
        problems,
        notices: notices(core, uid),
        store: api::StoreStatus {
            writable: core.commits.unwritable.is_none(),
            reason: (core.commits.unwritable.as_ref())
                .map(|why| format!("{why}; {}", core.commits.unstored)),
        },
        policy: api::PolicyStatus {
            directory: core.policy.directory.clone(),
            files: core.policy.files as u64,
            rules: core.policy.rules as u64,
            problems: core.policy.problems.clone(),
        },
    }
}

/// All limits that count for `cid`.
pub fn to_limits(core: &Core, cid: Cid, r: Resource) -> Vec<api::Limit> {
    match r {
        Resource::Cpu => limits::over(core, cid),
        _ => vec![],
    }
}

pub fn currency_sample(core: &mut Core, cid: Cid) -> Option<api::CurrencySample> {
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
}
