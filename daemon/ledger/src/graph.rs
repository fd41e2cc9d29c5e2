// SPDX-License-Identifier: GPL-2.0-only
//! The shape of the graph: who funds whom, what would close a cycle, and the limits of model.md §1.
//!
//! For shape, a bound cgroup has both its edges: the binding's and the kept one of its parent, so
//! that unbinding can never close a cycle.

use super::brokers::is_root;
use super::{
    BASE, By, Cid, Currency, Grant, Kind, Ledger, MAX_ANCESTOR_EDGES, MAX_DEPTH, MAX_FUNDERS,
    Refusal, Resource, SELF_TICKETS, Ticket,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Steps that looking at what a ticket of a user's would do to those below may take: some 10 ms.
const CHECK_STEPS: u64 = 400_000;

impl Ledger {
    /// The tickets that back `c`: what its parent's weight or its binding gives it, then the
    /// grants.
    pub fn tickets<'a>(
        &'a self,
        c: &'a Currency,
        r: Resource,
    ) -> impl Iterator<Item = Ticket> + 'a {
        let soft = |issuer, amount| Ticket {
            issuer,
            kind: Kind::Soft,
            bytes: false,
            amount,
            kept: false,
            counted: true,
        };
        let tree = c.mirror.as_ref().filter(|m| m.path != "/").map(|m| {
            // The files that give a cgroup its part of its parent; memory and the network have
            // none.
            let (weight, own) = match r {
                Resource::Cpu => (m.weight, true),
                Resource::Disk => (m.disk, true),
                Resource::Memory | Resource::Net => (SELF_TICKETS, false),
            };
            let says = c.bound(r);
            let bound = c.bound_to.map(|name| Ticket {
                kept: !says.funds,
                counted: says.funds,
                ..soft(name, weight)
            });
            let parents = own.then(|| Ticket {
                kept: says.instead,
                counted: !c.withdrawn.of(r),
                ..soft(m.parent, weight)
            });
            [bound, parents]
        });
        let granted = c.grants(r).iter().map(Grant::as_ticket);
        let all = tree.into_iter().flatten().flatten().chain(granted);
        all.inspect(|_| self.step())
    }

    /// Who funds `cid`, each once, in the order of their numbers.
    pub fn funders(&self, cid: Cid, r: Resource) -> Vec<Cid> {
        let Some(c) = self.get(cid) else {
            return vec![];
        };
        let mut all: Vec<Cid> = self.tickets(c, r).map(|t| t.issuer).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whom `cid` funds.
    pub fn funded(&self, cid: Cid, r: Resource) -> impl Iterator<Item = Cid> {
        self.get(cid)
            .into_iter()
            .flat_map(move |c| c.side(r).holders.keys().copied())
    }

    /// The tickets that `cid` has issued, with their holders.
    pub fn issued_by(&self, cid: Cid, r: Resource) -> impl Iterator<Item = (Cid, Ticket)> {
        self.funded(cid, r).flat_map(move |h| {
            let tickets = self
                .get(h)
                .into_iter()
                .flat_map(move |c| self.tickets(c, r));
            tickets
                .filter(move |t| t.issuer == cid)
                .map(move |t| (h, t))
        })
    }

    /// Has `cid` a hidden leaf for threads of its own, beside the tickets it issues?
    pub fn has_self(&self, cid: Cid, r: Resource) -> bool {
        let Some(c) = self.get(cid) else { return false };
        let inside = (c.mirror.as_ref()).is_some_and(|m| m.inner_threads || c.children.is_empty());
        // What is in the root cgroup itself has no part of the disk or of memory that could be set.
        let shares = r == Resource::Cpu || cid != BASE;
        let issued = c.side(r).issued.count > 0 || cid == BASE && self.lapsed_total[r.index()] > 0;
        inside && shares && issued
    }

    /// Can `to` be reached from `from` along tickets?
    pub fn reaches(&self, from: Cid, to: Cid, r: Resource) -> bool {
        let (mut seen, mut todo) = (FxHashSet::from_iter([to]), vec![to]);
        while let Some(c) = todo.pop() {
            if c == from {
                return true;
            }
            let tickets = self.get(c).into_iter().flat_map(|x| self.tickets(x, r));
            todo.extend(tickets.map(|t| t.issuer).filter(|f| seen.insert(*f)));
        }
        false
    }

    /// Refuse an edge issuer → holder that closes a cycle or breaks a limit for the holder or
    /// anything it funds.
    pub(crate) fn check_edge(
        &self,
        by: By,
        issuer: Cid,
        holder: Cid,
        r: Resource,
    ) -> Result<(), Refusal> {
        self.check_edge_at(by, issuer, holder, r, 0)
    }

    /// The same, with `between` further currencies on the way, which will be made for it.
    pub(crate) fn check_edge_at(
        &self,
        by: By,
        issuer: Cid,
        holder: Cid,
        r: Resource,
        between: usize,
    ) -> Result<(), Refusal> {
        let most = match is_root(by) {
            true => u64::MAX,
            false => CHECK_STEPS,
        };
        let funders = self.funders(holder, r);
        if between == 0 && funders.contains(&issuer) {
            // It is there already: more of it closes no cycle and makes nothing deeper.
            return Ok(());
        }
        if issuer == holder || holder == BASE || self.reaches(holder, issuer, r) {
            return Err(Refusal::WouldCycle {
                issuer: self.name(issuer),
                holder: self.name(holder),
            });
        }
        if funders.len() >= MAX_FUNDERS {
            return Err(Refusal::LimitReached(format!(
                "{:?} has {MAX_FUNDERS} funders already",
                self.name(holder)
            )));
        }
        let (mut known, mut by_holder) = (FxHashMap::default(), Funders::default());
        let above = self.above(issuer, r, &mut known);
        let mut depth: FxHashMap<Cid, usize> = FxHashMap::default();
        let start = self.steps();
        let too_much = || {
            Refusal::LimitReached(format!(
                "too many tickets are above and below {:?} for one request to look through",
                self.name(holder)
            ))
        };
        for c in self.below_within(holder, r, most).ok_or_else(too_much)? {
            if self.steps() - start > most {
                return Err(too_much());
            }
            let via = match c == holder {
                true => above.depth + between + 1,
                // What is not below the holder is as deep as it was: only what comes through the
                // holder is deeper now.
                false => (self.get(c).into_iter().flat_map(|x| self.tickets(x, r)))
                    .filter_map(|t| depth.get(&t.issuer))
                    .max()
                    .map_or(0, |d| d + 1),
            };
            depth.insert(c, via);
            if via > MAX_DEPTH {
                return Err(Refusal::LimitReached(format!(
                    "{:?} would be {via} tickets below base, {MAX_DEPTH} are allowed",
                    self.name(c)
                )));
            }
            let paths = self
                .above(c, r, &mut known)
                .edges
                .saturating_add(above.edges);
            if paths.saturating_add(between + 1) <= MAX_ANCESTOR_EDGES {
                continue;
            }
            // Counted path by path, which is too many where paths meet: count them one by one.
            let edges = self.edges_above(&[c, issuer], r, &mut by_holder) + 1 + between;
            if edges > MAX_ANCESTOR_EDGES {
                return Err(Refusal::LimitReached(format!(
                    "{:?} would have {edges} tickets above it, {MAX_ANCESTOR_EDGES} are allowed",
                    self.name(c),
                )));
            }
        }
        Ok(())
    }

    /// A currency that is made for it and bound to it comes on top of its funders.
    pub(super) fn one_funder_more(&self, cgroup: Cid) -> Result<(), Refusal> {
        match (Resource::ALL.iter()).any(|r| self.funders(cgroup, *r).len() >= MAX_FUNDERS) {
            false => Ok(()),
            true => Err(Refusal::LimitReached(format!(
                "{:?} has {MAX_FUNDERS} funders already",
                self.name(cgroup)
            ))),
        }
    }

    /// The longest path from the top to `cid`, and at least as many tickets as there are on all.
    fn above(&self, cid: Cid, r: Resource, known: &mut FxHashMap<Cid, Above>) -> Above {
        if let Some(a) = known.get(&cid) {
            return *a;
        }
        let mut sum = Above::default();
        for t in self.get(cid).into_iter().flat_map(|x| self.tickets(x, r)) {
            let up = self.above(t.issuer, r, known);
            sum.depth = sum.depth.max(up.depth + 1);
            sum.edges = sum.edges.saturating_add(up.edges + 1);
        }
        known.insert(cid, sum);
        sum
    }

    /// How many edges there are above these, each counted once.
    fn edges_above(&self, of: &[Cid], r: Resource, known: &mut Funders) -> usize {
        let mut seen: FxHashSet<Cid> = of.iter().copied().collect();
        let (mut edges, mut todo) = (0, of.to_vec());
        todo.dedup();
        while let Some(c) = todo.pop() {
            let funders = known.entry(c).or_insert_with(|| self.funders(c, r));
            edges += funders.len();
            todo.extend(funders.iter().filter(|f| {
                self.step();
                seen.insert(**f)
            }));
        }
        edges
    }

    /// `cid` and all that it funds, directly or not, issuers before holders.
    pub fn below(&self, cid: Cid, r: Resource) -> Vec<Cid> {
        self.below_within(cid, r, u64::MAX).unwrap_or_default()
    }

    /// The same; `None` if that takes more than `most` steps.
    fn below_within(&self, cid: Cid, r: Resource, most: u64) -> Option<Vec<Cid>> {
        let start = self.steps();
        let (mut order, mut seen) = (Vec::new(), FxHashSet::from_iter([cid]));
        let mut stack: Vec<(Cid, Vec<Cid>)> = vec![(cid, self.funded(cid, r).collect())];
        while let Some((c, rest)) = stack.last_mut() {
            if self.steps() - start > most {
                return None;
            }
            match rest.pop() {
                Some(next) => {
                    self.step();
                    if seen.insert(next) {
                        stack.push((next, self.funded(next, r).collect()));
                    }
                }
                None => {
                    order.push(*c);
                    stack.pop();
                }
            }
        }
        order.reverse();
        Some(order)
    }
}

/// Tickets between the currencies that were looked at.
type Funders = FxHashMap<Cid, Vec<Cid>>;

/// What is above a currency.
#[derive(Debug, Clone, Copy, Default)]
struct Above {
    depth: usize,
    edges: usize,
}
