// SPDX-License-Identifier: GPL-2.0-only
//! Currencies, tickets, brokers and values (model.md §1, §3, §5). Pure: no I/O, no clock, no
//! threads.
//!
//! The graph is the join of two things. What people asked for (named currencies, grants, bindings,
//! exchanges, modes) is durable: it changes by [`Op`]s, and is kept as [`Row`]s. What the cgroup
//! tree says (which cgroups there are, their weights and owners) is mirrored: it changes by
//! `cgroup_created`, `cgroup_changed` and `cgroup_removed`, and is read afresh at every start. A
//! grant or binding whose cgroup is not there *waits* for it if root or the policy made it, so
//! alice's binding to `user-1000.slice` holds from one login to the next; what others made goes
//! with the cgroup.
//!
//! It is made of the model alone, and what it speaks in of that it has here, too. The market is
//! [`dealer`].
//!
//! [`Ledger::apply`] checks an operation and does it, or refuses and changes nothing.
//! [`Ledger::changes`] then says which rows are others now, for the store; [`Ledger::undo`] takes
//! it back if the store could not keep them.

#![forbid(unsafe_code)]

mod activity;
mod acts;
mod bindings;
mod brokers;
mod currency;
pub mod dealer;
mod durable;
mod exchange;
mod grants;
mod graph;
mod hard;
mod inverse;
mod lifeline;
mod limit;
mod market;
mod ops;
mod place;
mod refusal;
mod restore;
mod rights;
mod spaces;
mod tree;
mod values;
mod verify;
mod waiting;

pub use brokers::{Caller, Right, is_root};
pub use currency::{Currency, Grant, Issued, Mirror, Ticket};
pub use exchange::Exchange;
pub use hard::{Hard, Unheld};
pub use lifeline::lifeline_due;
pub use limit::{Caps, Limit};
pub use market::Ended;
pub use ops::{Op, Part, Ref, Terms};
pub use refusal::Refusal;
pub use spaces::Renamed;
pub use tree::Cgroup;
pub use values::fraction;

pub use tix_model::{
    BASE, By, Change, Cid, DEFAULT_MODE, End, EndedLeg, HARD_WHOLE, Key, Kind, Leg, MAX_AMOUNT,
    MAX_ANCESTOR_EDGES, MAX_BINDINGS, MAX_BOOK, MAX_DEPTH, MAX_ENDED, MAX_FUNDERS, MAX_GIVEN,
    MAX_HARD_OF_BASE, MAX_LIMIT, MAX_OFFERS, MAX_OWNED, POLICY, Resource, Row, SELF_TICKETS, TIXD,
    Withdrawn,
};

use crate::dealer::Book;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A binding, by path: it may wait for its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: Cid,
    pub by: By,
    pub withdrawn: Withdrawn,
}

/// What was said of a cgroup's broker, by path: it may wait for its cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broker {
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u16>,
    pub by: By,
}

/// A ticket one of whose ends is a cgroup that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aside {
    pub amount: u64,
    pub bytes: bool,
    pub by: By,
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
        owner: u32,
    },
    /// A ticket's new amount; 0: gone.
    Funded {
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        kind: Kind,
        bytes: bool,
        was: u64,
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
    /// Owner, group or mode are others.
    Brokered {
        cid: Cid,
        owner: u32,
        group: u32,
        mode: u16,
    },
    /// A currency's limit, thousandths of one CPU; `None`: it is lifted.
    Limited {
        cid: Cid,
        milli: Option<u64>,
    },
    /// An exchange was made, or revoked, and why.
    Exchanged {
        id: u64,
        parties: Vec<Cid>,
        revoked: Option<String>,
    },
    /// An offer is on the book, as new or amended.
    Offered {
        id: u64,
        party: Cid,
    },
    /// An offer is no longer on the book, though not all of it was matched.
    Unoffered {
        id: u64,
        name: String,
        owner: u32,
        why: String,
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
        owner: u32,
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
            | Event::CgroupChanged { cid, .. }
            | Event::Limited { cid, .. } => vec![*cid],
            Event::Funded { holder, .. } => vec![*holder],
            Event::Bound { cgroup, .. } => vec![*cgroup],
            Event::Unbound { cgroup, .. } => cgroup.iter().copied().collect(),
            Event::Exchanged { parties, .. } => parties.clone(),
            Event::Destroyed { .. }
            | Event::CgroupRemoved { .. }
            | Event::Brokered { .. }
            | Event::Offered { .. }
            | Event::Unoffered { .. }
            | Event::Dropped { .. } => vec![],
        }
    }
}

