// SPDX-License-Identifier: GPL-2.0-only
//! Currencies, tickets and values (model.md §1 and §3). Pure: no I/O, no clock, no threads.
//!
//! The graph is the join of two things. What people asked for (named currencies, grants, bindings) is durable: it changes by [`Op`]s,
//! which the store journals. What the cgroup tree says (which cgroups there are, their weights and owners) is mirrored: it changes by
//! `cgroup_created`, `cgroup_changed` and `cgroup_removed`, and is read afresh at every start. A grant or binding whose cgroup is not
//! there *waits* for it if root made it, so alice's binding to `user-1000.slice` holds from one login to the next; what others made goes with the cgroup.
//!
//! An [`Op`] is checked by [`Ledger::check`] (which changes nothing), journaled, and then applied by [`Ledger::apply`].

mod bindings;
mod grants;
mod graph;
mod ops;
mod refusal;
mod rights;
mod values;
mod waiting;

pub use ops::{Op, Ref};
pub use refusal::Refusal;
pub use values::{Values, fraction};

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A currency's number. Never reused within one ledger.
pub type Cid = u64;
/// The root of the graph.
pub const BASE: Cid = 0;
/// Soft tickets of the hidden leaf of a currency's own threads (model.md §1).
pub const SELF_TICKETS: u64 = 100;
/// The largest amount of one soft ticket.
pub const MAX_AMOUNT: u64 = 1 << 31;
/// Funders of one currency for one resource.
pub const MAX_FUNDERS: usize = 16;
/// Tickets on the longest path from base.
pub const MAX_DEPTH: usize = 32;
/// Tickets on all paths from base to one currency.
pub const MAX_ANCESTOR_EDGES: usize = 256;
/// Cgroups that one currency may be bound to.
pub const MAX_BINDINGS: usize = 64;
/// Named currencies of one user, root excepted.
pub const MAX_OWNED: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Disk,
    Memory,
    Net,
}

impl Resource {
    pub const COUNT: usize = 4;
    pub const ALL: [Resource; Resource::COUNT] = [
        Resource::Cpu,
        Resource::Disk,
        Resource::Memory,
        Resource::Net,
    ];

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        ["cpu", "disk", "memory", "net"][self.index()]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Soft,
    Hard,
}

/// A ticket as its holder keeps it: given by `fund`, on top of what the cgroup tree gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub issuer: Cid,
    pub kind: Kind,
    pub amount: u64,
    /// Root gave it, so it waits for its cgroup when that goes.
    pub by_root: bool,
}

/// A ticket as the values see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub issuer: Cid,
    pub kind: Kind,
    pub amount: u64,
    /// The parent's weight ticket of a cgroup that is bound: never active.
    pub kept: bool,
    /// It counts among what its issuer has issued; not so a kept ticket that was withdrawn by binding.
    pub counted: bool,
}

/// The cgroup that a currency mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    pub path: String,
    /// The inode of its directory: the kernel's cgroup id.
    pub id: u64,
    pub parent: Cid,
    /// `cpu.weight`: 1 … 10,000 tickets of the parent's currency.
    pub weight: u64,
    /// It may hold threads beside its children (threaded, or the root).
    pub inner_threads: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Currency {
    pub name: String,
    pub owner: u32,
    pub mirror: Option<Mirror>,
    /// It goes when this cgroup goes.
    pub transient: Option<String>,
    pub(crate) grants: [Vec<Grant>; Resource::COUNT],
    /// Holders of its tickets, weight tickets included, kept ones too.
    pub(crate) holders: [BTreeMap<Cid, u32>; Resource::COUNT],
    /// Mirrored children.
    pub(crate) children: BTreeSet<Cid>,
    /// For a mirrored currency: the currency bound to its cgroup.
    pub bound_to: Option<Cid>,
}

impl Currency {
    fn new(name: &str, owner: u32) -> Currency {
        Currency {
            name: name.to_owned(),
            owner,
            mirror: None,
            transient: None,
            grants: Default::default(),
            holders: Default::default(),
            children: BTreeSet::new(),
            bound_to: None,
        }
    }

    /// It mirrors a cgroup (base: the root).
    pub fn is_mirror(&self) -> bool {
        self.mirror.is_some()
    }

    /// The currencies that mirror its cgroup's children.
    pub fn mirrored_children(&self) -> impl Iterator<Item = Cid> + '_ {
        self.children.iter().copied()
    }

    /// The grants it holds.
    pub fn grants(&self, r: Resource) -> &[Grant] {
        &self.grants[r.index()]
    }
}

/// A binding, by path: it may wait for its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: Cid,
    pub by_root: bool,
}

/// A grant one of whose ends is a cgroup that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub issuer: Ref,
    pub holder: Ref,
    pub resource: Resource,
    pub kind: Kind,
    pub amount: u64,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Created {
        cid: Cid,
        name: String,
    },
    Destroyed {
        cid: Cid,
        name: String,
    },
    /// The grant's new amount; 0: gone.
    Funded {
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        amount: u64,
    },
    Bound {
        name: Cid,
        cgroup: Cid,
        path: String,
    },
    Unbound {
        name: Cid,
        cgroup: Option<Cid>,
        path: String,
    },
    CgroupCreated {
        cid: Cid,
        path: String,
    },
    CgroupRemoved {
        cid: Cid,
        path: String,
    },
    CgroupChanged {
        cid: Cid,
        path: String,
    },
    /// Something that waited could not be put into force any more.
    Dropped {
        what: String,
    },
}

