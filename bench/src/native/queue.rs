// SPDX-License-Identifier: GPL-2.0-only
//! What is measured.

/// Clients that always want to run.
pub trait Queue {
    /// So many decisions: the next client is taken out, its tag moves by its period, and it is filed
    /// again. Who the last was for.
    fn run(&mut self, decisions: u64) -> u32;
}
