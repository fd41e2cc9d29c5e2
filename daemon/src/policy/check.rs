// SPDX-License-Identifier: GPL-2.0-only
//! What can be said of a policy without a machine: sums, cycles, limits. The ledger checks it all
//! again against what is there.

use super::rule::{Rule, Then};
use super::{Grant, Place, Policy, Problem};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tix_model::{HARD_WHOLE, Kind, MAX_DEPTH, MAX_FUNDERS, MAX_HARD_OF_BASE, Resource, units};

type Asked = (String, Resource, Kind);

/// What a currency whose name stands in the files holds.
#[derive(Default)]
struct Held<'a> {
    /// Where it stands first.
    place: Option<&'a Place>,
    grants: BTreeMap<Asked, (&'a Grant, &'a Place)>,
}

impl Policy {
    /// What is wrong with it as a whole. [`Policy::load`] and [`Policy::parse`] give no policy of
    /// which anything is.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = self.twice();
        let held = self.held(&mut problems);
        let mut sums: BTreeMap<(&str, Resource), (u64, &Place)> = BTreeMap::new();
        for (name, h) in &held {
            for r in Resource::ALL {
                let funders: BTreeSet<&str> = h
                    .grants
                    .keys()
                    .filter(|(_, of, _)| *of == r)
                    .map(|(issuer, _, _)| issuer.as_str())
                    .collect();
                if let Some(place) = h.place
                    && funders.len() > MAX_FUNDERS
                {
                    problems.push(at(
                        place,
                        format!("{name} has {} funders for {}", funders.len(), r.name()),
                        format!("a currency has at most {MAX_FUNDERS}"),
                    ));
                }
            }
            for (grant, place) in h.grants.values() {
                if grant.kind == Kind::Hard && !grant.bytes {
                    let sum = sums
                        .entry((&grant.issuer, grant.resource))
                        .or_insert((0, place));
                    *sum = (sum.0 + grant.amount, place);
                }
            }
        }
        for ((issuer, r), (sum, place)) in sums {
            let limit = limit(issuer);
            if sum > limit {
                problems.push(at(
                    place,
                    format!(
                        "with this, {} of the {} of {issuer} is reserved",
                        units::show_thousandths(sum),
                        r.name()
                    ),
                    format!("reserve at most {}", units::show_thousandths(limit)),
                ));
            }
        }
        for rule in &self.rules {
            if let Then::Fund {
                currency, grants, ..
            } = &rule.then
                && currency.literal().is_none()
            {
                problems.extend(each(&rule.place, grants));
            }
        }
        problems.extend(cycle(&held));
        problems
    }

    /// What is allowed but may not be meant.
    pub fn notes(&self) -> Vec<Problem> {
        let mut notes = Vec::new();
        let held = self.held(&mut Vec::new());
        let is_made =
            |name: &str| name == "base" || name.starts_with('/') || held.contains_key(name);
        let mut issuers: BTreeMap<&str, &Place> = BTreeMap::new();
        for (place, grants) in self.all_grants() {
            for g in grants {
                issuers.entry(&g.issuer).or_insert(place);
            }
        }
        for (issuer, place) in issuers {
            if !is_made(issuer) {
                notes.push(at(
                    place,
                    format!("{issuer} is not declared here"),
                    "it must exist by then (tixctl create), or nothing comes of this",
                ));
            }
        }
        for (name, h) in &held {
            if let Some(place) = h.place
                && h.grants.is_empty()
            {
                notes.push(at(
                    place,
                    format!("nothing here funds {name}"),
                    "whom it funds gets next to nothing until somebody does (tixctl fund)",
                ));
            }
        }
        for rule in &self.rules {
            notes.extend(self.room(rule, &held));
        }
        if let Some(i) = self.rules.iter().position(|r| r.matches.is_all())
            && let Some(next) = self.rules.get(i + 1)
        {
            notes.push(at(
                &next.place,
                format!(
                    "no rule from here on decides anything: the one at {} matches all",
                    self.rules[i].place
                ),
                "put match = {} last",
            ));
        }
        notes
    }

    /// Currencies declared more than once.
    fn twice(&self) -> Vec<Problem> {
        let mut first: HashMap<&str, &Place> = HashMap::new();
        let mut problems = Vec::new();
        for (d, place) in self.declared.iter().zip(&self.places) {
            if let Some(before) = first.insert(&d.name, place) {
                problems.push(at(
                    place,
                    format!("{} is declared at {before} already", d.name),
                    "declare it once",
                ));
            }
        }
        problems
    }

    fn all_grants(&self) -> impl Iterator<Item = (&Place, &[Grant])> {
        let declared = self.declared.iter().map(|d| d.grants.as_slice());
        let rules = self.rules.iter().filter_map(|r| match &r.then {
            Then::Fund { grants, .. } => Some((&r.place, grants.as_slice())),
            Then::Skip => None,
        });
        self.places.iter().zip(declared).chain(rules)
    }

    /// The currencies whose names are known beforehand, with what they hold.
    fn held(&self, problems: &mut Vec<Problem>) -> BTreeMap<&str, Held<'_>> {
        let mut held: BTreeMap<&str, Held<'_>> = BTreeMap::new();
        let declared = self.declared.iter().zip(&self.places);
        let rules = self.rules.iter().filter_map(|r| match &r.then {
            Then::Fund {
                currency, grants, ..
            } => Some((currency.literal()?, &r.place, grants)),
            Then::Skip => None,
        });
        for (name, place, grants) in declared
            .map(|(d, place)| (d.name.as_str(), place, &d.grants))
            .chain(rules)
        {
            let h = held.entry(name).or_default();
            h.place.get_or_insert(place);
            for g in grants {
                let key = (g.issuer.clone(), g.resource, g.kind);
                match h.grants.get(&key) {
                    Some((before, where_)) if !same(before, g) || *where_ == place => {
                        problems.push(at(
                            place,
                            format!(
                                "{name} is given {} of {} by {} at {where_} already",
                                show(before),
                                g.resource.name(),
                                g.issuer
                            ),
                            "say it once",
                        ));
                    }
                    Some(_) => {}
                    None => {
                        h.grants.insert(key, (g, place));
                    }
                }
            }
        }
        held
    }

    /// How many currencies a rule that makes one for each has room for, if it guarantees them
    /// something.
    fn room(&self, rule: &Rule, held: &BTreeMap<&str, Held<'_>>) -> Vec<Problem> {
        let Then::Fund {
            currency, grants, ..
        } = &rule.then
        else {
            return vec![];
        };
        if currency.literal().is_some() {
            return vec![];
        }
        let parts = grants
            .iter()
            .filter(|g| g.kind == Kind::Hard && !g.bytes && g.amount > 0);
        parts
            .map(|g| {
                let taken: u64 = held
                    .values()
                    .flat_map(|h| h.grants.values())
                    .map(|(other, _)| other)
                    .filter(|o| {
                        o.kind == Kind::Hard
                            && !o.bytes
                            && o.issuer == g.issuer
                            && o.resource == g.resource
                    })
                    .map(|o| o.amount)
                    .sum();
                let room = limit(&g.issuer).saturating_sub(taken) / g.amount;
                at(
                    &rule.place,
                    format!(
                        "the {} of {} has room for {room} times {}",
                        g.resource.name(),
                        g.issuer,
                        units::show_thousandths(g.amount)
                    ),
                    "whoever comes later gets no guarantee",
                )
            })
            .collect()
    }
}