impl Event {
    /// The currency that is gone.
    pub fn removed(&self) -> Option<Cid> {
        match self {
            Event::Destroyed { cid, .. } | Event::CgroupRemoved { cid, .. } => Some(*cid),
            _ => None,
        }
    }

    /// The currencies whose backing this changed, for the enforcer.
    pub fn touched(&self) -> Vec<Cid> {
        match self {
            Event::Created { cid, .. }
            | Event::CgroupCreated { cid, .. }
            | Event::CgroupChanged { cid, .. } => vec![*cid],
            Event::Funded { holder, .. } => vec![*holder],
            Event::Bound { cgroup, .. } => vec![*cgroup],
            Event::Unbound { cgroup, .. } => cgroup.iter().copied().collect(),
            Event::Destroyed { .. } | Event::CgroupRemoved { .. } | Event::Dropped { .. } => vec![],
        }
    }
}

#[derive(Debug, Clone)]
pub struct Ledger {
    currencies: BTreeMap<Cid, Currency>,
    by_name: HashMap<String, Cid>,
    bindings: BTreeMap<String, Binding>,
    waiting: Vec<Waiting>,
    /// Currencies that go with a cgroup, by its path.
    transient: HashMap<String, BTreeSet<Cid>>,
    next: Cid,
}

impl Ledger {
    /// A ledger with base alone. Currencies are numbered from `next` (at least 1).
    pub fn new(next: Cid) -> Ledger {
        let mut base = Currency::new("base", 0);
        base.mirror = Some(Mirror {
            path: "/".to_owned(),
            id: 0,
            parent: BASE,
            weight: 0,
            inner_threads: true,
        });
        Ledger {
            currencies: BTreeMap::from([(BASE, base)]),
            by_name: HashMap::from([("base".to_owned(), BASE), ("/".to_owned(), BASE)]),
            bindings: BTreeMap::new(),
            waiting: Vec::new(),
            transient: HashMap::new(),
            next: next.max(1),
        }
    }

    pub fn get(&self, cid: Cid) -> Option<&Currency> {
        self.currencies.get(&cid)
    }

    /// By name or cgroup path.
    pub fn find(&self, name: &str) -> Option<Cid> {
        self.by_name.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Cid, &Currency)> {
        self.currencies.iter().map(|(c, x)| (*c, x))
    }

