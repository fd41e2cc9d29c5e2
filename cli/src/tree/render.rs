// SPDX-License-Identifier: GPL-2.0-only
//! The funding graph as an indented table.

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

use crate::users::Names;
use crate::{holds, out};
use clap::ValueEnum;
use std::collections::{BTreeMap, BTreeSet};
use tix_api::{Currency, Funding, Kind, NotHeld, Resource, TreeReply};

/// What the columns are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    Cpu,
    Disk,
    Memory,
    Net,
    All,
}

impl Shown {
    /// `None`: all of them.
    fn resource(self) -> Option<Resource> {
        match self {
            Shown::Cpu => Some(Resource::Cpu),
            Shown::Disk => Some(Resource::Disk),
            Shown::Memory => Some(Resource::Memory),
            Shown::Net => Some(Resource::Net),
            Shown::All => None,
        }
    }

    fn has(self, resource: Resource) -> bool {
        self.resource().is_none_or(|shown| shown == resource)
    }

    /// Whether its principals want the CPU says something about this.
    fn shows_idle(self) -> bool {
        self.has(Resource::Cpu)
    }
}

/// The funding graph as an indented table; with names also whose each currency is. Whatever base
/// does not reach comes last, and of currencies that have nothing to do with the resource there is
/// only the number.
pub fn render(tree: &TreeReply, shown: Shown, names: Option<Names>, width: Option<u16>) -> String {
    let mut walk = Walk {
        shown,
        names,
        exchanged: tree
            .currencies
            .iter()
            .flat_map(|currency| &currency.exchanges)
            .any(|ticket| Some(ticket.resource) == shown.resource()),
        limited: shown.resource() == Some(Resource::Cpu)
            && (tree.currencies.iter()).any(|currency| currency.cpu.limit_milli.is_some()),
        has_now: shown.resource() != Some(Resource::Memory)
            && !not_held(tree).any(|not| Some(not.resource) == shown.resource()),
        cpu_is_held: !not_held(tree).any(|not| not.resource == Resource::Cpu),
        funded: funded_by(&tree.currencies, shown),
        seen: BTreeSet::new(),
        rows: Vec::new(),
    };
    let mut without = 0;
    for currency in &tree.currencies {
        if currency.cid == 0 {
            walk.visit(currency, None, "", "");
        } else if !currency.funding.iter().any(|t| shown.has(t.resource)) {
            if walk.concerns(currency) {
                walk.visit(currency, None, "", "");
            } else {
                walk.seen.insert(&currency.name);
                without += 1;
            }
        }
    }
    for currency in &tree.currencies {
        // Only in a snapshot torn by a change: its funder is not in it.
        if !walk.seen.contains(currency.name.as_str()) {
            walk.visit(currency, None, "", "");
        }
    }
    let mut text = out::table(&walk.columns(), walk.rows, width);
    if let Some(resource) = shown.resource().filter(|_| without > 0) {
        let word = if without == 1 {
            "currency has"
        } else {
            "currencies have"
        };
        text += &format!("\n{without} {word} no tickets for {}.", resource.name());
    }
    let unenforced = |t: &&Funding| shown.has(t.resource) && !t.resource.is_enforced();
    let all = tree.currencies.iter().flat_map(|c| &c.funding);
    if let Some(ticket) = all.into_iter().find(unenforced) {
        let name = ticket.resource.name();
        text += &format!("\n{name} is not enforced yet: tickets for it share nothing.");
    }
    for line in notes(tree, shown) {
        text += &format!("\n{line}");
    }
    text
}

fn not_held(tree: &TreeReply) -> impl Iterator<Item = &NotHeld> {
    tree.not_held.iter().flatten()
}

/// What of the above nothing holds, why, and what to do.
fn notes(tree: &TreeReply, shown: Shown) -> Vec<String> {
    let all: Vec<&NotHeld> = not_held(tree)
        .filter(|not| shown.has(not.resource))
        .collect();
    let mut notes = holds::together(&all);
    if shown.shows_idle() {
        let off = tree.currencies.iter().filter_map(|currency| {
            let problem = currency.not_held.as_ref()?;
            let what = format!("Of {} something is not in force", currency.name);
            Some(holds::lines(&what, problem))
        });
        notes.extend(off);
    }
    notes
}

/// An issuer's tickets: the holders, and what the tickets of each say.
type Funded<'a> = BTreeMap<&'a str, Vec<(&'a Currency, String)>>;

fn funded_by(currencies: &[Currency], shown: Shown) -> Funded<'_> {
    let mut funded: Funded<'_> = BTreeMap::new();
    for holder in currencies {
        for ticket in holder.funding.iter().filter(|t| shown.has(t.resource)) {
            let holders = funded.entry(ticket.from.as_str()).or_default();
            match holders
                .last_mut()
                .filter(|(last, _)| last.cid == holder.cid)
            {
                Some((_, amount)) => *amount = format!("{amount} + {}", said(ticket)),
                None => holders.push((holder, said(ticket))),
            }
        }
    }
    funded
}

fn said(ticket: &Funding) -> String {
    match ticket.kind {
        Kind::Soft => ticket.amount.to_string(),
        Kind::Hard => out::hard(ticket.amount, ticket.bytes),
    }
}

struct Walk<'a> {
    shown: Shown,
    /// Whose they are is shown, too.
    names: Option<Names>,
    /// There are exchange tickets to show.
    exchanged: bool,
    /// There are limits to show.
    limited: bool,
    /// What each gets now is known: something holds it. Of memory what is protected is the same
    /// whoever wants it.
    has_now: bool,
    /// Something holds shares of the CPU, and so knows who wants it.
    cpu_is_held: bool,
    funded: Funded<'a>,
    seen: BTreeSet<&'a str>,
    rows: Vec<Vec<String>>,
}

