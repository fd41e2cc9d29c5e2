// SPDX-License-Identifier: GPL-2.0-only
//! Tickets that are there without being given, and how much there may be of what.

/// Soft tickets of the hidden leaf of a currency's own threads (model.md §1).
pub const SELF_TICKETS: u64 = 100;
/// The kernel's default of `cpu.weight` and `io.weight`: what a cgroup without the file holds of
/// its parent.
pub const DEFAULT_CGROUP_WEIGHT: u64 = 100;
/// The mode of a new currency: everything for its owner, nothing for others.
pub const DEFAULT_MODE: u16 = 0o700;

/// The largest amount of one soft ticket.
pub const MAX_AMOUNT: u64 = 1 << 31;
/// The largest amount of one resource in an offer, in thousandths of a base ticket: a tebi of them
/// times eight, so that a price fits into 128 bits with room.
pub const MAX_RIGHTS: u64 = 1 << 53;
/// What hard tickets divide their issuer into: thousandths.
pub const HARD_WHOLE: u64 = 1000;
/// Of base, at most so many thousandths are given as hard tickets: something is left for others.
pub const MAX_HARD_OF_BASE: u64 = 950;
/// The largest limit, in thousandths of one CPU: of 1,024 CPUs.
pub const MAX_LIMIT: u64 = 1024 * 1000;

/// Funders of one currency for one resource.
pub const MAX_FUNDERS: usize = 16;
/// Tickets on the longest path from base.
pub const MAX_DEPTH: usize = 32;
/// Tickets on all paths from base to one currency.
pub const MAX_ANCESTOR_EDGES: usize = 256;
/// Cgroups that one currency may be bound to.
pub const MAX_BINDINGS: usize = 64;
/// Named currencies of one user, root excepted.
pub const MAX_OWNED: usize = 1024;
/// Tickets that one user has given, and limits set, root excepted.
pub const MAX_GIVEN: usize = 8192;
/// Offers of one user on the book, root excepted; and exchanges that one user's offers have made.
pub const MAX_OFFERS: usize = 1024;
/// Offers on the book, whoever made them.
pub const MAX_BOOK: usize = 1_000_000;
/// Exchanges that are over, and told of still.
pub const MAX_ENDED: usize = 1024;
