// SPDX-License-Identifier: GPL-2.0-only
//! What files of cgroups should hold for random graphs, against the oracle of the ledger's tests.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../ledger/tests/props/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../../ledger/tests/props/oracle.rs"]
mod oracle;
mod protections;
#[allow(dead_code)]
#[path = "../../ledger/tests/props/random.rs"]
mod random;
mod weights;
#[allow(dead_code)]
#[path = "../../ledger/tests/props/world.rs"]
mod world;
