// SPDX-License-Identifier: GPL-2.0-only
//! The ledger and the model: what is done is done to both.

use crate::model::{Bound, Dir, Edge, Exchange, Grant, MEMORY, Model, Named, Said, called, rootly};
use crate::random::{Do, PATHS, caller};
use tix_ledger::{
    By, Caller, Cgroup, End, Event, Hard, Key, Ledger, Leg, Op, Part, Refusal, Resource, Row, TIXD,
    Withdrawn,
};

pub struct World {
    pub l: Ledger,
    pub m: Model,
    next_id: u64,
}

fn events(e: &[Event]) -> (Vec<u64>, bool) {
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
            disk: d.disk(),
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
                let done = self.l.apply(&op, &who);
                self.judge(&who, &op, &done);
                let done = done.ok()?;
                let was = self.m.of_the_disk();
                self.follow(&who, &op, &done);
                self.m.disk_changed(&who, &was);
                let (revoked, dropped) = events(&done);
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
                let (revoked, dropped) = events(&done);
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

    /// What was refused must be to be refused, and what was done not.
    fn judge(&self, who: &Caller, op: &Op, done: &Result<Vec<Event>, Refusal>) {
        let give =
            |holder: &str, issuer: &str| self.m.may(who, issuer, 1) && self.m.may(who, holder, 4);
        let bound_on = |path: &str| self.m.may(who, path, 4);
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
            Op::Destroy { name } | Op::Limit { name, .. } | Op::Unlimit { name, .. } => {
                self.m.may(who, name, 2)
            }
            Op::Chmod { name, .. } | Op::Chown { name, .. } => {
                who.is_root() || self.m.broker(name).is_some_and(|b| b.0 == who.uid)
            }
            Op::Create { owner, group, .. } => {
                who.is_root() || *owner == who.uid && who.in_group(*group)
            }
            Op::Unbind { .. } => true,
            // Trades have tests of their own (tests/dealer).
            Op::Offer { .. }
            | Op::Accept { .. }
            | Op::Amend { .. }
            | Op::Cancel { .. }
            | Op::Expire { .. } => unreachable!("{op:?}"),
        };
        match done {
            Ok(_) => {
                let unheld = matches!(op, Op::Unfund { holder, .. } if !self.m.there(holder));
                assert!(allowed || unheld, "{who:?} may not {op:?}");
                if let Op::Create { name, .. } | Op::Run { name, .. } | Op::Nice { name, .. } = op
                    && let Some((label, _)) = name.split_once('/')
                {
                    assert_eq!(label, who.uid.to_string(), "{who:?}: {op:?}");
                }
            }
            Err(Refusal::NotPermitted { .. }) => {
                let more = match op {
                    Op::Chown { .. } | Op::Destroy { .. } | Op::Unbind { .. } => true,
                    Op::Limit { name, .. } | Op::Unlimit { name, .. } => {
                        self.m.limits.get(name).is_some_and(|l| rootly(l.1))
                    }
                    _ => false,
                };
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
            let name = &called(who, name);
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
                if !root {
                    m.makers.insert(who.uid);
                }
                m.named.insert(
                    called(who, name),
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
            Op::Limit { name, milli, .. } => {
                let limit = (milli.unsigned_abs(), who.uid);
                let known = m.limits.insert(name.clone(), limit);
                assert!(root || known.is_none_or(|l| !rootly(l.1)), "{op:?}");
            }
            Op::Unlimit { name, .. } => {
                let known = m.limits.remove(name);
                assert!(known.is_some_and(|l| root || !rootly(l.1)), "{op:?}");
            }
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
            Op::Offer { .. }
            | Op::Accept { .. }
            | Op::Amend { .. }
            | Op::Cancel { .. }
            | Op::Expire { .. } => unreachable!("{op:?}"),
            Op::Run {
                name,
                issuer,
                amount,
                path,
                ..
            } => {
                let name = &called(who, name);
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
                let name = &called(who, name);
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
        if !who.is_root() {
            m.makers.insert(who.uid);
        }
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
        let speaks = m.speaks(name, Resource::Disk);
        match m.bound.get_mut(path) {
            Some(b) if rootly(by) => b.by = by,
            Some(_) => {}
            None => {
                let name = name.to_owned();
                let b = Bound {
                    name,
                    by,
                    withdrawn,
                    disk: withdrawn && speaks,
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
                    let hard = *kind == tix_ledger::Kind::Hard;
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
        for uid in &m.makers {
            let label = uid.to_string();
            rows.push((Key::Space(*uid), Row::Space { label }));
        }
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
                        true => tix_ledger::Kind::Hard,
                        false => tix_ledger::Kind::Soft,
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
                    withdrawn: match (b.withdrawn, b.disk) {
                        (false, _) => Withdrawn::Nothing,
                        (true, false) => Withdrawn::Cpu,
                        (true, true) => Withdrawn::Both,
                    },
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
        for (n, (milli, by)) in &m.limits {
            let row = Row::Limit {
                milli: *milli,
                by: *by,
            };
            rows.push((Key::Limit(self.name(n), Resource::Cpu), row));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }
}
