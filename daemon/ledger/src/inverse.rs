// SPDX-License-Identifier: GPL-2.0-only
//! What would take an operation back: its inverse, as of what it is about to change.
//!
//! An operation that adds is taken back by as much; one that sets, by what was set before. What
//! the inverse gives is its caller's: so there is none where it was another's before, as what
//! belongs to root outlives its cgroup, and what belongs to a user counts against that user.

use super::brokers::is_root;
use super::{BASE, Broker, By, Caller, Grant, Hard, Kind, Ledger, Op, POLICY, Ref, Resource};

impl Op {
    /// The operations that take it back, once `caller` has done it; `ledger` is as it is before.
    ///
    /// # Errors
    /// Why there are none, in words.
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

    /// Does it set what `earlier` did, to the same currency, so that taking that back would take
    /// this back, too? What adds tickets or takes them away does not.
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

/// What has lapsed goes before what is held when either is withdrawn, and for good: beside it
/// tickets given are not taken back by as many.
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

/// What is there stays what it is when more comes to it and goes again: root's and the policy's,
/// and what is the caller's own.
fn stays(by: Option<By>, uid: u32, what: &str) -> Result<(), String> {
    match by {
        Some(by) if is_root(by) => Ok(()),
        Some(by) => comes_back(by, uid, what),
        None => Ok(()),
    }
}

/// What was `by`'s comes back as that of `uid`.
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
mod tests {
    use super::super::{Caller, Cgroup, DEFAULT_MODE};
    use super::*;

    fn create(ledger: &mut Ledger, name: &str) {
        let op = Op::Create {
            cid: ledger.next_cid(),
            name: name.into(),
            owner: 0,
            group: 0,
            mode: DEFAULT_MODE,
        };
        ledger.apply(&op, &Caller::ROOT).unwrap();
    }

    fn ticket(amount: Option<i64>) -> (Op, Op) {
        let (holder, issuer) = ("a".to_owned(), "base".to_owned());
        let resource = Resource::Cpu;
        let (h, i) = (holder.clone(), issuer.clone());
        (
            Op::Fund {
                holder,
                issuer,
                resource,
                amount: amount.unwrap_or(5),
            },
            Op::Unfund {
                holder: h,
                issuer: i,
                resource,
                amount,
            },
        )
    }

    fn reserve(milli: u64) -> Op {
        Op::Reserve {
            holder: "a".into(),
            issuer: "base".into(),
            resource: Resource::Cpu,
            amount: Hard::Milli(milli),
        }
    }

    fn limit_to(milli: i64) -> Op {
        Op::Limit {
            name: "a".into(),
            resource: Resource::Cpu,
            milli,
        }
    }

    /// Each is done, and taken back by what its inverse says: all is as it was.
    #[test]
    fn an_inverse_takes_it_back() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        let (fund, unfund) = ticket(Some(7));
        ledger.apply(&fund, &Caller::ROOT).unwrap();
        ledger.apply(&reserve(100), &Caller::ROOT).unwrap();
        ledger.apply(&limit_to(300), &Caller::ROOT).unwrap();
        let name = "a".to_owned();
        let (_, all) = ticket(None);
        let unreserve = Op::Unreserve {
            holder: name.clone(),
            issuer: "base".into(),
            resource: Resource::Cpu,
        };
        let unlimit = Op::Unlimit {
            name: name.clone(),
            resource: Resource::Cpu,
        };
        let chmod = Op::Chmod {
            name: name.clone(),
            mode: 0o777,
        };
        let chown = Op::Chown {
            name,
            owner: Some(7),
            group: None,
        };
        let ops = [
            fund,
            unfund,
            all,
            reserve(200),
            unreserve,
            limit_to(20),
            unlimit,
            chmod,
            chown,
        ];
        for op in ops {
            let before = ledger.rows();
            let inverse = op.inverse(&ledger, &Caller::ROOT).unwrap();
            ledger.apply(&op, &Caller::ROOT).unwrap();
            assert_ne!(ledger.rows(), before, "{op:?}");
            assert!(!inverse.is_empty(), "{op:?}");
            for back in inverse {
                ledger.apply(&back, &Caller::ROOT).unwrap();
            }
            assert_eq!(ledger.rows(), before, "{op:?}");
        }
    }

    fn cgroup(ledger: &mut Ledger, path: &str, id: u64) {
        ledger.cgroup_here(&Cgroup {
            path,
            id,
            weight: 100,
            disk: 100,
            owner: 1000,
            group: 1000,
            inner_threads: false,
        });
    }

    fn bind(path: &str) -> Op {
        Op::Bind {
            name: "a".into(),
            path: path.into(),
        }
    }

    fn unbind(path: Option<&str>) -> Op {
        Op::Unbind {
            name: "a".into(),
            path: path.map(str::to_owned),
        }
    }

