// SPDX-License-Identifier: GPL-2.0-only
//! What operations and the tree do, told again over plain maps by name. It follows what the ledger
//! accepted, and knows what must come of it.

use crate::oracle::{Graph, Q, Size, Ticket, ratio};
use std::collections::{BTreeMap, BTreeSet};
use tix_ledger::{Caller, Resource, TIXD};

pub const MEMORY: u64 = 1 << 34;

/// What a currency is called that `who` makes as `name`: users' uids are their labels.
pub fn called(who: &Caller, name: &str) -> String {
    match who.is_root() || name.contains('/') {
        true => name.to_owned(),
        false => format!("{}/{name}", who.uid),
    }
}

pub fn rootly(by: u32) -> bool {
    Caller {
        uid: by,
        ..Caller::ROOT
    }
    .is_root()
}

#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub owner: u32,
    pub group: u32,
    pub mode: u16,
    pub with: Option<String>,
    pub by: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Dir {
    pub id: u64,
    pub weight: u64,
    pub owner: u32,
    pub group: u32,
    pub inner: bool,
}

impl Dir {
    /// `io.weight`: another number than `cpu.weight`, that one told from the other.
    pub fn disk(&self) -> u64 {
        10_001 - self.weight.clamp(1, 10_000)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said {
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u16>,
    pub by: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub name: String,
    pub by: u32,
    pub withdrawn: bool,
    /// And so is its ticket for the disk.
    pub disk: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    pub id: u64,
    pub giver: String,
    pub taker: String,
    pub milli: i64,
    pub by: u32,
}

/// Issuer, holder, resource, hard.
pub type Edge = (String, String, Resource, bool);

#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    pub amount: u64,
    pub bytes: bool,
    pub by: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The makers of currencies.
    pub makers: BTreeSet<u32>,
    pub named: BTreeMap<String, Named>,
    pub dirs: BTreeMap<String, Dir>,
    pub said: BTreeMap<String, Said>,
    pub grants: BTreeMap<Edge, Grant>,
    pub bound: BTreeMap<String, Bound>,
    pub lapsed: BTreeMap<(String, Resource), u64>,
    /// Thousandths of one CPU, and by whom.
    pub limits: BTreeMap<String, (u64, u32)>,
    pub exchanges: Vec<Exchange>,
    pub running: BTreeSet<(String, Resource)>,
}

impl Model {
    pub fn there(&self, n: &str) -> bool {
        n == "base" || self.named.contains_key(n) || self.dirs.contains_key(n)
    }

    pub fn parent(path: &str) -> String {
        match path.rfind('/') {
            Some(0) => "base".into(),
            Some(i) => path[..i].into(),
            None => unreachable!("not a path: {path}"),
        }
    }

    /// Owner, group and mode.
    pub fn broker(&self, n: &str) -> Option<(u32, u32, u16)> {
        if n == "base" {
            return Some((0, 0, 0o700));
        }
        if let Some(c) = self.named.get(n) {
            return Some((c.owner, c.group, c.mode));
        }
        let d = self.dirs.get(n)?;
        let s = self.said.get(n);
        Some((
            s.and_then(|s| s.owner).unwrap_or(d.owner),
            s.and_then(|s| s.group).unwrap_or(d.group),
            s.and_then(|s| s.mode).unwrap_or(0o700),
        ))
    }

    /// `bit`: 4 fund, 2 change, 1 issue.
    pub fn may(&self, who: &Caller, n: &str, bit: u16) -> bool {
        let Some((owner, group, mode)) = self.broker(n) else {
            return false;
        };
        let digit = match who {
            _ if who.is_root() => 7,
            _ if who.uid == owner => mode >> 6,
            _ if who.in_group(group) => mode >> 3,
            _ => mode,
        };
        digit & bit != 0
    }

    pub fn children(&self, n: &str) -> Vec<String> {
        let its = self.dirs.keys().filter(|p| Self::parent(p) == n);
        its.cloned().collect()
    }

    pub fn take_binding(&mut self, path: &str) {
        self.bound.remove(path);
    }

    /// Amount left; what is taken lapses if `lapse`.
    pub fn take(&mut self, e: &Edge, amount: Option<u64>, lapse: bool) {
        let Some(g) = self.grants.get(e).cloned() else {
            return;
        };
        let taken = amount.unwrap_or(g.amount);
        if lapse && e.0 == "base" && !e.3 && g.by != TIXD && self.there(&e.1) {
            *self.lapsed.entry((e.1.clone(), e.2)).or_insert(0) += taken;
        }
        if taken == g.amount {
            self.grants.remove(e);
        } else if let Some(g) = self.grants.get_mut(e) {
            g.amount -= taken;
        }
    }

    pub fn destroy(&mut self, name: &str, lapse: bool) {
        self.exchanges
            .retain(|x| x.giver != name && x.taker != name);
        self.bound.retain(|_, b| b.name != name);
        let its: Vec<Edge> = (self.grants.keys())
            .filter(|e| e.0 == name || e.1 == name)
            .cloned()
            .collect();
        for e in its {
            self.take(&e, None, lapse && e.1 == name);
        }
        self.limits.remove(name);
        self.named.remove(name);
    }

