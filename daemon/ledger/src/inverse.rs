// SPDX-License-Identifier: GPL-2.0-only
//! What would take an operation back: its inverse, as of what it is about to change.
//!
//! An operation that adds is taken back by as much; one that sets, by what was set before. Whoever
//! takes something back becomes the giver of what comes back. Where another had given it there is
//! no inverse: root's gifts outlive their cgroup, and a user's count against that user's quota.

use super::brokers::is_root;
use super::{BASE, Broker, By, Caller, Grant, Hard, Kind, Ledger, Op, POLICY, Ref, Resource};

impl Op {
    /// The operations that take it back, once `caller` has done it; `ledger` is as it is before.
    ///
    /// None where it changes nothing, and where the service decides (`server/undo.rs`).
    ///
    /// # Errors
    /// It has an opposite that must not be used here: why, in words.
    pub fn inverse(&self, ledger: &Ledger, caller: &Caller) -> Result<Vec<Op>, String> {
        let uid = caller.uid;
        let one = match self {
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                nothing_lapsed(ledger, caller, (holder, issuer), *resource)?;
                let had = held(ledger, holder, issuer, *resource, Kind::Soft);
                stays(had.map(|grant| grant.by), uid, "tickets")?;
                Op::Unfund {
                    holder: holder.clone(),
                    issuer: issuer.clone(),
                    resource: *resource,
                    amount: Some(*amount),
                }
            }
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                nothing_lapsed(ledger, caller, (holder, issuer), *resource)?;
                let had = held(ledger, holder, issuer, *resource, Kind::Soft);
                let Some(had) = had else {
                    return Ok(Vec::new());
                };
                let amount = amount.unwrap_or(had.amount.cast_signed());
                // What is left says whose it is.
                match amount.cast_unsigned() < had.amount {
                    true => stays(Some(had.by), uid, "tickets")?,
                    false => comes_back(had.by, uid, "tickets")?,
                }
                Op::Fund {
                    holder: holder.clone(),
                    issuer: issuer.clone(),
                    resource: *resource,
                    amount,
                }
            }
            Op::Reserve {
                holder,
                issuer,
                resource,
                ..
            } => {
                let had = held(ledger, holder, issuer, *resource, Kind::Hard);
                stays(had.map(|grant| grant.by), uid, "a guarantee")?;
                guarantee(ledger, holder, issuer, *resource)
            }
            Op::Unreserve {
                holder,
                issuer,
                resource,
            } => {
                if let Some(had) = held(ledger, holder, issuer, *resource, Kind::Hard) {
                    comes_back(had.by, uid, "a guarantee")?;
                }
                guarantee(ledger, holder, issuer, *resource)
            }
            Op::Limit { name, resource, .. } | Op::Unlimit { name, resource } => {
                let had = ledger.find(name).and_then(|cid| ledger.limit_of(cid));
                if let Some(had) = had {
                    comes_back(had.by, uid, "a limit")?;
                }
                limit(ledger, name, *resource)
            }
            Op::Bind { name, path } => {
                if let Some(known) = ledger.binding(path) {
                    stays(Some(known.by), uid, "a binding")?;
                    return Ok(Vec::new());
                }
                Op::Unbind {
                    name: name.clone(),
                    path: Some(path.clone()),
                }
            }
            Op::Unbind { name, path } => return unbound(ledger, name, path.as_deref(), uid),
            Op::Chmod { name, .. } => {
                let Some(c) = currency(ledger, name) else {
                    return Ok(Vec::new());
                };
                let said = c.mirror.as_ref().and_then(|m| ledger.said_of(&m.path));
                stays(said.map(|said| said.by), uid, "a mode or an owner")?;
                Op::Chmod {
                    name: name.clone(),
                    mode: c.mode,
                }
            }
            Op::Chown { name, owner, group } => {
                let Some(c) = currency(ledger, name) else {
                    return Ok(Vec::new());
                };
                let said = c.mirror.as_ref().map(|m| ledger.said_of(&m.path));
                let by = said.flatten().map(|said| said.by);
                stays(by, uid, "a mode or an owner")?;
                let (word, its) = (
                    tix_model::shell::word(name),
                    "of the cgroup was its directory's",
                );
                let follows = |which: fn(Broker) -> Option<u32>| {
                    said.is_some_and(|said| said.and_then(which).is_none())
                };
                if owner.is_some() && follows(|said| said.owner) {
                    return Err(format!(
                        "the owner {its}, whoever that would be later; `tixctl chown {} {word}` \
                         sets the one of then",
                        c.owner
                    ));
                }
                if group.is_some() && follows(|said| said.group) {
                    return Err(format!(
                        "the group {its}, whichever that would be later; `tixctl chgrp {} {word}` \
                         sets the one of then",
                        c.group
                    ));
                }
                Op::Chown {
                    name: name.clone(),
                    owner: owner.map(|_| c.owner),
                    group: group.map(|_| c.group),
                }
            }
            Op::Offer { id, .. } => Op::Cancel { id: *id },
            Op::Create { .. }
            | Op::Destroy { .. }
            | Op::Run { .. }
            | Op::Nice { .. }
            | Op::Accept { .. }
            | Op::Amend { .. }
            | Op::Cancel { .. }
            | Op::Expire { .. } => return Ok(Vec::new()),
        };
        Ok(vec![one])
    }

    /// Would taking `earlier` back also take this back, as both set the same thing? That both are
    /// of the same currency the caller has seen to. What adds tickets or takes them away does not.
    pub fn overrides(&self, earlier: &Op) -> bool {
        let ticket = |op: &Op| match op {
            Op::Reserve {
                issuer, resource, ..
            }
            | Op::Unreserve {
                issuer, resource, ..
            } => Some((issuer.clone(), *resource)),
            _ => None,
        };
        let bound = |op: &Op| match op {
            Op::Bind { path, .. } => Some(Some(path.clone())),
            Op::Unbind { path, .. } => Some(path.clone()),
            _ => None,
        };
        match (earlier, self) {
            // What was created is of use by now.
            (Op::Create { .. }, _) => true,
            (Op::Limit { .. } | Op::Unlimit { .. }, Op::Limit { .. } | Op::Unlimit { .. })
            | (Op::Chmod { .. }, Op::Chmod { .. })
            | (Op::Chown { .. }, Op::Chown { .. })
            | (_, Op::Destroy { .. }) => true,
            _ if ticket(earlier).is_some() => ticket(earlier) == ticket(self),
            _ => match (bound(earlier), bound(self)) {
                (Some(Some(one)), Some(Some(other))) => one == other,
                (Some(_), Some(_)) => true,
                _ => false,
            },
        }
    }
}

