// SPDX-License-Identifier: GPL-2.0-only
//! The ledger and the machine as the API shows them.

use crate::core::{Core, now_usec};
use crate::enforce::presence::Outlook;
use crate::ledger::{self, BASE, Cid, Currency, Refusal, Resource, Values, fraction};
use std::collections::HashSet;
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
        Refusal::NotPermitted { .. } => E::NotPermitted { message, hint },
        Refusal::WouldCycle { .. } => E::WouldCycle { message, hint },
        Refusal::LimitReached(_) => E::LimitReached { message, hint },
        Refusal::NotFunded { .. } | Refusal::TooFew { .. } => E::NotFunded { message, hint },
        Refusal::NotBound { .. } => E::NotBound { message, hint },
        Refusal::AlreadyBound { .. } => E::AlreadyBound { message, hint },
        Refusal::NotNamed(_) => E::NotNamed { message, hint },
        Refusal::UnsupportedResource(_) => E::UnsupportedResource { message, hint },
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

fn cgroup_of(core: &Core, cid: Cid, c: &Currency) -> Option<String> {
    c.mirror
        .as_ref()
        .map(|m| m.path.clone())
        .or_else(|| core.ledger.bindings_of(cid).next().map(str::to_owned))
}

fn label(core: &Core, cid: Cid) -> String {
    core.ledger
        .get(cid)
        .map(|c| c.name.clone())
        .unwrap_or_default()
}

/// The tickets in force, one per issuer.
fn funding(core: &Core, c: &Currency) -> Vec<api::Funding> {
    let mut out: Vec<api::Funding> = Vec::new();
    for t in core
        .ledger
        .tickets(c, Resource::Cpu)
        .into_iter()
        .filter(|t| !t.kept)
    {
        let from = label(core, t.issuer);
        match out
            .iter_mut()
            .find(|f| f.from == from && f.kind == kind(t.kind))
        {
            Some(f) => f.amount += t.amount,
            None => out.push(api::Funding {
                from,
                resource: api::Resource::Cpu,
                kind: kind(t.kind),
                amount: t.amount,
            }),
        }
    }
    out
}

pub fn values(core: &Core) -> Values {
    let running: HashSet<Cid> = core.running();
    core.ledger.values(Resource::Cpu, &|c| running.contains(&c))
}

fn share(core: &mut Core, cid: Cid, v: &Values) -> api::Share {
    api::Share {
        entitlement: fraction(v.entitlement.get(&cid).copied().unwrap_or(0), v.total),
        share: if v.active.contains(&cid) {
            fraction(v.value.get(&cid).copied().unwrap_or(0), v.total)
        } else {
            0.0
        },
        used_usec: core.used_usec(cid),
    }
}

fn currency(core: &mut Core, cid: Cid, v: &Values) -> Option<api::Currency> {
    let cpu = share(core, cid, v);
    let c = core.ledger.get(cid)?;
    Some(api::Currency {
        cid,
        name: c.name.clone(),
        cgroup: cgroup_of(core, cid, c),
        owner: c.owner,
        active: v.active.contains(&cid),
        transient: c.transient.is_some(),
        funding: funding(core, c),
        cpu,
    })
}

fn all(core: &Core) -> Vec<Cid> {
    core.ledger.iter().map(|(c, _)| c).collect()
}

pub fn tree(core: &mut Core) -> api::TreeReply {
    core.count_usage();
    let v = values(core);
    api::TreeReply {
        currencies: all(core)
            .into_iter()
            .filter_map(|c| currency(core, c, &v))
            .collect(),
    }
}

pub fn list(core: &Core) -> api::ListReply {
    let name = |(cid, c): (Cid, &Currency)| api::CurrencyName {
        cid,
        name: c.name.clone(),
        cgroup: cgroup_of(core, cid, c),
        owner: c.owner,
    };
    api::ListReply {
        currencies: core.ledger.iter().map(name).collect(),
    }
}

/// What tixd does while the scheduler is not in force, and what others can do.
fn remedy(outlook: Outlook) -> String {
    let cpu_weight = "the kernel's own scheduler holds shares by cpu.weight";
    match outlook {
        Outlook::InForce => "tixd is about to find out why".to_owned(),
        Outlook::Loading => format!("it is being loaded again; until then {cpu_weight}"),
        Outlook::Retry(pause) => format!(
            "tixd loads it again in {} s; until then {cpu_weight}",
            pause.as_secs() + 1
        ),
        Outlook::Unsupported => {
            format!("{cpu_weight}; `tixctl doctor` says what this machine lacks")
        }
        Outlook::GivenUp => {
            format!("{cpu_weight}; `systemctl restart tixd` loads tix's again")
        }
        Outlook::Observing => "start tixd without --observe to have shares enforced".to_owned(),
    }
}

