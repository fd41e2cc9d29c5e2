// SPDX-License-Identifier: GPL-2.0-only
//! Who may do what to whom: names resolved, owners compared.

use super::{Cid, Ledger, MAX_AMOUNT, MAX_OWNED, Refusal};

/// `[a-z][a-z0-9_-]{0,62}`, and not `base`.
fn good_name(name: &str) -> bool {
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

    pub(super) fn named(&self, name: &str) -> Result<Cid, Refusal> {
        let cid = self.resolve(name)?;
        match self.get(cid) {
            Some(c) if !c.is_mirror() => Ok(cid),
            _ => Err(Refusal::NotNamed(name.to_owned())),
        }
    }

    pub(super) fn own(&self, uid: u32, cid: Cid, what: String) -> Result<(), Refusal> {
        match self.get(cid) {
            Some(c) if uid == 0 || c.owner == uid => Ok(()),
            Some(c) => Err(Refusal::NotPermitted {
                uid,
                what,
                why: format!("{:?} belongs to uid {}", c.name, c.owner),
            }),
            None => Err(Refusal::NoSuchCurrency(cid.to_string())),
        }
    }

    pub(super) fn free_name(&self, name: &str, owner: u32) -> Result<(), Refusal> {
        if !good_name(name) {
            return Err(Refusal::BadName(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(Refusal::AlreadyExists(name.to_owned()));
        }
        if owner != 0
            && self
                .iter()
                .filter(|(_, c)| !c.is_mirror() && c.owner == owner)
                .count()
                >= MAX_OWNED
        {
            return Err(Refusal::LimitReached(format!(
                "uid {owner} owns {MAX_OWNED} currencies already"
            )));
        }
        Ok(())
    }

    pub(super) fn amount(amount: i64) -> Result<u64, Refusal> {
        u64::try_from(amount)
            .ok()
            .filter(|a| (1..=MAX_AMOUNT).contains(a))
            .ok_or_else(|| Refusal::BadAmount(amount.to_string()))
    }
}
