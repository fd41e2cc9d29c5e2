// SPDX-License-Identifier: GPL-2.0-only
//! Operations: a value in, a refusal or a list of events out. An operation names things as people do.

use super::{Caller, Cid, Event, Hard, Ledger, Refusal, Resource};
use serde::{Deserialize, Serialize};

/// A currency as people name it: by name, or by cgroup path (beginning with `/`; base is `base`).
pub type Ref = String;

/// What can be asked of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Create {
        cid: Cid,
        name: String,
        owner: u32,
        group: u32,
        mode: u16,
    },
    Destroy {
        name: String,
    },
    /// So many soft tickets more.
    Fund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: i64,
    },
    /// So many fewer; without an amount none are left.
    Unfund {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: Option<i64>,
    },
    /// A hard ticket of this size, whatever it was before.
    Reserve {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
        amount: Hard,
    },
    Unreserve {
        holder: Ref,
        issuer: Ref,
        resource: Resource,
    },
    Bind {
        name: String,
        path: String,
    },
    Unbind {
        name: String,
        path: Option<String>,
    },
    Chmod {
        name: Ref,
        mode: u16,
    },
    /// Another owner (root's to do) or group.
    Chown {
        name: Ref,
        owner: Option<u32>,
        group: Option<u32>,
    },
    /// A currency for one run: created, funded and bound at once, gone with the cgroup.
    Run {
        cid: Cid,
        name: String,
        issuer: Ref,
        amount: i64,
        path: String,
    },
    /// The same with base tickets, which `giver` gives up for as long (Sullivan §3.4).
    Nice {
        cid: Cid,
        name: String,
        giver: Ref,
        amount: Part,
        path: String,
    },
}

/// How much of a currency's rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Base tickets.
    Tickets(i64),
    /// Thousandths of what it is entitled to.
    Milli(i64),
}

impl Op {
    /// What it is called in the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Op::Create { .. } => "create",
            Op::Destroy { .. } => "destroy",
            Op::Fund { .. } => "fund",
            Op::Unfund { .. } => "unfund",
            Op::Reserve { .. } => "reserve",
            Op::Unreserve { .. } => "unreserve",
            Op::Bind { .. } => "bind",
            Op::Unbind { .. } => "unbind",
            Op::Chmod { .. } => "chmod",
            Op::Chown { .. } => "chown",
            Op::Run { .. } => "run",
            Op::Nice { .. } => "nice",
        }
    }

    /// Whom it is done to.
    pub fn subject(&self) -> &str {
        match self {
            Op::Create { name, .. }
            | Op::Destroy { name }
            | Op::Bind { name, .. }
            | Op::Unbind { name, .. }
            | Op::Chmod { name, .. }
            | Op::Chown { name, .. }
            | Op::Run { name, .. }
            | Op::Nice { name, .. } => name,
            Op::Fund { holder, .. }
            | Op::Unfund { holder, .. }
            | Op::Reserve { holder, .. }
            | Op::Unreserve { holder, .. } => holder,
        }
    }
}

impl Ledger {
    /// Check and do it, or refuse and leave everything as it was.
    pub fn apply(&mut self, op: &Op, caller: &Caller) -> Result<Vec<Event>, Refusal> {
        let mark = self.mark();
        let done = self.perform(op, caller);
        if done.is_err() {
            self.undo(mark);
        }
        let mut events = done?;
        events.extend(self.revoke_overdrawn());
        Ok(events)
    }

    fn perform(&mut self, op: &Op, caller: &Caller) -> Result<Vec<Event>, Refusal> {
        match op {
            Op::Create {
                cid,
                name,
                owner,
                group,
                mode,
            } => self.do_create(caller, *cid, name, (*owner, *group, *mode)),
            Op::Destroy { name } => self.do_destroy(caller, name),
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            } => self.do_fund(caller, holder, issuer, *resource, *amount),
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount,
            } => self.do_unfund(caller, holder, issuer, *resource, *amount),
            Op::Reserve {
                holder,
                issuer,
                resource,
                amount,
            } => self.do_reserve(caller, holder, issuer, *resource, *amount),
            Op::Unreserve {
                holder,
                issuer,
                resource,
            } => self.do_unreserve(caller, holder, issuer, *resource),
            Op::Bind { name, path } => self.do_bind(caller, name, path),
            Op::Unbind { name, path } => self.do_unbind(caller, name, path.as_deref()),
            Op::Chmod { name, mode } => self.do_chmod(caller, name, *mode),
            Op::Chown { name, owner, group } => self.do_chown(caller, name, *owner, *group),
            Op::Run {
                cid,
                name,
                issuer,
                amount,
                path,
            } => self.do_run(caller, *cid, name, issuer, *amount, path),
            Op::Nice {
                cid,
                name,
                giver,
                amount,
                path,
            } => self.do_nice(caller, *cid, name, giver, *amount, path),
        }
    }
}
