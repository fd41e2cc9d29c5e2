// SPDX-License-Identifier: GPL-2.0-only
//! Operations: a value in, a refusal or a list of events out.
//!
//! An [`Op`] names things as people do. Checking it gives a [`Plan`], in which the names are looked up and nothing can be refused
//! any more; carrying that out gives events.

use super::{
    BASE, Binding, Cid, Currency, Event, Ledger, MAX_AMOUNT, MAX_BINDINGS, Refusal, Resource,
};
use serde::{Deserialize, Serialize};

/// A currency as the journal names it: by name, or by cgroup path (beginning with `/`; base is `base`).
pub type Ref = String;

/// What can be asked of the ledger. This is what the journal holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Create {
        cid: Cid,
        name: String,
        owner: u32,
    },
    Destroy {
        name: String,
    },
    Fund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: i64,
    },
    Unfund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: Option<i64>,
    },
    Bind {
        name: String,
        path: String,
    },
    Unbind {
        name: String,
        path: Option<String>,
    },
    /// A currency for one run: created, funded and bound at once, gone with the cgroup.
    Run {
        cid: Cid,
        name: String,
        owner: u32,
        issuer: Ref,
        amount: i64,
        path: String,
    },
    /// The cgroup went: so do the grants and bindings that root did not make.
    Wilt {
        path: String,
    },
}

/// An operation that is allowed, with what its names stand for.
enum Plan<'a> {
    Create {
        cid: Cid,
        currency: Currency,
    },
    Destroy {
        cid: Cid,
    },
    Grant {
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        amount: u64,
    },
    Withdraw {
        holder: Cid,
        issuer: Cid,
        resource: Resource,
        /// `None`: all of it.
        amount: Option<u64>,
    },
    Bind {
        name: Cid,
        cgroup: Cid,
        path: &'a str,
    },
    Unbind {
        name: Cid,
        paths: Vec<String>,
    },
    Run {
        cid: Cid,
        currency: Currency,
        issuer: Cid,
        amount: u64,
        cgroup: Cid,
        path: &'a str,
    },
    Wilt {
        path: &'a str,
    },
}

impl Ledger {
    /// May `uid` do this now? Changes nothing.
    pub fn check(&self, op: &Op, uid: u32) -> Result<(), Refusal> {
        self.plan(op, uid).map(drop)
    }

    /// Check and do it. `uid` is whoever asked (0 for what tixd does of itself).
    pub fn apply(&mut self, op: &Op, uid: u32) -> Result<Vec<Event>, Refusal> {
        let plan = self.plan(op, uid)?;
        Ok(self.perform(plan, uid == 0))
    }

