// SPDX-License-Identifier: GPL-2.0-only
//! A rule: what it matches and what it gives.

use super::glob;
use super::name::Template;
use super::subject::{Subject, User, user_of_slice};
use super::{Grant, Place};
use std::ops::RangeInclusive;

/// All that is given must hold; of a list, one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Match {
    pub uid: Vec<RangeInclusive<u32>>,
    pub gid: Vec<RangeInclusive<u32>>,
    pub user: Vec<String>,
    pub group: Vec<String>,
    pub unit: Vec<glob::Unit>,
    pub cgroup: Vec<glob::Path>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub matches: Match,
    pub place: Place,
    pub then: Then,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    /// Left to its parent's weight.
    Skip,
    Fund {
        currency: Template,
        grants: Vec<Grant>,
        owner: Option<u32>,
        mode: Option<u16>,
    },
}

impl Match {
    /// It says nothing, so it matches every candidate.
    pub(super) fn is_all(&self) -> bool {
        *self == Match::default()
    }

    /// It says which cgroups it is about. One that does not is about users' slices.
    pub(super) fn names_paths(&self) -> bool {
        !self.unit.is_empty() || !self.cgroup.is_empty()
    }

    /// As far as the path goes.
    pub(super) fn path_fits(&self, path: &str) -> bool {
        (self.unit.is_empty() || self.unit.iter().any(|u| u.matches(path)))
            && (self.cgroup.is_empty() || self.cgroup.iter().any(|c| c.matches(path)))
    }

    /// `subject` being a candidate.
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        if self.is_all() {
            return true;
        }
        let slice = user_of_slice(subject.path).is_some();
        // Of anything but a user's slice the database is not asked who its owner is.
        let user = subject.user.as_ref().filter(|_| slice);
        (slice || self.names_paths())
            && self.path_fits(subject.path)
            && (self.uid.is_empty() || has(&self.uid, subject.uid()))
            && (self.gid.is_empty() || self.gid_fits(subject, user))
            && (self.user.is_empty()
                || user
                    .and_then(|u| u.name.as_ref())
                    .is_some_and(|name| self.user.contains(name)))
            && (self.group.is_empty()
                || user.is_some_and(|u| {
                    u.groups
                        .iter()
                        .any(|(_, name)| name.as_ref().is_some_and(|n| self.group.contains(n)))
                }))
    }

    fn gid_fits(&self, subject: &Subject<'_>, user: Option<&User>) -> bool {
        match user {
            Some(u) => u
                .groups
                .iter()
                .map(|(gid, _)| *gid)
                .chain([u.gid])
                .any(|gid| has(&self.gid, gid)),
            None => has(&self.gid, subject.group),
        }
    }
}

fn has(ranges: &[RangeInclusive<u32>], id: u32) -> bool {
    ranges.iter().any(|r| r.contains(&id))
}
