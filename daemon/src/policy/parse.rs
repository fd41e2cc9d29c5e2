// SPDX-License-Identifier: GPL-2.0-only
//! A policy file's text as currencies and rules. Every problem is told, not only the first.

use super::glob;
use super::name::{self, Template};
use super::rule::{Match, Rule, Then};
use super::users::Names;
use super::values::{Source, Value};
use super::{Declared, Policy, Problem};
use std::ops::Range;
use tix_model::Kind;
use toml::de::DeTable;

/// Currencies, and rules, of all files together.
pub(super) const MAX_EACH: usize = 4096;
/// Problems told of one file.
const MAX_PROBLEMS: usize = 100;

impl Policy {
    /// The policy that these files make, given as (name, text) in their order. `names` knows the
    /// users and groups that own currencies.
    pub fn parse(files: &[(String, String)], names: &dyn Names) -> Result<Policy, Vec<Problem>> {
        let mut policy = Policy::default();
        let mut problems = Vec::new();
        for (file, text) in files {
            let mut source = Source::new(file, text, names);
            let (document, errors) = DeTable::parse_recoverable(text);
            for e in &errors {
                source.problem(
                    e.span().unwrap_or_default(),
                    format!("this is not TOML: {}", e.message()),
                    "",
                );
            }
            // What follows a slip of syntax is a guess.
            if errors.is_empty() {
                policy.read(document.get_ref(), &mut source);
            }
            source.problems.sort_by_key(|p| p.line);
            let more = source.problems.len().saturating_sub(MAX_PROBLEMS);
            source.problems.truncate(MAX_PROBLEMS);
            problems.append(&mut source.problems);
            if more > 0 {
                problems.push(Problem::of_file(
                    file.as_str(),
                    format!("has {more} more problems"),
                    "",
                ));
            }
        }
        // Sums and cycles of what is half understood would mislead.
        if problems.is_empty() {
            problems = policy.check();
        }
        if problems.is_empty() {
            Ok(policy)
        } else {
            Err(problems)
        }
    }

    fn read(&mut self, document: &DeTable<'_>, source: &mut Source<'_>) {
        source.keys(document, "a policy", &["currency", "rule"]);
        if let Some(v) = document.get("currency") {
            for (table, span) in source.tables(v, "currency") {
                if self.declared.len() >= MAX_EACH {
                    source.problem(
                        span,
                        format!("more than {MAX_EACH} currencies"),
                        "declare fewer",
                    );
                    break;
                }
                if let Some(d) = declared(table, span.clone(), source) {
                    self.declared.push(d);
                    self.places.push(source.place(span));
                }
            }
        }
        if let Some(v) = document.get("rule") {
            for (table, span) in source.tables(v, "rule") {
                if self.rules.len() >= MAX_EACH {
                    source.problem(
                        span,
                        format!("more than {MAX_EACH} rules"),
                        "match lists or patterns",
                    );
                    break;
                }
                self.rules.extend(rule(table, span, source));
            }
        }
    }
}

fn declared(table: &DeTable<'_>, span: Range<usize>, source: &mut Source<'_>) -> Option<Declared> {
    let known = ["name", "owner", "group", "mode", "fund", "reserve"];
    source.keys(table, "a currency", &known);
    let owner = table.get("owner").and_then(|v| source.who(v, "owner"));
    let group = table.get("group").and_then(|v| source.who(v, "group"));
    let mode = table.get("mode").and_then(|v| source.mode(v));
    let grants = grants(table, source);
    let Some(value) = table.get("name") else {
        source.problem(
            span,
            "this currency has no name",
            "write name = \"staff\" or the like",
        );
        return None;
    };
    let text = source.text(value, "name")?;
    if text == "base" || !name::legal(text) {
        let (what, instead) = match text {
            "base" => (
                "base is there without being declared".to_owned(),
                "write another name".to_owned(),
            ),
            _ => name::bad_name(text),
        };
        source.problem(value.span(), what, instead);
        return None;
    }
    Some(Declared {
        name: text.to_owned(),
        owner,
        group,
        mode,
        grants,
        origin: source.place(span).to_string(),
    })
}

