// SPDX-License-Identifier: GPL-2.0-only
//! What a currency is made of.

use super::{By, Cid, Kind, Resource, Withdrawn};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// A ticket as its holder keeps it: given by `fund` or `reserve`, on top of what the cgroup tree
/// gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub issuer: Cid,
    pub kind: Kind,
    /// `amount` is bytes (of memory), not thousandths of the issuer.
    pub bytes: bool,
    pub amount: u64,
    /// Who gave it. What root or the policy gave waits for its cgroup when that goes.
    pub by: By,
}

impl Grant {
    pub(super) fn as_ticket(&self) -> Ticket {
        Ticket {
            issuer: self.issuer,
            kind: self.kind,
            bytes: self.bytes,
            amount: self.amount,
            kept: false,
            counted: true,
        }
    }
}

/// A ticket as the values see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub issuer: Cid,
    pub kind: Kind,
    pub bytes: bool,
    pub amount: u64,
    /// The parent's weight ticket of a cgroup that is bound: never active.
    pub kept: bool,
    /// It counts among what its issuer has issued; not so a kept ticket that was withdrawn by
    /// binding.
    pub counted: bool,
}

/// The cgroup that a currency mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    pub path: String,
    /// The inode of its directory: the kernel's cgroup id.
    pub id: u64,
    pub parent: Cid,
    /// `cpu.weight`: 1 … 10,000 tickets of the parent's currency.
    pub weight: u64,
    /// `io.weight`: 1 … 10,000 tickets for the disk.
    pub disk: u64,
    /// It may hold threads beside its children (threaded, or the root).
    pub inner_threads: bool,
    /// Who owns its directory.
    pub owner: u32,
    pub group: u32,
}

/// What a currency has issued of one resource, or the active part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Issued {
    /// Soft tickets, the hidden leaf's not among them.
    pub soft: u64,
    /// Hard tickets: thousandths.
    pub milli: u64,
    /// Hard tickets: bytes.
    pub bytes: u64,
    /// How many tickets of all kinds.
    pub count: u32,
}

impl Issued {
    pub(super) fn add(&mut self, t: &Ticket) {
        *self.of(t) += t.amount;
        self.count += 1;
    }

    pub(super) fn sub(&mut self, t: &Ticket) {
        *self.of(t) -= t.amount;
        self.count -= 1;
    }

    fn of(&mut self, t: &Ticket) -> &mut u64 {
        match (t.kind, t.bytes) {
            (Kind::Soft, _) => &mut self.soft,
            (Kind::Hard, false) => &mut self.milli,
            (Kind::Hard, true) => &mut self.bytes,
        }
    }

    pub fn has_hard(&self) -> bool {
        self.milli > 0 || self.bytes > 0
    }
}

/// A value, and the epoch it was computed in (0: never).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cached {
    pub epoch: u64,
    pub value: u128,
}

/// The state of one resource of one currency.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    pub grants: Vec<Grant>,
    /// Holders of what it issued, weight tickets included, kept ones too; with how many tickets
    /// each.
    pub holders: BTreeMap<Cid, u32>,
    /// Counted, active or not.
    pub issued: Issued,
    /// Of those not kept, the ones whose holder is active.
    pub active: Issued,
    /// Threads directly in its cgroup are runnable (memory: it is a cgroup).
    pub running: bool,
    /// The exchange tickets it holds, thousandths of a base ticket.
    pub delta: i64,
    /// The negative ones of those.
    pub given: i64,
    pub value: Cell<Cached>,
    pub entitlement: Cell<Cached>,
}

#[derive(Debug, Clone)]
pub struct Currency {
    pub name: String,
    pub owner: u32,
    pub group: u32,
    /// `fci` for owner, group, others.
    pub mode: u16,
    /// Who made it.
    pub by: By,
    pub mirror: Option<Mirror>,
    /// It goes when this cgroup goes.
    pub transient: Option<String>,
    /// For a mirrored currency: the currency bound to its cgroup.
    pub bound_to: Option<Cid>,
    /// That has tickets for the disk, or rights to it from an exchange.
    pub(super) disk: bool,
    /// Which of the parent's weight tickets its binding withdrew.
    pub(super) withdrawn: Withdrawn,
    /// For a named currency: the cgroups it is bound to, there or waited for.
    pub(super) binds: BTreeSet<String>,
    /// Mirrored children.
    pub(super) children: BTreeSet<Cid>,
    pub(super) side: [Side; Resource::COUNT],
}

/// What the currency that a cgroup is bound to does for a resource. Of the disk it replaces the
/// parent's ticket only where that was withdrawn: what somebody else gave the currency comes on
/// top, and takes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bound {
    /// It funds the cgroup,
    pub funds: bool,
    /// and instead of the parent.
    pub instead: bool,
}

impl Currency {
    pub(super) fn new(name: &str, owner: u32, group: u32, mode: u16, by: By) -> Currency {
        Currency {
            name: name.to_owned(),
            owner,
            group,
            mode,
            by,
            mirror: None,
            transient: None,
            bound_to: None,
            disk: false,
            withdrawn: Withdrawn::default(),
            binds: BTreeSet::new(),
            children: BTreeSet::new(),
            side: Default::default(),
        }
    }

    /// Does the currency that its cgroup is bound to fund it?
    pub fn is_funded_by_binding(&self, r: Resource) -> bool {
        self.bound(r).funds
    }

    pub(super) fn bound(&self, r: Resource) -> Bound {
        let bound = self.bound_to.is_some();
        match r {
            // Who withdrew the parent's ticket for it is the one to bring it back, whatever has
            // become of it since.
            Resource::Disk => Bound {
                funds: bound && (self.disk || self.withdrawn.of(r)),
                instead: bound && self.withdrawn.of(r),
            },
            _ => Bound {
                funds: bound,
                instead: bound,
            },
        }
    }

    /// Has it anything of the disk for the cgroups that are bound to it?
    pub(super) fn has_disk(&self) -> bool {
        !self.grants(Resource::Disk).is_empty() || self.delta(Resource::Disk) != 0
    }

    /// It mirrors a cgroup (base: the root).
    pub fn is_mirror(&self) -> bool {
        self.mirror.is_some()
    }

    /// The currencies that mirror its cgroup's children.
    pub fn mirrored_children(&self) -> impl Iterator<Item = Cid> + '_ {
        self.children.iter().copied()
    }

    /// The cgroups it is bound to, there or waited for.
    pub fn bindings(&self) -> impl Iterator<Item = &str> {
        self.binds.iter().map(String::as_str)
    }

    /// The grants it holds.
    pub fn grants(&self, r: Resource) -> &[Grant] {
        &self.side[r.index()].grants
    }

    /// What it has issued, the hidden leaf's tickets not among them: all that counts, and the
    /// active part.
    pub fn issued(&self, r: Resource) -> (Issued, Issued) {
        let side = &self.side[r.index()];
        (side.issued, side.active)
    }

    /// The exchange tickets it holds, thousandths of a base ticket.
    pub fn delta(&self, r: Resource) -> i64 {
        self.side[r.index()].delta
    }

    pub(super) fn side(&self, r: Resource) -> &Side {
        &self.side[r.index()]
    }

    pub(super) fn side_mut(&mut self, r: Resource) -> &mut Side {
        &mut self.side[r.index()]
    }
}
