// SPDX-License-Identifier: GPL-2.0-only
//! Names, amounts, and how much one user may make.

use super::brokers::{Caller, is_root};
use super::refusal::Act;
use super::{By, Cid, Ledger, MAX_AMOUNT, MAX_GIVEN, MAX_OWNED, Refusal, Resource, TIXD};

/// What a user has made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// Named currencies owned.
    pub currencies: usize,
    /// Tickets given.
    pub tickets: usize,
    /// Exchanges that came of it.
    pub exchanges: usize,
}

/// Root, the policy or tixd did it.
pub(super) fn is_roots(by: By) -> bool {
    is_root(by) || by == TIXD
}

/// `[a-z][a-z0-9_-]{0,62}`, and not `base`: without the label of a space.
pub(super) fn good_name(name: &str) -> bool {
    let mut b = name.bytes();
    name.len() <= 63
        && name != "base"
        && b.next().is_some_and(|c| c.is_ascii_lowercase())
        && b.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-')
}

impl Ledger {
    pub(super) fn resolve(&self, r: &str) -> Result<Cid, Refusal> {
        self.find(r).ok_or_else(|| {
            if r.starts_with('/') {
                Refusal::NoSuchCgroup(r.to_owned())
            } else {
                Refusal::NoSuchCurrency(r.to_owned())
            }
        })
    }

    pub(super) fn named(&self, name: &str, act: Act) -> Result<Cid, Refusal> {
        let cid = self.resolve(name)?;
        match self.get(cid) {
            Some(c) if !c.is_mirror() => Ok(cid),
            _ => Err(Refusal::NotNamed(name.to_owned(), act)),
        }
    }

    /// No other currency has this name, and `owner` may have one more.
    pub(super) fn free_name(&self, name: &str, owner: u32) -> Result<(), Refusal> {
        if self.find(name).is_some() {
            return Err(Refusal::AlreadyExists(name.to_owned()));
        }
        self.free_owner(owner)
    }

    /// A number that no other currency has.
    pub(super) fn free_number(&self, cid: Cid) -> Result<(), Refusal> {
        match self.get(cid) {
            Some(c) => Err(Refusal::AlreadyExists(c.name.clone())),
            None => Ok(()),
        }
    }

    /// One currency more?
    pub(super) fn free_owner(&self, owner: u32) -> Result<(), Refusal> {
        let owned = self.made.get(&owner).map_or(0, |m| m.currencies);
        if owner != 0 && owned >= MAX_OWNED {
            return Err(Refusal::LimitReached(format!(
                "uid {owner} owns {MAX_OWNED} currencies already"
            )));
        }
        Ok(())
    }

    /// One ticket more?
    pub(super) fn may_give_more(&self, caller: &Caller) -> Result<(), Refusal> {
        let given = self.made.get(&caller.uid).map_or(0, |m| m.tickets);
        if !caller.is_root() && given >= MAX_GIVEN {
            return Err(Refusal::LimitReached(format!(
                "uid {} has given {MAX_GIVEN} tickets already",
                caller.uid
            )));
        }
        Ok(())
    }

    pub(super) fn count_given(&mut self, by: By, more: bool) {
        if is_root(by) {
            return;
        }
        let made = self.made.entry(by).or_default();
        match more {
            true => made.tickets += 1,
            false => made.tickets -= 1,
        }
    }

    /// One ticket of `r` more, or less, that is no user's.
    pub(super) fn count_by_root(&mut self, by: By, r: Resource, more: bool) {
        if !is_roots(by) {
            return;
        }
        let given = &mut self.given_by_root[r.index()];
        match more {
            true => *given += 1,
            false => *given -= 1,
        }
    }

    pub(super) fn amount(amount: i64) -> Result<u64, Refusal> {
        u64::try_from(amount)
            .ok()
            .filter(|a| (1..=MAX_AMOUNT).contains(a))
            .ok_or_else(|| Refusal::BadAmount(amount.to_string()))
    }
}
