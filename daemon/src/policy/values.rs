// SPDX-License-Identifier: GPL-2.0-only
//! The values of a policy file: a TOML value in, something of ours out, or a problem that says what
//! to write.

use super::name::{bad_name, legal};
use super::users::Names;
use super::{Grant, Place, Problem, problem};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use tix_model::NOBODY;
use tix_model::units::{self, Hard};
use tix_model::{Kind, Resource};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One file as it is read: what it says and what is wrong with it.
pub(super) struct Source<'a> {
    pub file: Arc<str>,
    /// Where each line begins.
    lines: Vec<usize>,
    names: &'a dyn Names,
    pub problems: Vec<Problem>,
}

/// What may stand after `from`.
const ISSUERS: &str = "\"base\", the plain name of a currency that a policy declares or root has \
                       created (\"staff\"), or a cgroup's path (\"/system.slice\"); what a user \
                       has created (USER/NAME) pays for nothing in a policy";

/// The plain name that was meant by `root/NAME`, in words.
fn plain_of(text: &str) -> String {
    let plain = text.strip_prefix("root/").filter(|name| legal(name));
    plain.map_or_else(String::new, |name| format!("; write {name:?}"))
}

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

impl<'a> Source<'a> {
    pub(super) fn new(file: &str, text: &str, names: &'a dyn Names) -> Source<'a> {
        Source {
            file: file.into(),
            lines: text
                .bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i + 1)
                .collect(),
            names,
            problems: Vec::new(),
        }
    }

    pub(super) fn place(&self, span: Range<usize>) -> Place {
        Place {
            file: self.file.clone(),
            line: 1 + self.lines.partition_point(|begin| *begin <= span.start),
        }
    }

    pub(super) fn problem(
        &mut self,
        span: Range<usize>,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) {
        let place = self.place(span);
        self.problems.push(Problem {
            file: self.file.to_string(),
            line: place.line,
            what: what.into(),
            instead: instead.into(),
        });
    }

