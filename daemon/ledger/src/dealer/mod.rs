// SPDX-License-Identifier: GPL-2.0-only
//! The dealer (Sullivan §3.2.1, model.md §5): queues of offers to give so much of one resource for
//! so much of another, and what of them goes together. Pure and in integers: the same offers in the
//! same order give the same matches.
//!
//! Whether a party has what it gives is not known here. Whoever carries out what was matched says
//! so ([`Venue`]), and an offer whose party cannot deliver goes off the book.
//!
//! **What an offer asks.** Alice gives at most 100 for at least 50: every exchange that she is in
//! takes at most two for each one that she gets. What is left of an offer after a part of it was
//! matched is an offer with the same rate, rounded in its favour.
//!
//! **Surplus.** Alice gives at most 20 cpu for at least 10 memory, Bob at most 10 memory for at
//! least 10 cpu: what passes from Alice to Bob lies between the 10 that he asks and the 20 that she
//! gives, so it is 15. The middle is taken of each resource, so that neither resource is the one
//! that prices are counted in. An odd unit is the gain of whoever came first.
//!
//! **Splitting.** What a party gains of another's offer, counted at its own rate, is half the
//! difference of the two rates for as much as both offers cover. That is a sum over the parts, so
//! dividing an offer changes it by what is rounded: one unit for each fill.

mod book;
mod fill;
mod place;
mod queue;

pub use book::{Book, Gone, Was};
pub use fill::{Half, Part, crosses, fill};
pub use place::{Deal, MAX_FILLS, MAX_TRIES, Placed, Refused, Rest, Transfer, Venue};

use tix_model::{Cid, Resource};

/// `gives` for `wants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    pub gives: Resource,
    pub wants: Resource,
}

impl Pair {
    /// Whose offers go with these.
    pub fn opposite(self) -> Pair {
        Pair {
            gives: self.wants,
            wants: self.gives,
        }
    }

    fn index(self) -> usize {
        self.gives.index() * Resource::COUNT + self.wants.index()
    }
}

/// An offer. Amounts are thousandths of base tickets, 1 … [`MAX_RIGHTS`](tix_model::MAX_RIGHTS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub id: u64,
    /// Its turn among offers of the same price: a new one when it is amended.
    pub turn: u64,
    pub party: Cid,
    /// Who made it.
    pub by: u32,
    pub pair: Pair,
    /// At most so much is given, for at least so much that is got: as it was offered.
    pub give: u64,
    pub want: u64,
    /// Of `want`, what is still to be got.
    pub left: u64,
    /// The least that one exchange must bring of what is wanted: `want` for all or none, 1 for any
    /// part.
    pub least: u64,
    /// Microseconds since 1970.
    pub expires: Option<u64>,
}

impl Offer {
    /// What is given at most for what is left.
    pub fn gives(&self) -> u64 {
        let gives = u128::from(self.left) * u128::from(self.give) / u128::from(self.want.max(1));
        u64::try_from(gives).unwrap_or(u64::MAX)
    }

    /// As the half of a match.
    pub fn half(&self) -> Half {
        Half {
            gives: self.gives(),
            wants: self.left,
            turn: self.turn,
        }
    }

    /// Nothing that is left of it can be matched.
    pub fn is_spent(&self) -> bool {
        self.left < self.least || self.gives() == 0
    }

    pub fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}
