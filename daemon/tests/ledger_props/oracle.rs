// SPDX-License-Identifier: GPL-2.0-only
//! The oracle: model.md §3's sentences over a list of tickets, in unbounded rationals. It shares no code with the ledger.

use num_bigint::BigInt;
use num_rational::BigRational;
use std::collections::{BTreeMap, BTreeSet};

/// The oracle: names, and soft tickets as (issuer, holder) → amount.
#[derive(Default, Clone, Debug)]
pub struct Oracle {
    pub nodes: BTreeSet<String>,
    pub cgroups: BTreeMap<String, u64>,
    pub grants: BTreeMap<(String, String), u64>,
    pub bound: BTreeMap<String, String>,
}

/// Issuer, holder, amount.
pub type Ticket = (String, String, u64);

pub fn q(n: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(n))
}

impl Oracle {
    pub fn parent(path: &str) -> String {
        match path.rfind('/') {
            Some(0) => "base".into(),
            Some(i) => path[..i].into(),
            None => unreachable!("not a path: {path}"),
        }
    }

    /// Every ticket: issuer, holder, amount. Root binds here, so what a binding replaces is withdrawn.
    pub fn tickets(&self) -> Vec<Ticket> {
        let mut out: Vec<_> = self
            .grants
            .iter()
            .map(|((i, h), a)| (i.clone(), h.clone(), *a))
            .collect();
        for (path, w) in &self.cgroups {
            let bound = self.bound.get(path).cloned();
            let issuer = bound.unwrap_or_else(|| Self::parent(path));
            out.push((issuer, path.clone(), *w));
        }
        // The hidden leaves (§1), which cannot fund anything.
        let mut leaves = Vec::new();
        for n in self
            .nodes
            .iter()
            .filter(|n| *n == "base" || n.starts_with('/'))
        {
            let inner = n == "base" || !self.cgroups.keys().any(|c| Self::parent(c) == *n);
            if inner && out.iter().any(|(i, ..)| i == n) {
                leaves.push((n.clone(), format!("{n}/.self"), 100));
            }
        }
        out.extend(leaves);
        out
    }

    pub fn entitlement(&self, name: &str, t: &[Ticket]) -> BigRational {
        let issued = |i: &str| t.iter().filter(|x| x.0 == i).map(|x| x.2).sum::<u64>();
        if name == "base" {
            return q(issued("base").max(1));
        }
        let mine = t.iter().filter(|x| x.1 == name);
        mine.map(|x| self.entitlement(&x.0, t) * q(x.2) / q(issued(&x.0)))
            .fold(q(0), |a, b| a + b)
    }

    pub fn active(&self, name: &str, t: &[Ticket], running: &BTreeSet<String>) -> bool {
        if let Some(owner) = name.strip_suffix("/.self") {
            return running.contains(owner);
        }
        running.contains(name)
            || t.iter()
                .any(|x| x.0 == name && self.active(&x.1, t, running))
    }

    pub fn value(&self, name: &str, t: &[Ticket], running: &BTreeSet<String>) -> BigRational {
        if name == "base" {
            return self.entitlement("base", t);
        }
        if !self.active(name, t, running) {
            return q(0);
        }
        let mut v = q(0);
        for x in t.iter().filter(|x| x.1 == name) {
            let all: u64 = t
                .iter()
                .filter(|y| y.0 == x.0 && self.active(&y.1, t, running))
                .map(|y| y.2)
                .sum();
            v += self.value(&x.0, t, running) * q(x.2) / q(all);
        }
        v
    }
}