    pub fn len(&self) -> usize {
        self.currencies.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number the next currency gets.
    pub fn next_cid(&self) -> Cid {
        self.next
    }

    /// The durable part of the graph in a canonical form, to compare ledgers.
    pub fn durable(&self) -> Vec<String> {
        let label = |c: Cid| {
            self.currencies
                .get(&c)
                .map(|x| x.name.clone())
                .unwrap_or_default()
        };
        let mut out = Vec::new();
        for (cid, c) in &self.currencies {
            if !c.is_mirror() {
                out.push(format!(
                    "currency {cid} {} {} {:?}",
                    c.name, c.owner, c.transient
                ));
            }
            for r in Resource::ALL {
                let mut g: Vec<_> = c.grants(r).iter().collect();
                g.sort_by_key(|g| (g.issuer, g.kind));
                out.extend(g.iter().map(|g| {
                    format!(
                        "grant {} {} {r:?} {:?} {} {}",
                        label(g.issuer),
                        c.name,
                        g.kind,
                        g.amount,
                        g.by_root
                    )
                }));
            }
        }
        out.extend(
            self.bindings
                .iter()
                .map(|(p, b)| format!("bind {} {p} {}", label(b.name), b.by_root)),
        );
        out.extend(self.waiting.iter().map(|w| format!("waiting {w:?}")));
        out.sort();
        out
    }

    fn insert(&mut self, cid: Cid, c: Currency) {
        self.next = self.next.max(cid + 1);
        self.by_name.insert(c.name.clone(), cid);
        if let Some(path) = &c.transient {
            self.transient.entry(path.clone()).or_default().insert(cid);
        }
        self.currencies.insert(cid, c);
    }

    fn link(&mut self, issuer: Cid, holder: Cid, r: Resource) {
        if let Some(c) = self.currencies.get_mut(&issuer) {
            *c.holders[r.index()].entry(holder).or_insert(0) += 1;
        }
    }

    fn unlink(&mut self, issuer: Cid, holder: Cid, r: Resource) {
        if let Some(c) = self.currencies.get_mut(&issuer)
            && let Some(n) = c.holders[r.index()].get_mut(&holder)
        {
            *n -= 1;
            if *n == 0 {
                c.holders[r.index()].remove(&holder);
            }
        }
    }

    /// The cgroup `path` is there now. Its parent must be known; a path that is known already is changed instead.
    pub fn cgroup_created(
        &mut self,
        path: &str,
        id: u64,
        weight: u64,
        owner: u32,
        inner_threads: bool,
    ) -> Vec<Event> {
        if let Some(cid) = self.find(path) {
            return match self.get(cid).and_then(|c| c.mirror.as_ref()).map(|m| m.id) {
                Some(known) if known == id || cid == BASE => {
                    self.cgroup_changed(path, weight, owner, inner_threads)
                }
                _ => {
                    let mut events = self.cgroup_removed(path);
                    events.extend(self.cgroup_created(path, id, weight, owner, inner_threads));
                    events
                }
            };
        }
        let parent_path = match path.rfind('/') {
            Some(0) => "/",
            Some(i) => &path[..i],
            None => return vec![],
        };
        let Some(parent) = self.find(parent_path) else {
            return vec![];
        };
        let cid = self.next;
        let mut c = Currency::new(path, owner);
        c.mirror = Some(Mirror {
            path: path.to_owned(),
            id,
            parent,
            weight: weight.clamp(1, 10_000),
            inner_threads,
        });
        self.insert(cid, c);
        self.link(parent, cid, Resource::Cpu);
        if let Some(p) = self.currencies.get_mut(&parent) {
            p.children.insert(cid);
        }
        let mut events = vec![Event::CgroupCreated {
            cid,
            path: path.to_owned(),
        }];
        events.extend(self.wake_waiting(path, cid));
        events
    }

    /// Weight, owner or kind of a known cgroup.
    pub fn cgroup_changed(
        &mut self,
        path: &str,
        weight: u64,
        owner: u32,
        inner_threads: bool,
    ) -> Vec<Event> {
        let Some(cid) = self.find(path).filter(|c| *c != BASE) else {
            return vec![];
        };
        let Some(c) = self.currencies.get_mut(&cid) else {
            return vec![];
        };
        let Some(m) = c.mirror.as_mut() else {
            return vec![];
        };
        let weight = weight.clamp(1, 10_000);
        let owner_changed = c.owner != owner;
        if m.weight == weight && !owner_changed && m.inner_threads == inner_threads {
            return vec![];
        }
        m.weight = weight;
        m.inner_threads = inner_threads;
        c.owner = owner;
        let mut events = vec![Event::CgroupChanged {
            cid,
            path: path.to_owned(),
        }];
        if owner_changed {
            // What its old owner bound there is not the new owner's doing.
            let stale = self
                .bindings
                .get(path)
                .is_some_and(|b| !self.may_stay_bound(b, owner));
            if stale && let Some(b) = self.bindings.remove(path) {
                events.push(self.detach(cid, b.name, path));
            }
        }
        events
    }

    /// The cgroup `path` is gone, and all below it.
    pub fn cgroup_removed(&mut self, path: &str) -> Vec<Event> {
        let Some(cid) = self
            .find(path)
            .filter(|c| *c != BASE && path.starts_with('/'))
        else {
            return vec![];
        };
        let mut events = Vec::new();
        let below: Vec<String> = self.currencies.get(&cid).map_or_else(Vec::new, |c| {
            c.children
                .iter()
                .filter_map(|k| self.currencies.get(k))
                .map(|k| k.name.clone())
                .collect()
        });
        for child in below {
            events.extend(self.cgroup_removed(&child));
        }
        let bound = self.currencies.get(&cid).and_then(|c| c.bound_to);
        if let Some(name) = bound {
            events.push(self.detach(cid, name, path));
        }
        let parent = self
            .currencies
            .get(&cid)
            .and_then(|c| c.mirror.as_ref())
            .map(|m| m.parent);
        self.put_aside(cid);
        self.remove_currency(cid);
        if let Some(parent) = parent {
            self.unlink(parent, cid, Resource::Cpu);
            if let Some(p) = self.currencies.get_mut(&parent) {
                p.children.remove(&cid);
            }
        }
        events.push(Event::CgroupRemoved {
            cid,
            path: path.to_owned(),
        });
        events
    }

    /// Whether others than its parent fund the cgroup `path`.
    pub fn funded_apart(&self, path: &str) -> bool {
        self.find(path)
            .and_then(|c| self.get(c))
            .is_some_and(|c| c.bound_to.is_some() || !c.grants(Resource::Cpu).is_empty())
    }

    /// What must be journaled because the cgroup `path` went: transient currencies and other people's grants and bindings go with it.
    pub fn wilted(&self, path: &str) -> Vec<Op> {
        let mut ops: Vec<Op> = (self.transient.get(path).into_iter().flatten())
            .filter_map(|c| self.get(*c))
            .map(|c| Op::Destroy {
                name: c.name.clone(),
            })
            .collect();
        ops.push(Op::Wilt {
            path: path.to_owned(),
        });
        ops
    }

    /// Whether anything durable hangs on `path`, so that its going must be journaled.
    pub fn matters(&self, path: &str) -> bool {
        self.bindings.get(path).is_some_and(|b| !b.by_root)
            || self.transient.contains_key(path)
            || self.find(path).is_some_and(|cid| {
                Resource::ALL
                    .iter()
                    .any(|r| self.grants_at(cid, *r).any(|(_, g)| !g.by_root))
            })
    }
}
