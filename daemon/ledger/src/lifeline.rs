// SPDX-License-Identifier: GPL-2.0-only
//! The lifeline: the currency that backs PID 1, logins and tixd itself.
//!
//! Problem: a soft ticket is a part of all that base has issued, so each further ticket of base
//! makes the lifeline worth less; and root would take that ticket back through a tixd that no
//! longer runs.
//!
//! Rule: of cpu, and of disk once root has given anybody disk tickets, the lifeline is entitled to
//! a tenth of the machine, or to half of what is not reserved where that is less. A step that would
//! leave it less raises it, as a part of that step; a step that it cannot be kept beside is
//! refused.
//!
//! Example: base's own threads have 100 tickets and cgroups 300, so the lifeline has 45 of 445.
//! /big is funded with 262,144: 29,172 of 291,716. With 90 % reserved it has as many tickets as all
//! others, half of 10 %; with 95 %, the most that base gives, 2.5 % of the machine.
//!
//! Cost: two sums and a comparison a step; one row to write where it is raised.
//!
//! Limits: what base has issued changes by operations that need base's `i` and by cgroups below the
//! root, so no user moves it. The kernel has a new cgroup before tixd knows of it. A step of the
//! tree cannot be refused: operations leave half of [`MAX_AMOUNT`] for those.

use super::brokers::Caller;
use super::rights::is_roots;
use super::{
    BASE, Cid, Event, Grant, HARD_WHOLE, Key, Kind, Ledger, MAX_AMOUNT, Op, Refusal, Resource, Row,
};
use std::collections::BTreeSet;

/// The part of the machine that the lifeline has, in thousandths.
const PART: u64 = HARD_WHOLE / 10;
/// It has at least so many tickets.
const LEAST: u64 = 10;
/// An operation may bring it to so many: cgroups below the root come on top.
const MOST_BY_OPERATIONS: u64 = MAX_AMOUNT / 2;
/// What has a share that the lifeline can be kept at.
const KEPT: [Resource; 2] = [Resource::Cpu, Resource::Disk];

/// Which currency it is, and the cgroups that it is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lifeline {
    cid: Cid,
    paths: BTreeSet<String>,
}

/// What a step must not make worse.
pub(super) struct Before {
    due: [u64; KEPT.len()],
    /// The tightest limit of each of its cgroups, thousandths of a CPU.
    limits: Vec<u64>,
    /// What the operation would do to the lifeline itself.
    refused: Option<String>,
}

/// The lifeline's soft tickets beside `rest` of others, with `reserved` thousandths of base in hard
/// tickets.
pub fn lifeline_due(rest: u64, reserved: u64) -> u64 {
    let soft = HARD_WHOLE.saturating_sub(reserved);
    let due = match soft >= 2 * PART {
        true => (rest * PART).div_ceil(soft - PART),
        false => rest,
    };
    due.max(LEAST)
}

impl Ledger {
    /// `cid`, which backs the cgroups `paths`, is the lifeline from now on, and gets what it lacks.
    pub fn keep_lifeline(
        &mut self,
        cid: Cid,
        paths: impl IntoIterator<Item = String>,
    ) -> Vec<Event> {
        self.lifeline = Some(Lifeline {
            cid,
            paths: paths.into_iter().collect(),
        });
        let mut events = self.raise_lifeline();
        events.extend(self.revoke_overdrawn());
        events
    }

    /// The lifeline, if there is one.
    pub fn lifeline(&self) -> Option<Cid> {
        let cid = self.lifeline.as_ref()?.cid;
        self.get(cid).map(|_| cid)
    }

    fn is_lifeline(&self, name: &str) -> bool {
        self.lifeline().is_some_and(|l| self.find(name) == Some(l))
    }

    /// A row that is tixd's to keep: the lifeline itself, what it holds, and its bindings.
    pub(super) fn is_of_lifeline(&self, key: &Key, row: Option<&Row>) -> bool {
        let Some(cid) = self.lifeline() else {
            return false;
        };
        let its = |e: &super::End| self.at_end(e) == Some(cid);
        match key {
            Key::Currency(c) => *c == cid,
            Key::Ticket { issuer, holder, .. } => its(issuer) || its(holder),
            Key::Limit(end, _) => its(end),
            Key::Binding(path) => {
                let bound = self.bindings.get(path).is_some_and(|b| b.name == cid);
                bound || matches!(row, Some(Row::Binding { cid: to, .. }) if *to == cid)
            }
            Key::Lapsed(name, _) => self.find(name) == Some(cid),
            _ => false,
        }
    }

