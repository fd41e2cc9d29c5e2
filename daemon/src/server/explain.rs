// SPDX-License-Identifier: GPL-2.0-only
//! The paths from base to a currency, those that guarantee it most first.
//!
//! Paths can be many: 31 layers of two currencies, each funded by both of the layer below, have
//! 2^30. So paths are never walked to be counted. One pass over the currencies above finds which of
//! them base funds at all, and the best path from base to each; the search then extends the most
//! promising path only, which is the best of all that are left, so each path that it follows is one
//! that it shows. Example: of those 2^30 equal paths 132 are shown, after 4,096 extensions. Cost:
//! each ticket above the currency once, and a queue entry per ticket that a shown path passes.

use super::held;
use super::view::{currency, to_limits};
use crate::reconcile::activity::is_frozen;
use crate::writer::Core;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use tix_api as api;
use tix_ledger::{BASE, Cid, Ledger, Resource, Ticket};

/// Paths in one reply.
pub const PATHS: usize = 256;
/// Tickets on all of them.
pub const STEPS: usize = 4096;

/// A ticket on a path: how much of its issuer it is.
struct Edge {
    ticket: Ticket,
    sure: f64,
    now: f64,
    /// What the best path through it guarantees, as a part of base.
    best: f64,
}

/// The tickets above a currency that base reaches, by holder, the best path's first.
type Above = HashMap<Cid, Vec<Edge>>;

/// `a` as a fraction of `b`.
fn ratio(a: u128, b: u128) -> f64 {
    match b {
        0 => 0.0,
        b => a as f64 / b as f64,
    }
}

/// `cid` and the currencies above it, issuers before holders, each once.
fn issuers_first(l: &Ledger, cid: Cid, r: Resource) -> Vec<Cid> {
    let mut order = Vec::new();
    let mut seen = std::collections::HashSet::from([cid]);
    let issuers = |c: Cid| -> Vec<Cid> {
        let tickets = l.get(c).into_iter().flat_map(|x| l.tickets(x, r));
        tickets.filter(|t| !t.kept).map(|t| t.issuer).collect()
    };
    let mut stack = vec![(cid, issuers(cid))];
    while let Some((c, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(up) if seen.insert(up) => stack.push((up, issuers(up))),
            Some(_) => {}
            None => {
                order.push(*c);
                stack.pop();
            }
        }
    }
    order
}

fn above(l: &Ledger, cid: Cid, r: Resource) -> Above {
    let mut above = Above::new();
    for c in issuers_first(l, cid, r) {
        let Some(x) = l.get(c).filter(|_| c != BASE) else {
            continue;
        };
        let active = l.active(c, r);
        let edges = l.tickets(x, r).filter(|t| !t.kept).filter_map(|ticket| {
            let best_above = match ticket.issuer {
                BASE => 1.0,
                // What base does not reach has no edges.
                issuer => above.get(&issuer)?.first()?.best,
            };
            let value = |guaranteed| l.ticket_value(&ticket, r, guaranteed);
            let sure = ratio(value(true), l.entitlement(ticket.issuer, r));
            Some(Edge {
                sure,
                now: match active {
                    true => ratio(value(false), l.value(ticket.issuer, r)),
                    false => 0.0,
                },
                best: best_above * sure,
                ticket,
            })
        });
        let mut edges: Vec<Edge> = edges.collect();
        edges.sort_by(|a, b| b.best.total_cmp(&a.best));
        above.insert(c, edges);
    }
    above
}

/// A path from below as far as it has been followed; the rest is the best way on.
struct Followed {
    /// What it guarantees with that.
    best: f64,
    /// So far.
    sure: f64,
    at: Cid,
    long: usize,
    /// Its last ticket, among those that were followed.
    last: usize,
}

/// A ticket that was followed, by its holder and its place among the holder's, and the one before
/// it.
struct Link {
    edge: (Cid, usize),
    before: usize,
}

impl Ord for Followed {
    /// The best first. Of equals the one that is followed furthest: it is finished, not others
    /// begun.
    fn cmp(&self, other: &Followed) -> Ordering {
        let best = self.best.total_cmp(&other.best);
        best.then(self.long.cmp(&other.long))
    }
}