#[derive(Debug, Clone)]
pub struct Ledger {
    /// Boxed: the map grows by moving what it holds.
    currencies: FxHashMap<Cid, Box<Currency>>,
    /// Their numbers, so that a part of them can be told, and then the next.
    numbers: BTreeSet<Cid>,
    by_name: FxHashMap<String, Cid>,
    /// Bytes of their names.
    name_bytes: usize,
    /// The label of each uid that has made a currency, and whose each label is.
    spaces: BTreeMap<u32, String>,
    labels: FxHashMap<String, u32>,
    bindings: BTreeMap<String, Binding>,
    brokers: BTreeMap<String, Broker>,
    /// Limits of the CPU, those that wait for their cgroup, too.
    limits: BTreeMap<End, Limit>,
    waiting: BTreeMap<Key, Aside>,
    /// The tickets that wait, by each of their ends.
    waits_for: FxHashMap<End, BTreeSet<Key>>,
    /// Base tickets that count though nobody holds them any more.
    lapsed: BTreeMap<(String, Resource), u64>,
    lapsed_total: [u64; Resource::COUNT],
    exchanges: BTreeMap<u64, Exchange>,
    /// Their parties, each with how many tickets.
    parties: [BTreeMap<Cid, u32>; Resource::COUNT],
    /// The exchanges of each party.
    exchanges_of: FxHashMap<Cid, BTreeSet<u64>>,
    /// The last that were revoked.
    ended: BTreeMap<u64, Ended>,
    book: Book,
    /// What became of rows whose party had vanished when they were read.
    lost: Vec<Event>,
    /// Hard tickets of so many bytes: issuer, holder.
    in_bytes: BTreeSet<(Cid, Cid)>,
    /// Currencies that go with a cgroup, by its path.
    transient: HashMap<String, BTreeSet<Cid>>,
    /// What each user has made: named currencies, and tickets given.
    made: FxHashMap<u32, rights::Made>,
    /// Tickets that root, the policy or tixd gave, those that wait too.
    given_by_root: [usize; Resource::COUNT],
    lifeline: Option<lifeline::Lifeline>,
    /// Bytes of memory that can be reserved.
    memory: u64,
    next: Cid,
    next_exchange: u64,
    /// Moves on with everything that changes a value; and with what changes an entitlement.
    epoch: u64,
    shape_epoch: u64,
    rests: std::cell::RefCell<exchange::Rests>,
    /// The rows changed since [`Ledger::settle`], as they were before.
    log: Vec<(Key, Option<Row>)>,
    /// Rows are being set: that is not to be undone, nor kept again.
    setting: bool,
    /// Currencies and tickets looked at so far: what a request costs, whatever the machine.
    steps: std::cell::Cell<u64>,
}

impl Ledger {
    /// A ledger with base alone. Currencies are numbered from `next` (at least 1). `memory`: the
    /// bytes that can be reserved.
    pub fn new(next: Cid, memory: u64) -> Ledger {
        let mut base = Currency::new("base", 0, 0, DEFAULT_MODE, 0);
        base.mirror = Some(Mirror {
            path: "/".to_owned(),
            id: 0,
            parent: BASE,
            weight: 0,
            disk: 0,
            inner_threads: true,
            owner: 0,
            group: 0,
        });
        let mut ledger = Ledger {
            currencies: FxHashMap::default(),
            numbers: BTreeSet::from([BASE]),
            by_name: FxHashMap::default(),
            spaces: BTreeMap::new(),
            labels: FxHashMap::default(),
            bindings: BTreeMap::new(),
            brokers: BTreeMap::new(),
            limits: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waits_for: FxHashMap::default(),
            name_bytes: 0,
            lapsed: BTreeMap::new(),
            lapsed_total: [0; Resource::COUNT],
            exchanges: BTreeMap::new(),
            parties: Default::default(),
            exchanges_of: FxHashMap::default(),
            ended: BTreeMap::new(),
            book: Book::default(),
            lost: Vec::new(),
            in_bytes: BTreeSet::new(),
            transient: HashMap::new(),
            made: FxHashMap::default(),
            given_by_root: [0; Resource::COUNT],
            lifeline: None,
            memory,
            next: next.max(1),
            next_exchange: 1,
            epoch: 1,
            shape_epoch: 1,
            rests: Default::default(),
            log: Vec::new(),
            setting: false,
            steps: Default::default(),
        };
        ledger.name_bytes = base.name.len();
        ledger.currencies.insert(BASE, Box::new(base));
        ledger.by_name.insert("base".to_owned(), BASE);
        ledger.by_name.insert("/".to_owned(), BASE);
        ledger
    }