/// What is wrong with the grants of a currency that each cgroup gets one of.
fn each(place: &Place, grants: &[Grant]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for g in grants {
        let (of, from) = (g.resource.name(), &g.issuer);
        if !seen.insert((from, of, g.kind)) {
            problems.push(at(
                place,
                format!("{of} comes from {from} twice"),
                "say it once",
            ));
        }
        if g.kind == Kind::Hard && !g.bytes && g.amount > limit(from) {
            problems.push(at(
                place,
                format!(
                    "{} of the {of} of {from} cannot be reserved",
                    units::show_thousandths(g.amount)
                ),
                format!("reserve at most {}", units::show_thousandths(limit(from))),
            ));
        }
        let funders: BTreeSet<&String> = grants
            .iter()
            .filter(|o| o.resource == g.resource)
            .map(|o| &o.issuer)
            .collect();
        if funders.len() > MAX_FUNDERS {
            return vec![at(
                place,
                format!("there are {} funders for {of}", funders.len()),
                format!("a currency has at most {MAX_FUNDERS}"),
            )];
        }
    }
    problems
}

/// Thousandths that `issuer` gives away at most (model.md §3).
fn limit(issuer: &str) -> u64 {
    match issuer {
        "base" => MAX_HARD_OF_BASE,
        _ => HARD_WHOLE - 1,
    }
}

