// SPDX-License-Identifier: GPL-2.0-only
//! Who gets which currency: the mapping that Sullivan's `cid_for_client()` makes (§4.2), by
//! declarative files instead of code in the kernel. policies/README.md describes the format.
//!
//! A cgroup is decided upon once, when it appears: a user's slice at login, a unit's cgroup at its
//! start. So a process that changes its uid inside a session stays where it is and is paid for by
//! the session's user (nobody gets root's tickets by sudo), and children are funded as their
//! parents are, by all of their funders (Sullivan's footnote 5). What no rule is about is funded by
//! its parent's `cpu.weight`: users equally, as the paper has it by default.
//!
//! Pure but for [`Policy::load`] and [`users`]; the shell makes the currencies and binds the
//! cgroups.

mod check;
mod glob;
mod name;
mod parse;
mod problem;
mod read;
mod report;
mod rule;
mod subject;
pub mod users;
mod values;

pub(crate) use glob::in_slices;
pub use problem::Problem;
pub use report::report;
pub use subject::{Subject, User, user_of_slice};
pub use users::Names;

use rule::{Rule, Then};
use std::fmt;
use std::sync::Arc;
use tix_model::{DEFAULT_MODE, Kind, Resource};

/// What is in force of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Where its files are.
    pub directory: String,
    /// Files read, and rules in force from them.
    pub files: usize,
    pub rules: usize,
    /// Each names the file and the line; empty when all is well.
    pub problems: Vec<String>,
}

/// A ticket that a file asks for. The holder is the currency it stands with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// `base`, a named currency, or a cgroup's path.
    pub issuer: String,
    pub resource: Resource,
    pub kind: Kind,
    /// Soft: tickets. Hard: thousandths of the issuer, or bytes if `bytes`.
    pub amount: u64,
    pub bytes: bool,
}

/// A currency that is there while the policy is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    pub name: String,
    /// What the file does not say stays as it is if the currency is there already; else root's,
    /// with [`DEFAULT_MODE`].
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u16>,
    pub grants: Vec<Grant>,
    /// `FILE:LINE`.
    pub origin: String,
}

/// What is decided for a cgroup: the currency that funds it instead of its parent's weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// A legal name. Whoever has the same name shares the currency.
    pub currency: String,
    /// For when the currency is not there yet.
    pub owner: u32,
    pub group: u32,
    pub mode: u16,
    /// What it holds, on top of what it was declared with.
    pub grants: Vec<Grant>,
    /// `FILE:LINE` of the rule.
    pub origin: String,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    file: Arc<str>,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The files of a directory, read and found sound. The default is the empty policy: nothing
/// declared, nothing decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// In the order of the files, with where each stands.
    declared: Vec<Declared>,
    places: Vec<Place>,
    rules: Vec<Rule>,
}

/// What became of a cgroup, for the report.
enum Verdict<'a> {
    /// No rule is about it.
    None,
    Skip(&'a Rule),
    Fund(Decision),
}

impl Policy {
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.rules.is_empty()
    }

    /// How many rules it has.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// How many files it was read from, empty ones not counted.
    pub fn files(&self) -> usize {
        let places = self
            .places
            .iter()
            .chain(self.rules.iter().map(|r| &r.place));
        let files: std::collections::BTreeSet<&str> = places.map(|p| &*p.file).collect();
        files.len()
    }

    pub fn declared(&self) -> &[Declared] {
        &self.declared
    }

    /// What funds this cgroup instead of its parent's weight. The first rule that matches decides.
    pub fn decide(&self, subject: &Subject<'_>) -> Option<Decision> {
        match self.verdict(subject) {
            Verdict::Fund(decision) => Some(decision),
            Verdict::Skip(_) | Verdict::None => None,
        }
    }

    /// Some rule might be about this cgroup. Cheap and without allocation: asked of every cgroup,
    /// of which there may be 100,000, before anybody looks up a user.
    pub fn may_concern(&self, path: &str) -> bool {
        if self.rules.is_empty() || subject::inside_a_session(path) {
            return false;
        }
        let slice = user_of_slice(path).is_some();
        self.rules.iter().any(|r| match r.matches.names_paths() {
            true => r.matches.path_fits(path),
            false => slice,
        })
    }

    fn verdict(&self, subject: &Subject<'_>) -> Verdict<'_> {
        if !self.may_concern(subject.path) {
            return Verdict::None;
        }
        let Some(rule) = self.rules.iter().find(|r| r.matches.matches(subject)) else {
            return Verdict::None;
        };
        let Then::Fund {
            currency,
            grants,
            owner,
            mode,
        } = &rule.then
        else {
            return Verdict::Skip(rule);
        };
        let declared = |name: &str| self.declared.iter().find(|d| d.name == name);
        let name = currency.fill(subject, |n| declared(n).is_some());
        let known = declared(&name);
        // A currency that several share belongs to none of them: who came first would divide it for
        // the others.
        let (its_owner, its_group) = match currency.literal() {
            Some(_) => (0, 0),
            None => (subject.uid(), subject.gid()),
        };
        Verdict::Fund(Decision {
            owner: owner.or(known.and_then(|d| d.owner)).unwrap_or(its_owner),
            group: known.and_then(|d| d.group).unwrap_or(its_group),
            mode: mode.or(known.and_then(|d| d.mode)).unwrap_or(DEFAULT_MODE),
            currency: name,
            grants: grants.clone(),
            origin: rule.place.to_string(),
        })
    }
}