    pub fn mkdir(&mut self, path: &str, d: Dir) {
        self.dirs.insert(path.to_owned(), d);
        for r in [Resource::Disk, Resource::Memory, Resource::Net] {
            self.running.insert((path.to_owned(), r));
        }
        self.revoke();
    }

    pub fn rmdir(&mut self, path: &str) {
        for child in self.children(path) {
            self.rmdir(&child);
        }
        let with: Vec<String> = (self.named.iter())
            .filter(|(_, c)| c.with.as_deref() == Some(path))
            .map(|(n, _)| n.clone())
            .collect();
        for n in with {
            self.destroy(&n, true);
        }
        self.exchanges
            .retain(|x| x.giver != path && x.taker != path);
        if self.bound.get(path).is_some_and(|b| !rootly(b.by)) {
            self.bound.remove(path);
        }
        self.grants
            .retain(|e, g| rootly(g.by) || e.0 != path && e.1 != path);
        self.said.retain(|p, s| rootly(s.by) || p != path);
        self.limits.retain(|p, l| rootly(l.1) || p != path);
        self.running.retain(|(n, _)| n != path);
        self.dirs.remove(path);
        let parent = Self::parent(path);
        if parent != "base" && self.children(&parent).is_empty() {
            self.running.insert((parent, Resource::Disk));
        }
        self.revoke();
    }

    pub fn change_dir(&mut self, path: &str, d: Dir) {
        let was = self.broker(path).map(|b| b.0);
        self.dirs.insert(path.to_owned(), d);
        let is = self.broker(path).map(|b| b.0);
        if was != is && (self.bound.get(path)).is_some_and(|b| !rootly(b.by) && Some(b.by) != is) {
            self.bound.remove(path);
        }
        self.revoke();
    }

    /// A currency without tickets for the disk says nothing about it to what is bound to it.
    pub fn speaks(&self, name: &str, r: Resource) -> bool {
        let its = |(issuer, holder, of, _): &Edge| holder == name && *of == r && self.there(issuer);
        r != Resource::Disk || self.grants.keys().any(its)
    }

    /// Is the parent's ticket replaced by that binding? For the disk only where it was withdrawn:
    /// what others give comes on top.
    pub fn replaces(&self, b: &Bound, r: Resource) -> bool {
        r != Resource::Disk || b.disk
    }

    /// What each currency holds for the disk.
    pub fn of_the_disk(&self) -> BTreeMap<String, Vec<(Edge, Grant)>> {
        let mut all: BTreeMap<String, Vec<(Edge, Grant)>> = BTreeMap::new();
        for (e, g) in &self.grants {
            if e.2 == Resource::Disk && self.there(&e.0) {
                let its = all.entry(e.1.clone()).or_default();
                its.push((e.clone(), g.clone()));
            }
        }
        all
    }

    /// `who` has changed what some hold for the disk, from `was`: where that changes whether they
    /// speak of it, the parent's ticket for the disk is withdrawn or given again, if `who` may do
    /// that.
    pub fn disk_changed(&mut self, who: &Caller, was: &BTreeMap<String, Vec<(Edge, Grant)>>) {
        let is = self.of_the_disk();
        // Of a cgroup that is not there: root.
        let with = |path: &String| match self.dirs.contains_key(path) {
            true => self.may(who, &Self::parent(path), 1),
            false => who.is_root(),
        };
        let paths: Vec<String> = (self.bound.iter())
            .filter(|(p, b)| b.withdrawn && was.get(&b.name) != is.get(&b.name) && with(p))
            .map(|(p, _)| p.clone())
            .collect();
        for p in paths {
            if let Some(b) = self.bound.get_mut(&p) {
                b.disk = is.contains_key(&b.name);
            }
        }
    }