pub fn status(core: &mut Core, uid: u32, pid: i32) -> api::StatusReply {
    // What tixd says of it is to be no older than what the kernel says.
    core.look();
    let force = tix_bpf::in_force();
    let in_force = matches!(force, tix_bpf::Force::InForce { .. }) && core.cpu.in_charge();
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
    if !in_force {
        let why = match core.cpu.outlook() {
            Outlook::InForce => "the kernel is taking the scheduler out of force",
            _ => core.cpu.reason().unwrap_or("the scheduler is not in force"),
        };
        problem(why.to_owned(), &remedy(core.cpu.outlook()));
    }
    if stats.shared > 0 {
        problem(
            format!(
                "{} cgroups share their parent's principal: there is no room for more",
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
    for t in core.trouble.values() {
        problem(
            t.clone(),
            "what cannot be read is not shared by tickets; see tixd's log",
        );
    }
    let enforcer = match (in_force, core.cpu.by_weight()) {
        (true, _) => api::Enforcer::SchedExt,
        (false, true) => api::Enforcer::CpuWeight,
        (false, false) => api::Enforcer::None,
    };
    api::StatusReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_usec: u64::try_from(core.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        scheduler: api::SchedulerStatus {
            enforcer,
            in_force,
            state,
            ops,
            reason: core.cpu.reason().map(str::to_owned),
            reloads: core.cpu.reloads(),
            shared_cgroups: stats.shared,
            nodes: stats.nodes,
            nodes_max: u64::from(NODES_MAX),
            forced_runs: stats.forced,
        },
        currencies: core.ledger.len() as u64,
        cgroups: core.ledger.iter().filter(|(_, c)| c.is_mirror()).count() as u64,
        base_tickets: core.ledger.base_tickets(Resource::Cpu),
        user_currency: super::names::user_currency(core, uid, pid),
        problems,
    }
}

/// Room in the scheduler's tables (`bpf/intf.h`).
const NODES_MAX: u32 = 131_072 + 1_024;
/// Paths that `explain` shows.
const PATHS: usize = 256;

pub fn explain(core: &mut Core, cid: Cid) -> Option<api::ExplainReply> {
    core.count_usage();
    let v = values(core);
    let currency = currency(core, cid, &v)?;
    let mut paths = Vec::new();
    let mut truncated = false;
    let mut todo: Vec<(Cid, Vec<api::Step>, f64, f64)> = vec![(cid, vec![], 1.0, 1.0)];
    while let Some((c, steps, sure, now)) = todo.pop() {
        if c == BASE {
            let mut steps = steps;
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
        for t in core
            .ledger
            .tickets(x, Resource::Cpu)
            .into_iter()
            .filter(|t| !t.kept)
        {
            let (issued_active, issued) = v.issued.get(&t.issuer).copied().unwrap_or((0, 0));
            let active = v.active.contains(&c);
            let part = |n: u64| {
                if n == 0 {
                    0.0
                } else {
                    t.amount as f64 / n as f64
                }
            };
            let mut steps = steps.clone();
            steps.push(api::Step {
                issuer: label(core, t.issuer),
                holder: x.name.clone(),
                kind: kind(t.kind),
                amount: t.amount,
                issued_active,
                issued,
                active,
            });
            let share = if active {
                now * part(issued_active)
            } else {
                0.0
            };
            todo.push((t.issuer, steps, sure * part(issued), share));
        }
    }
    paths.sort_by(|a, b| b.entitlement.total_cmp(&a.entitlement));
    let base_tickets = v.total;
    Some(api::ExplainReply {
        currency,
        resource: api::Resource::Cpu,
        base_tickets,
        paths,
        truncated,
    })
}

pub fn sample(core: &mut Core, processes: bool, uid: u32) -> api::Sample {
    core.count_usage();
    let v = values(core);
    let currencies = all(core)
        .into_iter()
        .filter_map(|cid| {
            let cpu = share(core, cid, &v);
            let c = core.ledger.get(cid)?;
            Some(api::CurrencySample {
                cid,
                name: c.name.clone(),
                cgroup: cgroup_of(core, cid, c),
                owner: c.owner,
                active: v.active.contains(&cid),
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
        processes: processes.then(|| self::processes(uid)),
    }
}

/// Processes outside the root cgroup: all of them for root, their own for others.
fn processes(uid: u32) -> Vec<api::ProcessSample> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok()))
        .filter_map(|pid| process(pid, uid))
        .collect()
}

fn process(pid: u32, asker: u32) -> Option<api::ProcessSample> {
    use std::os::unix::fs::MetadataExt;
    let dir = format!("/proc/{pid}");
    let uid = std::fs::metadata(&dir).ok()?.uid();
    if asker != 0 && asker != uid {
        return None;
    }
    let cgroup = std::fs::read_to_string(format!("{dir}/cgroup")).ok()?;
    let cgroup = cgroup
        .lines()
        .find_map(|l| l.strip_prefix("0::"))?
        .to_owned();
    if cgroup == "/" {
        return None;
    }
    let stat = std::fs::read_to_string(format!("{dir}/stat")).ok()?;
    let (comm, used_usec) = parse_stat(&stat)?;
    Some(api::ProcessSample {
        pid,
        uid,
        comm,
        cgroup,
        used_usec,
    })
}

/// Name and CPU time, microseconds, of `/proc/PID/stat`. The name may hold anything, parentheses too.
fn parse_stat(stat: &str) -> Option<(String, u64)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let comm = stat.get(open + 1..close)?.to_owned();
    let mut fields = stat.get(close + 1..)?.split_whitespace();
    let utime: u64 = fields.nth(11)?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    let hz = rustix::param::clock_ticks_per_second().max(1);
    Some((comm, (utime + stime) * (1_000_000 / hz)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        let (comm, used) = super::parse_stat(stat).unwrap();
        assert_eq!((comm.as_str(), used), ("a) R 1 (b", 2_000_000));
    }
}