    fn lifeline_holds(&self, r: Resource) -> u64 {
        let held = (self.lifeline()).and_then(|l| self.held(l, BASE, r, Kind::Soft));
        held.map_or(0, |g| g.amount)
    }

    /// What it should hold of base; nothing of what nobody shares by tickets.
    fn due_to_lifeline(&self, r: Resource) -> u64 {
        let lifeline = self.lifeline().filter(|_| KEPT.contains(&r));
        let Some(x) = lifeline.and_then(|l| self.get(l)) else {
            return 0;
        };
        // Root's, as only root's steps raise it: a user's tickets move nobody's.
        let own = x.grants(r).iter().filter(|g| is_roots(g.by)).count();
        let of_others = self.given_by_root[r.index()].saturating_sub(own);
        if r != Resource::Cpu && of_others == 0 {
            return 0;
        }
        let rest = self.total(r).saturating_sub(self.lifeline_holds(r));
        let reserved = self.get(BASE).map_or(0, |b| b.side(r).issued.milli);
        lifeline_due(rest, reserved)
    }

    /// The least that it is entitled to of `r`, as [`Ledger::entitlement`] counts.
    pub(super) fn lifeline_floor(&self, r: Resource) -> u128 {
        if self.due_to_lifeline(r) == 0 {
            return 0;
        }
        let reserved = self.get(BASE).map_or(0, |b| b.side(r).issued.milli);
        let soft = HARD_WHOLE.saturating_sub(reserved);
        let all = u128::from(self.total(r)) << 64;
        all / u128::from(HARD_WHOLE) * u128::from(PART.min(soft / 2))
    }

    /// Gives it what is due, and takes what is more than a quarter above: a change is a row to
    /// write.
    pub(super) fn raise_lifeline(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(cid) = self.lifeline() else {
            return events;
        };
        for r in KEPT {
            // Twice: with its first ticket base's own threads count, too.
            for _ in 0..2 {
                let (has, due) = (self.lifeline_holds(r), self.due_to_lifeline(r));
                let due = due.min(MAX_AMOUNT);
                if has == due || due > 0 && has > due && has - due <= due / 4 {
                    break;
                }
                let grant = Grant {
                    issuer: BASE,
                    kind: Kind::Soft,
                    bytes: false,
                    amount: due,
                    by: Caller::ROOT.uid,
                };
                let given = vec![self.set_grant(cid, r, grant)];
                self.withdraw_disk(&Caller::ROOT, &given);
                events.extend(given);
            }
        }
        events
    }

    /// How things are before `op`.
    pub(super) fn before(&self, op: &Op) -> Before {
        Before {
            due: KEPT.map(|r| self.due_to_lifeline(r)),
            limits: match op.moves_tickets() || matches!(op, Op::Limit { .. }) {
                true => self.limits_of_lifeline(),
                false => Vec::new(),
            },
            refused: self.refused_of_lifeline(op),
        }
    }

    /// How things are before rows are replaced.
    pub(super) fn before_import(&self) -> Before {
        Before {
            due: KEPT.map(|r| self.due_to_lifeline(r)),
            limits: self.limits_of_lifeline(),
            refused: None,
        }
    }

    /// After a step, of somebody who may issue base's tickets (`issuer`) or may not: refuses the
    /// step, or raises the lifeline.
    pub(super) fn keep_up_lifeline(
        &mut self,
        before: Before,
        issuer: bool,
    ) -> Result<Vec<Event>, Refusal> {
        if let Some(why) = before.refused {
            return Err(Refusal::Lifeline(why));
        }
        let limits = match before.limits.is_empty() {
            true => Vec::new(),
            false => self.limits_of_lifeline(),
        };
        if let Some(at) = (limits.iter().zip(&before.limits)).position(|(now, was)| now < was) {
            let path = (self.lifeline.iter())
                .flat_map(|l| &l.paths)
                .nth(at)
                .cloned()
                .unwrap_or_default();
            return Err(Refusal::Lifeline(format!(
                "a limit would count for {path:?}, which is on the lifeline"
            )));
        }
        if !issuer {
            return Ok(Vec::new());
        }
        for (r, was) in KEPT.iter().zip(before.due) {
            let due = self.due_to_lifeline(*r);
            if due > was && due > MOST_BY_OPERATIONS {
                return Err(Refusal::LimitReached(format!(
                    "base would have issued {} {} tickets, and the lifeline would need {due} \
                     beside them: it can have {MOST_BY_OPERATIONS}",
                    self.total(*r) - self.lifeline_holds(*r),
                    r.name()
                )));
            }
        }
        Ok(self.raise_lifeline())
    }

