// SPDX-License-Identifier: GPL-2.0-only
//! Currencies, and the tickets that back them.

use crate::{Limit, Problem};
use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// What tickets are tickets for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, CustomType,
)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Disk,
    Memory,
    Net,
}

impl Resource {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Resource; 4] = [
        Resource::Cpu,
        Resource::Disk,
        Resource::Memory,
        Resource::Net,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        tix_model::Resource::from(self).name()
    }

    /// Something gives each what its tickets say. Of others no tickets are given any more.
    pub fn is_enforced(self) -> bool {
        tix_model::Resource::from(self).is_enforced()
    }
}

/// A soft ticket is a weight among its issuer's active tickets; a hard one a guaranteed fraction of
/// its issuer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, CustomType,
)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum Kind {
    Soft,
    Hard,
}

/// One ticket, seen from its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct Funding {
    /// The issuing currency's name.
    pub from: String,
    pub resource: Resource,
    pub kind: Kind,
    /// Soft: tickets, 1 … 2^31. Hard: thousandths of the issuer, 1 … 999, or bytes if `bytes`.
    pub amount: u64,
    /// Present, and true, if `amount` is bytes: hard tickets of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<bool>,
}

/// A base ticket that a currency got, or gave up, in an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct ExchangeTicket {
    pub resource: Resource,
    /// Thousandths of a base ticket; negative: given up.
    pub amount_milli: i64,
    /// The other party's name.
    pub with: String,
}

/// One resource of one currency at the snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Share {
    /// The fraction of the machine (of memory: of what can be guaranteed of it) that is guaranteed,
    /// whatever others do: 0 … 1.
    pub entitlement: f64,
    /// The fraction it gets now when every active principal wants more: what its tickets bring
    /// (V/T), or what limits in force leave of that (`limited`). 0 while it is inactive. Of memory
    /// the same as `entitlement`, whoever uses how much: 0 … 1.
    pub share: f64,
    /// CPU time used, microseconds, cumulative with descendants; never goes backwards. 0 for the
    /// other resources.
    pub used_usec: u64,
    /// Of memory: the guarantee in bytes. Absent for the other resources, and where it is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entitlement_bytes: Option<u64>,
    /// Soft tickets of its own that it holds itself, for the threads that are in its cgroup and in
    /// none below: with those that others hold of it, all that it has issued. Absent where it has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_tickets: Option<u64>,
    /// Of the disk: the weight of its cgroup among the siblings, as it is in force: 1 … 10,000.
    /// Absent where there is none, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Of memory: bytes that are never taken from it (`memory.min`), as they are in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// Of memory: bytes that are taken from it last (`memory.low`), those of `min_bytes` among
    /// them; 0: no more than those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_bytes: Option<u64>,
    /// Of the disk: bytes read and written so far; of memory: bytes in use. With descendants; of a
    /// named currency: of the cgroups it funds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Of disk and memory: how long some of its threads have waited for it so far, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_usec: Option<u64>,
    /// Of the CPU: its own limit, the smaller where it has two, in thousandths of one CPU. Absent
    /// where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_milli: Option<u64>,
    /// Of the CPU. Present, and true, where `share` is what limits leave: its own, those above it,
    /// or those of all that it funds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<bool>,
    /// Of the CPU. Present, and true, while it is not active because threads of its own, or of what
    /// it funds, have used up a limit and wait for its next period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
    /// Of the CPU. Present, and true, while it is not active because its cgroup is frozen
    /// (`cgroup.freeze`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<bool>,
}

/// A currency as `tixctl tree --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Currency {
    /// Its number; 0 is base. Not reused while tixd's state lives.
    pub cid: u64,
    /// Its name: `base`, a name given to `create` (with `USER/` in front if a user made it), or,
    /// mirroring a cgroup, that cgroup's path (`/` and more).
    pub name: String,
    /// The cgroup that it mirrors or (the first) that it is bound to; relative to the cgroup root,
    /// `/` for base; null if none.
    pub cgroup: Option<String>,
    /// The uid that owns it.
    pub owner: u32,
    /// The gid of its group.
    pub group: u32,
    /// Who may do what: nine bits, 0 … 511 (0o777); `fci` for the owner, the group and others,
    /// highest bit first.
    pub mode: u32,
    /// The mode as nine characters: `fci------`.
    pub mode_text: String,
    /// Is one of its principals runnable?
    pub active: bool,
    /// Was it made by `run` or `nice`, so that it goes with its cgroup?
    pub transient: bool,
    /// The tickets that back it, of every resource.
    pub funding: Vec<Funding>,
    /// The exchange tickets it holds.
    pub exchanges: Vec<ExchangeTicket>,
    /// Its own limits: `cpu.max` of the cgroup that it mirrors, and what was set for it. Others may
    /// count for it, too: see `Explain`.
    #[serde(default)]
    pub limits: Vec<Limit>,
    pub cpu: Share,
    pub disk: Share,
    pub memory: Share,
    pub net: Share,
    /// Why its CPU share is not held, though others' are: a cgroup that it is bound to has no cpu
    /// controller. Absent where it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Problem>,
}

impl Currency {
    /// What it has of a resource.
    pub fn share(&self, resource: Resource) -> &Share {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Disk => &self.disk,
            Resource::Memory => &self.memory,
            Resource::Net => &self.net,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct TreeReply {
    /// Ordered by cid: base first.
    pub currencies: Vec<Currency>,
    /// The resources of which nothing holds shares now. Absent where something holds those of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_held: Option<Vec<NotHeld>>,
}

/// Nothing holds shares of a resource now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct NotHeld {
    pub resource: Resource,
    /// Why.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, CustomType)]
pub struct CurrencyName {
    pub cid: u64,
    pub name: String,
    pub cgroup: Option<String>,
    pub owner: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct ListReply {
    pub currencies: Vec<CurrencyName>,
}