impl<'a> Walk<'a> {
    /// `currency` and all it funds, depth first. `lead` is drawn before its name, `below` before
    /// the names below it.
    fn visit(
        &mut self,
        currency: &'a Currency,
        ticket: Option<(&str, &str)>,
        lead: &str,
        below: &str,
    ) {
        let again = !self.seen.insert(&currency.name);
        let issuer = ticket.map(|(issuer, _)| issuer);
        let children = match again {
            false => self
                .funded
                .get(currency.name.as_str())
                .cloned()
                .unwrap_or_default(),
            true => Vec::new(),
        };
        let mut name = format!("{lead}{}", short(&currency.name, issuer));
        if again {
            name += " (see above)";
        } else if currency.not_held.is_some() && self.shown.shows_idle() {
            name += " (not in force)";
        } else if !currency.active && self.shown.shows_idle() {
            let why = holds::inactive(&currency.cpu, self.cpu_is_held);
            name.extend(why.map(|why| format!(" ({why})")));
        }
        let row = self.row(name, currency, ticket.map_or("", |(_, amount)| amount));
        self.rows.push(row);
        let last = children.len().saturating_sub(1);
        for (index, (child, amount)) in children.iter().enumerate() {
            let (branch, under) = if index == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let lead = format!("{below}{branch}");
            let under = format!("{below}{under}");
            self.visit(child, Some((&currency.name, amount)), &lead, &under);
        }
    }

    /// A currency that nobody funds is shown where it could be used: with the CPU, or if there is
    /// something to see.
    fn concerns(&self, currency: &Currency) -> bool {
        self.shown.shows_idle()
            || self.funded.contains_key(currency.name.as_str())
            || currency
                .exchanges
                .iter()
                .any(|t| self.shown.has(t.resource))
    }

    fn columns(&self) -> Vec<&'static str> {
        let mut columns = vec!["CURRENCY"];
        if self.names.is_some() {
            columns.extend(["MODE", "OWNER", "GROUP"]);
        }
        match self.shown.resource() {
            None => columns.extend([">CPU", ">DISK", ">MEMORY", ">NET"]),
            Some(resource) => {
                columns.extend([">TICKETS", ">ENTITLED"]);
                if resource == Resource::Memory {
                    columns.push(">BYTES");
                }
                if self.has_now {
                    columns.push(">SHARE NOW");
                }
                if self.limited {
                    columns.push(">LIMIT");
                }
                if self.exchanged {
                    columns.push(">EXCHANGED");
                }
                columns.extend(match resource {
                    Resource::Cpu => vec![">CPU USED"],
                    Resource::Disk => vec![">WEIGHT", ">MOVED", ">WAITED"],
                    Resource::Memory => vec![">MIN", ">LOW", ">USED", ">WAITED"],
                    Resource::Net => vec![],
                });
            }
        }
        columns.push("BOUND TO");
        columns
    }

    /// The cells of those columns.
    fn row(&mut self, name: String, currency: &Currency, tickets: &str) -> Vec<String> {
        let mut row = vec![name];
        if let Some(names) = &mut self.names {
            row.push(currency.mode_text.clone());
            row.push(names.user(currency.owner).to_owned());
            row.push(names.group(currency.group).to_owned());
        }
        match self.shown.resource() {
            None => row.extend(
                Resource::ALL.map(|resource| out::percent(currency.share(resource).entitlement)),
            ),
            Some(resource) => {
                let share = currency.share(resource);
                row.extend([tickets.to_owned(), out::percent(share.entitlement)]);
                if resource == Resource::Memory {
                    row.push(share.entitlement_bytes.map(out::bytes).unwrap_or_default());
                }
                if self.has_now {
                    row.push(out::percent(share.share));
                }
                if self.limited {
                    row.push(share.limit_milli.map(out::limit).unwrap_or_default());
                }
                if self.exchanged {
                    row.push(exchanged(currency, resource));
                }
                let bytes = |n: Option<u64>| n.map(out::bytes).unwrap_or_default();
                let waited = share.stalled_usec.map(out::duration).unwrap_or_default();
                match resource {
                    Resource::Cpu => row.push(out::duration(share.used_usec)),
                    Resource::Disk => {
                        let weight = share.weight.map(|w| w.to_string());
                        row.extend([weight.unwrap_or_default(), bytes(share.used_bytes), waited]);
                    }
                    Resource::Memory => {
                        let sizes = [share.min_bytes, share.low_bytes, share.used_bytes];
                        row.extend(sizes.map(bytes));
                        row.push(waited);
                    }
                    Resource::Net => {}
                }
            }
        }
        let bound = currency
            .cgroup
            .as_deref()
            .filter(|cgroup| *cgroup != currency.name && currency.cid != 0);
        row.push(bound.unwrap_or_default().to_owned());
        row
    }
}

/// The base tickets that it got or gave up in exchanges, all in all.
fn exchanged(currency: &Currency, resource: Resource) -> String {
    let tickets = currency.exchanges.iter().filter(|t| t.resource == resource);
    match tickets.map(|t| t.amount_milli).reduce(i64::saturating_add) {
        Some(sum) => out::signed_tickets(sum),
        None => String::new(),
    }
}

/// A mirrored currency's path without its parent's, where that is what it stands below. What alice
/// has made is called alice/gold also below a currency `alice`: gold is another.
fn short<'a>(name: &'a str, issuer: Option<&str>) -> &'a str {
    let issuer = issuer.filter(|_| name.starts_with('/'));
    match issuer.and_then(|issuer| name.strip_prefix(issuer)?.strip_prefix('/')) {
        Some(last) if !last.is_empty() => last,
        _ => name,
    }
}