    /// The tightest limit that counts for each of its cgroups.
    fn limits_of_lifeline(&self) -> Vec<u64> {
        let Some(l) = self.lifeline.as_ref().filter(|_| self.lifeline().is_some()) else {
            return Vec::new();
        };
        let tightest = |path: &String| {
            let over = self.find(path).map(|c| self.limits_over(c));
            let milli = |c| self.limit_of(c).map(|l| l.milli);
            let all = over.unwrap_or_default().into_iter().filter_map(milli);
            all.min().unwrap_or(u64::MAX)
        };
        l.paths.iter().map(tightest).collect()
    }

    /// Why `op`, which its caller has the right to, is not done to the lifeline.
    fn refused_of_lifeline(&self, op: &Op) -> Option<String> {
        let l = self.lifeline.as_ref()?;
        let own = |name: &str| self.is_lifeline(name);
        let what = match op {
            Op::Destroy { name } if own(name) => "it stays".to_owned(),
            Op::Chmod { name, .. } | Op::Chown { name, .. } if own(name) => {
                "it is root's".to_owned()
            }
            Op::Limit { name, .. } if own(name) => "it is not limited".to_owned(),
            Op::Bind { name, path } if own(name) && !l.paths.contains(path) => {
                format!("{path:?} would have a part of what they are kept at")
            }
            Op::Unbind { name, path } if own(name) => {
                let path = path.as_ref();
                let kept = |p: &&str| path.is_none_or(|path| path == p) && l.paths.contains(*p);
                let kept = self.bindings_of(l.cid).find(kept)?;
                format!("{kept:?} stays on it")
            }
            Op::Fund { issuer, .. } | Op::Reserve { issuer, .. } | Op::Run { issuer, .. }
                if own(issuer) =>
            {
                "it gives nothing away".to_owned()
            }
            Op::Fund { holder, .. } if own(holder) => {
                "base gives it what is due to it; `tixctl reserve` guarantees more".to_owned()
            }
            Op::Reserve { holder, issuer, .. }
                if own(holder) && self.find(issuer) != Some(BASE) =>
            {
                "base alone backs it".to_owned()
            }
            Op::Unfund {
                holder, resource, ..
            } if own(holder) => {
                let due = self.due_to_lifeline(*resource);
                format!("{due} {} tickets are due to it", resource.name())
            }
            Op::Nice { giver: party, .. } | Op::Offer { party, .. } | Op::Accept { party, .. }
                if own(party) =>
            {
                "it gives nothing away".to_owned()
            }
            _ => return None,
        };
        let name = self.name(l.cid);
        Some(format!(
            "{name:?} is kept for PID 1, logins and tixd: {what}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_machine_or_half_of_what_is_not_reserved() {
        for rest in [0, 1, 100, 1_900, 262_544, MAX_AMOUNT] {
            for reserved in [0, 1, 250, 799, 800, 801, 950] {
                let (own, soft) = (lifeline_due(rest, reserved), HARD_WHOLE - reserved);
                // own / (rest + own) of the soft part.
                let part = u128::from(own) * u128::from(soft);
                let floor = u128::from(rest + own) * u128::from(PART.min(soft / 2));
                assert!(part >= floor, "{rest} beside {reserved}: {own}");
                // And no more than a ticket above that.
                let most = u128::from(rest + own) * u128::from(PART.min(soft.div_ceil(2)));
                assert!(
                    own == LEAST || part <= most + u128::from(soft),
                    "{rest}: {own}"
                );
            }
        }
    }
}
