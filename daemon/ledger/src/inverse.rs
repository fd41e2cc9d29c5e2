// SPDX-License-Identifier: GPL-2.0-only
//! What would take an operation back: its inverse, as of what it is about to change.
//!
//! An operation that adds is taken back by as much; one that sets, by what was set before. What
//! destroys has no inverse: the tickets that went with it are told of nowhere.

use super::{Grant, Hard, Kind, Ledger, Op, Ref, Resource};

impl Op {
    /// The operations that take it back, once it is done; `ledger` is as it is before. None: it
    /// cannot be taken back by operations, or changes nothing.
    pub fn inverse(&self, ledger: &Ledger) -> Vec<Op> {
        let one = match self {
            Op::Create { .. } => None,
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => Some(Op::Unfund {
                holder: holder.clone(),
                issuer: issuer.clone(),
                resource: *resource,
                amount: Some(*amount),
            }),
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => {
                let had = held(ledger, holder, issuer, *resource, Kind::Soft);
                let amount = amount.or(had.map(|grant| grant.amount.cast_signed()));
                // What has lapsed goes first, and cannot be given back.
                let amount = amount.filter(|_| ledger.lapsed(holder, *resource) == 0);
                amount.map(|amount| Op::Fund {
                    holder: holder.clone(),
                    issuer: issuer.clone(),
                    resource: *resource,
                    amount,
                })
            }
            Op::Reserve {
                holder,
                issuer,
                resource,
                ..
            }
            | Op::Unreserve {
                holder,
                issuer,
                resource,
            } => Some(guarantee(ledger, holder, issuer, *resource)),
            Op::Limit { name, resource, .. } | Op::Unlimit { name, resource } => {
                Some(limit(ledger, name, *resource))
            }
            Op::Bind { name, path } if is_bound(ledger, name, path) => None,
            Op::Bind { name, path } => Some(Op::Unbind {
                name: name.clone(),
                path: Some(path.clone()),
            }),
            Op::Unbind { name, path } => {
                return unbound(ledger, name, path.as_deref());
            }
            Op::Chmod { name, .. } => currency(ledger, name).map(|c| Op::Chmod {
                name: name.clone(),
                mode: c.mode,
            }),
            Op::Chown { name, owner, group } => currency(ledger, name).map(|c| Op::Chown {
                name: name.clone(),
                owner: owner.map(|_| c.owner),
                group: group.map(|_| c.group),
            }),
            Op::Offer { id, .. } => Some(Op::Cancel { id: *id }),
            Op::Destroy { .. }
            | Op::Run { .. }
            | Op::Nice { .. }
            | Op::Accept { .. }
            | Op::Amend { .. }
            | Op::Cancel { .. }
            | Op::Expire { .. } => None,
        };
        one.into_iter().collect()
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

fn is_bound(ledger: &Ledger, name: &str, path: &str) -> bool {
    let mut all = ledger
        .find(name)
        .into_iter()
        .flat_map(|cid| ledger.bindings_of(cid));
    all.any(|bound| bound == path)
}

/// What binds it again to what it will not be bound to any more. To several: none, as each costs
/// what a binding does, and an operation is taken back in one turn.
fn unbound(ledger: &Ledger, name: &str, path: Option<&str>) -> Vec<Op> {
    let all = ledger.find(name).into_iter();
    let all = all.flat_map(|cid| ledger.bindings_of(cid));
    let mut gone = all.filter(|bound| path.is_none_or(|path| path == *bound));
    match (gone.next(), gone.next()) {
        (Some(bound), None) => vec![Op::Bind {
            name: name.to_owned(),
            path: bound.to_owned(),
        }],
        _ => Vec::new(),
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
            let inverse = op.inverse(&ledger);
            ledger.apply(&op, &Caller::ROOT).unwrap();
            assert_ne!(ledger.rows(), before, "{op:?}");
            assert!(!inverse.is_empty(), "{op:?}");
            for back in inverse {
                ledger.apply(&back, &Caller::ROOT).unwrap();
            }
            assert_eq!(ledger.rows(), before, "{op:?}");
        }
    }

    /// What changes nothing, and what would be too much for one turn, has none.
    #[test]
    fn what_has_no_inverse() {
        let mut ledger = Ledger::new(1, 1 << 30);
        create(&mut ledger, "a");
        let bind = |path: &str| Op::Bind {
            name: "a".into(),
            path: path.into(),
        };
        let unbind = |path: Option<&str>| Op::Unbind {
            name: "a".into(),
            path: path.map(str::to_owned),
        };
        for (id, path) in [(7, "/x"), (8, "/y")] {
            ledger.cgroup_here(&Cgroup {
                path,
                id,
                weight: 100,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
            assert_eq!(bind(path).inverse(&ledger), [unbind(Some(path))]);
            ledger.apply(&bind(path), &Caller::ROOT).unwrap();
            assert_eq!(bind(path).inverse(&ledger), []);
        }
        assert_eq!(unbind(Some("/x")).inverse(&ledger), [bind("/x")]);
        assert_eq!(unbind(None).inverse(&ledger), []);
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
