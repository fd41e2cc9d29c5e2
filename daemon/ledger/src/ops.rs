// SPDX-License-Identifier: GPL-2.0-only
//! Operations: a value in, a refusal or a list of events out. An operation names things as people
//! do.

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
    /// All that it funds may have so many thousandths of one CPU together, whatever was said
    /// before.
    Limit {
        name: Ref,
        resource: Resource,
        milli: i64,
    },
    Unlimit {
        name: Ref,
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
    /// To trade rights: matched with what is on the dealer's book, the rest put beside it. `now`:
    /// microseconds since 1970, here and below.
    Offer {
        id: u64,
        party: Ref,
        terms: Terms,
        now: u64,
    },
    /// `party` does what an offer asks, exactly.
    Accept {
        offer: u64,
        party: Ref,
        now: u64,
    },
    /// Other terms for an offer, as if it came now.
    Amend {
        offer: u64,
        terms: Terms,
        now: u64,
    },
    /// An offer goes off the book; an exchange is revoked.
    Cancel {
        id: u64,
    },
    /// Offers that have expired go; tixd's to do.
    Expire {
        now: u64,
    },
}

/// What an offer says. Amounts are thousandths of base tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub gives: Resource,
    /// At most.
    pub give: u64,
    pub wants: Resource,
    /// At least.
    pub want: u64,
    /// Of `want`, the least that one exchange must bring: all of it for all or none, 1 for any
    /// part.
    pub least: u64,
    /// Microseconds since 1970.
    pub expires: Option<u64>,
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
            Op::Limit { .. } => "limit",
            Op::Unlimit { .. } => "unlimit",
            Op::Bind { .. } => "bind",
            Op::Unbind { .. } => "unbind",
            Op::Chmod { .. } => "chmod",
            Op::Chown { .. } => "chown",
            Op::Run { .. } => "run",
            Op::Nice { .. } => "nice",
            Op::Offer { .. } => "offer",
            Op::Accept { .. } => "accept",
            Op::Amend { .. } => "amend",
            Op::Cancel { .. } => "cancel",
            Op::Expire { .. } => "expire",
        }
    }

    /// Whom it is done to; empty where an operation does not name it.
    pub fn subject(&self) -> &str {
        match self {
            Op::Create { name, .. }
            | Op::Destroy { name }
            | Op::Limit { name, .. }
            | Op::Unlimit { name, .. }
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
            Op::Offer { party, .. } | Op::Accept { party, .. } => party,
            Op::Amend { .. } | Op::Cancel { .. } | Op::Expire { .. } => "",
        }
    }

    /// The resource it would give rights to that nothing enforces.
    fn gives_unenforced(&self, ledger: &Ledger) -> Option<Resource> {
        let of = match self {
            Op::Fund { resource, .. } | Op::Reserve { resource, .. } => [*resource; 2],
            Op::Offer { terms, .. } | Op::Amend { terms, .. } => [terms.gives, terms.wants],
            Op::Accept { offer, .. } => {
                let pair = ledger.book().get(*offer)?.pair;
                [pair.gives, pair.wants]
            }
            _ => return None,
        };
        of.into_iter().find(|r| !r.is_enforced())
    }

    /// The gate before [`Ledger::apply`] for what is asked from outside: rights that nothing
    /// enforces are given to nobody. Those in a ledger from before stay, and can be taken back.
    pub fn check_enforced(&self, ledger: &Ledger) -> Result<(), Refusal> {
        match self.gives_unenforced(ledger) {
            Some(r) => Err(Refusal::NotEnforced(r)),
            None => Ok(()),
        }
    }

    /// Tickets may be held by others after it.
    pub(super) fn moves_tickets(&self) -> bool {
        matches!(
            self,
            Op::Fund { .. }
                | Op::Unfund { .. }
                | Op::Reserve { .. }
                | Op::Unreserve { .. }
                | Op::Bind { .. }
                | Op::Unbind { .. }
                | Op::Destroy { .. }
                | Op::Run { .. }
                | Op::Nice { .. }
        )
    }

    /// It moves what parties have given and got and nothing else, and looks itself at whether they
    /// have it.
    fn is_of_the_market(&self) -> bool {
        matches!(
            self,
            Op::Offer { .. }
                | Op::Accept { .. }
                | Op::Amend { .. }
                | Op::Cancel { .. }
                | Op::Expire { .. }
        )
    }
}

impl Ledger {
    /// Check and do it, or refuse and leave everything as it was.
    pub fn apply(&mut self, op: &Op, caller: &Caller) -> Result<Vec<Event>, Refusal> {
        let mark = self.mark();
        let (before, place) = (self.before(op), self.place_of(caller));
        let done = self.perform(op, caller).and_then(|mut events| {
            self.withdraw_disk(caller, &events);
            events.extend(self.keep_up_lifeline(before, self.issues_base(caller))?);
            self.keep_place(place, caller)?;
            Ok(events)
        });
        if done.is_err() {
            self.undo(mark);
        }
        let mut events = done?;
        if !op.is_of_the_market() {
            events.extend(self.revoke_overdrawn());
        }
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
            Op::Limit {
                name,
                resource,
                milli,
            } => self.do_limit(caller, name, *resource, *milli),
            Op::Unlimit { name, resource } => self.do_unlimit(caller, name, *resource),
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
            Op::Offer {
                id,
                party,
                terms,
                now,
            } => self.do_offer(caller, *id, party, terms, *now),
            Op::Accept { offer, party, now } => self.do_accept(caller, *offer, party, *now),
            Op::Amend { offer, terms, now } => self.do_amend(caller, *offer, terms, *now),
            Op::Cancel { id } => self.do_cancel(caller, *id),
            Op::Expire { now } => Ok(self.do_expire(*now)),
        }
    }
}