    /// Every key of `table` is one of `known`.
    pub(super) fn keys(&mut self, table: &DeTable<'_>, of: &str, known: &[&str]) {
        for key in table.keys() {
            let word: &str = key.get_ref();
            if !known.contains(&word) {
                let instead = match problem::nearest(word, known) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("there are {}", known.join(", ")),
                };
                self.problem(
                    key.span(),
                    format!("{of} has no {:?}", shorten(word)),
                    instead,
                );
            }
        }
    }

    /// The tables of `[[key]]`.
    pub(super) fn tables<'t, 'i>(
        &mut self,
        value: &'t Value<'i>,
        key: &str,
    ) -> Vec<(&'t DeTable<'i>, Range<usize>)> {
        let Some(array) = value.get_ref().as_array() else {
            self.wrong(value, key, &format!("write [[{key}]]"));
            return vec![];
        };
        let mut tables = Vec::new();
        for v in array.iter() {
            match v.get_ref().as_table() {
                Some(t) => tables.push((t, v.span())),
                None => self.wrong(v, key, &format!("write [[{key}]]")),
            }
        }
        tables
    }

    pub(super) fn wrong(&mut self, value: &Value<'_>, key: &str, instead: &str) {
        let kind = value.get_ref().type_str();
        self.problem(
            value.span(),
            format!("{key} cannot be of type {kind}"),
            instead,
        );
    }

    pub(super) fn text<'t>(&mut self, value: &'t Value<'_>, key: &str) -> Option<&'t str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(value, key, "write it in quotes");
        }
        text
    }

    pub(super) fn truth(&mut self, value: &Value<'_>, key: &str) -> Option<bool> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.wrong(value, key, "write true, or leave it out");
        }
        truth
    }

    /// One, or a list.
    pub(super) fn each<'t, 'i>(&mut self, value: &'t Value<'i>, key: &str) -> Vec<&'t Value<'i>> {
        match value.get_ref().as_array() {
            Some(list) if list.is_empty() => {
                self.problem(
                    value.span(),
                    format!("{key} is an empty list, which nothing is in"),
                    "leave the key out if it does not matter",
                );
                vec![]
            }
            Some(list) => list.iter().collect(),
            None => vec![value],
        }
    }

    /// Texts, each made something of by `parse`.
    pub(super) fn texts<T>(
        &mut self,
        value: &Value<'_>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for v in self.each(value, key) {
            let Some(text) = self.text(v, key) else {
                continue;
            };
            match parse(text) {
                Ok(t) => all.push(t),
                Err(instead) => self.problem(
                    v.span(),
                    format!("{key} = {:?} matches nothing", shorten(text)),
                    instead,
                ),
            }
        }
        all
    }

    /// `1000`, `"1000-1999"`, or a list.
    pub(super) fn ids(&mut self, value: &Value<'_>, key: &str) -> Vec<RangeInclusive<u32>> {
        let mut all = Vec::new();
        for v in self.each(value, key) {
            let range = match v.get_ref() {
                DeValue::String(s) => {
                    let (from, to) = s.split_once('-').unwrap_or((s, s));
                    id(from.trim()).zip(id(to.trim()))
                }
                other => integer(other)
                    .and_then(|n| u32::try_from(n).ok())
                    .filter(|n| *n != NOBODY)
                    .map(|n| (n, n)),
            };
            match range {
                Some((from, to)) if from <= to => all.push(from..=to),
                _ => self.problem(
                    v.span(),
                    format!("this is no {key}"),
                    format!(
                        "write a number (1000), a range (\"1000-1999\") or a list of them; a \
                             name goes to {} =",
                        if key == "uid" { "user" } else { "group" }
                    ),
                ),
            }
        }
        all
    }

    /// A user (or group) by number or name.
    pub(super) fn who(&mut self, value: &Value<'_>, key: &str) -> Option<u32> {
        let user = key == "owner";
        let what = if user { "user" } else { "group" };
        if let Some(n) = integer(value.get_ref()) {
            let id = u32::try_from(n).ok().filter(|n| *n != NOBODY);
            if id.is_none() {
                self.problem(
                    value.span(),
                    format!("{n} is no {what}'s number"),
                    "write its name or number",
                );
            }
            return id;
        }
        let text = self.text(value, key)?;
        if let Some(id) = id(text) {
            return Some(id);
        }
        let found = if user {
            self.names.uid(text)
        } else {
            self.names.gid(text)
        };
        match found {
            Ok(Some(id)) => Some(id),
            Ok(None) => {
                self.problem(
                    value.span(),
                    format!("there is no {what} {:?}", shorten(text)),
                    "write a name that the system knows, or a number",
                );
                None
            }
            Err(e) => {
                self.problem(
                    value.span(),
                    format!("cannot look up the {what} {:?} ({e})", shorten(text)),
                    "write its number, which needs no looking up",
                );
                None
            }
        }
    }

    pub(super) fn mode(&mut self, value: &Value<'_>) -> Option<u16> {
        let text = self.text(value, "mode")?;
        units::mode::parse_absolute(text)
            .map_err(|_| {
                self.problem(
                    value.span(),
                    format!("{:?} is no mode", shorten(text)),
                    "write nine characters, fci for the owner, the group and others, with - for \
                     what is not allowed (\"fci------\"), or octal (\"700\")",
                );
            })
            .ok()
    }

    /// `fund` (soft) or `reserve` (hard): a list of tables, or one.
    pub(super) fn grants(&mut self, value: &Value<'_>, kind: Kind) -> Vec<Grant> {
        let (key, example) = match kind {
            Kind::Soft => ("fund", "fund = [ { from = \"base\", cpu = 100 } ]"),
            Kind::Hard => (
                "reserve",
                "reserve = [ { from = \"base\", cpu = \"10%\" } ]",
            ),
        };
        let mut grants = Vec::new();
        let items: Vec<&Value<'_>> = match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => vec![value],
        };
        for item in items {
            let Some(table) = item.get_ref().as_table() else {
                self.wrong(item, key, &format!("write {example}"));
                continue;
            };
            let known = ["from", "cpu", "disk", "memory", "net"];
            self.keys(table, key, &known);
            let issuer = match table.get("from") {
                Some(from) => self.issuer(from),
                None => {
                    self.problem(
                        item.span(),
                        format!("{key} does not say from whom"),
                        format!("write {example}"),
                    );
                    None
                }
            };
            let mut any = false;
            for resource in Resource::ALL {
                let Some(v) = table.get(resource.name()) else {
                    continue;
                };
                any = true;
                if !resource.is_enforced() {
                    self.problem(
                        v.span(),
                        format!("{} is not enforced yet", resource.name()),
                        "leave it out; cpu, disk and memory are shared",
                    );
                    continue;
                }
                let Some((amount, bytes)) = self.amount(v, resource, kind) else {
                    continue;
                };
                if kind == Kind::Hard
                    && resource == Resource::Memory
                    && !bytes
                    && issuer.as_deref() == Some("base")
                {
                    self.problem(
                        v.span(),
                        "memory guaranteed by base is a size, not a part of it",
                        "write \"512M\" or \"2G\"",
                    );
                    continue;
                }
                grants.extend(issuer.clone().map(|issuer| Grant {
                    issuer,
                    resource,
                    kind,
                    amount,
                    bytes,
                }));
            }
            if !any {
                self.problem(
                    item.span(),
                    format!("{key} does not say how much of what"),
                    format!("write {example}; there are cpu, disk and memory"),
                );
            }
        }
        grants
    }

    /// A currency's name, or a cgroup's path: each is a currency, too (model.md §1).
    fn issuer(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.text(value, "from")?;
        let path = |p: &str| {
            !p.is_empty() && p.split('/').all(|c| !["", ".", ".."].contains(&c)) && !p.contains('*')
        };
        if legal(text) || text.strip_prefix('/').is_some_and(path) {
            return Some(text.to_owned());
        }
        let (what, _) = bad_name(text);
        let instead = if text == "/" {
            "write \"base\"".to_owned()
        } else if text.starts_with('/') {
            "write a path as it is below the root of the cgroup tree (\"/system.slice\")".to_owned()
        } else if text.contains('{') {
            "what pays is not filled in: write a name of its own".to_owned()
        } else {
            format!("from is {ISSUERS}{}", plain_of(text))
        };
        self.problem(value.span(), what, instead);
        None
    }

    fn amount(&mut self, value: &Value<'_>, r: Resource, kind: Kind) -> Option<(u64, bool)> {
        let text = match value.get_ref() {
            DeValue::String(s) => s.to_string(),
            DeValue::Float(f) => f.as_str().to_owned(),
            v => match integer(v) {
                Some(n) => n.to_string(),
                None => {
                    self.wrong(
                        value,
                        r.name(),
                        "write a number, or in quotes \"25%\" or \"2G\"",
                    );
                    return None;
                }
            },
        };
        let parsed = match kind {
            Kind::Soft => units::soft(&text).map(|n| (n, false)),
            Kind::Hard => units::hard(&text, r == Resource::Memory).map(|h| match h {
                Hard::Thousandths(n) => (n, false),
                Hard::Bytes(n) => (n, true),
            }),
        };
        match parsed {
            Ok(amount) => Some(amount),
            Err(e) => {
                // It says what to write behind a colon, as a problem does.
                let e = e.to_string();
                let (what, instead) = e.rsplit_once(": ").unwrap_or((&e, ""));
                let mut instead = instead.to_owned();
                if kind == Kind::Soft && text.ends_with(['%', 'K', 'M', 'G', 'T']) {
                    instead.push_str("; a guarantee goes to reserve =");
                }
                self.problem(value.span(), format!("{}: {what}", r.name()), instead);
                None
            }
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let n = value.as_integer()?;
    i64::from_str_radix(n.as_str(), n.radix()).ok()
}

fn id(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
        .filter(|n| *n != NOBODY)
}

/// As much of it as a line holds.
fn shorten(text: &str) -> String {
    let mut out: String = text.chars().take(60).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