fn same(a: &Grant, b: &Grant) -> bool {
    (a.amount, a.bytes) == (b.amount, b.bytes)
}

/// The amount with what it is.
pub(super) fn show(g: &Grant) -> String {
    match (g.kind, g.bytes) {
        (Kind::Soft, _) => format!("{} tickets", g.amount),
        (Kind::Hard, false) => units::show_thousandths(g.amount),
        (Kind::Hard, true) => units::show_bytes(g.amount),
    }
}

fn at(place: &Place, what: impl Into<String>, instead: impl Into<String>) -> Problem {
    Problem {
        file: place.file.to_string(),
        line: place.line,
        what: what.into(),
        instead: instead.into(),
    }
}

/// A currency that would fund itself, or a chain too long, told once. Each currency is looked at
/// once, whatever the graph is like.
fn cycle(held: &BTreeMap<&str, Held<'_>>) -> Option<Problem> {
    let funders = |name: &str| -> Vec<&str> {
        let keys = held.get(name).into_iter().flat_map(|h| h.grants.keys());
        let mut all: Vec<&str> = keys.map(|(issuer, _, _)| issuer.as_str()).collect();
        all.dedup();
        all
    };
    // How many tickets are above it; None: on the path that is being looked at. By a stack of our
    // own: the files may be long.
    let mut depth: HashMap<&str, Option<usize>> = HashMap::new();
    for start in held.keys().copied() {
        let mut path: Vec<(&str, Vec<&str>, usize)> = Vec::new();
        if !depth.contains_key(start) {
            depth.insert(start, None);
            path.push((start, funders(start), 0));
        }
        while let Some((name, left, deepest)) = path.last_mut() {
            let name: &str = name;
            let Some(next) = left.pop() else {
                let here = *deepest;
                depth.insert(name, Some(here));
                let place = held.get(name).and_then(|h| h.place);
                if let Some(place) = place
                    && here > MAX_DEPTH
                {
                    return Some(at(
                        place,
                        format!("{name} is {here} tickets away from base"),
                        format!("at most {MAX_DEPTH} are allowed: fund it more directly"),
                    ));
                }
                path.pop();
                if let Some((_, _, deepest)) = path.last_mut() {
                    *deepest = (*deepest).max(here + 1);
                }
                continue;
            };
            match depth.get(next) {
                Some(Some(above)) => *deepest = (*deepest).max(above + 1),
                None => {
                    depth.insert(next, None);
                    path.push((next, funders(next), 0));
                }
                Some(None) => {
                    let from = path.iter().position(|(n, _, _)| *n == next).unwrap_or(0);
                    let ring: Vec<&str> = path[from..].iter().map(|(n, _, _)| *n).collect();
                    let place = held.get(next).and_then(|h| h.place)?;
                    return Some(at(
                        place,
                        format!("{next} would fund itself: {} ← {next}", ring.join(" ← ")),
                        "tickets go one way: take one of them out",
                    ));
                }
            }
        }
    }
    None
}