fn grants(table: &DeTable<'_>, source: &mut Source<'_>) -> Vec<super::Grant> {
    let mut all = Vec::new();
    for (key, kind) in [("fund", Kind::Soft), ("reserve", Kind::Hard)] {
        if let Some(v) = table.get(key) {
            all.extend(source.grants(v, kind));
        }
    }
    all
}

fn rule(table: &DeTable<'_>, span: Range<usize>, source: &mut Source<'_>) -> Option<Rule> {
    let giving = ["currency", "fund", "reserve", "owner", "mode"];
    let known = [&["match", "skip"][..], &giving].concat();
    source.keys(table, "a rule", &known);
    let matches = match table.get("match") {
        Some(v) => matching(v, source),
        None => {
            source.problem(
                span.clone(),
                "this rule does not say what it is about",
                "write match = { group = \"staff\" } or the like; match = {} is for all that is \
                 left",
            );
            None
        }
    };
    let skip = table.get("skip").and_then(|v| source.truth(v, "skip"));
    let then = if skip == Some(true) {
        for key in giving {
            if let Some(v) = table.get(key) {
                source.problem(
                    v.span(),
                    format!("a rule that skips has no {key}"),
                    "leave out one of the two",
                );
            }
        }
        Then::Skip
    } else {
        fund(table, span.clone(), source)?
    };
    Some(Rule {
        matches: matches?,
        place: source.place(span),
        then,
    })
}

fn fund(table: &DeTable<'_>, span: Range<usize>, source: &mut Source<'_>) -> Option<Then> {
    let owner = table.get("owner").and_then(|v| source.who(v, "owner"));
    let mode = table.get("mode").and_then(|v| source.mode(v));
    let grants = grants(table, source);
    let Some(value) = table.get("currency") else {
        source.problem(
            span,
            "this rule does not say which currency funds what it matches",
            "write currency = \"user-{uid}\" or the like, or skip = true",
        );
        return None;
    };
    let text = source.text(value, "currency")?;
    let currency = match Template::parse(text) {
        Ok(t) => t,
        Err((what, instead)) => {
            source.problem(value.span(), what, instead);
            return None;
        }
    };
    let asked = table.contains_key("fund") || table.contains_key("reserve");
    if currency.literal().is_none() && !asked {
        source.problem(
            value.span(),
            format!("nothing funds {text:?}"),
            "add fund = [ { from = \"base\", cpu = 100 } ] or the like",
        );
        return None;
    }
    Some(Then::Fund {
        currency,
        grants,
        owner,
        mode,
    })
}

fn matching(value: &Value<'_>, source: &mut Source<'_>) -> Option<Match> {
    let Some(table) = value.get_ref().as_table() else {
        source.wrong(
            value,
            "match",
            "write match = { group = \"staff\" } or the like",
        );
        return None;
    };
    let known = ["uid", "gid", "user", "group", "unit", "cgroup"];
    source.keys(table, "match", &known);
    let mut m = Match::default();
    let before = source.problems.len();
    if let Some(v) = table.get("uid") {
        m.uid = source.ids(v, "uid");
    }
    if let Some(v) = table.get("gid") {
        m.gid = source.ids(v, "gid");
    }
    let named = |s: &str| match s {
        "" => Err("write a name"),
        s => Ok(s.to_owned()),
    };
    if let Some(v) = table.get("user") {
        m.user = source.texts(v, "user", named);
    }
    if let Some(v) = table.get("group") {
        m.group = source.texts(v, "group", named);
    }
    if let Some(v) = table.get("unit") {
        m.unit = source.texts(v, "unit", glob::Unit::parse);
    }
    if let Some(v) = table.get("cgroup") {
        m.cgroup = source.texts(v, "cgroup", glob::Path::parse);
    }
    let no_slice = !m.unit.is_empty() && !m.unit.iter().any(glob::Unit::may_be_slice);
    if no_slice && !(m.user.is_empty() && m.group.is_empty()) {
        source.problem(
            value.span(),
            "only a user's slice has a user with a name and groups, not a service or scope",
            "write uid = or gid =, which is the owner of the cgroup's directory",
        );
    }
    // A key that was not understood must not make it match more.
    (source.problems.len() == before).then_some(m)
}
