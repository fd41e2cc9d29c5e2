// SPDX-License-Identifier: GPL-2.0-only
//! The durable part of the ledger as rows: what the store keeps, what is read back at the start,
//! and what an operation is undone with.
//!
//! A row names things so that it means the same after a restart: a named currency by its number, a
//! cgroup by its path (its currency's number is new at every start). Setting a row to what it was
//! undoes an operation; setting all of them restores the ledger.

use crate::{By, Cid, Kind, Resource};
use serde::{Deserialize, Serialize};

/// One end of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Base or a named currency.
    Cid(Cid),
    /// The currency that mirrors this cgroup.
    Path(String),
}

/// What a row is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// The space of a uid: before the currencies, whose names begin with its label.
    Space(u32),
    Currency(Cid),
    Broker(String),
    Ticket {
        issuer: End,
        holder: End,
        resource: Resource,
        kind: Kind,
    },
    Binding(String),
    Exchange(u64),
    Lapsed(String, Resource),
    /// An offer on the dealer's book; offers and exchanges are numbered together.
    Offer(u64),
    /// An exchange that was revoked.
    Ended(u64),
    /// A currency's limit.
    Limit(End, Resource),
}

/// A party's part in an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub party: End,
    pub resource: Resource,
    /// Thousandths of a base ticket; negative: given away.
    pub amount: i64,
}

/// A party's part in an exchange that is over, in names: the party may be gone, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedLeg {
    pub name: String,
    pub resource: Resource,
    /// Thousandths of a base ticket; negative: was given away.
    pub amount: i64,
}

/// What is kept under a [`Key`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Row {
    /// What the names of a user's currencies begin with.
    Space {
        label: String,
    },
    /// A named currency.
    Currency {
        name: String,
        owner: u32,
        group: u32,
        /// Nine bits: `fci` for owner, group, others.
        mode: u16,
        /// The cgroup it goes with.
        transient: Option<String>,
        by: By,
    },
    /// What was said of the broker of a cgroup's currency; `None`: as the directory's owner has it.
    Broker {
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<u16>,
        by: By,
    },
    Ticket {
        /// Soft: tickets. Hard: thousandths of the issuer, or bytes if `bytes`.
        amount: u64,
        bytes: bool,
        by: By,
    },
    /// The named currency that funds a cgroup.
    Binding {
        cid: Cid,
        by: By,
        withdrawn: Withdrawn,
    },
    Exchange {
        legs: Vec<Leg>,
        by: By,
    },
    /// Base tickets that a holder gave up, or that a currency had which was destroyed by somebody
    /// who may not withdraw them: they count until root does.
    Lapsed {
        amount: u64,
    },
    /// Of `want` at least, for `give` at most: thousandths of base tickets.
    Offer {
        party: End,
        by: By,
        turn: u64,
        gives: Resource,
        give: u64,
        wants: Resource,
        want: u64,
        /// Of `want`, what is still to be got.
        left: u64,
        /// Of `want`, the least that one exchange must bring.
        least: u64,
        /// Microseconds since 1970.
        expires: Option<u64>,
    },
    Ended {
        legs: Vec<EndedLeg>,
        why: String,
    },
    Limit {
        /// Thousandths of one CPU.
        milli: u64,
        by: By,
    },
}

/// What a row is now; `None`: it is gone.
pub type Change = (Key, Option<Row>);

/// Which of the parent's weight tickets for a cgroup its binding withdrew. One for the CPU that it
/// did not is put aside, and counted; one for the disk stays in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawn {
    #[default]
    Nothing,
    Cpu,
    /// And for the disk.
    Both,
}

impl Withdrawn {
    pub fn of(self, r: Resource) -> bool {
        match r {
            Resource::Cpu => self != Withdrawn::Nothing,
            Resource::Disk => self == Withdrawn::Both,
            Resource::Memory | Resource::Net => false,
        }
    }

    /// By somebody who may issue the parent's tickets. `disk`: the currency has tickets for the
    /// disk.
    pub fn by_its_issuer(disk: bool) -> Withdrawn {
        match disk {
            true => Withdrawn::Both,
            false => Withdrawn::Cpu,
        }
    }
}