    fn plan<'a>(&self, op: &'a Op, uid: u32) -> Result<Plan<'a>, Refusal> {
        match op {
            Op::Create { cid, name, owner } => {
                self.free_name(name, *owner)?;
                Ok(Plan::Create {
                    cid: *cid,
                    currency: Currency::new(name, *owner),
                })
            }
            Op::Destroy { name } => self.plan_destroy(name, uid),
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => self.plan_grant(holder, issuer, *resource, *amount, uid),
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => self.plan_withdraw(holder, issuer, *resource, *amount, uid),
            Op::Bind { name, path } => self.plan_bind(name, path, uid),
            Op::Unbind { name, path } => self.plan_unbind(name, path.as_deref(), uid),
            Op::Run {
                cid,
                name,
                owner,
                issuer,
                amount,
                path,
            } => {
                let amount = Self::amount(*amount)?;
                self.free_name(name, *owner)?;
                let i = self.resolve(issuer)?;
                self.own(uid, i, format!("issue tickets of {issuer:?}"))?;
                let cgroup = self.bindable(uid, None, path)?;
                // The new currency sits between the two: no cycle but this one, and one edge more of depth, which check_edge refuses
                // late by at most one; the kernel's limit has the room.
                self.check_edge(i, cgroup, Resource::Cpu)?;
                let mut currency = Currency::new(name, *owner);
                currency.transient = Some(path.clone());
                Ok(Plan::Run {
                    cid: *cid,
                    currency,
                    issuer: i,
                    amount,
                    cgroup,
                    path,
                })
            }
            Op::Wilt { path } => Ok(Plan::Wilt { path }),
        }
    }

    fn plan_destroy(&self, name: &str, uid: u32) -> Result<Plan<'static>, Refusal> {
        let cid = self.named(name)?;
        let what = format!("destroy {name:?}");
        self.own(uid, cid, what.clone())?;
        let by_base = self
            .get(cid)
            .is_some_and(|c| c.grants(Resource::Cpu).iter().any(|g| g.issuer == BASE));
        if uid != 0 && by_base {
            let why = "base funds it, and only root changes what base has issued".to_owned();
            return Err(Refusal::NotPermitted { uid, what, why });
        }
        for path in self.bindings_of(cid) {
            self.may_unbind(uid, path, &what)?;
        }
        Ok(Plan::Destroy { cid })
    }

    fn plan_grant(
        &self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: i64,
        uid: u32,
    ) -> Result<Plan<'static>, Refusal> {
        let amount = Self::amount(amount)?;
        let (h, i) = self.ticket(holder, issuer, resource, "issue", uid)?;
        let sum = self.held(h, i, resource) + amount;
        if sum > MAX_AMOUNT {
            return Err(Refusal::BadAmount(sum.to_string()));
        }
        self.check_edge(i, h, resource)?;
        Ok(Plan::Grant {
            holder: h,
            issuer: i,
            resource,
            amount,
        })
    }

    fn plan_withdraw(
        &self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: Option<i64>,
        uid: u32,
    ) -> Result<Plan<'static>, Refusal> {
        let amount = amount.map(Self::amount).transpose()?;
        let (h, i) = self.ticket(holder, issuer, resource, "withdraw", uid)?;
        let has = self.held(h, i, resource);
        match amount {
            _ if has == 0 => Err(Refusal::NotFunded {
                holder: holder.to_owned(),
                issuer: issuer.to_owned(),
            }),
            Some(asked) if asked > has => Err(Refusal::TooFew {
                holder: holder.to_owned(),
                issuer: issuer.to_owned(),
                has,
                asked,
            }),
            _ => Ok(Plan::Withdraw {
                holder: h,
                issuer: i,
                resource,
                amount,
            }),
        }
    }

    /// Holder and issuer of a ticket that `uid` may issue or withdraw.
    fn ticket(
        &self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        verb: &str,
        uid: u32,
    ) -> Result<(Cid, Cid), Refusal> {
        let (h, i) = (self.resolve(holder)?, self.resolve(issuer)?);
        if resource != Resource::Cpu {
            return Err(Refusal::UnsupportedResource(resource));
        }
        self.own(uid, i, format!("{verb} tickets of {issuer:?}"))?;
        Ok((h, i))
    }

    fn plan_bind<'a>(&self, name: &str, path: &'a str, uid: u32) -> Result<Plan<'a>, Refusal> {
        let cid = self.named(name)?;
        self.own(uid, cid, format!("bind {name:?}"))?;
        let cgroup = self.bindable(uid, Some(cid), path)?;
        if self.bindings_of(cid).count() >= MAX_BINDINGS {
            return Err(Refusal::LimitReached(format!(
                "{name:?} is bound to {MAX_BINDINGS} cgroups already"
            )));
        }
        self.check_edge(cid, cgroup, Resource::Cpu)?;
        Ok(Plan::Bind {
            name: cid,
            cgroup,
            path,
        })
    }

    fn plan_unbind(
        &self,
        name: &str,
        path: Option<&str>,
        uid: u32,
    ) -> Result<Plan<'static>, Refusal> {
        let cid = self.named(name)?;
        let what = format!("unbind {name:?}");
        self.own(uid, cid, what.clone())?;
        let paths: Vec<String> = self
            .bindings_of(cid)
            .filter(|p| path.is_none_or(|wanted| wanted == *p))
            .map(str::to_owned)
            .collect();
        if paths.is_empty() {
            return Err(Refusal::NotBound {
                name: name.to_owned(),
                target: path.unwrap_or("any cgroup").to_owned(),
            });
        }
        for path in &paths {
            self.may_unbind(uid, path, &what)?;
        }
        Ok(Plan::Unbind { name: cid, paths })
    }

    fn perform(&mut self, plan: Plan<'_>, by_root: bool) -> Vec<Event> {
        match plan {
            Plan::Create { cid, currency } => vec![self.create(cid, currency)],
            Plan::Destroy { cid } => {
                let Some(name) = self.get(cid).map(|c| c.name.clone()) else {
                    return vec![];
                };
                let paths: Vec<String> = self.bindings_of(cid).map(str::to_owned).collect();
                let mut events: Vec<Event> = paths.iter().map(|p| self.unbind(cid, p)).collect();
                events.extend(self.drop_grants(cid, |_| true));
                self.waiting
                    .retain(|w| w.issuer != name && w.holder != name);
                self.remove_currency(cid);
                events.push(Event::Destroyed { cid, name });
                events
            }
            Plan::Grant {
                holder,
                issuer,
                resource,
                amount,
            } => vec![self.grant(holder, issuer, resource, amount, by_root)],
            Plan::Withdraw {
                holder,
                issuer,
                resource,
                amount,
            } => vec![self.withdraw(holder, issuer, resource, amount)],
            Plan::Bind { name, cgroup, path } => {
                self.bind(name, cgroup, path, by_root).into_iter().collect()
            }
            Plan::Unbind { name, paths } => paths.iter().map(|p| self.unbind(name, p)).collect(),
            Plan::Run {
                cid,
                currency,
                issuer,
                amount,
                cgroup,
                path,
            } => {
                let created = self.create(cid, currency);
                let funded = self.grant(cid, issuer, Resource::Cpu, amount, by_root);
                // Not root's, whoever runs it: it goes with the cgroup.
                let bound = self.bind(cid, cgroup, path, false);
                [created, funded].into_iter().chain(bound).collect()
            }
            Plan::Wilt { path } => {
                let mut events = Vec::new();
                if let Some(&Binding { name, .. }) = self.bindings.get(path).filter(|b| !b.by_root)
                {
                    events.push(self.unbind(name, path));
                }
                if let Some(cid) = self.find(path) {
                    events.extend(self.drop_grants(cid, |g| !g.by_root));
                }
                events
            }
        }
    }

    fn create(&mut self, cid: Cid, currency: Currency) -> Event {
        let name = currency.name.clone();
        self.insert(cid, currency);
        Event::Created { cid, name }
    }
}
