// SPDX-License-Identifier: GPL-2.0-only
//! Random operations, done to the ledger and to the model at once.

use crate::model::{Bound, Dir, Edge, Exchange, Grant, MEMORY, Model, Named, Said, rootly};
use proptest::prelude::*;
use tixd::ledger::{
    By, Caller, Cgroup, End, Event, Hard, Key, Ledger, Leg, Op, Part, Refusal, Resource, Row, TIXD,
};

pub const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "r1", "r2"];
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

fn any_ref() -> impl Strategy<Value = String> {
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

fn any_hard() -> impl Strategy<Value = Hard> {
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

/// Graphs to begin with: nothing, a chain, a fan, or diamonds one below the other; and the whole cgroup tree, or none of it.
pub fn any_start() -> impl Strategy<Value = Vec<Do>> {
    let names: Vec<String> = NAMES[..8].iter().map(|n| (*n).to_owned()).collect();
    let base = vec!["base".to_owned()];
    let deep: Vec<String> = base.iter().chain(&names).cloned().collect();
    let deep = chain(&deep, &names, Resource::Cpu);
    let wide = chain(&vec!["base".to_owned(); 8], &names, Resource::Cpu);
    let mut diamonds = chain(&vec!["base".to_owned(); 8], &names[..2], Resource::Cpu);
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

pub struct World {
    pub l: Ledger,
    pub m: Model,
    next_id: u64,
}

fn events(l: &Ledger, e: &[Event]) -> (Vec<u64>, bool) {
    let _ = l;
    let revoked = e.iter().filter_map(|e| match e {
        Event::Exchanged {
            id,
            revoked: Some(why),
            ..
        } if why.contains("no longer has") => Some(*id),
        _ => None,
    });
    let dropped = e.iter().any(|e| matches!(e, Event::Dropped { .. }));
    (revoked.collect(), dropped)
}

impl World {
    pub fn new() -> World {
        World {
            l: Ledger::new(1, MEMORY),
            m: Model::default(),
            next_id: 10,
        }
    }

    pub fn built(start: &[Do], then: &[Do]) -> World {
        let mut w = World::new();
        for d in start.iter().chain(then) {
            // A refusal is as good an answer as any: both stay as they were.
            let _ = w.step(d);
        }
        w
    }

    pub fn name(&self, r: &str) -> End {
        match self.l.find(r) {
            Some(c) => self.l.end(c),
            None => End::Path(r.to_owned()),
        }
    }

    pub fn cgroup<'a>(path: &'a str, d: &Dir) -> Cgroup<'a> {
        Cgroup {
            path,
            id: d.id,
            weight: d.weight,
            owner: d.owner,
            group: d.group,
            inner_threads: d.inner,
        }
    }

    /// Does it to both. `None`: it was refused.
    pub fn step(&mut self, d: &Do) -> Option<Vec<Event>> {
        match d {
            Do::Op(who, op) => {
                let who = caller(*who);
                let mut op = op.clone();
                if let Op::Create { cid, .. } | Op::Run { cid, .. } | Op::Nice { cid, .. } = &mut op
                {
                    *cid = self.l.next_cid();
                }
                if self.unlike(&who, &op) {
                    return None;
                }
                let done = self.l.apply(&op, &who);
                self.judge(&who, &op, &done);
                let done = done.ok()?;
                self.follow(&who, &op, &done);
                let (revoked, dropped) = events(&self.l, &done);
                assert!(!dropped, "{done:?}");
                assert_eq!(self.m.revoke(), revoked, "{op:?}");
                Some(done)
            }
            Do::Mkdir(p, weight, owner, inner) => {
                let path = PATHS[*p];
                let parent = Model::parent(path);
                if self.m.there(path) || !self.m.there(&parent) {
                    return None;
                }
                self.next_id += 1;
                let who = caller(*owner);
                let owner = if who.is_root() { 0 } else { who.uid };
                let dir = Dir {
                    id: self.next_id,
                    weight: *weight,
                    owner,
                    group: owner,
                    inner: *inner,
                };
                // A domain with children has no threads of its own.
                if self.m.dirs.get(&parent).is_some_and(|d| !d.inner) {
                    for r in Resource::ALL.into_iter().filter(|r| *r != Resource::Memory) {
                        self.set(&parent, r, false);
                    }
                }
                let done = self.l.cgroup_here(&World::cgroup(path, &dir));
                let (revoked, dropped) = events(&self.l, &done);
                let before: Vec<u64> = self.m.exchanges.iter().map(|x| x.id).collect();
                if dropped {
                    self.drop_what_is_dropped(path);
                }
                self.m.mkdir(path, dir);
                let after: Vec<u64> = self.m.exchanges.iter().map(|x| x.id).collect();
                let gone = before.iter().filter(|id| !after.contains(id)).count();
                assert_eq!(gone, revoked.len(), "{done:?}");
                Some(done)
            }
            Do::Rmdir(p) => {
                let done = self.l.cgroup_removed(PATHS[*p]);
                if self.m.there(PATHS[*p]) {
                    self.m.rmdir(PATHS[*p]);
                }
                Some(done)
            }
            Do::Change(p, weight, owner) => {
                let mut dir = self.m.dirs.get(PATHS[*p])?.clone();
                let who = caller(*owner);
                dir.owner = if who.is_root() { 0 } else { who.uid };
                dir.weight = *weight;
                let done = self.l.cgroup_here(&World::cgroup(PATHS[*p], &dir));
                self.m.change_dir(PATHS[*p], dir);
                Some(done)
            }
            Do::Flip(p, r) => {
                let r = Resource::ALL[*r];
                let path = PATHS.get(*p).copied().unwrap_or("base");
                let may = path == "base"
                    || (self.m.dirs.get(path))
                        .is_some_and(|d| d.inner || self.m.children(path).is_empty());
                if r == Resource::Memory || !may || path == "base" && r != Resource::Cpu {
                    return None;
                }
                let on = !self.m.running.contains(&(path.to_owned(), r));
                self.set(path, r, on);
                Some(vec![])
            }
        }
    }

    pub fn set(&mut self, path: &str, r: Resource, on: bool) {
        self.l.set_running(self.l.find(path).unwrap(), r, on);
        match on {
            true => self.m.running.insert((path.to_owned(), r)),
            false => self.m.running.remove(&(path.to_owned(), r)),
        };
    }

    /// It says nothing about the ledger.
    fn unlike(&self, _: &Caller, op: &Op) -> bool {
        // The model keeps names by what they are called.
        matches!(op, Op::Create { name, .. } if name.is_empty())
    }

    /// What was refused must be to be refused, and what was done not.
    fn judge(&self, who: &Caller, op: &Op, done: &Result<Vec<Event>, Refusal>) {
        let give =
            |holder: &str, issuer: &str| self.m.may(who, issuer, 1) && self.m.may(who, holder, 4);
        let bound_on = |path: &str| {
            self.m.may(who, path, 4)
                && (self.m.may(who, path, 2) || self.m.may(who, &Model::parent(path), 1))
        };
        let allowed = match op {
            Op::Fund { holder, issuer, .. } | Op::Reserve { holder, issuer, .. } => {
                give(holder, issuer)
            }
            Op::Unfund { holder, issuer, .. } | Op::Unreserve { holder, issuer, .. } => {
                self.m.may(who, issuer, 1) || self.m.may(who, holder, 2)
            }
            Op::Bind { name, path } => self.m.may(who, name, 1) && bound_on(path),
            Op::Run { issuer, path, .. } => self.m.may(who, issuer, 1) && bound_on(path),
            Op::Nice { giver, path, .. } => {
                [4, 2, 1].iter().all(|b| self.m.may(who, giver, *b)) && bound_on(path)
            }
            Op::Destroy { name } => self.m.may(who, name, 2),
            Op::Chmod { name, .. } | Op::Chown { name, .. } => {
                who.is_root() || self.m.broker(name).is_some_and(|b| b.0 == who.uid)
            }
            Op::Create { owner, group, .. } => {
                who.is_root() || *owner == who.uid && who.in_group(*group)
            }
            Op::Unbind { .. } => true,
        };
        match done {
            Ok(_) => {
                let unheld = matches!(op, Op::Unfund { holder, .. } if !self.m.there(holder));
                assert!(allowed || unheld, "{who:?} may not {op:?}");
            }
            Err(Refusal::NotPermitted { .. }) => {
                let more = matches!(
                    op,
                    Op::Chown { .. } | Op::Destroy { .. } | Op::Unbind { .. }
                );
                assert!(!allowed || more, "{who:?} may {op:?}: {done:?}");
            }
            Err(_) => {}
        }
        if let Op::Nice {
            name,
            giver,
            amount: Part::Tickets(n),
            path,
            ..
        } = op
            && let Err(Refusal::TooLittle { .. }) = done
        {
            let mut m = self.m.clone();
            World::with(&mut m, who, name, path);
            World::bind(&mut m, who, name, path, who.uid);
            assert_ne!(m.could_give(giver, n * 1000), Some(true), "{op:?}");
        }
    }

    fn give(&mut self, who: By, edge: Edge, amount: u64, bytes: bool) {
        let known = self.m.grants.get(&edge);
        let by = known.filter(|g| rootly(g.by)).map_or(who, |g| g.by);
        let amount = amount + known.filter(|_| !edge.3).map_or(0, |g| g.amount);
        self.m.grants.insert(edge, Grant { amount, bytes, by });
    }

    fn follow(&mut self, who: &Caller, op: &Op, done: &[Event]) {
        let root = who.is_root();
        let passing = if root { TIXD } else { who.uid };
        let m = &mut self.m;
        match op {
            Op::Create {
                name,
                owner,
                group,
                mode,
                ..
            } => {
                m.named.insert(
                    name.clone(),
                    Named {
                        owner: *owner,
                        group: *group,
                        mode: *mode,
                        with: None,
                        by: who.uid,
                    },
                );
            }
            Op::Destroy { name } => m.destroy(name, !root),
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let edge = (issuer.clone(), holder.clone(), *resource, false);
                self.give(who.uid, edge, amount.unsigned_abs(), false);
            }
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let edge = (issuer.clone(), holder.clone(), *resource, false);
                let lapse = !m.may(who, issuer, 1);
                let key = (holder.clone(), *resource);
                let lapsed = match m.lapsed.get(&key) {
                    Some(n) if issuer == "base" && root => *n,
                    _ => 0,
                };
                let there = m.there(holder);
                let held = m
                    .grants
                    .get(&edge)
                    .filter(|_| there)
                    .map_or(0, |g| g.amount);
                let asked = amount.map_or(lapsed + held, i64::unsigned_abs);
                if lapsed > 0 {
                    m.lapsed.insert(key.clone(), lapsed.saturating_sub(asked));
                    m.lapsed.retain(|_, n| *n > 0);
                }
                let rest = asked.saturating_sub(lapsed);
                if rest > 0 {
                    m.take(&edge, Some(rest), lapse);
                }
            }
            Op::Reserve {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let edge = (issuer.clone(), holder.clone(), *resource, true);
                let (amount, bytes) = match amount {
                    Hard::Milli(n) if *resource == Resource::Memory && issuer == "base" => {
                        (MEMORY * n / 1000, true)
                    }
                    Hard::Milli(n) => (*n, false),
                    Hard::Bytes(n) => (*n, true),
                };
                self.give(who.uid, edge, amount, bytes);
            }
            Op::Unreserve {
                holder,
                issuer,
                resource,
            } => m.take(
                &(issuer.clone(), holder.clone(), *resource, true),
                None,
                false,
            ),
            Op::Bind { name, path } => World::bind(&mut self.m, who, name, path, who.uid),
            Op::Unbind { name, path } => {
                m.bound
                    .retain(|p, b| b.name != *name || path.as_ref().is_some_and(|x| x != p));
            }
            Op::Chmod { name, mode } => self.say(who, name, None, None, Some(*mode)),
            Op::Chown { name, owner, group } => {
                let same = m.broker(name).map(|b| b.0) == *owner;
                let owner = owner.filter(|_| root || !same);
                self.say(who, name, owner, *group, None);
            }
            Op::Run {
                name,
                issuer,
                amount,
                path,
                ..
            } => {
                World::with(&mut self.m, who, name, path);
                let edge = (issuer.clone(), name.clone(), Resource::Cpu, false);
                self.give(passing, edge, amount.unsigned_abs(), false);
                World::bind(&mut self.m, who, name, path, passing);
            }
            Op::Nice {
                name, giver, path, ..
            } => {
                let before = self.m.could_give(giver, 0);
                assert_ne!(before, Some(false), "{giver} was short before");
                let made = done.iter().find_map(|e| match e {
                    Event::Exchanged {
                        id, revoked: None, ..
                    } => Some(*id),
                    _ => None,
                });
                let id = made.unwrap();
                let (_, x) = self.l.exchanges().find(|(i, _)| *i == id).unwrap();
                let milli = -x.legs[0].2;
                World::with(&mut self.m, who, name, path);
                World::bind(&mut self.m, who, name, path, passing);
                let (giver, taker) = (giver.clone(), name.clone());
                assert!(milli > 0);
                assert_ne!(self.m.could_give(&giver, milli), Some(false), "{op:?}");
                self.m.exchanges.push(Exchange {
                    id,
                    giver,
                    taker,
                    milli,
                    by: passing,
                });
            }
        }
    }

    fn with(m: &mut Model, who: &Caller, name: &str, path: &str) {
        let c = Named {
            owner: who.uid,
            group: who.gid,
            mode: 0o700,
            with: Some(path.to_owned()),
            by: who.uid,
        };
        m.named.insert(name.to_owned(), c);
    }

    fn bind(m: &mut Model, who: &Caller, name: &str, path: &str, by: By) {
        let withdrawn = m.may(who, &Model::parent(path), 1);
        match m.bound.get_mut(path) {
            Some(b) if rootly(by) => b.by = by,
            Some(_) => {}
            None => {
                let name = name.to_owned();
                let b = Bound {
                    name,
                    by,
                    withdrawn,
                };
                m.bound.insert(path.to_owned(), b);
            }
        }
    }

    fn say(&mut self, who: &Caller, n: &str, o: Option<u32>, g: Option<u32>, m: Option<u16>) {
        if let Some(c) = self.m.named.get_mut(n) {
            c.owner = o.unwrap_or(c.owner);
            c.group = g.unwrap_or(c.group);
            c.mode = m.unwrap_or(c.mode);
            return;
        }
        let known = self.m.said.get(n).copied();
        let said = Said {
            owner: o.or(known.and_then(|s| s.owner)),
            group: g.or(known.and_then(|s| s.group)),
            mode: m.or(known.and_then(|s| s.mode)),
            by: known.filter(|s| rootly(s.by)).map_or(who.uid, |s| s.by),
        };
        self.m.said.insert(n.to_owned(), said);
    }

    /// What waited could not be put in force any more: only what is at that cgroup may have gone.
    fn drop_what_is_dropped(&mut self, path: &str) {
        let rows = self.rows();
        let kept: Vec<Key> = self.l.rows().into_iter().map(|(k, _)| k).collect();
        for (key, _) in rows.iter().filter(|(k, _)| !kept.contains(k)) {
            match key {
                Key::Binding(p) if p == path => self.m.take_binding(p),
                Key::Ticket {
                    issuer,
                    holder,
                    resource,
                    kind,
                } => {
                    let at = End::Path(path.to_owned());
                    assert!(*issuer == at || *holder == at, "{key:?} was dropped");
                    let hard = *kind == tixd::ledger::Kind::Hard;
                    let name = |e: &End| match e {
                        End::Cid(c) => self.l.name(*c),
                        End::Path(p) => p.clone(),
                    };
                    let edge = (name(issuer), name(holder), *resource, hard);
                    self.m.grants.remove(&edge);
                }
                other => panic!("{other:?} was dropped"),
            }
        }
    }

    /// The rows that there must be.
    pub fn rows(&self) -> Vec<(Key, Row)> {
        let cid = |n: &str| self.l.find(n).unwrap();
        let m = &self.m;
        let mut rows = Vec::new();
        for (n, c) in &m.named {
            rows.push((
                Key::Currency(cid(n)),
                Row::Currency {
                    name: n.clone(),
                    owner: c.owner,
                    group: c.group,
                    mode: c.mode,
                    transient: c.with.clone(),
                    by: c.by,
                },
            ));
        }
        for (p, s) in &m.said {
            rows.push((
                Key::Broker(p.clone()),
                Row::Broker {
                    owner: s.owner,
                    group: s.group,
                    mode: s.mode,
                    by: s.by,
                },
            ));
        }
        for ((issuer, holder, resource, hard), g) in &m.grants {
            rows.push((
                Key::Ticket {
                    issuer: self.name(issuer),
                    holder: self.name(holder),
                    resource: *resource,
                    kind: match hard {
                        true => tixd::ledger::Kind::Hard,
                        false => tixd::ledger::Kind::Soft,
                    },
                },
                Row::Ticket {
                    amount: g.amount,
                    bytes: g.bytes,
                    by: g.by,
                },
            ));
        }
        for (p, b) in &m.bound {
            rows.push((
                Key::Binding(p.clone()),
                Row::Binding {
                    cid: cid(&b.name),
                    by: b.by,
                    withdrawn: b.withdrawn,
                },
            ));
        }
        for x in &m.exchanges {
            let leg = |n: &str, amount| Leg {
                party: self.name(n),
                resource: Resource::Cpu,
                amount,
            };
            rows.push((
                Key::Exchange(x.id),
                Row::Exchange {
                    legs: vec![leg(&x.giver, -x.milli), leg(&x.taker, x.milli)],
                    by: x.by,
                },
            ));
        }
        for ((n, r), amount) in &m.lapsed {
            rows.push((Key::Lapsed(n.clone(), *r), Row::Lapsed { amount: *amount }));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }
}
