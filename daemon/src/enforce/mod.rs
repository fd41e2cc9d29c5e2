// SPDX-License-Identifier: GPL-2.0-only
//! What carries the ledger's values to the kernel: one module per resource. Policy is not decided here.

pub mod cpu;
pub mod presence;
pub mod weight;