    pub fn get(&self, cid: Cid) -> Option<&Currency> {
        self.step();
        self.currencies.get(&cid).map(|c| &**c)
    }

    /// Currencies and tickets looked at since the ledger was made. A request's cost is the
    /// difference.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    /// By name or cgroup path.
    pub fn find(&self, name: &str) -> Option<Cid> {
        self.by_name.get(name).copied()
    }

    /// The name or path of `cid`; empty if it is not there.
    pub fn name(&self, cid: Cid) -> String {
        self.get(cid).map(|c| c.name.clone()).unwrap_or_default()
    }

    /// All currencies, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Cid, &Currency)> {
        let all = self.currencies.iter().inspect(|_| self.step());
        all.map(|(c, x)| (*c, &**x))
    }

    /// Their numbers, base first.
    pub fn cids(&self) -> Vec<Cid> {
        self.numbers.iter().copied().collect()
    }

    /// Those from `first` on.
    pub fn cids_from(&self, first: Cid) -> impl Iterator<Item = Cid> {
        self.numbers.range(first..).copied()
    }

    pub fn len(&self) -> usize {
        self.currencies.len()
    }

    /// Bytes of the names of all currencies: paths of cgroups may be long.
    pub fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// All bindings by path, those that wait for their cgroup too.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, &Binding)> {
        self.bindings.iter().map(|(p, b)| (p.as_str(), b))
    }

    /// What was bound to the cgroup `path`, which need not be there.
    pub fn binding(&self, path: &str) -> Option<&Binding> {
        self.bindings.get(path)
    }

    /// Another number whenever what anybody is entitled to may be another.
    pub fn shape(&self) -> u64 {
        self.shape_epoch
    }

    /// The number the next currency gets.
    pub fn next_cid(&self) -> Cid {
        self.next
    }

    /// Numbers below these are taken, by currencies and exchanges that may be gone.
    pub fn number_from(&mut self, next: Cid, next_exchange: u64) {
        self.next = self.next.max(next);
        self.next_exchange = self.next_exchange.max(next_exchange);
    }

    fn insert(&mut self, cid: Cid, c: Currency) {
        self.next = self.next.max(cid + 1);
        self.by_name.insert(c.name.clone(), cid);
        self.name_bytes += c.name.len();
        if let Some(path) = &c.transient {
            self.transient.entry(path.clone()).or_default().insert(cid);
        }
        if !c.is_mirror() {
            self.made.entry(c.owner).or_default().currencies += 1;
        }
        self.numbers.insert(cid);
        self.currencies.insert(cid, Box::new(c));
        self.reshaped();
    }

    fn remove(&mut self, cid: Cid) {
        let Some(c) = self.currencies.remove(&cid) else {
            return;
        };
        self.numbers.remove(&cid);
        self.by_name.remove(&c.name);
        self.name_bytes -= c.name.len();
        if !c.is_mirror() {
            self.made.entry(c.owner).or_default().currencies -= 1;
        }
        if let Some(path) = c.transient
            && let Some(with) = self.transient.get_mut(&path)
        {
            with.remove(&cid);
            if with.is_empty() {
                self.transient.remove(&path);
            }
        }
        self.reshaped();
    }

    /// The tickets are others now, and so are entitlements.
    fn reshaped(&mut self) {
        self.shape_epoch += 1;
        self.epoch += 1;
    }
}
