// SPDX-License-Identifier: GPL-2.0-only
//! How fast the ledger is with 100,000 currencies and 1,000,000 tickets:
//! `cargo run --release -p tix-ledger --example ledger_speed`.

#![allow(clippy::unwrap_used)]

use rustix::time::{ClockId, clock_gettime};
use tix_ledger::{BASE, Caller, Cid, End, Hard, Key, Kind, Ledger, Op, Part, Resource, Row};

const CURRENCIES: u64 = 100_000;
const TICKETS: u64 = 1_000_000;
/// Of base, and of the tiers.
const TIERS: u64 = 100;
const GROUPS: u64 = 1_000;

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0u64) * 1024
}

/// Seconds of CPU time of this process: others may be busy, too.
fn now() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn dice(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
    *state >> 33
}

/// Tiers below base, groups below the tiers, the rest below ten groups each, in all resources.
fn rows() -> Vec<(Key, Row)> {
    let mut rows = Vec::new();
    for cid in 1..=CURRENCIES {
        rows.push((
            Key::Currency(cid),
            Row::Currency {
                name: format!("c{cid}"),
                owner: 1000,
                group: 1000,
                mode: 0o700,
                transient: None,
                by: 0,
            },
        ));
    }
    let ticket = |issuer: Cid, holder: Cid, resource, amount| {
        let key = Key::Ticket {
            issuer: End::Cid(issuer),
            holder: End::Cid(holder),
            resource,
            kind: Kind::Soft,
        };
        let row = Row::Ticket {
            amount,
            bytes: false,
            by: 0,
        };
        (key, row)
    };
    let mut state = 1;
    let mut given = 0;
    let leaves = CURRENCIES - TIERS - GROUPS;
    for cid in 1..=CURRENCIES {
        for r in Resource::ALL {
            if cid <= TIERS {
                rows.push(ticket(BASE, cid, r, 100));
                given += 1;
            } else if cid <= TIERS + GROUPS {
                rows.push(ticket(1 + cid % TIERS, cid, r, 100));
                given += 1;
            }
        }
        if cid > TIERS + GROUPS {
            let should = (TICKETS - 4 * (TIERS + GROUPS)) * (cid - TIERS - GROUPS) / leaves;
            let first = dice(&mut state);
            let mut n = 0;
            while given < should + 4 * (TIERS + GROUPS) {
                let issuer = TIERS + 1 + (first + 7 * n) % GROUPS;
                let r = Resource::ALL[(n % 4) as usize];
                rows.push(ticket(issuer, cid, r, 1 + dice(&mut state) % 1000));
                given += 1;
                n += 1;
            }
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn timed(what: &str, times: u64, mut one: impl FnMut(u64)) {
    let start = now();
    let mut worst = 0.0f64;
    for n in 0..times {
        let began = now();
        one(n);
        worst = worst.max(now() - began);
    }
    let took = now() - start;
    let each = took * 1e6 / times as f64;
    println!(
        "{what:<46} {each:>9.2} us each, {:>9.1} us at worst",
        worst * 1e6
    );
}

fn done(l: &mut Ledger, op: &Op) {
    l.apply(op, &Caller::ROOT).unwrap();
    assert!(!l.changes().is_empty());
    l.settle();
}

fn fund(holder: u64, issuer: u64, amount: i64) -> Op {
    Op::Fund {
        holder: format!("c{holder}"),
        issuer: match issuer {
            BASE => "base".to_owned(),
            n => format!("c{n}"),
        },
        resource: Resource::Cpu,
        amount,
    }
}

fn unfund(holder: u64, issuer: u64) -> Op {
    Op::Unfund {
        holder: format!("c{holder}"),
        issuer: format!("c{issuer}"),
        resource: Resource::Cpu,
        amount: Some(1),
    }
}

fn main() {
    let rows = rows();
    let tickets = rows
        .iter()
        .filter(|(k, _)| matches!(k, Key::Ticket { .. }))
        .count();
    println!("{} rows, {tickets} tickets", rows.len());
    let before = resident();
    let mut l = Ledger::new(1, 1 << 40);
    l.load(rows.iter().cloned());
    let bytes = resident().saturating_sub(before);
    println!("{} bytes per ticket", bytes / tickets as u64);
    drop(l);
    let start = now();
    let mut l = Ledger::new(1, 1 << 40);
    l.load(rows);
    println!("loaded in {:.2} s", (now() - start));
    let start = now();
    let wrong = l.verify();
    println!(
        "verified in {:.2} s: {} wrong",
        (now() - start),
        wrong.len()
    );
    let start = now();
    let n = l.rows().len();
    println!("{n} rows read out in {:.2} s", (now() - start));
    timed("a copy of it", 5, |_| drop(l.clone()));

    operations(&mut l);
    looking_up(&mut l);
}

fn operations(l: &mut Ledger) {
    let leaf = |n: u64| TIERS + GROUPS + 1 + n * 37 % (CURRENCIES - TIERS - GROUPS);
    let group = |n: u64| TIERS + 1 + n * 13 % GROUPS;
    timed("fund a leaf by one more", 20_000, |n| {
        done(l, &fund(leaf(n), group(n), 1))
    });
    timed("unfund it again", 20_000, |n| {
        done(l, &unfund(leaf(n), group(n)))
    });
    timed("a new ticket for a group of 400 below", 1_000, |n| {
        let t = 1 + (group(n) + 50) % TIERS;
        done(l, &fund(group(n), t, 1));
        done(l, &unfund(group(n), t));
    });
    for n in 0..100 {
        let cid = l.next_cid();
        let name = format!("top{n}");
        let (owner, group, mode) = (0, 0, 0o700);
        done(
            l,
            &Op::Create {
                cid,
                name: name.clone(),
                owner,
                group,
                mode,
            },
        );
    }
    timed("a new ticket for a tier of thousands below", 100, |n| {
        let (holder, issuer, resource) = (format!("c{}", n + 1), format!("top{n}"), Resource::Cpu);
        done(
            l,
            &Op::Fund {
                holder,
                issuer,
                resource,
                amount: 1,
            },
        );
    });
    timed("one more for a tier", 1_000, |n| {
        done(l, &fund(n % TIERS + 1, BASE, 1))
    });
    timed("reserve", 10_000, |n| {
        let (holder, issuer) = (format!("c{}", leaf(n)), format!("c{}", group(n * 31)));
        let (resource, amount) = (Resource::Cpu, Hard::Milli(n / 1000 + 1));
        let op = Op::Reserve {
            holder,
            issuer,
            resource,
            amount,
        };
        // Refused is as good.
        let _ = l.apply(&op, &Caller::ROOT);
        l.settle();
    });
    timed("create, fund and destroy", 10_000, |n| {
        let cid = l.next_cid();
        let (name, holder) = (format!("new{n}"), format!("new{n}"));
        let (owner, group, mode) = (0, 0, 0o700);
        let create = Op::Create {
            cid,
            name: name.clone(),
            owner,
            group,
            mode,
        };
        done(l, &create);
        let (issuer, resource) = (format!("c{}", group_of(n)), Resource::Cpu);
        let fund = Op::Fund {
            holder,
            issuer,
            resource,
            amount: 5,
        };
        done(l, &fund);
        l.apply(&Op::Destroy { name }, &Caller::ROOT).unwrap();
        l.settle();
    });
}

fn group_of(n: u64) -> u64 {
    TIERS + 1 + n * 13 % GROUPS
}

fn looking_up(l: &mut Ledger) {
    let all = l.cids();
    l.set_all_running(Resource::Cpu, &|c| c % 3 == 0);
    let start = now();
    let mut sum = 0u128;
    for c in &all {
        sum = sum.wrapping_add(l.value(*c, Resource::Cpu));
    }
    let took = now() - start;
    println!(
        "all values after a change: {:.0} look-ups a second ({sum:x})",
        all.len() as f64 / took
    );
    let leaf = |n: u64| TIERS + GROUPS + 1 + n * 37 % (CURRENCIES - TIERS - GROUPS);
    timed("wake, and look up who did", 100_000, |n| {
        let c = leaf(n);
        let on = !l.active(c, Resource::Cpu);
        l.set_running(c, Resource::Cpu, on);
        std::hint::black_box(l.value(c, Resource::Cpu));
    });
    for n in 0..1000u64 {
        l.cgroup_here(&tix_ledger::Cgroup {
            path: &format!("/j{n}"),
            id: 10 + n,
            weight: 100,
            disk: 100,
            owner: 0,
            group: 0,
            inner_threads: false,
        });
        let op = Op::Nice {
            cid: l.next_cid(),
            name: format!("nice{n}"),
            giver: format!("c{}", n % TIERS + 1),
            amount: Part::Milli(1),
            path: format!("/j{n}"),
        };
        l.apply(&op, &Caller::ROOT).unwrap();
        l.settle();
    }
    timed("fund while 1,000 exchanges stand", 1_000, |n| {
        done(l, &fund(leaf(n), group_of(n), 1))
    });
    timed("wake and look up while they stand", 1_000, |n| {
        let c = leaf(n);
        let on = !l.active(c, Resource::Cpu);
        l.set_running(c, Resource::Cpu, on);
        std::hint::black_box(l.value(c, Resource::Cpu));
    });
}
