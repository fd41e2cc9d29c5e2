// SPDX-License-Identifier: GPL-2.0-only
//! What is tried: random operations, and graphs to begin with.

use crate::model::MEMORY;
use proptest::prelude::*;
use tix_ledger::{Caller, Hard, MAX_LIMIT, Op, Part, Resource};

/// Those with a number are alice's and bob's, who need not say it when they make them.
pub const NAMES: [&str; 13] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "r1", "r2", "1000/a", "1000/b", "1001/a",
];
pub const PATHS: [&str; 10] = [
    "/x", "/y", "/x/p", "/x/q", "/y/p", "/x/p/k", "/x/p/l", "/t", "/t/u", "/x/p/k/m",
];
pub const ALICE: u32 = 1000;
pub const BOB: u32 = 1001;
/// A group that both are in.
pub const STAFF: u32 = 500;

/// Root, the policy, and two users.
pub fn caller(i: usize) -> Caller {
    let user = |uid| Caller {
        uid,
        gid: uid,
        groups: vec![STAFF],
        user: None,
        place: None,
    };
    match i % 4 {
        0 => Caller::ROOT,
        1 => Caller::POLICY,
        2 => user(ALICE),
        _ => user(BOB),
    }
}

#[derive(Debug, Clone)]
pub enum Do {
    Op(usize, Op),
    Mkdir(usize, u64, usize, bool),
    Rmdir(usize),
    Change(usize, u64, usize),
    Flip(usize, usize),
}

pub fn any_name() -> impl Strategy<Value = String> {
    (0..NAMES.len()).prop_map(|i| NAMES[i].to_owned())
}

pub fn any_path() -> impl Strategy<Value = String> {
    (0..PATHS.len()).prop_map(|i| PATHS[i].to_owned())
}

pub fn any_ref() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("base".to_owned()),
        5 => any_name(),
        4 => any_path(),
    ]
}

fn any_resource() -> impl Strategy<Value = Resource> {
    prop_oneof![
        6 => Just(Resource::Cpu),
        2 => Just(Resource::Disk),
        2 => Just(Resource::Memory),
        1 => Just(Resource::Net),
    ]
}

fn any_amount() -> impl Strategy<Value = i64> {
    prop_oneof![
        20 => 1i64..500,
        2 => Just(1i64 << 31),
        2 => 1i64..1 << 31,
        1 => Just(0),
        1 => Just(-5),
        1 => Just(i64::MAX),
    ]
}

fn any_limit() -> impl Strategy<Value = i64> {
    let most = i64::try_from(MAX_LIMIT).unwrap();
    prop_oneof![
        20 => 1i64..3000,
        1 => most - 1..most + 2,
        1 => -1i64..2,
        1 => any::<i64>(),
    ]
}

fn any_mode() -> impl Strategy<Value = u16> {
    prop_oneof![
        3 => Just(0o700u16),
        2 => Just(0o770),
        1 => Just(0o777),
        2 => 0u16..0o1000,
        1 => Just(0o1000u16),
    ]
}

fn any_uid() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(ALICE), Just(BOB)]
}

fn any_gid() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(ALICE), Just(STAFF)]
}

pub fn any_hard() -> impl Strategy<Value = Hard> {
    prop_oneof![
        6 => (1u64..400).prop_map(Hard::Milli),
        2 => (0u64..1100).prop_map(Hard::Milli),
        4 => (1u64..MEMORY / 4).prop_map(Hard::Bytes),
        1 => any::<u64>().prop_map(Hard::Bytes),
    ]
}

