// SPDX-License-Identifier: GPL-2.0-only
//! Who may do what: Table 1 of Sullivan (§2.3) and what model.md §1 adds, as one table. Every mode
//! is tried for every operation and everybody.

#![allow(clippy::unwrap_used)]

use tix_ledger::{Caller, Cgroup, Hard, Ledger, Op, Part, Refusal, Resource, Terms};

/// Bits of a mode, for owner, group and others each.
const F: u16 = 4;
const C: u16 = 2;
const I: u16 = 1;

/// A currency that an operation asks, and which bits of its mode it must have.
type Need = (&'static str, u16);

enum Check {
    /// Any of these, all of each.
    Bits(&'static [&'static [Need]]),
    /// The caller must be the owner, and root is.
    Owner(&'static str),
    /// The caller must match the ids that are given.
    Ids,
    Root,
}

/// A and B are named currencies of one owner and group, whose modes vary. The cgroup /j (whose
/// parent is /u) is the caller's own, with all rights, except where it is what is asked.
#[rustfmt::skip]
fn table() -> Vec<(&'static str, Op, Check)> {
    use Check::{Bits, Ids, Owner, Root};
    let cpu = Resource::Cpu;
    let s = str::to_owned;
    let create = |owner| Op::Create { cid: 99, name: s("new"), owner, group: STAFF, mode: 0o700 };
    vec![
        // Table 1.
        ("create a currency",            create(OWNER),                                                     Ids),
        ("destroy A",                    Op::Destroy { name: s("a") },                                      Bits(&[&[("a", C)]])),
        ("fund A with B's tickets",      Op::Fund { holder: s("a"), issuer: s("b"), resource: cpu, amount: 5 },
                                                                                                            Bits(&[&[("a", F), ("b", I)]])),
        ("take B's tickets from H",      Op::Unfund { holder: s("h"), issuer: s("b"), resource: cpu, amount: None },
                                                                                                            Bits(&[&[("h", C)], &[("b", I)]])),
        // model.md §1: reserve and bind as fund; unreserve as take.
        ("reserve B for A",              Op::Reserve { holder: s("a"), issuer: s("b"), resource: cpu, amount: Hard::Milli(5) },
                                                                                                            Bits(&[&[("a", F), ("b", I)]])),
        ("unreserve B's from H",         Op::Unreserve { holder: s("h"), issuer: s("b"), resource: cpu },   Bits(&[&[("h", C)], &[("b", I)]])),
        ("bind A to /g",                 Op::Bind { name: s("a"), path: s("/g") },                          Bits(&[&[("a", I), ("/g", F)]])),
        ("bind A to /p/k",               Op::Bind { name: s("a"), path: s("/p/k") },                        Bits(&[&[("a", I), ("/p/k", F)]])),
        ("limit A",                      Op::Limit { name: s("a"), resource: cpu, milli: 300 },             Bits(&[&[("a", C)]])),
        ("limit /g",                     Op::Limit { name: s("/g"), resource: cpu, milli: 300 },            Bits(&[&[("/g", C)]])),
        ("lift H's limit",               Op::Unlimit { name: s("h"), resource: cpu },                       Bits(&[&[("h", C)]])),
        ("unbind B from /o",             Op::Unbind { name: s("b"), path: None },                           Bits(&[&[("b", I)], &[("/o", C)]])),
        ("run in /g from A",             Op::Run { cid: 99, name: s("new"), issuer: s("a"), amount: 5, path: s("/g") },
                                                                                                            Bits(&[&[("a", I), ("/g", F)]])),
        // An exchange needs c and f on the party; the other party is the caller's own job, so i as
        // well.
        ("nice in /g from H",            Op::Nice { cid: 99, name: s("new"), giver: s("h"), amount: Part::Tickets(1), path: s("/g") },
                                                                                                            Bits(&[&[("h", F | C | I), ("/g", F)]])),
        // So does an offer, and whatever is done with it for a party.
        ("offer for H",                  Op::Offer { id: 50, party: s("h"), terms: terms(), now: 0 },       Bits(&[&[("h", F | C)]])),
        ("amend H's offer",              Op::Amend { offer: 1, terms: terms(), now: 0 },                    Bits(&[&[("h", F | C)]])),
        ("accept H's offer for A",       Op::Accept { offer: 1, party: s("a"), now: 0 },                    Bits(&[&[("a", F | C)]])),
        ("cancel H's offer",             Op::Cancel { id: 1 },                                              Bits(&[&[("h", F | C)]])),
        ("chmod A",                      Op::Chmod { name: s("a"), mode: 0o777 },                           Owner("a")),
        ("chgrp A",                      Op::Chown { name: s("a"), owner: None, group: Some(STAFF) },       Owner("a")),
        ("chown A",                      Op::Chown { name: s("a"), owner: Some(OTHER), group: None },       Root),
        ("chmod /g",                     Op::Chmod { name: s("/g"), mode: 0o777 },                          Owner("/g")),
        ("chown /g",                     Op::Chown { name: s("/g"), owner: Some(OTHER), group: None },      Root),
        ("chown A to whom it is",        Op::Chown { name: s("a"), owner: Some(OWNER), group: None },       Owner("a")),
    ]
}

/// One of the CPU for one of the network.
fn terms() -> Terms {
    Terms {
        gives: Resource::Cpu,
        give: 1000,
        wants: Resource::Net,
        want: 1000,
        least: 1,
        expires: None,
    }
}

const OWNER: u32 = 1000;
const MEMBER: u32 = 1001;
const OTHER: u32 = 1002;
const STAFF: u32 = 500;

fn callers() -> [(&'static str, Caller); 6] {
    let user = |uid, gid, groups: &[u32]| Caller {
        uid,
        gid,
        groups: groups.to_vec(),
        user: None,
        place: None,
    };
    [
        ("owner", user(OWNER, 100, &[STAFF])),
        ("owner outside the group", user(OWNER, 100, &[])),
        ("member", user(MEMBER, STAFF, &[])),
        ("member by a further group", user(MEMBER, 100, &[7, STAFF])),
        ("other", user(OTHER, 100, &[])),
        ("root", Caller::ROOT),
    ]
}

/// a, b and h, and the cgroups, of OWNER and STAFF; h has soft and hard tickets of b and something
/// of base; b is bound to /o by its owner.
fn ledger() -> Ledger {
    let mut l = Ledger::new(1, 1 << 30);
    for (id, path) in ["/g", "/p", "/o", "/p/k"].into_iter().enumerate() {
        l.cgroup_here(&Cgroup {
            path,
            id: 10 + id as u64,
            weight: 100,
            disk: 100,
            owner: OWNER,
            group: STAFF,
            inner_threads: false,
        });
    }
    let root = Caller::ROOT;
    for name in ["a", "b", "h"] {
        let cid = l.next_cid();
        let op = Op::Create {
            cid,
            name: name.to_owned(),
            owner: OWNER,
            group: STAFF,
            mode: 0o700,
        };
        l.apply(&op, &root).unwrap();
    }
    let fund = |holder: &str, issuer: &str| Op::Fund {
        holder: holder.to_owned(),
        issuer: issuer.to_owned(),
        resource: Resource::Cpu,
        amount: 100,
    };
    l.apply(&fund("h", "base"), &root).unwrap();
    l.apply(&fund("h", "b"), &root).unwrap();
    let net = Op::Fund {
        holder: "a".to_owned(),
        issuer: "base".to_owned(),
        resource: Resource::Net,
        amount: 1,
    };
    l.apply(&net, &root).unwrap();
    let offer = Op::Offer {
        id: 1,
        party: "h".to_owned(),
        terms: terms(),
        now: 0,
    };
    l.apply(&offer, &root).unwrap();
    let hard = Op::Reserve {
        holder: "h".to_owned(),
        issuer: "b".to_owned(),
        resource: Resource::Cpu,
        amount: Hard::Milli(100),
    };
    l.apply(&hard, &root).unwrap();
    let bind = Op::Bind {
        name: "b".to_owned(),
        path: "/o".to_owned(),
    };
    l.apply(&bind, &callers()[0].1).unwrap();
    let limit = Op::Limit {
        name: "h".to_owned(),
        resource: Resource::Cpu,
        milli: 500,
    };
    l.apply(&limit, &callers()[0].1).unwrap();
    l
}

fn expected(check: &Check, who: &Caller, modes: &dyn Fn(&str) -> u16) -> bool {
    if who.uid == 0 {
        return true;
    }
    let digit = |n: &str| match () {
        _ if who.uid == OWNER => modes(n) >> 6 & 7,
        _ if who.gid == STAFF || who.groups.contains(&STAFF) => modes(n) >> 3 & 7,
        _ => modes(n) & 7,
    };
    let has = |(n, bits): &Need| digit(n) & bits == *bits;
    match check {
        Check::Bits(ways) => ways.iter().any(|all| all.iter().all(has)),
        Check::Owner(_) => who.uid == OWNER,
        Check::Ids => who.uid == OWNER && (who.gid == STAFF || who.groups.contains(&STAFF)),
        Check::Root => false,
    }
}

/// The currencies that it asks.
fn asked(check: &Check) -> Vec<&'static str> {
    let mut all: Vec<&str> = match check {
        Check::Bits(ways) => ways.iter().flat_map(|w| w.iter().map(|n| n.0)).collect(),
        Check::Owner(n) => vec![n],
        Check::Ids | Check::Root => vec!["a"],
    };
    all.sort_unstable();
    all.dedup();
    all
}

fn try_it(l: &Ledger, what: &str, op: &Op, check: &Check, modes: &dyn Fn(&str) -> u16) {
    let mut l = l.clone();
    for n in asked(check) {
        let mode = modes(n);
        let name = n.to_owned();
        l.apply(&Op::Chmod { name, mode }, &Caller::ROOT).unwrap();
    }
    let before = l.rows();
    for (whom, who) in callers() {
        // Whoever is in the group may give it a currency's group, if it is the owner's.
        let chgrp = matches!(op, Op::Chown { group: Some(g), .. } if !who.in_group(*g));
        let should = expected(check, &who, modes) && (who.uid == 0 || !chgrp);
        let mark = l.mark();
        let done = l.apply(op, &who);
        let shown = || {
            let modes = asked(check)
                .into_iter()
                .map(|n| format!("{n} {:03o}", modes(n)));
            format!("{what} by {whom}: {:?}", modes.collect::<Vec<_>>())
        };
        match (&done, should) {
            (Ok(_), true) => l.undo(mark),
            (Err(Refusal::NotPermitted { .. }), false) => {
                assert_eq!(l.rows(), before, "{}: refused, and done", shown());
            }
            _ => panic!("{}: {done:?}, should be {should}", shown()),
        }
    }
    assert_eq!(l.rows(), before);
}

#[test]
fn every_mode_of_every_currency_asked() {
    let l = ledger();
    for (what, op, check) in table() {
        let asked = asked(&check);
        // All 512 modes of each, the others with all or no bits set.
        for one in &asked {
            let others: &[u16] = if asked.len() > 1 { &[0, 0o777] } else { &[0] };
            for (mode, rest) in (0..0o1000).flat_map(|m| others.iter().map(move |r| (m, *r))) {
                let modes = |n: &str| if n == *one { mode } else { rest };
                try_it(&l, what, &op, &check, &modes);
            }
        }
        // And each set of bits with each of the others', which is how they are combined.
        for bits in 0..8u16.pow(asked.len().min(3) as u32) {
            for shift in [0, 3, 6] {
                let at = |n: &str| asked.iter().position(|x| *x == n).unwrap_or(0) as u32;
                let modes = |n: &str| (bits / 8u16.pow(at(n)) % 8) << shift;
                try_it(&l, what, &op, &check, &modes);
            }
        }
    }
}

#[test]
fn the_table_misses_no_operation() {
    let kinds: std::collections::BTreeSet<&str> =
        table().iter().map(|(_, op, _)| op.kind()).collect();
    // Offers expire by tixd's doing alone.
    let all = [
        "accept",
        "amend",
        "bind",
        "cancel",
        "chmod",
        "chown",
        "create",
        "destroy",
        "fund",
        "limit",
        "nice",
        "offer",
        "reserve",
        "run",
        "unbind",
        "unfund",
        "unlimit",
        "unreserve",
    ];
    assert!(kinds.into_iter().eq(all));
}