impl PartialOrd for Followed {
    fn partial_cmp(&self, other: &Followed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Followed {
    fn eq(&self, other: &Followed) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Followed {}

/// The tickets of a path, the first from base first.
fn unlink(links: &[Link], path: &Followed) -> Vec<(Cid, usize)> {
    let mut last = path.last;
    let edges = (0..path.long).filter_map(|_| {
        let link = links.get(last)?;
        last = link.before;
        Some(link.edge)
    });
    edges.collect()
}

/// The best paths to `cid`, as many as a reply has, and whether there are more.
fn best_paths(above: &Above, cid: Cid) -> (Vec<Vec<(Cid, usize)>>, bool) {
    let (mut paths, mut steps, mut links) = (Vec::new(), 0, Vec::new());
    let known = |c: Cid| above.get(&c).map_or(&[][..], Vec::as_slice);
    let mut queue = BinaryHeap::new();
    if cid == BASE || !known(cid).is_empty() {
        queue.push(Followed {
            best: known(cid).first().map_or(1.0, |e| e.best),
            sure: 1.0,
            at: cid,
            long: 0,
            last: 0,
        });
    }
    while let Some(path) = queue.pop() {
        if path.at == BASE {
            steps += path.long;
            paths.push(unlink(&links, &path));
            if paths.len() == PATHS {
                break;
            }
            continue;
        }
        // The path that is followed now has one ticket more at least.
        if steps + path.long >= STEPS {
            queue.push(path);
            break;
        }
        for (i, edge) in known(path.at).iter().enumerate() {
            links.push(Link {
                edge: (path.at, i),
                before: path.last,
            });
            queue.push(Followed {
                // The best way on is what was counted with, to the last bit; no other is better.
                best: match i {
                    0 => path.best,
                    _ => path.best.min(path.sure * edge.best),
                },
                sure: path.sure * edge.sure,
                at: edge.ticket.issuer,
                long: path.long + 1,
                last: links.len() - 1,
            });
        }
    }
    (paths, !queue.is_empty())
}

fn step(l: &Ledger, edge: &Edge, holder: Cid, r: Resource) -> api::Step {
    let t = &edge.ticket;
    api::Step {
        issuer: l.name(t.issuer),
        holder: l.name(holder),
        kind: t.kind.into(),
        amount: t.amount,
        bytes: t.bytes.then_some(true),
        issued_active: l.soft_active(t.issuer, r),
        issued: l.soft_issued(t.issuer, r),
        active: l.active(holder, r),
        part: edge.sure,
        part_now: edge.now,
    }
}

fn path(l: &Ledger, above: &Above, edges: &[(Cid, usize)], r: Resource) -> api::FundingPath {
    let edges: Vec<(Cid, &Edge)> = (edges.iter())
        .filter_map(|(holder, i)| Some((*holder, above.get(holder)?.get(*i)?)))
        .collect();
    api::FundingPath {
        steps: edges.iter().map(|(h, e)| step(l, e, *h, r)).collect(),
        entitlement: edges.iter().map(|(_, e)| e.sure).product(),
        share: edges.iter().map(|(_, e)| e.now).product(),
    }
}

pub fn explain(core: &mut Core, cid: Cid, r: Resource) -> Option<api::ExplainReply> {
    core.read_cpu_max(cid);
    let mut currency = currency(core, cid)?;
    if !currency.active && is_frozen(&core.ledger, &core.tree.root, cid) {
        currency.cpu.frozen = Some(true);
    }
    currency.not_held = held::without_cpu(core, cid);
    let not_held = held::not_held_for(core, cid, r);
    let l = &core.ledger;
    let above = above(l, cid, r);
    let (best, truncated) = best_paths(&above, cid);
    let mut paths: Vec<api::FundingPath> = best.iter().map(|p| path(l, &above, p, r)).collect();
    paths.sort_by(|a, b| b.entitlement.total_cmp(&a.entitlement));
    Some(api::ExplainReply {
        currency,
        resource: tix_api::Resource::from(r),
        base_tickets: l.total(r),
        paths,
        limits: to_limits(core, cid, r),
        truncated,
        not_held,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tix_ledger::{Caller, Op};

    fn apply(l: &mut Ledger, op: &Op) {
        // What would close a cycle or break a limit is left out.
        let _ = l.apply(op, &Caller::ROOT);
    }

    /// Currencies n0, n1, …; each ticket from one to another, or from base.
    fn graph(n: usize, tickets: &[(usize, usize, i64)]) -> (Ledger, Vec<Cid>) {
        let mut l = Ledger::new(1, 0);
        for i in 0..n {
            let op = Op::Create {
                cid: l.next_cid(),
                name: format!("n{i}"),
                owner: 0,
                group: 0,
                mode: 0o700,
            };
            apply(&mut l, &op);
        }
        for (from, to, amount) in tickets {
            let issuer = match from % (n + 1) {
                0 => "base".to_owned(),
                i => format!("n{}", i - 1),
            };
            let op = Op::Fund {
                holder: format!("n{}", to % n),
                issuer,
                resource: Resource::Cpu,
                amount: *amount,
            };
            apply(&mut l, &op);
        }
        let all = (0..n).filter_map(|i| l.find(&format!("n{i}"))).collect();
        (l, all)
    }

    /// What each path from base guarantees, found by walking all of them.
    fn walked(l: &Ledger, c: Cid) -> Vec<f64> {
        if c == BASE {
            return vec![1.0];
        }
        let x = l.get(c).unwrap();
        let mut all = Vec::new();
        for t in l.tickets(x, Resource::Cpu).filter(|t| !t.kept) {
            let part = ratio(
                l.ticket_value(&t, Resource::Cpu, true),
                l.entitlement(t.issuer, Resource::Cpu),
            );
            all.extend(walked(l, t.issuer).iter().map(|p| p * part));
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn the_best_paths_are_shown_and_it_is_said_if_there_are_more(
            n in 1..12usize,
            tickets in prop::collection::vec((0..100usize, 0..100usize, 1..1000i64), 0..60),
        ) {
            let (l, all) = graph(n, &tickets);
            for cid in all {
                let mut wanted = walked(&l, cid);
                wanted.sort_by(|a, b| b.total_cmp(a));
                let above = above(&l, cid, Resource::Cpu);
                let (paths, truncated) = best_paths(&above, cid);
                let more = wanted.len() > paths.len();
                prop_assert_eq!(truncated, more);
                prop_assert!(!more || paths.len() == PATHS);
                let mut found: Vec<f64> = (paths.iter())
                    .map(|p| path(&l, &above, p, Resource::Cpu).entitlement)
                    .collect();
                found.sort_by(|a, b| b.total_cmp(a));
                for (found, wanted) in found.iter().zip(&wanted) {
                    let near = (found - wanted).abs() <= 1e-9 * wanted;
                    prop_assert!(near, "{} for {}", found, wanted);
                }
            }
        }
    }

    /// As many layers of two as may be, each funded by both of the layer below.
    fn ladder(funded: bool) -> (Ledger, Cid) {
        let mut tickets = vec![];
        for layer in 1..30 {
            for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                tickets.push((1 + 2 * (layer - 1) + a, 2 * layer + b, 7));
            }
        }
        if funded {
            tickets.extend([(0, 0, 5), (0, 1, 11)]);
        }
        let (l, all) = graph(60, &tickets);
        (l, all[59])
    }

    #[test]
    fn two_to_the_thirtieth_paths_cost_what_is_shown() {
        for (funded, truncated) in [(false, false), (true, true)] {
            let (l, top) = ladder(funded);
            let before = l.steps();
            let above = above(&l, top, Resource::Cpu);
            let (paths, more) = best_paths(&above, top);
            assert_eq!(more, truncated);
            assert_eq!(paths.is_empty(), !funded);
            let shown: usize = paths.iter().map(Vec::len).sum();
            assert!(shown <= STEPS + 32, "{shown}");
            assert!(l.steps() - before < 10_000, "{}", l.steps() - before);
            assert!(paths.iter().all(|p| p.len() == 30));
        }
    }
}