pub fn any_op() -> impl Strategy<Value = Op> {
    let (n, p, h, i) = (any_name, any_path, any_ref, any_ref);
    prop_oneof![
        5 => (n(), any_uid(), any_gid(), any_mode()).prop_map(|(name, owner, group, mode)| Op::Create {
            cid: 0, name, owner, group, mode
        }),
        2 => n().prop_map(|name| Op::Destroy { name }),
        12 => (h(), i(), any_resource(), any_amount()).prop_map(|(holder, issuer, resource, amount)| Op::Fund {
            holder, issuer, resource, amount
        }),
        4 => (h(), i(), any_resource(), prop::option::of(any_amount())).prop_map(|(holder, issuer, resource, amount)| {
            Op::Unfund { holder, issuer, resource, amount }
        }),
        5 => (h(), i(), any_resource(), any_hard()).prop_map(|(holder, issuer, resource, amount)| Op::Reserve {
            holder, issuer, resource, amount
        }),
        2 => (h(), i(), any_resource()).prop_map(|(holder, issuer, resource)| Op::Unreserve {
            holder, issuer, resource
        }),
        4 => (h(), any_resource(), any_limit()).prop_map(|(name, resource, milli)| Op::Limit { name, resource, milli }),
        1 => (h(), any_resource()).prop_map(|(name, resource)| Op::Unlimit { name, resource }),
        4 => (n(), p()).prop_map(|(name, path)| Op::Bind { name, path }),
        2 => (n(), prop::option::of(p())).prop_map(|(name, path)| Op::Unbind { name, path }),
        2 => (h(), any_mode()).prop_map(|(name, mode)| Op::Chmod { name, mode }),
        2 => (h(), prop::option::of(any_uid()), prop::option::of(any_gid()))
            .prop_map(|(name, owner, group)| Op::Chown { name, owner, group }),
        2 => (n(), i(), any_amount(), p()).prop_map(|(name, issuer, amount, path)| Op::Run {
            cid: 0, name, issuer, amount, path
        }),
        4 => (n(), i(), any_amount(), 0i64..1050, any::<bool>(), p()).prop_map(|(name, giver, n, milli, part, path)| {
            let amount = if part { Part::Milli(milli) } else { Part::Tickets(n % 200) };
            Op::Nice { cid: 0, name, giver, amount, path }
        }),
    ]
}

pub fn any_do() -> impl Strategy<Value = Do> {
    let paths = 0..PATHS.len();
    prop_oneof![
        36 => (prop_oneof![4 => Just(0usize), 1 => Just(1), 2 => Just(2), 2 => Just(3)], any_op())
            .prop_map(|(who, op)| Do::Op(who, op)),
        6 => (paths.clone(), 1u64..=10_000, 0usize..4, any::<bool>()).prop_map(|(p, w, o, i)| Do::Mkdir(p, w, o, i)),
        2 => paths.clone().prop_map(Do::Rmdir),
        2 => (paths, 1u64..=10_000, 0usize..4).prop_map(|(p, w, o)| Do::Change(p, w, o)),
        8 => (0usize..=PATHS.len(), 0usize..4).prop_map(|(p, r)| Do::Flip(p, r)),
    ]
}

/// The same of one resource, by somebody who has `a` and `b`, among currencies that take gifts.
pub fn any_do_of(r: Resource) -> impl Strategy<Value = Do> {
    let own = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let gift = prop_oneof![
        (any_ref(), own(), 1i64..500).prop_map(move |(holder, issuer, amount)| Op::Fund {
            holder,
            issuer,
            resource: r,
            amount
        }),
        (any_ref(), own(), 1u64..400).prop_map(move |(holder, issuer, n)| Op::Reserve {
            holder,
            issuer,
            resource: r,
            amount: Hard::Milli(n)
        }),
        (any_ref(), own()).prop_map(move |(holder, issuer)| Op::Unfund {
            holder,
            issuer,
            resource: r,
            amount: None
        }),
        (any_ref(), own()).prop_map(move |(holder, issuer)| Op::Unreserve {
            holder,
            issuer,
            resource: r
        }),
        (own(), any_path()).prop_map(|(name, path)| Op::Bind { name, path }),
    ];
    let other = any_do().prop_map(move |d| match d {
        Do::Op(who, op) => Do::Op(who, of(r, op)),
        other => other,
    });
    prop_oneof![1 => gift.prop_map(|op| Do::Op(2, op)), 1 => other]
}