    /// What changes nothing, and what would be too much for one turn, has none.
    #[test]
    fn what_has_no_inverse() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        let back = |op: Op, ledger: &Ledger| op.inverse(ledger, &Caller::ROOT);
        for (id, path) in [(7, "/x"), (8, "/y")] {
            cgroup(&mut ledger, path, id);
            assert_eq!(back(bind(path), &ledger), Ok(vec![unbind(Some(path))]));
            ledger.apply(&bind(path), &Caller::ROOT).unwrap();
            assert_eq!(back(bind(path), &ledger), Ok(vec![]));
        }
        assert_eq!(back(unbind(Some("/x")), &ledger), Ok(vec![bind("/x")]));
        let why = back(unbind(None), &ledger).unwrap_err();
        assert!(why.starts_with("a was bound to several cgroups"), "{why}");
    }

    /// What another gave comes back as the other's, or not at all.
    #[test]
    fn nothing_comes_back_as_anothers() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        let all = Op::Chmod {
            name: "a".into(),
            mode: 0o777,
        };
        ledger.apply(&all, &Caller::ROOT).unwrap();
        for (path, id) in [("/x", 7), ("/y", 8)] {
            cgroup(&mut ledger, path, id);
        }
        let (root, policy, user) = (Caller::ROOT, Caller::POLICY, Caller::user(1000));
        let of_y = |amount: Option<i64>| {
            let (fund, unfund) = ticket(amount);
            [fund, unfund].map(|op| match op {
                Op::Fund {
                    resource, amount, ..
                } => Op::Fund {
                    holder: "a".into(),
                    issuer: "/y".into(),
                    resource,
                    amount,
                },
                Op::Unfund {
                    resource, amount, ..
                } => Op::Unfund {
                    holder: "a".into(),
                    issuer: "/y".into(),
                    resource,
                    amount,
                },
                other => other,
            })
        };
        let unlimit = Op::Unlimit {
            name: "a".into(),
            resource: Resource::Cpu,
        };
        let ([fund, some], [_, all]) = (of_y(Some(5)), of_y(None));
        for op in [&bind("/x"), &fund, &limit_to(300)] {
            ledger.apply(op, &user).unwrap();
        }
        let others = [
            unbind(Some("/x")),
            unbind(None),
            bind("/x"),
            fund.clone(),
            all.clone(),
            limit_to(20),
            unlimit,
        ];
        for op in &others {
            let why = op.inverse(&ledger, &root).unwrap_err();
            assert!(
                why.ends_with("that uid 1000 gave would come back as root's"),
                "{op:?}: {why}"
            );
            assert!(op.inverse(&ledger, &user).is_ok(), "{op:?}");
        }
        // A part of what root gave is root's still, whoever else takes and gives it.
        ledger.apply(&all, &user).unwrap();
        ledger.apply(&fund, &policy).unwrap();
        ledger.apply(&fund, &policy).unwrap();
        assert_eq!(some.inverse(&ledger, &root), Ok(vec![fund.clone()]));
        let why = all.inverse(&ledger, &root).unwrap_err();
        assert!(why.contains("a policy gave"), "{why}");
    }

    #[test]
    fn an_owner_is_named_who_was_one() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        cgroup(&mut ledger, "/x", 7);
        let give = |name: &str, owner: u32| Op::Chown {
            name: name.into(),
            owner: Some(owner),
            group: None,
        };
        let back = |op: &Op, ledger: &Ledger| op.inverse(ledger, &Caller::ROOT);
        assert_eq!(back(&give("a", 7), &ledger), Ok(vec![give("a", 0)]));
        // Whose a cgroup is its directory says, until somebody else has said it.
        let why = back(&give("/x", 7), &ledger).unwrap_err();
        assert!(why.contains("`tixctl chown 1000 /x`"), "{why}");
        ledger.apply(&give("/x", 7), &Caller::ROOT).unwrap();
        assert_eq!(back(&give("/x", 8), &ledger), Ok(vec![give("/x", 7)]));
        // What a user has said of a cgroup goes with it, unless root says something.
        cgroup(&mut ledger, "/y", 8);
        let permit = Op::Chmod {
            name: "/y".into(),
            mode: 0o770,
        };
        ledger.apply(&permit, &Caller::user(1000)).unwrap();
        let why = back(&permit, &ledger).unwrap_err();
        assert!(why.contains("that uid 1000 gave"), "{why}");
        assert_eq!(
            permit.inverse(&ledger, &Caller::user(1000)),
            Ok(vec![permit.clone()])
        );
    }

    /// What nobody holds any more goes first, and for good.
    #[test]
    fn what_has_lapsed_is_not_given_back() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        let (fund, some) = ticket(Some(5));
        ledger.apply(&fund, &Caller::ROOT).unwrap();
        ledger.apply(&fund, &Caller::ROOT).unwrap();
        let give = Op::Chown {
            name: "a".into(),
            owner: Some(1000),
            group: None,
        };
        ledger.apply(&give, &Caller::ROOT).unwrap();
        assert_eq!(some.inverse(&ledger, &Caller::ROOT), Ok(vec![fund.clone()]));
        ledger.apply(&some, &Caller::user(1000)).unwrap();
        assert_eq!(ledger.lapsed("a", Resource::Cpu), 5);
        let (_, all) = ticket(None);
        for op in [&fund, &some, &all] {
            let why = op.inverse(&ledger, &Caller::ROOT).unwrap_err();
            assert!(
                why.contains("had given up tickets of base"),
                "{op:?}: {why}"
            );
        }
        // Of another issuer there is nothing that has lapsed.
        let other = Op::Unfund {
            holder: "a".into(),
            issuer: "b".into(),
            resource: Resource::Cpu,
            amount: Some(5),
        };
        assert_eq!(other.inverse(&ledger, &Caller::ROOT), Ok(vec![]));
    }

    #[test]
    fn what_sets_overrides_and_what_adds_does_not() {
        let (fund, unfund) = ticket(Some(7));
        let other = Op::Reserve {
            holder: "a".into(),
            issuer: "b".into(),
            resource: Resource::Cpu,
            amount: Hard::Milli(1),
        };
        let destroy = Op::Destroy { name: "a".into() };
        for (earlier, later, overrides) in [
            (&fund, &unfund, false),
            (&fund, &destroy, true),
            (&reserve(100), &reserve(200), true),
            (&reserve(100), &other, false),
            (&limit_to(20), &limit_to(30), true),
            (&limit_to(20), &fund, false),
            (&fund, &limit_to(20), false),
        ] {
            assert_eq!(later.overrides(earlier), overrides, "{earlier:?} {later:?}");
        }
    }
}