fn currency<'a>(ledger: &'a Ledger, name: &Ref) -> Option<&'a super::Currency> {
    ledger.find(name).and_then(|cid| ledger.get(cid))
}

fn held(
    ledger: &Ledger,
    holder: &Ref,
    issuer: &Ref,
    resource: Resource,
    kind: Kind,
) -> Option<Grant> {
    let (holder, issuer) = ledger.find(holder).zip(ledger.find(issuer))?;
    ledger.held(holder, issuer, resource, kind)
}

/// What sets a guarantee to what it is.
fn guarantee(ledger: &Ledger, holder: &Ref, issuer: &Ref, resource: Resource) -> Op {
    let (h, i) = (holder.clone(), issuer.clone());
    match held(ledger, holder, issuer, resource, Kind::Hard) {
        Some(grant) => Op::Reserve {
            holder: h,
            issuer: i,
            resource,
            amount: match grant.bytes {
                true => Hard::Bytes(grant.amount),
                false => Hard::Milli(grant.amount),
            },
        },
        None => Op::Unreserve {
            holder: h,
            issuer: i,
            resource,
        },
    }
}

/// What sets a limit to what it is.
fn limit(ledger: &Ledger, name: &Ref, resource: Resource) -> Op {
    match ledger.find(name).and_then(|cid| ledger.limit_of(cid)) {
        Some(limit) => Op::Limit {
            name: name.clone(),
            resource,
            milli: limit.milli.cast_signed(),
        },
        None => Op::Unlimit {
            name: name.clone(),
            resource,
        },
    }
}

/// Refuses where the holder has lapsed tickets (given up, not withdrawn yet): a withdrawal takes
/// these first, so that giving some and taking as many back would not leave what was before.
fn nothing_lapsed(
    ledger: &Ledger,
    caller: &Caller,
    (holder, issuer): (&Ref, &Ref),
    resource: Resource,
) -> Result<(), String> {
    let of_base = ledger.find(issuer) == Some(BASE) && ledger.issues_base(caller);
    match of_base && ledger.lapsed(holder, resource) > 0 {
        false => Ok(()),
        true => Err(format!(
            "{holder} had given up tickets of base, which are withdrawn first and for good"
        )),
    }
}

/// More is added to a gift, or taken from it, and its giver stays: may `uid` take that back? What
/// root's or the policy's is anybody may who could change it, else what is one's own.
fn stays(by: Option<By>, uid: u32, what: &str) -> Result<(), String> {
    match by {
        Some(by) if is_root(by) => Ok(()),
        Some(by) => comes_back(by, uid, what),
        None => Ok(()),
    }
}

/// What comes back has `uid` as its giver: refused unless it had before.
fn comes_back(by: By, uid: u32, what: &str) -> Result<(), String> {
    if by == uid {
        return Ok(());
    }
    let who = |uid: By| match uid {
        0 => "root".to_owned(),
        POLICY => "a policy".to_owned(),
        uid => format!("uid {uid}"),
    };
    let (giver, taker) = (who(by), who(uid));
    Err(format!(
        "{what} that {giver} gave would come back as {taker}'s"
    ))
}

/// What binds it again to what it will not be bound to any more. To several: none, as each costs
/// what a binding does, and an operation is taken back in one turn.
fn unbound(ledger: &Ledger, name: &str, path: Option<&str>, uid: u32) -> Result<Vec<Op>, String> {
    let all = ledger.find(name).into_iter();
    let all = all.flat_map(|cid| ledger.bindings_of(cid));
    let mut gone = all.filter(|bound| path.is_none_or(|path| path == *bound));
    match (gone.next(), gone.next()) {
        (Some(bound), None) => {
            if let Some(known) = ledger.binding(bound) {
                comes_back(known.by, uid, "a binding")?;
            }
            Ok(vec![Op::Bind {
                name: name.to_owned(),
                path: bound.to_owned(),
            }])
        }
        (Some(_), Some(_)) => Err(format!(
            "{name} was bound to several cgroups; `tixctl bind` binds it to one"
        )),
        (None, _) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