fn of(r: Resource, mut op: Op) -> Op {
    if let Op::Fund { resource, .. }
    | Op::Unfund { resource, .. }
    | Op::Reserve { resource, .. }
    | Op::Unreserve { resource, .. } = &mut op
    {
        *resource = r;
    }
    op
}

/// The cgroup tree; `a` and `b` of alice's with tickets of base; and root's `c` to `f`, which
/// others may fund, bound to cgroups.
pub fn gifts(r: Resource) -> impl Strategy<Value = Vec<Do>> {
    let binds = prop::collection::vec((2usize..6, any_path()), 1..8);
    (0usize..4, binds).prop_map(move |(owner, binds)| {
        let mut all: Vec<Do> = (0..PATHS.len())
            .map(|p| {
                Do::Mkdir(
                    p,
                    100,
                    if PATHS[p].matches('/').count() > 1 {
                        owner
                    } else {
                        0
                    },
                    p == 7,
                )
            })
            .collect();
        for (i, name) in NAMES[..6].iter().enumerate() {
            let (name, mine) = ((*name).to_owned(), i < 2);
            all.push(root_op(Op::Create {
                cid: 0,
                name: name.clone(),
                owner: if mine { ALICE } else { 0 },
                group: 0,
                mode: if mine { 0o700 } else { 0o704 },
            }));
            if mine {
                all.push(root_op(Op::Fund {
                    holder: name,
                    issuer: "base".to_owned(),
                    resource: r,
                    amount: 100,
                }));
            }
        }
        let bind = |(i, path): (usize, String)| Op::Bind {
            name: NAMES[i].to_owned(),
            path,
        };
        all.extend(binds.into_iter().map(|b| root_op(bind(b))));
        all
    })
}

fn root_op(op: Op) -> Do {
    Do::Op(0, op)
}

fn chain(issuers: &[String], holders: &[String], r: Resource) -> Vec<Do> {
    let mut out = Vec::new();
    for (i, h) in issuers.iter().zip(holders) {
        out.push(root_op(Op::Create {
            cid: 0,
            name: h.clone(),
            owner: 0,
            group: 0,
            mode: 0o700,
        }));
        out.push(root_op(Op::Fund {
            holder: h.clone(),
            issuer: i.clone(),
            resource: r,
            amount: 100 + i64::try_from(out.len()).unwrap(),
        }));
    }
    out
}

/// Graphs to begin with: nothing, a chain, a fan, or diamonds one below the other; and the whole
/// cgroup tree, or none of it.
pub fn any_start() -> impl Strategy<Value = Vec<Do>> {
    let names: Vec<String> = NAMES[..8].iter().map(|n| (*n).to_owned()).collect();
    let bases = ["base"; 8].map(str::to_owned);
    let deep: Vec<String> = bases[..1].iter().chain(&names).cloned().collect();
    let deep = chain(&deep, &names, Resource::Cpu);
    let wide = chain(&bases, &names, Resource::Cpu);
    let mut diamonds = chain(&bases, &names[..2], Resource::Cpu);
    for k in (2..8).step_by(2) {
        let issuers = [names[k - 2].clone(), names[k - 2].clone()];
        diamonds.extend(chain(&issuers, &names[k..k + 2], Resource::Cpu));
        for h in &names[k..k + 2] {
            diamonds.push(root_op(Op::Fund {
                holder: h.clone(),
                issuer: names[k - 1].clone(),
                resource: Resource::Cpu,
                amount: 30,
            }));
        }
    }
    let graph = prop_oneof![
        2 => Just(Vec::new()),
        1 => Just(deep),
        1 => Just(wide),
        2 => Just(diamonds),
    ];
    (graph, any::<bool>(), 0usize..4).prop_map(|(graph, tree, owner)| {
        let dirs = (0..PATHS.len()).map(|p| {
            let owner = if PATHS[p].matches('/').count() > 1 {
                owner
            } else {
                0
            };
            Do::Mkdir(p, 100, owner, p == 7)
        });
        let dirs: Vec<Do> = if tree { dirs.collect() } else { Vec::new() };
        dirs.into_iter().chain(graph).collect()
    })
}
