// SPDX-License-Identifier: GPL-2.0-only
//! Offers, and the exchanges that come of them.

use crate::Resource;
use serde::{Deserialize, Serialize};
use zlink::introspect::{CustomType, Type};

/// So much of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Rights {
    pub resource: Resource,
    /// Base tickets, with up to three decimals; of memory bytes.
    pub amount: f64,
}

/// An offer on the dealer's book.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Offer {
    /// Numbered together with exchanges; not reused while tixd's state lives.
    pub id: u64,
    /// The currency that trades.
    pub principal: String,
    /// Who made it.
    pub uid: u32,
    /// What is left of it: so much at most is given …
    pub gives: Rights,
    /// … for so much at least.
    pub wants: Rights,
    /// The least that one exchange must bring of what is wanted, in its unit; null: any part.
    pub minimum: Option<f64>,
    /// It is matched as a whole or not at all.
    pub all_or_none: bool,
    /// Microseconds since 1970; null: never.
    pub expires_usec: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, CustomType)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum ExchangeState {
    Active,
    Revoked,
}

/// What one party has of an exchange. A party that gives, or gets, several resources is there once
/// for each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Party {
    pub principal: String,
    pub gives: Option<Rights>,
    pub gets: Option<Rights>,
}

/// Rights to one resource for rights to another: in force as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomType)]
pub struct Exchange {
    pub id: u64,
    pub parties: Vec<Party>,
    pub state: ExchangeState,
    /// Why it was revoked.
    pub why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct OfferReply {
    pub id: u64,
    /// Was it matched, or a part of it?
    pub matched: bool,
    /// What came of that.
    pub exchanges: Vec<Exchange>,
    /// What is left of it on the book; null: nothing.
    pub offer: Option<Offer>,
    /// Why what was not matched is not on the book.
    pub note: Option<String>,
    /// If something is left: the offers of what it wants for what it gives, the best for it first,
    /// at most ten. They ask for more than it gives, or do not take so little.
    pub conflicting: Vec<Offer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct OffersReply {
    /// Ordered by number.
    pub offers: Vec<Offer>,
    /// There may be more: ask again with this as `after`.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct ExchangesReply {
    /// Ordered by number. Of those that were revoked the last 1,024 are there.
    pub exchanges: Vec<Exchange>,
    /// There may be more: ask again with this as `after`.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
pub struct ExchangeReply {
    pub exchange: Exchange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Type)]
pub struct CancelReply {
    /// Was it an exchange, which is revoked now? Otherwise an offer, which is off the book.
    pub exchange: bool,
}
