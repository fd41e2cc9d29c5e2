// SPDX-License-Identifier: GPL-2.0-only
//! What a command says once it has changed something: what is in force now, on one line.

use crate::failure::Failure;
use crate::harmless::harmless;
use crate::out;

/// Every command that changes something takes this.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Report {
    /// Print nothing once it is done; what went wrong is still said
    #[arg(short, long)]
    quiet: bool,
}

impl Report {
    pub fn print(self, text: &str) -> Result<(), Failure> {
        match self.quiet {
            true => Ok(()),
            false => out::print(text),
        }
    }

    /// On stderr, where the output is not ours.
    pub fn say(self, text: &str) {
        if !self.quiet {
            eprintln!("tixctl: {}", harmless(text));
        }
    }
}
