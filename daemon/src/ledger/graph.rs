// SPDX-License-Identifier: GPL-2.0-only
//! The shape of the graph: who funds whom, what would close a cycle, and the limits of model.md §1.
//!
//! For shape, a bound cgroup has both its edges: the binding's and the kept one of its parent, so that unbinding can never close a cycle.

use super::{
    BASE, Cid, Currency, Kind, Ledger, MAX_ANCESTOR_EDGES, MAX_DEPTH, MAX_FUNDERS, Refusal,
    Resource, Ticket,
};
use std::collections::{BTreeSet, HashMap};

impl Ledger {
    /// The tickets that back `c`: what its parent's weight or its binding gives it, then the grants.
    pub fn tickets(&self, c: &Currency, r: Resource) -> Vec<Ticket> {
        let mut out = Vec::new();
        if r == Resource::Cpu
            && let Some(m) = c.mirror.as_ref().filter(|m| m.path != "/")
        {
            if let Some(name) = c.bound_to {
                out.push(Ticket {
                    issuer: name,
                    kind: Kind::Soft,
                    amount: m.weight,
                    kept: false,
                    counted: true,
                });
            }
            out.push(Ticket {
                issuer: m.parent,
                kind: Kind::Soft,
                amount: m.weight,
                kept: c.bound_to.is_some(),
                counted: c.bound_to.is_none() || self.still_counted(&m.path, m.parent),
            });
        }
        out.extend(c.grants(r).iter().map(|g| Ticket {
            issuer: g.issuer,
            kind: g.kind,
            amount: g.amount,
            kept: false,
            counted: true,
        }));
        out
    }

    /// Who funds `cid`, each once.
    pub(crate) fn funders(&self, cid: Cid, r: Resource) -> BTreeSet<Cid> {
        self.get(cid)
            .map(|c| self.tickets(c, r).iter().map(|t| t.issuer).collect())
            .unwrap_or_default()
    }

    /// Whom `cid` funds.
    pub fn funded(&self, cid: Cid, r: Resource) -> impl Iterator<Item = Cid> {
        self.get(cid)
            .into_iter()
            .flat_map(move |c| c.holders[r.index()].keys().copied())
    }

    /// Has `cid` a hidden leaf for threads of its own, beside the tickets it issues?
    pub fn has_self(&self, cid: Cid) -> bool {
        self.get(cid).is_some_and(|c| {
            c.mirror
                .as_ref()
                .is_some_and(|m| m.inner_threads || c.children.is_empty())
                && self.issued_by(cid, Resource::Cpu).any(|(_, t)| t.counted)
        })
    }

    /// Can `to` be reached from `from` along tickets?
    pub fn reaches(&self, from: Cid, to: Cid, r: Resource) -> bool {
        let (mut seen, mut todo) = (BTreeSet::from([to]), vec![to]);
        while let Some(c) = todo.pop() {
            if c == from {
                return true;
            }
            todo.extend(self.funders(c, r).into_iter().filter(|f| seen.insert(*f)));
        }
        false
    }

    /// Refuse an edge issuer → holder that closes a cycle or breaks a limit for the holder or anything it funds. `extra`: further
    /// edges that will be there (issuer, holder), for operations that add several.
    pub(crate) fn check_edge(&self, issuer: Cid, holder: Cid, r: Resource) -> Result<(), Refusal> {
        let label = |c: Cid| self.get(c).map(|c| c.name.clone()).unwrap_or_default();
        if issuer == holder || holder == BASE || self.reaches(holder, issuer, r) {
            return Err(Refusal::WouldCycle {
                issuer: label(issuer),
                holder: label(holder),
            });
        }
        let mut funders = self.funders(holder, r);
        if !funders.insert(issuer) {
            return Ok(());
        }
        if funders.len() > MAX_FUNDERS {
            return Err(Refusal::LimitReached(format!(
                "{:?} has {MAX_FUNDERS} funders already",
                label(holder)
            )));
        }
        let (above_edges, above_depth) = self.ancestry(issuer, r);
        let mut depth: HashMap<Cid, usize> = HashMap::new();
        for c in self.below(holder, r) {
            let d = if c == holder {
                above_depth + 1
            } else {
                self.funders(c, r)
                    .iter()
                    .filter_map(|f| depth.get(f))
                    .max()
                    .map_or(0, |d| d + 1)
            };
            depth.insert(c, d);
            if d > MAX_DEPTH {
                return Err(Refusal::LimitReached(format!(
                    "{:?} would be {d} tickets below base, {MAX_DEPTH} are allowed",
                    label(c)
                )));
            }
            let mut edges: BTreeSet<(Cid, Cid)> = self.ancestry(c, r).0;
            edges.extend(above_edges.iter().copied());
            edges.insert((issuer, holder));
            if edges.len() > MAX_ANCESTOR_EDGES {
                return Err(Refusal::LimitReached(format!(
                    "{:?} would have {} tickets above it, {MAX_ANCESTOR_EDGES} are allowed",
                    label(c),
                    edges.len()
                )));
            }
        }
        Ok(())
    }

    /// All edges above `cid`, and the length of the longest path from the top.
    fn ancestry(&self, cid: Cid, r: Resource) -> (BTreeSet<(Cid, Cid)>, usize) {
        let (mut edges, mut todo, mut depth, mut seen) = (
            BTreeSet::new(),
            vec![cid],
            HashMap::new(),
            BTreeSet::from([cid]),
        );
        while let Some(c) = todo.pop() {
            for f in self.funders(c, r) {
                edges.insert((f, c));
                if seen.insert(f) {
                    todo.push(f);
                }
            }
        }
        let d = self.depth(cid, r, &mut depth);
        (edges, d)
    }

    fn depth(&self, cid: Cid, r: Resource, memo: &mut HashMap<Cid, usize>) -> usize {
        if let Some(d) = memo.get(&cid) {
            return *d;
        }
        let d = self
            .funders(cid, r)
            .into_iter()
            .map(|f| self.depth(f, r, memo) + 1)
            .max()
            .unwrap_or(0);
        memo.insert(cid, d);
        d
    }

    /// `cid` and all that it funds, directly or not, issuers before holders.
    pub fn below(&self, cid: Cid, r: Resource) -> Vec<Cid> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::from([cid]));
        let mut stack: Vec<(Cid, Vec<Cid>)> = vec![(cid, self.funded(cid, r).collect())];
        while let Some((c, rest)) = stack.last_mut() {
            match rest.pop() {
                Some(next) => {
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
        order
    }
}