    /// One resource as the oracle sees it.
    pub fn graph(&self, r: Resource) -> Graph {
        let mut g = Graph {
            memory: (r == Resource::Memory).then_some(MEMORY),
            ..Graph::default()
        };
        let lapsed = self.lapsed.iter().filter(|((_, of), _)| *of == r);
        g.lapsed = lapsed.map(|(_, n)| n).sum();
        g.nodes.insert("base".into());
        g.nodes.extend(self.named.keys().cloned());
        g.nodes.extend(self.dirs.keys().cloned());
        for ((issuer, holder, of, hard), x) in &self.grants {
            if *of == r && self.there(issuer) {
                g.tickets.push(Ticket {
                    issuer: issuer.clone(),
                    holder: holder.clone(),
                    size: match (hard, x.bytes) {
                        (false, _) => Size::Soft(x.amount),
                        (true, false) => Size::Hard(x.amount),
                        (true, true) => Size::Bytes(x.amount),
                    },
                    live: self.there(holder),
                    counted: true,
                });
            }
        }
        for (path, d) in &self.dirs {
            let bound = self.bound.get(path);
            let weight = match r {
                Resource::Cpu => d.weight,
                Resource::Disk => d.disk(),
                _ => 100,
            };
            let ticket = |issuer: String, live, counted| Ticket {
                issuer,
                holder: path.clone(),
                size: Size::Soft(weight),
                live,
                counted,
            };
            let disk = r == Resource::Disk;
            let replaced = bound.is_some_and(|b| self.replaces(b, r));
            if let Some(b) = bound {
                let funds = replaced || self.speaks(&b.name, r);
                g.tickets.push(ticket(b.name.clone(), funds, funds));
            }
            if r == Resource::Cpu || r == Resource::Disk {
                let withdrawn = |b: &Bound| if disk { b.disk } else { b.withdrawn };
                let counted = !bound.is_some_and(withdrawn);
                g.tickets
                    .push(ticket(Self::parent(path), !replaced, counted));
            }
        }
        for n in std::iter::once("base").chain(self.dirs.keys().map(String::as_str)) {
            let inside = n == "base" || self.dirs[n].inner || self.children(n).is_empty();
            let issues = (g.tickets.iter()).any(|t| t.issuer == n && t.counted)
                || n == "base" && g.lapsed > 0;
            let runs = self.running.contains(&(n.to_owned(), r));
            if inside && issues && (r == Resource::Cpu || n != "base") {
                let leaf = format!("{n}/.self");
                if runs {
                    g.running.insert(leaf.clone());
                }
                g.nodes.insert(leaf.clone());
                g.tickets.push(Ticket {
                    issuer: n.to_owned(),
                    holder: leaf,
                    size: Size::Soft(100),
                    live: true,
                    counted: true,
                });
            } else if runs {
                g.running.insert(n.to_owned());
            }
        }
        if r == Resource::Cpu {
            for x in &self.exchanges {
                g.exchanged.entry(x.giver.clone()).or_default().1 -= x.milli;
                g.exchanged.entry(x.taker.clone()).or_default().0 += x.milli;
            }
        }
        g
    }

    /// The newest exchange given by whoever is short, or by whoever is above, goes first, until
    /// nobody is short. Returns their numbers.
    pub fn revoke(&mut self) -> Vec<u64> {
        let mut gone = Vec::new();
        while !self.exchanges.is_empty() {
            let g = self.graph(Resource::Cpu);
            let short = {
                let s = g.solve();
                let bad: Vec<String> = (self.exchanges.iter())
                    .map(|x| x.giver.clone())
                    .filter(|n| s.least[n] < -rounding())
                    .collect();
                bad
            };
            let newest = (self.exchanges.iter().rev())
                .find(|x| (short.iter()).any(|n| above(&g, n).contains(&x.giver)));
            let Some(id) = newest.map(|x| x.id) else {
                break;
            };
            self.exchanges.retain(|x| x.id != id);
            gone.push(id);
        }
        gone
    }

    /// Whether `giver` could give so much more, exactly.
    pub fn could_give(&self, giver: &str, milli: i64) -> Option<bool> {
        let before = self.graph(Resource::Cpu);
        let mut after = before.clone();
        after.exchanged.entry(giver.to_owned()).or_default().1 -= milli;
        let (before, after) = (before.solve(), after.solve());
        let (before, after) = (before.least, after.least);
        let near = |v: &Q| *v < rounding() && *v > -rounding();
        // So near to nothing that rounding decides; who had nothing and has nothing is not.
        let undecided = after.iter().any(|(n, v)| near(v) && before[n] != *v);
        (!undecided).then(|| after.values().all(|v| *v > -rounding()))
    }
}

pub fn rounding() -> Q {
    ratio(1, 1 << 24)
}

/// `n` and whoever it is funded by.
pub fn above(g: &Graph, n: &str) -> BTreeSet<String> {
    let (mut seen, mut todo) = (BTreeSet::from([n.to_owned()]), vec![n.to_owned()]);
    while let Some(n) = todo.pop() {
        for t in g.tickets.iter().filter(|t| t.live && t.holder == n) {
            if seen.insert(t.issuer.clone()) {
                todo.push(t.issuer.clone());
            }
        }
    }
    seen
}

/// `n` and whomever it funds.
pub fn below(g: &Graph, n: &str) -> BTreeSet<String> {
    let (mut seen, mut todo) = (BTreeSet::from([n.to_owned()]), vec![n.to_owned()]);
    while let Some(n) = todo.pop() {
        for t in g.tickets.iter().filter(|t| t.live && t.issuer == n) {
            if seen.insert(t.holder.clone()) {
                todo.push(t.holder.clone());
            }
        }
    }
    seen
}

/// Does every path down to `n` pass through `x`?
pub fn only_through(g: &Graph, n: &str, x: &str) -> bool {
    let mut funders = g
        .tickets
        .iter()
        .filter(|t| t.live && t.holder == n)
        .peekable();
    n == x || funders.peek().is_some() && funders.all(|t| only_through(g, &t.issuer, x))
}
