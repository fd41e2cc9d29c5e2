// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of currencies and of who acts.

/// A currency's number. Never reused within one ledger.
pub type Cid = u64;
/// The root of the funding graph.
pub const BASE: Cid = 0;
/// The name of the currency that keeps a share for init, logins and tixd.
pub const LIFELINE: &str = "lifeline";

/// The number that the kernel gives to no user and no group.
pub const NOBODY: u32 = u32::MAX;

/// Who did it: a uid, [`POLICY`] or [`TIXD`].
pub type By = u32;
/// Stands for the policy among uids.
pub const POLICY: By = NOBODY;
/// Stands for tixd: what it does because a cgroup went, and what root made that is to go with its
/// cgroup.
pub const TIXD: By = NOBODY - 1;
